"""What is known of a cluster, and what is said before anything is submitted."""

from __future__ import annotations

import math
from typing import Any

import pytest

from zerocfg.artifact import Resources
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.slurm_cluster import Cluster, Unread, parse_cluster, parse_gres, parse_time, read_cluster
from zerocfg.launch.slurm_preflight import board, check_reachable, check_request, partition_machine, threads_per_core, unknown_hardware
from zerocfg.passes.lower.slurm import lower_slurm
from zerocfg.schema.slurm import SlurmConfig

# as SLURM 22.05 writes them, shortened
PARTITIONS = """\
PartitionName=gpu AllowGroups=ALL Default=YES QoS=N/A DefaultTime=NONE MaxNodes=UNLIMITED MaxTime=2-00:00:00 Nodes=g[0-2] State=UP
PartitionName=short AllowGroups=ALL Default=NO MaxNodes=1 MaxTime=00:30:00 Nodes=g[0-1],c0 State=UP TRES=cpu=16
PartitionName=mixed AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=g0,h0 State=UP
PartitionName=big AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=h0 State=UP
PartitionName=cpu AllowGroups=ALL Default=NO MaxNodes=UNLIMITED MaxTime=UNLIMITED Nodes=c0 State=UP
"""
NODES = """\
NodeName=g0 Arch=x86_64 CoresPerSocket=32 CPUAlloc=0 CPUEfctv=126 CPUTot=128 AvailableFeatures=ib,a100 Gres=gpu:a100:4(S:0-1) \
NodeAddr=g0 OS=Linux 6.1 #1 SMP @0  RealMemory=512000 AllocMem=0 Sockets=2 Boards=1 State=IDLE ThreadsPerCore=2 Partitions=gpu,short,mixed
NodeName=g1 CPUEfctv=126 CPUTot=128 AvailableFeatures=ib,a100 Gres=gpu:a100:4(S:0-1) RealMemory=512000 ThreadsPerCore=2 Partitions=gpu,short
NodeName=g2 CPUTot=128 AvailableFeatures=eth Gres=gpu:a100:4(S:0-1) RealMemory=256000 ThreadsPerCore=2 Partitions=gpu Reason=Gres=none
NodeName=h0 CPUTot=112 AvailableFeatures=(null) Gres=gpu:nvidia_h200:8 RealMemory=2000000 ThreadsPerCore=1 Partitions=mixed,big
NodeName=c0 CPUTot=16 AvailableFeatures=(null) Gres=(null) RealMemory=64000 ThreadsPerCore=1 Partitions=short,cpu
"""
CONFIG = "Configuration data as of 2026-01-01\nMaxArraySize            = 500\nMinJobAge               = 300 sec\n"


@pytest.fixture(scope="module")
def cluster() -> Cluster:
    return parse_cluster(PARTITIONS, NODES, CONFIG)


def test_a_cluster_as_scontrol_shows_it(cluster: Cluster) -> None:
    assert [(p.name, p.default, p.max_time_min, p.max_nodes) for p in cluster.partitions] == [
        ("gpu", True, 2880, math.inf),
        ("short", False, 30, 1),
        ("mixed", False, math.inf, math.inf),
        ("big", False, math.inf, math.inf),
        ("cpu", False, math.inf, math.inf),
    ]
    assert [(n.name, n.cpus, n.threads_per_core, n.memory_mb, n.gpus) for n in cluster.nodes] == [
        ("g0", 126, 2, 512000, (("a100", 4),)),
        ("g1", 126, 2, 512000, (("a100", 4),)),
        ("g2", 128, 2, 256000, (("a100", 4),)),
        ("h0", 112, 1, 2000000, (("nvidia_h200", 8),)),
        ("c0", 16, 1, 64000, ()),
    ]
    assert cluster.nodes[0].features == ("ib", "a100")
    assert cluster.nodes[0].partitions == ("gpu", "short", "mixed")
    assert [n.name for n in cluster.nodes_of("short")] == ["g0", "g1", "c0"]
    assert (cluster.default_partition, cluster.max_array_size) == ("gpu", 500)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", ()),
        ("gpu:4", (("", 4),)),
        ("gpu", (("", 1),)),
        ("gpu:a100:4(S:0-1),shard:8,nvme:1", (("a100", 4),)),
        ("gpu:a100:2(IDX:0-1),gpu:v100:2,gpu:a100:1", (("a100", 3), ("v100", 2))),
        ("gpu:a100:no_consume:4", (("a100", 4),)),
        ("gpu:1g.10gb:2K", (("1g.10gb", 2048),)),
    ],
)
def test_gres(text: str, expected: tuple[tuple[str, int], ...]) -> None:
    assert parse_gres(text) == expected


