"""What a job asks SLURM for: whole directives, each problem with its correction."""

from __future__ import annotations

from typing import Any

import pytest

from zerocfg.artifact import Resources
from zerocfg.passes.lower.slurm import SlurmShape, lower_slurm
from zerocfg.schema.slurm import GpuRequest, SlurmConfig

TWO_NODES = Resources(
    num_nodes=2,
    gpus_per_node=4,
    gpu="A100-SXM4-80GB",
    ranks_per_node=4,
    cpus_per_node=48,
    memory_bytes_per_gpu=80 * 2**30,
    host_memory_bytes=512 * 2**30,
)
ON_CPU = Resources(num_nodes=1, gpus_per_node=0, gpu="", ranks_per_node=2, cpus_per_node=8, memory_bytes_per_gpu=0, host_memory_bytes=2**34)


def lower(resources: Resources | None = TWO_NODES, **fields: Any) -> SlurmShape:
    threads = fields.pop("threads_per_core", 1)
    shape, problems = lower_slurm(SlurmConfig(**fields), resources, job_name="train", threads_per_core=threads)
    assert problems == []
    return shape


def codes(resources: Resources | None = TWO_NODES, **fields: Any) -> list[tuple[str, str]]:
    _, problems = lower_slurm(SlurmConfig(**fields), resources, job_name="train")
    assert all("\n" not in p.message and p.path.startswith("hydra.launcher") and p.hint for p in problems)
    return [(p.code, p.path.removeprefix("hydra.launcher.")) for p in problems]


def test_a_flag_is_written_only_for_what_was_asked() -> None:
    shape = lower()
    assert shape.directives == (
        ("job-name", "train"),
        ("nodes", "2"),
        ("ntasks-per-node", "1"),
        ("cpus-per-task", "48"),
        ("gpus-per-node", "4"),
        ("open-mode", "append"),
    )
    assert shape.srun == (
        ("nodes", "2"),
        ("ntasks", "2"),
        ("cpus-per-task", "48"),
        ("kill-on-bad-exit", "1"),
        ("cpu-bind", "none"),
        ("output", ".zerocfg/torchrun.log"),
        ("open-mode", "append"),
        ("label", ""),
    )
    assert (shape.nodes, shape.setup, shape.array_parallelism, shape.rdzv_port) == (2, (), 0, 0)


def test_everything_at_once() -> None:
    shape = lower(
        partition="gpu,long",
        account="a",
        qos="high",
        constraint="ib&a100",
        reservation="night",
        exclusive=True,
        timeout_min=90.5,
        nodes=2,
        gpus_per_node=4,
        gpu_type="a100",
        cpus_per_task=96,
        mem_gb=1.5,
        job_name="my job",
        array_parallelism=3,
        signal="sigusr2",
        signal_delay_s=120,
        requeue=True,
        setup=["module load cuda"],
        environment={"A": 1, "B": "x y"},
        sbatch={"mail_type": "END", "spread_job": True, "ntasks_per_node": None},
        srun={"cpu_bind": "cores", "label": None, "mpi": "none"},
    )
    assert shape.directives == (
        ("job-name", "my job"),
        ("partition", "gpu,long"),
        ("account", "a"),
        ("qos", "high"),
        ("constraint", "ib&a100"),
        ("reservation", "night"),
        ("time", "91"),
        ("nodes", "2"),
        ("cpus-per-task", "96"),
        ("gpus-per-node", "a100:4"),
        ("mem", "1536M"),
        ("exclusive", ""),
        ("signal", "USR2@120"),
        ("requeue", ""),
        ("open-mode", "append"),
        ("mail-type", "END"),
        ("spread-job", ""),
    )
    assert dict(shape.srun) == {
        "nodes": "2",
        "ntasks": "2",
        "cpus-per-task": "96",
        "kill-on-bad-exit": "1",
        "cpu-bind": "cores",
        "output": ".zerocfg/torchrun.log",
        "open-mode": "append",
        "mpi": "none",
    }
    assert shape.environment == (("A", "1"), ("B", "x y"))
    assert (shape.setup, shape.array_parallelism) == (("module load cuda",), 3)


