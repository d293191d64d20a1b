"""Process group, model and engine, as the plan says; and whether they came out so."""

from __future__ import annotations

import logging
import os
import random
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from typing import TYPE_CHECKING, Any, TypeVar

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime.heartbeat import set_timeout
from zerocfg.runtime.leaf import mark_leaf_modules
from zerocfg.runtime.stage0 import forget_empty_step
from zerocfg.units import counted

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run

log = logging.getLogger("zerocfg")
T = TypeVar("T")
_SHM_OP = "deepspeed_shm_comm"


def start(run: Run) -> None:
    """Join the process group with the plan's backend. Raises ConfigProblems (ZC782) when that is not what came out."""
    import torch

    if torch.distributed.is_initialized() and run.engine is not None:
        return
    backend = run.plan.topology.backend
    cuda = run.plan.hardware.is_cuda
    if cuda:
        if not torch.cuda.is_available() or torch.cuda.device_count() <= run.local_rank:
            raise ConfigProblems([_no_gpu(run, torch)])
        torch.cuda.set_device(run.local_rank)
        if "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE" not in os.environ:
            torch.set_float32_matmul_precision("high" if run.plan.precision.tf32 else "highest")
    tame(cuda=cuda)
    import deepspeed

    first = not torch.distributed.is_initialized()
    timeout = collective_timeout(run)
    set_timeout(timeout.total_seconds())
    _default_for_new_groups(timeout)
    deepspeed.init_distributed(dist_backend=backend, timeout=timeout, verbose=False)
    actual = torch.distributed.get_backend()
    if actual != backend:
        raise ConfigProblems(
            [
                Diagnostic(
                    code="ZC782",
                    path="hardware.accelerator",
                    message=f"the process group runs on {actual}, the plan says {backend}",
                    hint="let run.build or run.initialize start the process group, before other code does",
                )
            ]
        )
    if first and run.rank == 0:
        log.info("%s, %s, %s", backend_name(run), counted(run.world_size, "rank"), torch.cuda.get_device_name() if cuda else "cpu")


def collective_timeout(run: Run) -> timedelta:
    """What the plan says, unless the user's environment has another DEEPSPEED_TIMEOUT, which is in minutes."""
    plan, theirs = run.plan.communication, os.environ.get("DEEPSPEED_TIMEOUT")
    if theirs is None or theirs == plan.environment.get("DEEPSPEED_TIMEOUT"):
        return timedelta(seconds=plan.timeout_seconds)
    return timedelta(minutes=int(theirs))


def _default_for_new_groups(timeout: timedelta) -> None:
    """DeepSpeed makes the groups that ZeRO runs on without a timeout (comm/torch.py:540, utils/groups.py:734): they get torch's
    default, 10 minutes with nccl and 30 with gloo, whatever the process group was given."""
    from torch.distributed import distributed_c10d

    for name in ("default_pg_timeout", "default_pg_nccl_timeout"):
        setattr(distributed_c10d, name, timeout)


def tame(*, cuda: bool) -> None:
    """Keep DeepSpeed from compiling what the run does not need, and from repeating itself."""
    # DeepSpeed 0.19 calls them at each collective, and torch 2.13 says so each time
    warnings.filterwarnings("ignore", r".*torch\.distributed\.\w+` is deprecated", FutureWarning)
    for noisy in ("compilers.C.base", "distutils"):
        # its search for libaio compiles a test program and logs the command
        logging.getLogger(noisy).setLevel(logging.WARNING)
    import deepspeed

    if not cuda:
        # it would compile a shared-memory all-reduce for a minute; gloo does the work
        deepspeed.ops.__compatible_ops__[_SHM_OP] = False


def backend_name(run: Run) -> str:
    import torch

    if run.plan.topology.backend != "nccl":
        return f"backend {run.plan.topology.backend}"
    return "backend nccl " + ".".join(map(str, torch.cuda.nccl.version()))


def build(run: Run, make: Callable[[], T]) -> T:
    """make(), seeded, with the plan's dtype on its device; at stage 3 under zero.Init, so that weights are sharded as they are made."""
    import deepspeed
    import torch

    start(run)
    seed_everything(run.plan.train.seed)
    if run.plan.zero.stage == 3:
        # the JSON has the dtype; an argument `dtype` becomes bf16 in DeepSpeed 0.19 on a CPU without fp16 instructions
        with deepspeed.zero.Init(config_dict_or_path=run.deepspeed_config):
            model = make()
    else:
        with _default_dtype(run.dtype), torch.device(run.device):
            model = make()
    # from here on ranks that see different samples draw different numbers (dropout)
    seed_everything(run.plan.train.seed + 1 + run.data_parallel_rank)
    return model


def initialize(run: Run, model: Any, kwargs: dict[str, Any]) -> Any:
    """deepspeed.initialize with the compiled JSON, resumed where there is a checkpoint. Returns the engine.

    kwargs: for deepspeed.initialize. Raises ConfigProblems where the engine is not what the plan promised.
    """
    import deepspeed

    start(run)
    config = run.deepspeed_config
    if run.plan.activation_checkpointing.enabled:
        deepspeed.checkpointing.configure(None, deepspeed_config=run.deepspeed_config)
    arguments = {"model_parameters": [p for p in model.parameters() if p.requires_grad], **kwargs}
    if run.plan.zero.find_leaf_modules:
        run.leaf_module_classes = mark_leaf_modules(model)
        if run.leaf_module_classes and run.rank == 0:
            names = ", ".join(run.leaf_module_classes)
            log.info("leaf modules: %s, each fetched as one; parallelism.leaf_module_classes=[] for none", names)
    engine, *_ = deepspeed.initialize(model=model, config=config, **arguments)
    if run.resume(engine).step == 0:
        forget_empty_step(engine.optimizer)
    compare(promised(run, own_optimizer="optimizer" in kwargs), effective(engine))
    return engine