@pytest.mark.parametrize(
    ("text", "minutes"),
    [("UNLIMITED", math.inf), ("30", 30), ("30:30", 30.5), ("01:30:00", 90), ("2-00", 2880), ("1-12:30", 2190), ("1-00:00:30", 1440.5)],
)
def test_times(text: str, minutes: float) -> None:
    assert parse_time(text) == minutes


def test_a_machine_without_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")
    assert read_cluster() == Unread("no scontrol on this machine", ("scontrol",))


def asked(
    cluster: Cluster, gpus: int = 4, nodes: int = 1, cpus: int = 32, environ: dict[str, str] | None = None, **fields: Any
) -> list[Diagnostic]:
    config = SlurmConfig(**fields)
    resources = Resources(
        num_nodes=nodes,
        gpus_per_node=gpus,
        gpu="",
        ranks_per_node=max(1, gpus),
        cpus_per_node=cpus,
        memory_bytes_per_gpu=0,
        host_memory_bytes=0,
    )
    threads = threads_per_core(config, cluster, environ or {})
    shape, problems = lower_slurm(config, resources, job_name="train", threads_per_core=threads)
    assert problems == []
    return list(check_request(config, shape, cluster, environ or {}))


def brief(found: list[Diagnostic]) -> list[tuple[str, str]]:
    assert all(d.hint and "\n" not in d.message for d in found)
    return [(d.code, d.path.removeprefix("hydra.launcher.")) for d in found]


def test_what_fits_is_fine(cluster: Cluster) -> None:
    assert asked(cluster) == []
    assert asked(cluster, nodes=3, cpus=63, mem_gb=200, timeout_min=2880) == []
    assert asked(cluster, gpus=8, cpus=112, partition="big") == []
    assert asked(cluster, gpus=8, partition="gpu,big") == []
    assert asked(cluster, partition="gpu", constraint="ib", nodes=2) == []
    assert asked(cluster, partition="gpu", constraint="ib&a100", nodes=3) == []  # SLURM's to judge


