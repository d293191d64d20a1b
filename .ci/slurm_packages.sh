#!/usr/bin/env bash
# Install what tests/slurm/cluster.py runs (SLURM, munge, ip) from Debian's or Ubuntu's packages; does nothing when all is there.
# No service is started, then or at boot: the tests run their own daemons, on their own ports, from a scratch folder.
set -euo pipefail

needed=(munged slurmctld slurmd sbatch srun scontrol squeue sinfo scancel sacct ip unshare nsenter)
PATH=$PATH:/usr/sbin:/sbin # the daemons are in sbin, which an ordinary user's PATH lacks
missing=()
for command in "${needed[@]}"; do
    type -P "$command" >/dev/null || missing+=("$command")
done
if ((${#missing[@]} == 0)); then
    echo "slurm: present ($(slurmctld -V))"
    exit 0
fi

type -P apt-get >/dev/null || { echo "slurm: ${missing[*]} missing, and there is no apt-get here: install SLURM, munge and iproute2 by hand" >&2; exit 1; }
as_root=()
if ((EUID != 0)); then
    as_root=(sudo)
fi

# Debian's switch for "start nothing on installation"; a policy that the machine already has is left as it is
policy=/usr/sbin/policy-rc.d
if [[ ! -e $policy ]]; then
    trap '"${as_root[@]}" rm -f "$policy"' EXIT
    printf '#!/bin/sh\nexit 101\n' | "${as_root[@]}" tee "$policy" >/dev/null
    "${as_root[@]}" chmod 755 "$policy"
fi
munge_was_there=$(type -P munged || true)

export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends slurm-wlm munge iproute2 util-linux >/dev/null
if [[ -d /run/systemd/system && -z $munge_was_there ]]; then
    "${as_root[@]}" systemctl disable --quiet munge # SLURM's own units start nothing as long as there is no /etc/slurm/slurm.conf
fi

for command in "${needed[@]}"; do
    type -P "$command" >/dev/null || { echo "slurm: $command is still missing after the installation" >&2; exit 1; }
done
echo "slurm: installed ($(slurmctld -V))"