def checkpoint(function: Callable[..., T], args: tuple[Any, ...]) -> T:
    """deepspeed.checkpointing.checkpoint, which loses count of its arguments where one is not a tensor (partition_activations)."""
    import deepspeed
    import torch

    tensor = object()
    # what stays with the graph until the loss is dropped must not hold the block's input: DeepSpeed lets that go after the backward pass
    places = [tensor if torch.is_tensor(arg) else arg for arg in args]

    def call(*tensors: Any) -> T:
        given = iter(tensors)
        return function(*(next(given) if place is tensor else place for place in places))

    made: T = deepspeed.checkpointing.checkpoint(call, *(arg for arg in args if torch.is_tensor(arg)))
    return made


def promised(run: Run, *, own_optimizer: bool = False) -> dict[str, object]:
    """What the plan says the engine does. own_optimizer: the script brings one, and its class is its own affair."""
    plan = run.plan
    values: dict[str, object] = {
        "zero_optimization.stage": plan.zero.stage,
        "train_micro_batch_size_per_gpu": plan.batch.micro_batch_size,
        "gradient_accumulation_steps": plan.batch.gradient_accumulation_steps,
        "dtype of the weights": plan.precision.dtype,
        "gradient_clipping": float(plan.optimizer.gradient_clipping),
        "zero_optimization.offload_optimizer.device": plan.offload.optimizer,
        "zero_optimization.offload_param.device": plan.offload.param,
        "backend": plan.topology.backend,
        "world size": plan.topology.world_size,
    }
    if plan.topology.tensor_parallel_degree == 1:
        # with AutoTP DeepSpeed counts each tensor-parallel rank as a data-parallel one
        values["train_batch_size"] = plan.batch.global_batch_size
    if plan.optimizer.type and not own_optimizer:
        values["optimizer.type"] = family(plan.optimizer.type)
        values["optimizer runs on"] = "cpu" if plan.offload.optimizer != "none" else plan.hardware.accelerator
    return values


def effective(engine: Any) -> dict[str, object]:
    """What the engine does, read off its objects where there is one to read, else off its parsed config."""
    import torch
    from deepspeed.accelerator import get_accelerator

    basic = type(engine.basic_optimizer).__name__ if engine.basic_optimizer is not None else ""
    # stages 1 and 2 call it cpu_offload, stage 3 offload_optimizer
    offloaded = any(getattr(engine.optimizer, name, False) for name in ("cpu_offload", "offload_optimizer"))
    weight = next(engine.module.parameters())
    names = {torch.float32: "fp32", torch.float16: "fp16", torch.bfloat16: "bf16"}
    return {
        "zero_optimization.stage": engine.zero_optimization_stage(),
        "train_micro_batch_size_per_gpu": engine.train_micro_batch_size_per_gpu(),
        "gradient_accumulation_steps": engine.gradient_accumulation_steps(),
        "train_batch_size": engine.train_batch_size(),
        "dtype of the weights": names.get(weight.dtype, str(weight.dtype)),
        "gradient_clipping": float(engine.gradient_clipping()),
        "zero_optimization.offload_optimizer.device": _device(engine.zero_offload_optimizer()),
        "zero_optimization.offload_param.device": _device(engine.zero_offload_param()),
        "backend": torch.distributed.get_backend(),
        "world size": torch.distributed.get_world_size(),
        "optimizer.type": family(basic),
        "optimizer runs on": "cpu" if offloaded else get_accelerator().device_name(),
    }


def compare(plan: dict[str, object], engine: dict[str, object]) -> None:
    """Raises ConfigProblems with a ZC781 for each value of the plan that the engine does not have."""
    problems = [
        Diagnostic(
            code="ZC781",
            path=f"deepspeed.{name}" if " " not in name else "",
            message=f"{name}: the plan says {wanted}, the engine has {engine.get(name)}",
            hint="run.initialize(model) with the compiled config as it is; or set the value in its config group",
        )
        for name, wanted in plan.items()
        if engine.get(name) != wanted
    ]
    if problems:
        raise ConfigProblems(problems)


def _device(section: Any) -> str:
    device = getattr(section, "device", None)
    return "none" if device is None else str(getattr(device, "value", device))


def family(name: str) -> str:
    """Of an optimizer's class or type: FusedAdam, AdamW and DeepSpeedCPUAdam are adam."""
    lowered = name.lower()
    return next((known for known in ("muon", "adagrad", "adam", "lion", "lamb") if known in lowered), lowered)


@contextmanager
def _default_dtype(dtype: Any) -> Iterator[None]:
    import torch

    before = torch.get_default_dtype()
    torch.set_default_dtype(dtype)
    try:
        yield
    finally:
        torch.set_default_dtype(before)


def seed_everything(seed: int) -> None:
    """Python's, numpy's and torch's generators, on every device."""
    import numpy
    import torch

    random.seed(seed)
    numpy.random.seed(seed % 2**32)
    torch.manual_seed(seed)


def _no_gpu(run: Run, torch: Any) -> Diagnostic:
    found = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return Diagnostic(
        code="ZC782",
        path="hardware.accelerator",
        message=f"rank {run.rank} is for GPU {run.local_rank} of its machine, and torch sees {found}",
        detail=(f"torch {torch.__version__}, built for CUDA {torch.version.cuda}",),
        hint="a CUDA build of torch that fits the driver, or hardware=cpu",
    )
