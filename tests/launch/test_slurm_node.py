"""Where the nodes of a job meet."""

from __future__ import annotations

import socket
from collections.abc import Mapping, Sequence
from itertools import pairwise

import pytest

from zerocfg.diagnostics import ConfigProblems
from zerocfg.launch.slurm_node import (
    check_interfaces,
    first_port,
    free_port,
    gloo_interface,
    interface_of,
    is_local_only,
    meeting_address,
    own_address,
    resolve,
)


def meet(names: Mapping[str, Sequence[str]], own: Mapping[str, str] | None = None, nodes: Mapping[str, str] | None = None) -> str:
    return meeting_address(
        ["n1", "n2", "n3"],
        resolve=lambda name: names.get(name, ()),
        source=lambda other: (own or {}).get(other, ""),
        node_address=lambda node: (nodes or {}).get(node, ""),
    )


@pytest.mark.parametrize(
    ("names", "own", "nodes", "expected"),
    [
        ({"n1": ["10.0.0.1"]}, {}, {}, "10.0.0.1"),
        ({"n1": ["127.0.1.1", "10.0.0.1"]}, {}, {}, "10.0.0.1"),
        ({"n1": ["fd00::1"]}, {}, {}, "fd00::1"),
        ({"n1": ["::1", "fe80::1%eth0", "fd00::1"]}, {}, {}, "fd00::1"),
        # Debian's /etc/hosts: a host's own name is a loopback address
        ({"n1": ["127.0.1.1"], "10.0.0.7": ["10.0.0.7"]}, {}, {"n1": "10.0.0.7"}, "10.0.0.7"),
        ({"n1": ["127.0.1.1"], "n2": ["10.0.0.2"]}, {"10.0.0.2": "10.0.0.1"}, {"n1": "n1"}, "10.0.0.1"),
        ({"n3": ["127.0.0.3", "10.0.0.3"]}, {"10.0.0.3": "10.0.0.1"}, {}, "10.0.0.1"),
        ({"ib2": ["10.1.0.2"]}, {"10.1.0.2": "10.1.0.1"}, {"n2": "ib2"}, "10.1.0.1"),
    ],
)
def test_an_address_that_the_others_reach(names: dict[str, list[str]], own: dict[str, str], nodes: dict[str, str], expected: str) -> None:
    assert meet(names, own, nodes) == expected


@pytest.mark.parametrize(
    ("names", "own"), [({}, {}), ({"n1": ["127.0.1.1"], "n2": ["127.0.0.1"]}, {}), ({"n2": ["10.0.0.2"]}, {"10.0.0.2": "127.0.0.1"})]
)
def test_a_loopback_address_is_refused(names: dict[str, list[str]], own: dict[str, str]) -> None:
    with pytest.raises(ConfigProblems) as refused:
        meet(names, own)
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("ZC730", "the first host n1 has no address that the other nodes can reach")
    assert "n1 is " in problem.detail[0]
    assert "ZEROCFG_RDZV_HOST" in problem.hint


def test_local_addresses() -> None:
    local = ("127.0.0.1", "127.0.1.1", "::1", "0.0.0.0", "fe80::1%eth0", "169.254.1.1")
    assert [is_local_only(address) for address in local] == [True] * 6
    assert [is_local_only(address) for address in ("10.0.0.1", "fd00::1", "2001:db8::1", "name")] == [False] * 4


def test_ports_of_neighbouring_jobs_are_apart_and_below_the_kernels_own() -> None:
    ports = [first_port(job) for job in range(5000)]
    assert min(ports) == 15000
    assert max(ports) < 32768 - 200
    assert {abs(a - b) for a, b in pairwise(ports)} == {8, 14392}
    assert first_port(7) == first_port(7 + 1800)


def test_a_taken_port_is_passed_over() -> None:
    with socket.create_server(("", 0)) as one:
        taken = one.getsockname()[1]
        assert free_port(taken) > taken
        with pytest.raises(ConfigProblems) as refused:
            free_port(taken, tries=1)
    assert [d.code for d in refused.value.diagnostics] == ["ZC731"]
    assert f"ports {taken} to {taken} is free" in refused.value.diagnostics[0].message


def test_a_port_taken_on_ipv6_alone_is_passed_over() -> None:
    if not socket.has_dualstack_ipv6():
        return
    with socket.create_server(("::", 0), family=socket.AF_INET6) as one:
        taken = one.getsockname()[1]
        assert free_port(taken) > taken


def test_this_hosts_address_on_the_way() -> None:
    assert own_address("127.0.0.1") == "127.0.0.1"
    assert own_address("no.such.host.invalid") == ""
    assert resolve("localhost")[0] in ("127.0.0.1", "::1")
    assert resolve("no.such.host.invalid") == []


PRESENT = ("lo", "eth0", "bond0", "bond0.2093", "ib0")


@pytest.mark.parametrize(
    ("environment", "fine"),
    [
        ({}, True),
        ({"NCCL_SOCKET_IFNAME": ""}, True),
        ({"NCCL_SOCKET_IFNAME": "eth"}, True),
        ({"NCCL_SOCKET_IFNAME": "eno1,ib"}, True),
        ({"NCCL_SOCKET_IFNAME": "=eth0"}, True),
        ({"NCCL_SOCKET_IFNAME": "^docker,lo"}, True),
        ({"NCCL_SOCKET_IFNAME": "eth2"}, False),
        ({"NCCL_SOCKET_IFNAME": "=eth"}, False),
        ({"NCCL_SOCKET_IFNAME": "^eth,bond,ib,lo"}, False),
        ({"GLOO_SOCKET_IFNAME": "eth"}, False),
        ({"GLOO_SOCKET_IFNAME": "eth0"}, True),
    ],
)
def test_interfaces(environment: dict[str, str], fine: bool) -> None:
    found = check_interfaces(environment, PRESENT)
    assert (found == []) is fine
    for problem in found:
        assert problem.code == "ZC732"
        assert problem.detail == ("interfaces of this host: lo, eth0, bond0, bond0.2093, ib0",)


def test_the_interface_of_an_address() -> None:
    assert interface_of("127.0.0.1") == "lo"
    assert interface_of("192.0.2.1") == interface_of("2001:db8::1") == ""
    address = own_address("192.0.2.1")
    if address:  # this machine has a way out
        assert interface_of(address) in [name for _, name in socket.if_nameindex()]


@pytest.mark.parametrize(
    ("environment", "own", "expected"),
    [
        ({}, ["127.0.1.1"], "lo"),
        ({}, [], "lo"),
        ({}, ["127.0.1.1", "10.0.0.1"], ""),
        ({"GLOO_SOCKET_IFNAME": "ib0"}, ["127.0.1.1"], ""),
    ],
)
def test_gloo_is_told_an_interface_where_the_hosts_name_leads_nowhere(environment: dict[str, str], own: list[str], expected: str) -> None:
    assert gloo_interface("127.0.0.1", environment, own) == expected
