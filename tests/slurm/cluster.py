"""A real SLURM on this machine: munged, slurmctld and a slurmd on each of a few hosts (see network.py) with fake GPUs.

    with SlurmCluster(tmp_path) as cluster:
        subprocess.run(["sbatch", "job.sh"], env=cluster.env())

From Debian's packages (.ci/slurm_packages.sh), as root. No accounting: sacct fails, as on many clusters.
To try things by hand:  cd tests && python -m slurm.cluster [COMMAND...]  runs COMMAND, or a shell, on a cluster of its own.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import TypeVar

from . import network

_T = TypeVar("_T")
_DAEMONS = ("munged", "slurmctld", "slurmd", "sbatch", "srun", "scontrol", "squeue", "sinfo", "scancel")
_SBIN = "/usr/sbin:/sbin"  # where the daemons are; an ordinary user's PATH lacks it
INSTALL = "bash .ci/slurm_packages.sh"
CONTROLLER = "ctl"

# cred_expire: a requeued job starts that many seconds later, and no fewer than 5 (default: 120)
_CONF = """\
ClusterName=zerocfg
SlurmctldHost={controller}({address})
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
AuthInfo=socket={root}/munge.socket,cred_expire=5
StateSaveLocation={root}/state
SlurmdSpoolDir={root}/%n
SlurmctldPidFile={root}/slurmctld.pid
SlurmdPidFile={root}/slurmd-%n.pid
SlurmctldLogFile={root}/{controller}.log
SlurmdLogFile={root}/%n.log
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
GresTypes=gpu
MpiDefault=none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
ReturnToService=2
{options}
{nodes}
PartitionName=gpu Nodes=ALL Default=YES MaxTime=INFINITE State=UP
PartitionName=short Nodes=ALL MaxTime=00:02:00 State=UP
"""
_OPTIONS: Mapping[str, object] = {
    "JobRequeue": 1,
    "KillWait": 5,
    "SlurmdTimeout": 30,  # s; a loaded machine may be late with an answer
    # as fast as SLURM can be: a job starts within 1 s of its submission or of the end of the one before it (default: 3 s)
    "SchedulerParameters": "batch_sched_delay=0,sched_min_interval=100000,sched_interval=1",
    "EnforcePartLimits": "ALL",  # an impossible job is refused by sbatch, not queued for ever
}


def missing() -> str | None:
    """Why no cluster can be started here, in words and with the remedy, or None."""
    path = f"{os.environ.get('PATH', '')}:{_SBIN}"
    if absent := [name for name in _DAEMONS if shutil.which(name, path=path) is None]:
        return f"no {', '.join(absent)}: install SLURM with `{INSTALL}`"
    if (reason := network.missing()) is not None:
        return f"the test cluster needs network namespaces: {reason}"
    return None


class SlurmCluster:
    """Nodes node0, node1, ... with `gpus` devices of type a100 (gres gpu:a100) and `cpus` CPUs each.

    `root` holds configuration, state and logs. `options` are further lines of slurm.conf, e.g. {"MinJobAge": 2}. Up once
    constructed (0.5 s); close() or the end of this process, whatever its cause, ends every process of it.
    """

    def __init__(self, root: Path, nodes: int = 2, gpus: int = 4, cpus: int = 8, options: Mapping[str, object] | None = None) -> None:
        if (reason := missing()) is not None:
            raise RuntimeError(reason)
        self.root = root.resolve()
        if len(str(self.root)) > 75:  # a step's socket is below it: /node0/node0_1234.4294967291, 107 characters at most in all
            raise ValueError(f"{self.root}: a path of at most 75 characters is needed for the daemons' sockets")
        self.root.mkdir(parents=True, exist_ok=True)
        self.node_names = tuple(f"node{index}" for index in range(nodes))
        self._network = network.Network(self.root, [CONTROLLER, *self.node_names], self.env())
        try:
            self._write_files(gpus, cpus, {**_OPTIONS, **(options or {})})
            self._network.start("auth", self._munged(), plugged=False)
            _wait(lambda: (self.root / "munge.socket").exists(), 10, "munged's socket", self._fail)
            for name in (CONTROLLER, *self.node_names):
                self._network.start(name, self._daemon(name))
            self.wait_idle()
        except BaseException:
            self.close()
            raise

    def __enter__(self) -> SlurmCluster:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self.close()

    def close(self) -> None:
        self._network.close()

    def env(self) -> dict[str, str]:
        """The environment for sbatch, srun, squeue and what calls them: this process's own without an outer job's SLURM variables."""
        outer = re.compile(r"(SLURM|SLURMD|SBATCH|SALLOC|SQUEUE|SCANCEL|SINFO|SCONTROL)_")
        kept = {name: value for name, value in os.environ.items() if not outer.match(name)}
        return {**kept, "PATH": f"{kept.get('PATH', os.defpath)}:{_SBIN}", "SLURM_CONF": str(self.root / "slurm.conf")}

    def run(self, *command: str, check: bool = True, cwd: Path | None = None) -> str:
        """Run a command in the cluster's environment and return its standard output."""
        done = subprocess.run(command, env=self.env(), capture_output=True, text=True, cwd=cwd, stdin=subprocess.DEVNULL, timeout=120)
        if check and done.returncode != 0:
            raise RuntimeError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}{done.stderr}")
        return done.stdout

    def sbatch(self, script: str, *options: str, cwd: Path) -> str:
        """Submit a shell script (its lines, without #!) and return the job id."""
        with tempfile.NamedTemporaryFile("w", prefix="job-", suffix=".sh", dir=self.root, delete=False) as file:
            file.write(f"#!/bin/bash\n{script}\n")
        return self.run("sbatch", "--parsable", *options, file.name, cwd=cwd).strip()

    def job_state(self, job_id: str) -> str | None:
        """The state of a job or of an array's task ("12_3"), such as COMPLETED; None once the controller has forgotten it.

        The controller forgets an ended job after MinJobAge (300 s) and up to 10 s more.
        """
        found = re.search(r"\bJobState=(\S+)", self.run("scontrol", "--oneliner", "show", "job", job_id, check=False))
        return found[1] if found else None

    def wait_job(self, job_id: str, *states: str, timeout: float = 60) -> str:
        """Wait until the job is in one of `states`; without any, until it has ended. Returns the state."""
        wanted = states or ("COMPLETED", "FAILED", "CANCELLED", "TIMEOUT", "NODE_FAIL", "OUT_OF_MEMORY", "BOOT_FAIL", "DEADLINE")

        def reached() -> str | None:
            state = self.job_state(job_id)
            return state if state in wanted else None

        return _wait(reached, timeout, f"job {job_id} to be {' or '.join(wanted)}", self._fail)

    def node_states(self) -> dict[str, str]:
        """sinfo's word for each node: idle, mixed, allocated, down*, ..."""
        lines = self.run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %T", check=False).splitlines()
        return dict(line.split() for line in lines)

    def wait_idle(self, timeout: float = 30) -> None:
        """Wait until no job is left and every node is idle."""
        idle = dict.fromkeys(self.node_names, "idle")
        _wait(
            lambda: self.node_states() == idle and not self.run("squeue", "--noheader").strip(),
            timeout,
            f"{', '.join(self.node_names)} to be idle",
            self._fail,
        )

    def cancel_all(self) -> None:
        """Cancel every job, boot what is down and wait until all is idle: what a test leaves for the next."""
        for name in (CONTROLLER, *self.node_names):
            if name not in self._network.hosts:
                self.up(name)
        self.run("scancel", "--user=root", check=False)
        self.wait_idle()

    def down(self, name: str, notice: bool = True) -> None:
        """Cut the power of a node: all its processes are gone at once. Or shut the controller down.

        SLURM itself notices a lost node after SlurmdTimeout; with `notice` it is told at once, with the same outcome.
        """
        if name == CONTROLLER:
            self.run("scontrol", "shutdown", "slurmctld")  # a power cut would also lose the jobs of the last seconds
            _wait(lambda: not (self.root / "slurmctld.pid").exists(), 10, "slurmctld to save its state", self._fail)
        self._network.hosts.pop(name).power_off()
        if notice and name != CONTROLLER:
            self.run("scontrol", "update", f"NodeName={name}", "State=DOWN", "Reason=power")

    def up(self, name: str) -> None:
        """Boot a node, or the controller, again; returns once SLURM uses it."""
        self._network.start(name, self._daemon(name))
        if name != CONTROLLER:  # it returns from DOWN by itself only where SLURM had set that itself
            self.run("scontrol", "update", f"NodeName={name}", "State=RESUME", check=False)
        ready = {"idle", "mixed", "allocated"}
        waited = [node for node in self.node_names if node in self._network.hosts] if name == CONTROLLER else [name]
        _wait(lambda: all(self.node_states().get(node) in ready for node in waited), 30, f"{name} to be up", self._fail)

    def inside(self, name: str, *command: str) -> str:
        """Run a command on a node and return its standard output: to break something there, and to mend it again."""
        return self._network.hosts[name].inside(*command)

    def logs(self) -> dict[str, str]:
        """Text of each host's daemon's log, by the host's name; what the daemon printed when it came to no log."""
        files = {file.stem: file for suffix in ("err", "log") for file in sorted(self.root.glob(f"*.{suffix}")) if file.stat().st_size}
        return {name: file.read_text(errors="replace") for name, file in sorted(files.items())}

    def tail_of_logs(self, lines: int = 15) -> str:
        return "\n".join(f"--- {name}\n" + "\n".join(text.splitlines()[-lines:]) for name, text in self.logs().items())

    def _fail(self, message: str) -> RuntimeError:
        return RuntimeError(f"{message}\n{self.tail_of_logs()}")

    def _munged(self) -> list[str]:
        files = ("socket", "key-file", "pid-file", "log-file", "seed-file")
        return ["munged", "--foreground", "--force", *(f"--{name}={self.root}/munge.{name}" for name in files)]

    def _daemon(self, name: str) -> list[str]:
        return ["slurmctld", "-D"] if name == CONTROLLER else ["slurmd", "-D", "-N", name]

    def _write_files(self, gpus: int, cpus: int, options: Mapping[str, object]) -> None:
        root = self.root
        (root / "state").mkdir(exist_ok=True)
        key = root / "munge.key-file"
        if not key.exists():
            key.touch(mode=0o600)
            key.write_bytes(os.urandom(128))
        for index in range(gpus):  # as good as a GPU for SLURM: character devices that do what /dev/null does
            if not (root / f"gpu{index}").exists():
                os.mknod(root / f"gpu{index}", stat.S_IFCHR | 0o666, os.makedev(1, 3))
        devices = f"{root}/gpu[0-{gpus - 1}]" if gpus > 1 else f"{root}/gpu0"
        gres = f"Gres=gpu:a100:{gpus}" if gpus else ""
        (root / "gres.conf").write_text(f"Name=gpu Type=a100 File={devices}\n" if gpus else "")
        address = self._network.addresses
        nodes = (f"NodeName={name} NodeAddr={address[name]} CPUs={cpus} RealMemory=10000 {gres}" for name in self.node_names)
        conf = _CONF.format(
            root=root,
            controller=CONTROLLER,
            address=address[CONTROLLER],
            options="\n".join(f"{key}={value}" for key, value in options.items()),
            nodes="\n".join(nodes),
        )
        (root / "slurm.conf").write_text(conf)


def _wait(probe: Callable[[], _T | None], timeout: float, what: str, error: Callable[[str], Exception]) -> _T:
    deadline = time.monotonic() + timeout
    while not (result := probe()):
        if time.monotonic() > deadline:
            raise error(f"waited {timeout:g} s for {what}")
        time.sleep(0.1)
    return result


def _main(command: list[str]) -> int:
    with tempfile.TemporaryDirectory(prefix="slurm-") as root, SlurmCluster(Path(root)) as cluster:
        return subprocess.run(command or [os.environ.get("SHELL", "/bin/bash")], env=cluster.env()).returncode


if __name__ == "__main__":
    sys.exit(_main(sys.argv[1:]))
