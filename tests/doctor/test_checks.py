"""Each faulty set-up is named with its fix in one line; a sound machine has nothing to complain about."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tests.doctor import faults_gpus as gpus
from tests.doctor import faults_host as host
from tests.doctor import faults_network as network
from tests.doctor import faults_services as services
from tests.doctor import faults_software as software
from tests.doctor.fake_machine import GIB, FakeMachine, state
from tests.doctor.fault import CPU, FAIL, IB, NVME, OK, SLURM, TWO_NODES, WARN, Case, without
from zerocfg.compiler import compile_run
from zerocfg.doctor import Needs, diagnose
from zerocfg.doctor.checks.ops import ops_needed
from zerocfg.doctor.codes import CODES
from zerocfg.doctor.diagnose import CHECKS, Check
from zerocfg.doctor.finding import Finding
from zerocfg.doctor.machine import Ran
from zerocfg.probe.health import Health

Make = Callable[..., dict[str, Any]]
H200: dict[str, Any] = {
    "hardware": {
        "name": "h200x8",
        "accelerator": "cuda",
        "gpu": "H200-SXM-141GB",
        "num_nodes": 1,
        "gpus_per_node": 8,
        "memory_bytes": 141 * GIB,
        "compute_capability": "9.0",
        "link": "nvswitch",
        "link_gbps": 450.0,
        "p2p": True,
        "network": "infiniband",
        "network_gbps": 400.0,
        "cpus_per_node": 64,
        "host_memory_bytes": 1000 * GIB,
        "numa_nodes": 2,
    }
}
CASES = [*software.CASES, *gpus.CASES, *host.CASES, *network.CASES, *services.CASES]


@pytest.fixture
def needs(container: Make) -> Callable[..., Needs]:
    def make(changes: dict[str, Any] | None, **options: Any) -> Needs:
        if changes is None:
            return Needs(**options)
        made = container(changes)
        made["hardware"] = {**H200["hardware"], **{k.removeprefix("hardware."): v for k, v in changes.items() if k.startswith("hardware.")}}
        run = compile_run(made)
        return Needs(plan=run.plan, environment=run.environment, **options)

    return make


def found(machine: FakeMachine, needs: Needs) -> list[Finding]:
    findings = diagnose(machine, needs)
    assert all(finding.check for finding in findings)
    for finding in findings:
        # a complaint has a code with a line in the table and a fix; what is well has neither
        assert bool(finding.code) is bool(finding.fix) is (finding.status is not OK), finding
        assert not finding.code or finding.code in CODES
        assert "\n" not in finding.text + finding.fix
    return findings


def complaints(machine: FakeMachine, needs: Needs) -> list[tuple[str, str, str]]:
    return [(f.status.label, f.code, f.check) for f in found(machine, needs) if f.status is not OK]


@pytest.mark.parametrize("changes", [None, {}, CPU, TWO_NODES, NVME, {"offload.optimizer": "cpu"}])
def test_a_sound_machine(needs: Callable[..., Needs], changes: dict[str, Any] | None) -> None:
    assert complaints(FakeMachine(files=IB), needs(changes)) == []


def test_only_what_the_run_needs_is_looked_at(needs: Callable[..., Needs]) -> None:
    def checks(changes: dict[str, Any] | None, **options: Any) -> set[str]:
        return {f.check for f in found(FakeMachine(files=IB), needs(changes, **options))}

    everything = checks(None)
    assert {"driver", "gpus", "gpu health", "gpu links", "libraries", "infiniband"} <= everything
    assert checks(CPU) & {"driver", "gpus", "gpu health", "gpu links", "libraries", "infiniband", "nvme", "numa", "clock"} == set()
    assert "nvme" in checks(NVME)
    assert {"clock", "infiniband"} <= checks(TWO_NODES)
    # in a container the software is the image's
    docker = checks({"container.kind": "docker", "container.image": "zerocfg"})
    assert docker & {"python", "torch", "deepspeed", "ops", "libraries"} == set()
    assert "container" in docker
    # a run on this machine does not ask SLURM
    there = {
        "programs": SLURM,
        "answers": {"scontrol --version": Ran(0, "slurm 24.11.5"), "scontrol show config": Ran(0, "ClusterName = c")},
    }
    assert "slurm" not in {f.check for f in found(FakeMachine(**there), needs(CPU))}
    assert "slurm" in {f.check for f in found(FakeMachine(**there), needs(None))}
    # a login node is not the machine that the run is for
    assert checks({}, slurm=True) == {"python", "torch", "deepspeed", "libraries", "output", "environment", "slurm"}
    inside = {f.check for f in found(FakeMachine(files=IB, environ={"SLURM_JOB_ID": "1"}), needs({}, slurm=True))}
    assert {"driver", "gpus", "/dev/shm"} <= inside


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_faulty_set_up_is_named_with_its_fix(case: Case, needs: Callable[..., Needs]) -> None:
    findings = found(FakeMachine(**case.machine), needs(case.changes, **case.options))
    named = [f for f in findings if f.code == case.code and f.check == case.check and f.status is case.status]
    assert named, [f for f in findings if f.status is not OK]
    lines = [f"{f.text} | {f.fix}" for f in named]
    assert any(all(words in line for words in case.says) for line in lines), lines


def test_every_code_has_a_case() -> None:
    preflight = {"ZC880", "ZC881", "ZC882", "ZC890"}
    assert {case.code for case in CASES} | preflight == set(CODES)


@pytest.mark.parametrize(
    ("environ", "changes"),
    [
        ({"NCCL_P2P_DISABLE": "0"}, {}),
        ({"NCCL_IB_DISABLE": "1"}, {}),
        ({"NCCL_NVLS_ENABLE": "1"}, {}),
        ({"NCCL_ALGO": "Ring"}, {"env": {"NCCL_ALGO": "Ring"}}),
        ({"OMP_NUM_THREADS": "1"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "9.0"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "8.0+PTX"}, {}),
        ({"TORCH_CUDA_ARCH_LIST": "9.0a"}, CPU),
        ({"LD_LIBRARY_PATH": "/usr/local/cuda/lib64"}, {}),
        ({"NCCL_SOCKET_IFNAME": "eth,ib"}, {}),
        ({"NCCL_SOCKET_IFNAME": "^docker0"}, {}),
    ],
)
def test_what_is_no_trap(needs: Callable[..., Needs], environ: dict[str, str], changes: dict[str, Any]) -> None:
    assert complaints(FakeMachine(environ=environ, files=IB), needs(changes)) == []


def test_a_forward_compatible_libcuda_makes_up_for_an_old_driver(needs: Callable[..., Needs]) -> None:
    machine = FakeMachine(state=Health(driver="535.104.05", cuda=(13, 0), gpus=tuple(state(i) for i in range(8))))
    assert complaints(machine, needs({})) == []


def test_an_op_that_is_being_compiled_has_a_lock(needs: Callable[..., Needs]) -> None:
    lock = "~/.cache/torch_extensions/py312_cu130/fused_adam/lock"
    assert complaints(FakeMachine(files={**IB, lock: ""}, opened=frozenset({lock})), needs({})) == []


def test_ops_that_were_compiled_at_installation_need_no_compiler(needs: Callable[..., Needs]) -> None:
    texts = {**FakeMachine().texts, "deepspeed/git_version_info_installed.py": "version='0.19.8'\ninstalled_ops={'fused_adam': True}\n"}
    assert complaints(FakeMachine(texts=texts, programs={"numactl": "/bin/numactl"}, files={}), needs({})) == []
    broken = {**FakeMachine().texts, "deepspeed/git_version_info_installed.py": "installed_ops={nothing"}
    assert complaints(FakeMachine(texts=broken, programs=without("ninja")), needs({})) == [("fail", "ZC832", "ops")]


@pytest.mark.parametrize(
    ("changes", "ops"),
    [
        ({}, ("fused_adam",)),
        ({"optimizer": {"type": "Lion", "lr": 1e-4}}, ("fused_lion",)),
        ({"offload.optimizer": "cpu"}, ("cpu_adam",)),
        (NVME, ("cpu_adam", "async_io")),
        ({"optimizer": {"type": None}}, ()),
        (CPU, ()),
        ({**TWO_NODES, "parallelism.zero_quantized_weights": True}, ("fused_adam", "quantizer")),
    ],
)
def test_ops_of_a_run(needs: Callable[..., Needs], changes: dict[str, Any], ops: tuple[str, ...]) -> None:
    assert ops_needed(needs(changes)) == ops


def test_what_several_gpus_have_in_common_is_said_once(needs: Callable[..., Needs]) -> None:
    both = Health(driver="580.95.05", cuda=(13, 0), gpus=(state(0, mig=True), state(1, ecc_uncorrected=2), state(2, mig=True)))
    lines = [(f.text, f.fix) for f in found(FakeMachine(state=both), needs({})) if f.check == "gpu health"]
    assert lines == [
        (
            "GPUs 0, 2: in MIG mode: a process uses one slice, and ranks on slices cannot use NCCL together",
            "sudo nvidia-smi -i 0,2 -mig 0, or hardware.gpus_per_node=1",
        ),
        ("GPU 1: 2 uncorrectable memory errors", "sudo nvidia-smi --gpu-reset -i 1, or reboot; again: replace it"),
    ]


def test_a_wrong_interface_is_named_with_a_right_one(needs: Callable[..., Needs]) -> None:
    (first, *_) = [f for f in found(FakeMachine(nets=("lo", "eth0")), needs({"hardware.network_interface": "ib9"})) if f.status is FAIL]
    assert (first.check, first.fix) == ("interfaces", "hardware.network_interface=eth0")
    (line,) = [f for f in found(FakeMachine(nets=("lo", "ib0"), environ={"NCCL_SOCKET_IFNAME": "x"}), needs({})) if f.check == "interfaces"]
    assert line.fix == "unset NCCL_SOCKET_IFNAME, or export NCCL_SOCKET_IFNAME=ib0"


def test_a_check_that_breaks_does_not_break_the_report(needs: Callable[..., Needs]) -> None:
    def broken(machine: object, needs: object) -> Any:
        raise RuntimeError("odd machine")

    findings = diagnose(FakeMachine(), needs({}), [Check("odd", broken), CHECKS[0]])  # type: ignore[arg-type]
    assert [(f.check, f.status, f.code) for f in findings] == [("odd", WARN, "ZC890"), ("python", OK, "")]
    assert "RuntimeError: odd machine" in findings[0].text