def test_gpus_memory_and_cores() -> None:
    assert ("gres", "gpu:a100:4") in lower(gpu_type="a100", gpu_request=GpuRequest.gres).directives
    assert ("gres", "gpu:4") in lower(gpu_request=GpuRequest.gres).directives
    assert ("mem", "0") in lower(mem_gb=0).directives
    assert ("mem", "64G") in lower(mem_gb=64).directives
    assert ("mem-per-gpu", "32G") in lower(mem_per_gpu_gb=32.0).directives
    assert ("mem-per-cpu", "2560M") in lower(mem_per_cpu_gb=2.5).directives
    # SLURM counts hardware threads
    assert ("cpus-per-task", "96") in lower(threads_per_core=2).directives
    assert not any(name.startswith(("gpu", "gres")) for name, _ in lower(ON_CPU).directives)
    # srun takes no more than sbatch gave
    assert "cpus-per-task" not in dict(lower(sbatch={"cpus_per_task": None}).srun)
    assert ("no-requeue", "") in lower(requeue=False).directives


def test_an_app_without_groups_asks_for_what_the_launcher_says() -> None:
    assert dict(lower(None).directives) == {
        "job-name": "train",
        "nodes": "1",
        "ntasks-per-node": "1",
        "open-mode": "append",
    }
    assert ("gpus-per-node", "2") in lower(None, gpus_per_node=2).directives
    assert codes(None, nodes=2) == [("ZC722", "nodes")]


def test_equal_requests_are_one_shape() -> None:
    assert lower(partition="gpu") == lower(partition="gpu")
    assert hash(lower()) == hash(lower())
    assert lower() != lower(ON_CPU)
    assert lower() != lower(mem_gb=1)