@pytest.mark.parametrize(
    ("fields", "expected", "message"),
    [
        ({"partition": "gpus"}, ("ZC725", "partition"), "hydra.launcher.partition=gpus: there is no partition gpus"),
        ({"partition": "gpu,x"}, ("ZC725", "partition"), "hydra.launcher.partition=gpu,x: there is no partition x"),
        ({"environ": {"SBATCH_PARTITION": "x"}}, ("ZC725", "partition"), "SBATCH_PARTITION=x: there is no partition x"),
        (
            {"timeout_min": 2881},
            ("ZC726", "timeout_min"),
            "hydra.launcher.timeout_min=2881 is over the limit of partition gpu: 2880 minutes",
        ),
        (
            {"gpus": 8},
            ("ZC727", "hardware.gpus_per_node"),
            "hardware.gpus_per_node: the run needs 8 GPUs a node, and no node of partition gpu has more than 4",
        ),
        (
            {"cpus": 65},
            ("ZC727", "cpus_per_task"),
            "hydra.launcher.cpus_per_task: the run needs 130 CPUs a node, and no node of partition gpu has more than 128",
        ),
        (
            {"mem_gb": 501},
            ("ZC727", "mem_gb"),
            "hydra.launcher.mem_gb: the run needs 513024 MiB of memory a node, and no node of partition gpu has more than 512000",
        ),
        (
            {"mem_per_gpu_gb": 126},
            ("ZC727", "mem_gb"),
            "hydra.launcher.mem_gb: the run needs 516096 MiB of memory a node, and no node of partition gpu has more than 512000",
        ),
        ({"nodes": 4}, ("ZC727", "hardware.num_nodes"), "hardware.num_nodes=4, but a job in partition gpu gets at most 3"),
        ({"nodes": 3, "mem_gb": 300}, ("ZC727", "hardware.num_nodes"), "hardware.num_nodes=3, but a job in partition gpu gets at most 2"),
        (
            {"nodes": 2, "partition": "short"},
            ("ZC727", "hardware.num_nodes"),
            "hardware.num_nodes=2, but a job in partition short gets at most 1",
        ),
        ({"gpu_type": "h100"}, ("ZC727", "gpu_type"), "hydra.launcher.gpu_type=h100: no node of partition gpu has such a GPU"),
        (
            {"nodes": 3, "constraint": "ib"},
            ("ZC727", "hardware.num_nodes"),
            "hardware.num_nodes=3, but a job in partition gpu gets at most 2",
        ),
    ],
)
def test_what_the_partition_does_not_have(cluster: Cluster, fields: dict[str, Any], expected: tuple[str, str], message: str) -> None:
    found = asked(cluster, **fields)
    assert brief(found) == [expected]
    assert found[0].message == message


def test_an_outer_jobs_partition_does_not_count(cluster: Cluster) -> None:
    assert asked(cluster, environ={"SBATCH_PARTITION": "x", "SLURM_JOB_ID": "1"}) == []


def test_the_nearest_partition_is_offered(cluster: Cluster) -> None:
    assert asked(cluster, partition="shrot")[0].hint == "hydra.launcher.partition=short"
    none = parse_cluster(PARTITIONS.replace("Default=YES", "Default=NO"), NODES, CONFIG)
    (problem,) = asked(none)
    assert problem.message == "hydra.launcher.partition is null, and the cluster has no default partition"
    assert problem.detail == ("partitions: gpu, short, mixed, big, cpu",)


def test_an_app_without_groups_is_told_of_the_options_that_it_has(cluster: Cluster) -> None:
    for fields, path, hint in (
        ({"gpus_per_node": 99, "partition": "big"}, "gpus_per_node", "hydra.launcher.gpus_per_node=8"),
        ({"cpus_per_task": 999, "partition": "big"}, "cpus_per_task", "hydra.launcher.cpus_per_task="),
    ):
        config = SlurmConfig(**fields)  # type: ignore[arg-type]
        shape, problems = lower_slurm(config, None, job_name="app", threads_per_core=1)
        (problem,) = [*problems, *check_request(config, shape, cluster, {}, grouped=False)]
        assert (problem.code, problem.path) == ("ZC727", f"hydra.launcher.{path}")
        assert problem.hint.startswith(hint)
        assert "hardware." not in problem.message + problem.hint


def test_several_limits_are_all_named(cluster: Cluster) -> None:
    found = asked(cluster, gpus=8, cpus=100, mem_gb=1000, timeout_min=9999)
    assert brief(found) == [("ZC726", "timeout_min"), ("ZC727", "hardware.gpus_per_node"), ("ZC727", "cpus_per_task"), ("ZC727", "mem_gb")]


