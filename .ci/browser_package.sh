#!/usr/bin/env bash
# Install the browser that tests/report opens pages in, from Debian's or Ubuntu's package; does nothing where there is one.
set -euo pipefail

for command in chromium chromium-browser google-chrome; do
    if type -P "$command" >/dev/null; then
        echo "browser: present ($("$command" --version 2>/dev/null | tail -n 1))"
        exit 0
    fi
done

type -P apt-get >/dev/null || { echo "browser: missing, and there is no apt-get here: install chromium by hand" >&2; exit 1; }
as_root=()
if ((EUID != 0)); then
    as_root=(sudo -n)
fi
export DEBIAN_FRONTEND=noninteractive
"${as_root[@]}" apt-get update -qq
"${as_root[@]}" apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null
echo "browser: installed ($(chromium --version 2>/dev/null | tail -n 1))"
