"""A few hosts inside this machine: each has its own name, address, /etc/hosts, /dev/shm and processes (Linux namespaces; needs root).

Nothing outlives its owner and nothing has to be cleaned up: a host is a process tree below a first process that ends when its
standard input closes, the kernel then ends the rest, and the network devices go with the namespaces they are in. The machine's own
/etc/hosts, name and ports are not touched.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

_HOST = Path(__file__).with_name("host.sh")
_UNSHARE = ("unshare", "--net", "--uts", "--ipc", "--mount", "--pid", "--fork", "--kill-child", "--mount-proc")
_MAX_NETWORKS = 200


def missing() -> str | None:
    """Why hosts cannot be made here, in words, or None."""
    if absent := [tool for tool in ("unshare", "nsenter", "ip") if shutil.which(tool) is None]:
        return f"no {', '.join(absent)} (apt-get install util-linux iproute2)"
    if os.geteuid() != 0:
        return "not root"
    probe = subprocess.run([*_UNSHARE, "true"], capture_output=True, text=True)
    return None if probe.returncode == 0 else f"not allowed to make namespaces ({probe.stderr.strip()}; a container needs --privileged)"


class Host:
    """A running host. `command`, if any, is its one daemon; what it prints goes to `log`."""

    def __init__(self, name: str, hosts_file: Path, command: Sequence[str], env: Mapping[str, str], log: Path) -> None:
        self.name = name
        with log.open("ab") as stderr:
            self._process = subprocess.Popen(
                [*_UNSHARE, "bash", str(_HOST), name, str(hosts_file), *command],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=stderr,
                env=dict(env),
                text=True,
                start_new_session=True,  # Ctrl-C is for the tests, not for the daemons
            )
        self._log = log
        self._expect("namespaces")

    @property
    def pid(self) -> int:
        """A process in the host's network namespace, as seen from outside."""
        return self._process.pid

    def boot(self, address: str = "") -> None:
        assert self._process.stdin is not None
        self._process.stdin.write(f"{address}\n")
        self._process.stdin.flush()
        self._expect("up")

    def run(self, *command: str) -> str:
        """Run a command in the host's network namespace."""
        return _run("nsenter", "--target", str(self.pid), "--net", "--", *command)

    def inside(self, *command: str) -> str:
        """Run a command on the host: its files and mounts, its name, network and processes."""
        processes = f"--pid=/proc/{self.pid}/ns/pid_for_children"
        return _run("nsenter", "--target", str(self.pid), "--mount", "--uts", "--ipc", "--net", processes, "--", *command)

    def power_off(self) -> None:
        """End every process of the host at once; returns when they are gone."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def _expect(self, word: str) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline().strip()
        if line != word:
            self.power_off()
            raise RuntimeError(f"host {self.name} did not come up: {self._log.read_text(errors='replace')[-2000:]}")


class Network:
    """A switch, the hosts plugged into it, and a leg to the machine itself (address .254).

    `names` are all hosts that may come up, in the order of their addresses, .1 onwards. Networks of several test runs live side by
    side: the kernel gives a device name only once, and the name's number is the subnet's.
    """

    def __init__(self, root: Path, names: Sequence[str], env: Mapping[str, str]) -> None:
        self.root, self._env = root, env
        self.hosts: dict[str, Host] = {}
        self._hosts_file = root / "hosts"
        self._hosts_file.write_text("127.0.0.1 localhost\n")
        self._switch = Host("switch", self._hosts_file, (), env, root / "switch.err")
        try:
            self._switch.boot()
            self._switch.run("ip", "link", "add", "bridge", "type", "bridge")
            self._switch.run("ip", "link", "set", "bridge", "up")
            self._number = self._plug_in_machine()
        except BaseException:
            self._switch.power_off()
            raise
        self.addresses = {name: f"10.231.{self._number}.{index}" for index, name in enumerate(names, start=1)}
        self._hosts_file.write_text("".join(f"{a} {n}\n" for n, a in {"localhost": "127.0.0.1", **self.addresses}.items()))

    def start(self, name: str, command: Sequence[str], plugged: bool = True) -> Host:
        """Bring up a host; one that is not `plugged` into the switch has no address."""
        host = Host(name, self._hosts_file, command, self._env, self.root / f"{name}.err")
        self.hosts[name] = host
        if not plugged:
            host.boot()
            return host
        port = f"to-{name}"[:15]
        self._switch.run("ip", "link", "add", port, "type", "veth", "peer", "name", "eth0", "netns", str(host.pid))
        self._switch.run("ip", "link", "set", port, "master", "bridge", "up")
        host.boot(f"{self.addresses[name]}/24")
        return host

    def close(self) -> None:
        # the device would go with the switch, but some time later
        subprocess.run(["ip", "link", "delete", _device(self._number)], capture_output=True)
        for host in [*self.hosts.values(), self._switch]:
            host.power_off()
        self.hosts.clear()

    def _plug_in_machine(self) -> int:
        for number in range(_MAX_NETWORKS):
            device = _device(number)
            if Path("/sys/class/net", device).exists():
                continue
            try:
                _run("ip", "link", "add", device, "type", "veth", "peer", "name", "machine", "netns", str(self._switch.pid))
            except RuntimeError:
                if not Path("/sys/class/net", device).exists():
                    raise
                continue  # another test run was faster
            self._switch.run("ip", "link", "set", "machine", "master", "bridge", "up")
            _run("ip", "addr", "add", f"10.231.{number}.254/24", "dev", device)
            _run("ip", "link", "set", device, "up")
            return number
        raise RuntimeError(f"{_MAX_NETWORKS} test networks are up: see ip link")


def _device(number: int) -> str:
    return f"zcslurm{number}"


def _run(*command: str) -> str:
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(command)}: {done.stderr.strip()}")
    return done.stdout
