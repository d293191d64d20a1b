from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import compile_run
from zerocfg.compose import compose
from zerocfg.facts import Detected

# Stage x precision x offload x hardware x optimizer x schedule x nodes x SP x TP x ZeRO++ x no model.
RUNS: dict[str, str] = {
    "zero3_bf16": "parallelism=zero3 hardware=a100x4 precision=bf16 model=llama2_7b batch.global_batch_size=256",
    "zero3_fp16_offload": (
        "parallelism=zero3 precision=fp16 offload=optimizer optimizer=adamw optimizer.lr=2e-5 optimizer.weight_decay=0.01"
        " scheduler=warmup_lr scheduler.warmup_num_steps=100 hardware=a100x4"
    ),
    "zero2_two_nodes": (
        "parallelism=zero2 hardware=h100x8 hardware.num_nodes=2 precision=bf16 model=llama3_8b scheduler=warmup_decay train.steps=5e3"
        " batch.micro_batch_size=2 batch.gradient_accumulation_steps=4 activation_checkpointing=full"
    ),
    "zero1_fp32_accumulation": (
        "parallelism=zero1 hardware=h200x2 precision=bf16 precision.grad_accum_dtype=fp32 model=gpt_1b3 optimizer=lion"
        " scheduler=warmup_cosine train.steps=1000 activation_checkpointing=full"
    ),
    "ddp_lamb": "parallelism=ddp hardware=v100x4 precision=fp16 model=gpt2_124m optimizer=lamb scheduler=one_cycle train.steps=1000",
    "zeropp_four_nodes": (
        "parallelism=zeropp hardware=h100x8 hardware.num_nodes=4 precision=bf16 model=llama3_70b activation_checkpointing=full"
        " batch.global_batch_size=1024 batch.gradient_accumulation_steps=16 offload=optimizer"
    ),
    "zero3_nvme": (
        "parallelism=zero3 hardware=a100_40gb_x8 precision=bf16 model=llama3_70b activation_checkpointing=full offload=all_nvme"
        " 'offload.nvme_path=/a b'"
    ),
    "zero3_offload_all": (
        "parallelism=zero3 hardware=rtx4090_x2 hardware.host_memory_bytes=274877906944 precision=bf16 model=llama2_7b offload=all"
        " activation_checkpointing=full optimizer=adam"
    ),
    "sequence_parallel": (
        "parallelism=zero3 parallelism.sequence_parallel_degree=4 hardware=h200x8 precision=bf16 model=llama3_8b"
        " model.sequence_length=131072 batch.global_batch_size=16 activation_checkpointing=full"
    ),
    "sequence_parallel_zero2": "parallelism=zero2 parallelism.sequence_parallel_degree=8 hardware=a100x8 precision=fp16 model=gpt_1b3",
    "tensor_parallel": (
        "parallelism=zero1 parallelism.tensor_parallel_degree=2 hardware=b200x8 precision=bf16 model=llama2_13b"
        " activation_checkpointing=partitioned batch.global_batch_size=64"
    ),
    "tensor_parallel_zero3": "parallelism=zero3 parallelism.tensor_parallel_degree=4 hardware=a100x8 precision=bf16 model=llama3_8b",
    "cpu": "hardware=cpu",
    "no_model": "parallelism=zero2 hardware=l40s_x4 precision=fp32 model=none optimizer=adagrad",
    "muon": "parallelism=zero3 hardware=h200x4 precision=bf16 model=gpt_1b3 optimizer=muon scheduler=warmup_cosine",
    "tf32_tcp": (
        "parallelism=zero2 hardware=a10_x4 hardware.num_nodes=2 hardware.network_interface=eth0 communication.nccl_debug=INFO"
        " precision=tf32 model=gpt2_124m torchrun.rdzv_port=12345 torchrun.max_restarts=2"
    ),
    "lowmem_offload": "parallelism=zero2 hardware=a100x8 precision=bf16_lowmem model=gpt_1b3 offload=optimizer",
    "script_optimizer_overlay": (
        "parallelism=zero3 hardware=h100x8 precision=bf16 model=gpt_1b3 optimizer=none +deepspeed.steps_per_print=50"
        " +deepspeed.zero_optimization.sub_group_size=5e8 +deepspeed.flops_profiler.enabled=true +env.NCCL_NVLS_ENABLE=0"
    ),
}
MACHINE = Detected(cpus=8, host_memory_bytes=16 * 2**30, numa_nodes=1, reason="NVML is not installed")
HERE = Path(__file__).parent


@cache
def compiled(name: str) -> CompiledRun:
    composed = compose(_words(RUNS[name]))
    assert composed.diagnostics == []
    return compile_run(composed.container, origins=composed.origins, detect=lambda: MACHINE)


def _words(text: str) -> list[str]:
    import shlex

    return shlex.split(text)


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    if "golden" in metafunc.fixturenames:
        metafunc.parametrize("golden", RUNS)


@pytest.fixture(scope="session")
def runs() -> dict[str, str]:
    return RUNS


@pytest.fixture(scope="session")
def compile_golden() -> Callable[[str], CompiledRun]:
    return compiled


@pytest.fixture(scope="session")
def folder() -> Path:
    return HERE
