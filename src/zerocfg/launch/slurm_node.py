"""What runs inside a SLURM job before torchrun; of several nodes: where they meet, and each node's own address.

    python -m zerocfg.launch.slurm_node rendezvous [--port=N] HOST...    in the batch script, on the first host: prints "ADDRESS PORT"
    python -m zerocfg.launch.slurm_node start LAUNCH.SH [ARGUMENT...]    in each node's task, in the job's folder

Names and addresses of a cluster often differ: a host may call itself 127.0.1.1, or by a name that others cannot resolve. So
the nodes are given an address, and each its own one on the way there.
"""

from __future__ import annotations

import fcntl
import ipaddress
import os
import re
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import RDZV_CONF, RDZV_HOST, RDZV_PORT, read_compiled
from zerocfg.errors import ZerocfgError
from zerocfg.launch.processes import die_with_parent

Resolve = Callable[[str], Sequence[str]]

# Below the ports that kernels give to outgoing connections (from 32768), above the well-known ones. Each job id has a few to
# itself, so that the search for a free one does not end on a neighbour's.
_HEARD_SECONDS = 1.0
_SIOCGIFADDR = 0x8915
_FIRST_PORT, _PORTS_A_JOB, _JOBS = 15000, 8, 1800


def first_port(job_id: int) -> int:
    """Where the search for a free port starts: 15000 to 29392, 8 apart for neighbouring job ids."""
    return _FIRST_PORT + job_id % _JOBS * _PORTS_A_JOB


def free_port(first: int, tries: int = 200) -> int:
    """The first free port from `first` upward on this host. Raises ConfigProblems (ZC731)."""
    for port in range(first, min(first + tries, 65536)):
        if _is_free(port):
            return port
    raise ConfigProblems(
        [
            Diagnostic(
                code="ZC731",
                path="torchrun.rdzv_port",
                message=f"none of the ports {first} to {min(first + tries, 65536) - 1} is free on {socket.gethostname()}",
                hint="torchrun.rdzv_port=29500, or another port that is free on all hosts",
            )
        ]
    )


def _is_free(port: int) -> bool:
    for family, address in ((socket.AF_INET, ""), (socket.AF_INET6, "::")):
        try:
            with socket.socket(family, socket.SOCK_STREAM) as probe:
                if family == socket.AF_INET6:
                    probe.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind((address, port))
        except OSError as problem:
            if family == socket.AF_INET or problem.errno == 98:  # EADDRINUSE; a host may be without IPv6
                return False
    return True


def meeting_address(hosts: Sequence[str], *, resolve: Resolve, source: Callable[[str], str], node_address: Callable[[str], str]) -> str:
    """An address of the first host that the other hosts can reach, IPv6 without brackets. Raises ConfigProblems (ZC730).

    resolve: name -> addresses as this host, the first one, sees them; none for an unknown name. source: this host's own address on
    the way to another. node_address: what SLURM has for a node.
    """
    first, tried = hosts[0], []
    for name in dict.fromkeys((first, node_address(first))):
        if not name:
            continue
        addresses = resolve(name)
        if outer := [a for a in addresses if not is_local_only(a)]:
            return outer[0]
        tried.append(f"{name} is {', '.join(addresses) or 'not known'} on this host")
    for other in hosts[1:]:
        for name in dict.fromkeys((other, node_address(other))):
            for there in resolve(name) if name else ():
                if not is_local_only(there) and (own := source(there)) and not is_local_only(own):
                    return own
    raise ConfigProblems(
        [
            Diagnostic(
                code="ZC730",
                message=f"the first host {first} has no address that the other nodes can reach",
                detail=(*tried, "a loopback address means another machine on each of them"),
                hint=f"hydra.launcher.setup=['export {RDZV_HOST}=ADDRESS'], or names in DNS or /etc/hosts that are not loopback",
            )
        ]
    )


def is_local_only(address: str) -> bool:
    """Loopback, unspecified, or valid on one link only (fe80::)."""
    try:
        found = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    return found.is_loopback or found.is_unspecified or found.is_link_local


def resolve(name: str) -> list[str]:
    """Addresses of a name, IPv4 first: most of what runs on a cluster expects it."""
    try:
        found = socket.getaddrinfo(name, None, type=socket.SOCK_STREAM)
    except OSError:
        return []
    found.sort(key=lambda entry: entry[0] != socket.AF_INET)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


def own_address(towards: str, port: int = 9) -> str:
    """This host's address on the way to another; empty when there is no way. Nothing is sent."""
    try:
        family, kind, protocol, _, target = socket.getaddrinfo(towards, port, type=socket.SOCK_DGRAM)[0]
        with socket.socket(family, kind, protocol) as probe:
            probe.connect(target)
            return str(probe.getsockname()[0])
    except OSError:
        return ""