@pytest.mark.parametrize(
    ("bad", "expected", "good"),
    [
        ({"mem_gb": 1, "mem_per_cpu_gb": 1}, [("ZC720", "mem_gb")], {"mem_gb": 1}),
        ({"mem_gb": 1, "mem_per_cpu_gb": 1, "mem_per_gpu_gb": 1}, [("ZC720", "mem_gb")], {"mem_per_gpu_gb": 1}),
        ({"sbatch": {"mem": "4G"}}, [("ZC721", "sbatch.mem")], {"mem_gb": 4}),
        ({"sbatch": {"time": 5}}, [("ZC721", "sbatch.time")], {"timeout_min": 5}),
        ({"sbatch": {"array": "0-3"}}, [("ZC721", "sbatch.array")], {}),
        ({"sbatch": {"nodes": None}}, [("ZC721", "sbatch.nodes")], {"sbatch": {"ntasks_per_node": None}}),
        ({"sbatch": {"gpus": 8}}, [("ZC721", "sbatch.gpus")], {"sbatch": {"gpus_per_node": None, "gpus": 8}}),
        ({"sbatch": {"gres": "gpu:a100:4"}}, [("ZC721", "sbatch.gres")], {"sbatch": {"gres": "nvme:1"}}),
        ({"sbatch": {"gres": "nvme:1,gpu:4"}}, [("ZC721", "sbatch.gres")], {"sbatch": {"gpus_per_node": None, "gres": "nvme:1,gpu:4"}}),
        ({"srun": {"kill_on_bad_exit": 0}}, [("ZC721", "srun.kill_on_bad_exit")], {"srun": {"cpu_bind": "cores"}}),
        ({"srun": {"output": "x"}}, [("ZC721", "srun.output")], {"srun": {"export": "ALL"}}),
        ({"environment": {"SLURM_CPU_BIND": "x"}}, [("ZC721", "environment.SLURM_CPU_BIND")], {"environment": {"MY_SLURM_VAR": "x"}}),
        ({"environment": {"CUDA_VISIBLE_DEVICES": "0"}}, [("ZC721", "environment.CUDA_VISIBLE_DEVICES")], {}),
        ({"nodes": 3}, [("ZC722", "nodes")], {"nodes": 2}),
        ({"gpus_per_node": 8}, [("ZC722", "gpus_per_node")], {"gpus_per_node": 4}),
        ({"timeout_min": 0}, [("ZC723", "timeout_min")], {"timeout_min": 0.5}),
        ({"timeout_min": float("nan")}, [("ZC723", "timeout_min")], {"timeout_min": None}),
        ({"mem_gb": -1}, [("ZC723", "mem_gb")], {"mem_gb": 0}),
        ({"cpus_per_task": 0}, [("ZC723", "cpus_per_task")], {"cpus_per_task": 1}),
        ({"array_parallelism": 0}, [("ZC723", "array_parallelism")], {"array_parallelism": 1}),
        ({"signal": "B:USR2"}, [("ZC723", "signal")], {"signal": "TERM"}),
        ({"signal": "USR9"}, [("ZC723", "signal")], {"signal": "sigusr1"}),
        ({"signal_delay_s": 65536}, [("ZC723", "signal_delay_s")], {"signal_delay_s": 65535}),
        ({"setup": ["export HF_TOKEN=abc"]}, [("ZC814", "setup")], {"setup": ["export HF_TOKEN=$(cat token)"]}),
        ({"srun": {"export": "ALL,HF_TOKEN=abc"}}, [("ZC814", "srun.export")], {"srun": {"export": "ALL"}}),
        ({"partition": "a\nb"}, [("ZC723", "partition")], {"partition": "a b"}),
        ({"job_name": ""}, [("ZC723", "job_name")], {"job_name": 'it\'s "one"'}),
        ({"gpu_type": "a100:4"}, [("ZC723", "gpu_type")], {"gpu_type": "nvidia_a100-sxm4-80gb"}),
        ({"sbatch": {"comment": "a\n#SBATCH --x"}}, [("ZC723", "sbatch.comment")], {"sbatch": {"comment": "a #SBATCH --x"}}),
        ({"sbatch": {"comment": ["a"]}}, [("ZC723", "sbatch.comment")], {"sbatch": {"comment": 1.5}}),
        ({"sbatch": {"--comment": "a"}}, [("ZC723", "sbatch.--comment")], {"sbatch": {"comment": "a"}}),
        ({"srun": {"C": "a"}}, [("ZC723", "srun.C")], {"srun": {"constraint": "a"}}),
        ({"environment": {"A-B": "x"}}, [("ZC723", "environment.A-B")], {"environment": {"A_B": "x"}}),
        ({"environment": {"A": True}}, [("ZC723", "environment.A")], {"environment": {"A": "true"}}),
        ({"environment": {"A": None}}, [("ZC723", "environment.A")], {"environment": {"A": "line\nbreak"}}),
    ],
)
def test_a_problem_and_its_correction(bad: dict[str, Any], expected: list[tuple[str, str]], good: dict[str, Any]) -> None:
    assert codes(**bad) == expected
    assert codes(**good) == []


def test_memory_per_gpu_without_gpus() -> None:
    assert codes(ON_CPU, mem_per_gpu_gb=4) == [("ZC720", "mem_per_gpu_gb")]
    assert codes(None, mem_per_gpu_gb=4, gpus_per_node=1) == []


def test_all_problems_at_once() -> None:
    found = codes(mem_gb=1, mem_per_cpu_gb=1, nodes=3, timeout_min=-1, sbatch={"time": 3, "array": 1}, environment={"RANK": "0"})
    assert sorted(code for code, _ in found) == ["ZC720", "ZC721", "ZC721", "ZC721", "ZC722", "ZC723"]
