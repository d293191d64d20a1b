"""Interfaces, host names, InfiniBand, the clock."""

from __future__ import annotations

from tests.doctor.fault import FAIL, IB, TWO_NODES, WARN, Case

CASES = [
    Case(
        "no such interface",
        "ZC850",
        FAIL,
        "interfaces",
        {},
        {"hardware.network_interface": "eth7"},
        ("NCCL_SOCKET_IFNAME=eth7", "lo, ib0, eth0", "hardware.network_interface="),
    ),
    Case(
        "no such interface, exported",
        "ZC850",
        FAIL,
        "interfaces",
        {"environ": {"NCCL_SOCKET_IFNAME": "=ib1"}},
        {},
        ("=ib1", "unset NCCL_SOCKET_IFNAME"),
    ),
    Case("interface, no run", "ZC850", WARN, "interfaces", {"environ": {"GLOO_SOCKET_IFNAME": "bond0"}}, None, ("bond0",)),
    Case("only a bridge", "ZC850", WARN, "interfaces", {"nets": ("lo", "docker0"), "files": IB}, TWO_NODES, ("docker0",)),
    Case(
        "loopback name of two nodes",
        "ZC851",
        FAIL,
        "host name",
        {"names_known": {"node1": ("127.0.1.1",)}, "files": IB},
        TWO_NODES,
        ("node1", "127.0.1.1", "loopback", "/etc/hosts"),
    ),
    Case(
        "loopback meeting point",
        "ZC851",
        FAIL,
        "host name",
        {
            "environ": {"ZEROCFG_RDZV_HOST": "localhost"},
            "names_known": {"node1": ("10.0.0.1",), "localhost": ("127.0.0.1", "::1")},
            "files": IB,
        },
        TWO_NODES,
        ("localhost", "ZEROCFG_RDZV_HOST"),
    ),
    Case("unknown name", "ZC851", FAIL, "host name", {"names_known": {}, "files": IB}, TWO_NODES, ("node1", "/etc/hosts")),
    Case("unknown name, one node", "ZC851", WARN, "host name", {"names_known": {}}, {}, ("node1",)),
    Case("no InfiniBand", "ZC852", FAIL, "infiniband", {}, TWO_NODES, ("hardware.network=infiniband", "hardware.network=tcp")),
    Case(
        "port down",
        "ZC852",
        FAIL,
        "infiniband",
        {"files": {**IB, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}},
        TWO_NODES,
        ("mlx5_0:1 DOWN",),
    ),
    Case(
        "port down, no run",
        "ZC852",
        WARN,
        "infiniband",
        {"files": {**IB, "/sys/class/infiniband/mlx5_0/ports/1/state": "1: DOWN\n"}},
        None,
        ("DOWN",),
    ),
    Case(
        "no peermem",
        "ZC852",
        WARN,
        "infiniband",
        {"files": {k: v for k, v in IB.items() if "peermem" not in k}},
        TWO_NODES,
        ("nvidia-peermem",),
    ),
    Case("clock", "ZC853", WARN, "clock", {"clock": False, "files": IB}, TWO_NODES, ("not synchronized",)),
]