def test_hardware_auto_is_a_node_of_the_partition(cluster: Cluster) -> None:
    machine = partition_machine(SlurmConfig(partition="big"), cluster, {})
    assert machine.unknown == ""
    found = machine.detected
    assert (found.cpus, found.host_memory_bytes, found.link, found.p2p, found.host) == (
        112,
        2000000 * 2**20,
        "nvlink",
        True,
        "partition big",
    )
    assert [(g.name, g.compute_capability) for g in found.gpus] == [("H200-SXM-141GB", (9, 0))] * 8
    assert found.gpus[0].memory_bytes == 141 * 2**30
    assert found.place == "partition big (scontrol: gres gpu:nvidia_h200:8)"


def test_hardware_auto_takes_the_least_of_the_nodes_and_cores_not_threads(cluster: Cluster) -> None:
    found = partition_machine(SlurmConfig(partition="gpu"), cluster, {}).detected
    assert (found.cpus, found.host_memory_bytes) == (63, 256000 * 2**20)


@pytest.mark.parametrize(
    ("fields", "why"),
    [
        ({"partition": "gpu"}, "partition gpu has 4 GPUs of gres type a100 a node, which may be A100-SXM4-40GB or A100-SXM4-80GB or "),
        ({"partition": "mixed"}, "partition mixed has nodes with different GPUs: 4 x a100; 8 x nvidia_h200"),
        ({"partition": "gpu", "constraint": "none"}, "partition gpu has no node that fits"),
    ],
)
def test_hardware_that_the_partition_does_not_name_is_an_error(cluster: Cluster, fields: dict[str, Any], why: str) -> None:
    machine = partition_machine(SlurmConfig(**fields), cluster, {})
    assert machine.unknown.startswith(why)
    assert machine.detected.gpus == ()
    problem = unknown_hardware(machine.unknown)
    assert (problem.code, why in problem.message) == ("ZC728", True)


def test_hardware_auto_with_a_type_and_without_gpus(cluster: Cluster) -> None:
    typed = partition_machine(SlurmConfig(partition="mixed", gpu_type="nvidia_h200"), cluster, {})
    assert (typed.unknown, len(typed.detected.gpus)) == ("", 8)
    bare = partition_machine(SlurmConfig(partition="cpu"), cluster, {})
    assert (bare.unknown, bare.detected.gpus, bare.detected.cpus) == ("", (), 16)
    assert bare.detected.reason == "no node of partition cpu has any"
    assert bare.detected.place == "partition cpu (scontrol: gres without gpu)"
    unread = partition_machine(SlurmConfig(), Unread("scontrol: no controller"), {})
    assert (unread.unknown, unread.detected.cpus) == ("scontrol: no controller", 0)


@pytest.mark.parametrize(
    ("gres", "gpu"),
    [
        ("h200", "H200-SXM-141GB"),
        ("nvidia_h100_80gb_hbm3", "H100-SXM5-80GB"),
        ("nvidia_a100-sxm4-80gb", "A100-SXM4-80GB"),
        ("tesla_t4", "T4"),
        ("l40s", "L40S"),
        ("a100", None),
        ("v100", None),
        ("a100_3g.20gb", None),
        ("", None),
    ],
)
def test_boards_by_their_gres_type(gres: str, gpu: str | None) -> None:
    found = board(gres)
    assert (found.gpu if found is not None else None) == gpu


def test_a_cluster_that_cannot_be_reached(cluster: Cluster) -> None:
    assert list(check_reachable((), cluster)) == []
    (problem,) = check_reachable(("sbatch", "scontrol"), Unread("no scontrol on this machine", ("scontrol",)))
    assert (problem.code, problem.message) == ("ZC724", "hydra/launcher=zerocfg_slurm, but this machine has no sbatch, scontrol")
    said = "scontrol show config: scontrol: error: fetch_config: DNS SRV lookup failed\nscontrol: fatal: Could not find a controller"
    (problem,) = check_reachable((), Unread(said))
    assert (problem.code, problem.message) == ("ZC735", "SLURM's controller does not answer: Could not find a controller")
    assert problem.detail == ("fetch_config: DNS SRV lookup failed",)
