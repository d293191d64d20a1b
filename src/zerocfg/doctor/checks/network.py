"""Interfaces, names, InfiniBand, clock: what nodes need to find each other."""

from __future__ import annotations

from collections.abc import Iterator

from zerocfg.doctor.finding import Finding, bad, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs
from zerocfg.launch.slurm_node import check_interfaces, is_local_only

_VIRTUAL = ("docker", "virbr", "veth", "br-", "cni", "flannel", "tun", "tap", "wg")


def chosen_interfaces(present: tuple[str, ...]) -> tuple[str, ...]:
    """What NCCL takes for its sockets when it is told nothing: ib*, else all but docker* and lo, else docker*, else lo."""
    for group in (
        [name for name in present if name.startswith("ib")],
        [name for name in present if not name.startswith(("docker", "lo", "virbr"))],
        [name for name in present if name.startswith("docker")],
        [name for name in present if name.startswith("lo")],
    ):
        if group:
            return tuple(group)
    return ()


def interfaces(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC850."""
    present = machine.interfaces()
    names = {n: machine.environ[n] for n in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") if machine.environ.get(n)}
    names |= {name: needs.environment[name] for name in ("NCCL_SOCKET_IFNAME", "GLOO_SOCKET_IFNAME") if name in needs.environment}
    problems, good = check_interfaces(names, present), (chosen_interfaces(present) or ("NAME",))[0]
    for problem in problems:
        variable, _, value = problem.message.partition(":")[0].partition("=")
        by_config = needs.plan is not None and needs.plan.hardware.network_interface
        fix = f"hardware.network_interface={good}" if by_config else f"unset {variable}, or export {variable}={good}"
        text = f"{variable}={value}: there is no such network interface; there are {', '.join(present) or 'none'}"
        # one node still opens a socket for its rendezvous
        yield bad(needs.plan is not None, "ZC850", text, fix)
    if problems:
        return
    told = names.get("NCCL_SOCKET_IFNAME") or names.get("GLOO_SOCKET_IFNAME")
    chosen = chosen_interfaces(present)
    wrong = [name for name in chosen if name.startswith((*_VIRTUAL, "lo"))]
    if told:
        yield ok(f"{told}, as told")
    elif needs.nodes > 1 and wrong:
        text = f"NCCL would choose {', '.join(chosen)}; {', '.join(wrong)} leads to no other node"
        yield warn("ZC850", text, "hardware.network_interface=NAME of the network between the nodes")
    else:
        yield ok(f"NCCL would choose {', '.join(chosen) or 'none'} of {', '.join(present) or 'none'}")


def host_name(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC851."""
    name = machine.hostname()
    told = machine.environ.get("ZEROCFG_RDZV_HOST", "") or machine.environ.get("MASTER_ADDR", "")
    # torchrun's own address, and gloo's interface: what would be looked up by the name
    given = machine.environ.get("PET_LOCAL_ADDR", "") if machine.environ.get("GLOO_SOCKET_IFNAME") else ""
    several = needs.nodes > 1
    for host in dict.fromkeys(filter(None, (name, told if several else ""))):
        addresses = machine.addresses(host)
        outer = [address for address in addresses if not is_local_only(address)]
        if not addresses:
            # torchrun and gloo look their own name up on a single node too
            text = f"the name of this host, {host}, is in no DNS and not in /etc/hosts" if host == name else f"{host} is not known here"
            yield bad(several, "ZC851", text, f"add '127.0.1.1 {host}' to /etc/hosts; with several nodes an address that all reach")
        elif several and not outer and given:
            yield ok(f"{host} is {', '.join(addresses)} here, and the others know this node by {given}")
        elif several and not outer:
            text = f"{host} is {', '.join(addresses)} here, a loopback address: other nodes would look for themselves"
            fix = f"in /etc/hosts or DNS, for {host} the address that other nodes reach; or hydra/launcher=zerocfg_slurm, which finds it"
            if host != name:
                fix = "export ZEROCFG_RDZV_HOST=ADDRESS of the first node on all nodes"
            yield bad(not needs.slurm, "ZC851", text, fix)
        else:
            yield ok(f"{host} is {', '.join(addresses)}")


def infiniband(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC852."""
    base = "/sys/class/infiniband"
    ports = []
    for device in machine.names(base):
        for port in machine.names(f"{base}/{device}/ports"):
            where = f"{base}/{device}/ports/{port}"
            state = machine.read(f"{where}/state").strip().rpartition(" ")[2] or "unknown"
            rate = " ".join(machine.read(f"{where}/rate").split()[:2])
            ports.append((f"{device}:{port}", state, rate))
    active = [f"{name} {rate}".strip() for name, state, rate in ports if state == "ACTIVE"]
    plan = needs.plan
    wanted = plan is not None and needs.nodes > 1 and plan.hardware.network in ("infiniband", "roce")
    if wanted and not active:
        seen = ", ".join(f"{name} {state}" for name, state, _ in ports) or "none"
        network = plan.hardware.network if plan is not None else ""
        text = f"hardware.network={network}, but no port is active: {seen}"
        yield bad(True, "ZC852", text, "ibstat; in a container --device=/dev/infiniband; or hardware.network=tcp")
    elif active and (plan is None or wanted):
        yield ok(", ".join(active))
        if wanted and needs.cuda and not (machine.exists("/sys/module/nvidia_peermem") or machine.exists("/sys/module/nv_peer_mem")):
            fix = "sudo modprobe nvidia-peermem, or a kernel and driver with DMA-BUF"
            yield warn("ZC852", "nvidia_peermem is not loaded: GPUDirect RDMA works by DMA-BUF alone", fix)
    elif ports and plan is None:
        yield warn(
            "ZC852", f"no InfiniBand port is active: {', '.join(f'{n} {s}' for n, s, _ in ports)}", "ibstat, the cable, the subnet manager"
        )


def clock(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC853."""
    if needs.nodes < 2:
        return
    synchronized = machine.clock_synchronized()
    if synchronized is False:
        yield warn(
            "ZC853",
            "the clock is not synchronized: logs and timeouts of the nodes do not agree",
            "systemctl start chronyd or systemd-timesyncd",
        )
    elif synchronized:
        yield ok("synchronized")