def interface_of(address: str) -> str:
    """The network interface of this host that has an address; empty: none."""
    wanted = ipaddress.ip_address(address.partition("%")[0])
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as probe:
        for _, name in socket.if_nameindex():
            try:
                answer = fcntl.ioctl(probe.fileno(), _SIOCGIFADDR, name.encode()[:15].ljust(40, b"\0"))
            except OSError:
                continue  # without an IPv4 address
            if socket.inet_ntoa(answer[20:24]) == str(wanted):
                return name
    try:
        rows = [line.split() for line in Path("/proc/net/if_inet6").read_text(encoding="ascii").splitlines()]
    except OSError:
        return ""
    return next((row[-1] for row in rows if wanted.packed.hex() == row[0]), "")


def gloo_interface(address: str, environment: Mapping[str, str], own: Sequence[str]) -> str:
    """GLOO_SOCKET_IFNAME where gloo would tell the others a loopback address: it looks up the host's own name. Empty: leave it.

    address: this host's, as others reach it. own: what its name resolves to here.
    """
    if environment.get("GLOO_SOCKET_IFNAME") or any(not is_local_only(found) for found in own):
        return ""
    return interface_of(address)


def check_interfaces(environment: Mapping[str, str], present: Sequence[str]) -> list[Diagnostic]:
    """ZC732: a name that NCCL or gloo is told to use does not exist on this host. NCCL matches beginnings unless there is a `=`."""
    problems = []
    for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME"):
        text = environment.get(name, "")
        exact = name.startswith("GLOO") or text.startswith("=")
        wanted = [part for part in text.lstrip("=^").split(",") if part]
        if not wanted:
            continue
        hits = [p for p in present if any(p == w or (not exact and p.startswith(w)) for w in wanted)]
        if text.startswith("^"):
            hits = [p for p in present if p not in hits and p != "lo"]
        if not hits:
            problems.append(
                Diagnostic(
                    code="ZC732",
                    path="hardware.network_interface",
                    message=f"{name}={text}: {socket.gethostname()} has no such network interface",
                    detail=(f"interfaces of this host: {', '.join(present)}",),
                    hint="hardware.network_interface=NAME, or null to leave the choice to NCCL",
                )
            )
    return problems


def _node_address(node: str) -> str:
    """NodeAddr; empty where scontrol does not answer."""
    try:
        shown = subprocess.run(["scontrol", "--oneliner", "show", "node", node], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    found = re.search(r"\bNodeAddr=(\S+)", shown.stdout)
    return found[1] if found else ""


def _rendezvous(words: Sequence[str]) -> None:
    fixed = next((int(word.partition("=")[2]) for word in words if word.startswith("--port=")), 0)
    hosts = [word for word in words if not word.startswith("--")]
    chosen = os.environ.get(RDZV_HOST, "")
    host = chosen or meeting_address(hosts, resolve=resolve, source=own_address, node_address=_node_address)
    port = fixed or free_port(first_port(int(os.environ["SLURM_JOB_ID"])))
    print(f"[{host}]" if ":" in host and not host.startswith("[") else host, port)


def _start(words: Sequence[str]) -> None:
    die_with_parent()  # of slurmstepd: one that is killed leaves its tasks behind
    if RDZV_PORT in os.environ:
        _prepare(words)
    os.execv("/bin/sh", ["/bin/sh", *words])


def _prepare(words: Sequence[str]) -> None:
    """Of several nodes."""
    stored = read_compiled(Path(words[0]).parent)
    found = check_interfaces({**os.environ, **stored.environment}, [name for _, name in socket.if_nameindex()])
    host = os.environ[RDZV_HOST].strip("[]")
    address = own_address(host, int(os.environ[RDZV_PORT]))
    if not address or is_local_only(address):
        found.append(
            Diagnostic(
                code="ZC730",
                message=f"{socket.gethostname()} has no way to the first host's address {host}" + (f" but {address}" if address else ""),
                hint=f"hydra.launcher.setup=['export {RDZV_HOST}=ADDRESS'] with an address that all nodes reach",
            )
        )
    if found:
        raise ConfigProblems(found)
    # is_host: torchrun's own guess compares names. read_timeout: its default of 60 s ends a node's wait before rdzv_timeout does
    is_host = int(os.environ["SLURM_NODEID"] == "0")
    os.environ[RDZV_CONF] = f"is_host={is_host},read_timeout={stored.plan['torchrun']['rdzv_timeout']}"
    # the rank 0 that this node may have is found by it; torchrun's default is a name that may be local or unknown elsewhere
    os.environ["PET_LOCAL_ADDR"] = address
    if interface := gloo_interface(address, {**os.environ, **stored.environment}, resolve(socket.gethostname())):
        os.environ["GLOO_SOCKET_IFNAME"] = interface


def main(words: Sequence[str]) -> int:
    try:
        {"rendezvous": _rendezvous, "start": _start}[words[0]](words[1:])
    except ZerocfgError as problem:
        print(problem, file=sys.stderr, flush=True)
        # srun ends the step with the first task that fails, and loses what it has not passed on by then
        time.sleep(_HEARD_SECONDS)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
