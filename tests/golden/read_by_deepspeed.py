"""Run by test_deepspeed.py in a process of its own: what DeepSpeed's config class makes of each golden JSON.

argv: the files. Ranks are not started: the world is one object with two answers, which is all that the class asks for.
"""

from __future__ import annotations

import inspect
import json
import sys
from pathlib import Path
from typing import Any

import torch
from deepspeed.ops.adagrad import DeepSpeedCPUAdagrad
from deepspeed.ops.adam import DeepSpeedCPUAdam, FusedAdam
from deepspeed.ops.lamb import FusedLamb
from deepspeed.ops.lion import DeepSpeedCPULion, FusedLion
from deepspeed.runtime import config as ds
from deepspeed.runtime import lr_schedules


class _Mesh:
    """What deepspeed.initialize hands over where the JSON has both sizes of a mesh."""

    def get_group(self, mesh_dim: str) -> str:
        return mesh_dim


class _Groups:
    """The module deepspeed.utils.groups as zero.Init hands it over with AutoTP."""

    def __init__(self, size: int) -> None:
        self.size = size

    def get_data_parallel_world_size(self) -> int:
        return self.size


def read(config: dict[str, Any], world: int, data_parallel: int) -> dict[str, Any]:
    ds.dist.get_rank = lambda: 0
    ds.dist.get_world_size = lambda group=None: data_parallel if group == "data_parallel" else world
    mesh = _Mesh() if "data_parallel_size" in config else None
    parsed = ds.DeepSpeedConfig(config, None, mesh_device=mesh)
    groups = _Groups(data_parallel) if "tensor_parallel" in config else None
    again = ds.DeepSpeedConfig(config, groups)  # zero.Init reads the JSON once more (partition_parameters.py:1077)
    models = {"zero_optimization": parsed.zero_config, "fp16": parsed.float16_config, "bf16": parsed.bfloat16_config}
    return {
        "batch": [parsed.train_batch_size, parsed.train_micro_batch_size_per_gpu, parsed.gradient_accumulation_steps],
        "batch_in_zero_init": [again.train_batch_size, again.train_micro_batch_size_per_gpu, again.gradient_accumulation_steps],
        "gradient_clipping": parsed.gradient_clipping,
        "stage": int(parsed.zero_optimization_stage),
        "fp16": parsed.float16_config.enabled,
        "bf16": parsed.bfloat16_config.enabled,
        "optimizer": [parsed.optimizer_name, parsed.optimizer_params],
        "optimizer_refuses": _refused_by_optimizer(parsed),
        "scheduler": [parsed.scheduler_name, parsed.scheduler_params],
        "rates": _rates(parsed),
        "offload": [_device(parsed.zero_config.offload_optimizer), _device(parsed.zero_config.offload_param)],
        "grad_accum_dtype": parsed.grad_accum_dtype,
        "communication": [str(parsed.communication_data_type), str(parsed.seq_parallel_communication_data_type)],
        "autotp_size": parsed.tensor_parallel_config.autotp_size,
        "activation_checkpointing": parsed.activation_checkpointing_config.repr(),
        "sections": {name: model.model_dump(mode="json", by_alias=True) for name, model in models.items() if name in config},
    }


def _device(section: Any) -> str:
    return "none" if section is None else str(section.device)


def _refused_by_optimizer(parsed: Any) -> list[str]:
    """Names among optimizer.params that the class which the engine would build does not take (engine.py:2377-2560)."""
    if parsed.optimizer_name is None:
        return []
    params, offloaded = dict(parsed.optimizer_params), _device(parsed.zero_config.offload_optimizer) != "none"
    name = parsed.optimizer_name
    if name == "muon":
        return sorted(set(params) - {"lr", "muon_lr", "adam_lr", "momentum", "weight_decay", "betas", "eps", "torch_adam"})
    if name in ("adam", "adamw"):
        params.pop("adam_w_mode", None)
        own = DeepSpeedCPUAdam if offloaded else FusedAdam
        taken = torch.optim.AdamW if params.pop("torch_adam", False) else own
    else:
        on_gpu = {"lion": FusedLion, "lamb": FusedLamb, "adagrad": torch.optim.Adagrad}
        taken = {"lion": DeepSpeedCPULion, "adagrad": DeepSpeedCPUAdagrad}[name] if offloaded else on_gpu[name]
    return sorted(set(params) - set(inspect.signature(taken.__init__).parameters))


def _rates(parsed: Any) -> list[float]:
    """The schedule's rate at its first steps and at its end, with an optimizer of one parameter group."""
    if parsed.scheduler_name is None:
        return []
    weight = torch.nn.Parameter(torch.zeros(1))
    optimizer = torch.optim.AdamW([weight], lr=parsed.optimizer_params["lr"])
    schedule = getattr(lr_schedules, parsed.scheduler_name)(optimizer, **parsed.scheduler_params)
    total = parsed.scheduler_params.get("total_num_steps", 2 * parsed.scheduler_params.get("cycle_first_step_size", 100))
    rates = []
    for _ in range(total + 1):
        rates.append(optimizer.param_groups[0]["lr"])
        schedule.step()
    return [rates[0], max(rates), rates[-1]]


def main() -> None:
    found = {}
    for name, world, data_parallel in (argument.rsplit(":", 2) for argument in sys.argv[1:]):
        found[name] = read(json.loads(Path(name).read_text(encoding="utf-8"))["deepspeed"], int(world), int(data_parallel))
    print("\n" + json.dumps(found))


if __name__ == "__main__":
    main()
