"""Configs as nobody would write them, but near enough to real ones that most of their values act."""

from __future__ import annotations

import copy
import random
from typing import Any

from zerocfg.deepspeed import keys

ODD: list[Any] = [
    *(True, False, 0, 1, 2, 3, -1, 8, 1.0, 0.5, 1.5, 5e8, "1", "true", "false", "auto", "cpu", "nvme", "bf16", "AdamW", "x", ""),
    *(None, [], ["a"], {}, {"a": 1}, {"enabled": True}, {"type": "AdamW"}, {"device": "cpu"}, {"a.b": 1, "no name": 2}),
]
USUAL: dict[str, list[Any]] = {
    "bool": [True, False],
    "int": [0, 1, 2, 8, 1000, 10**8],
    "float": [0.0, 0.5, 1.0, 1e-4],
    "str": ["abc", "/tmp/a b", "${x}"],
    "path": ["/nvme"],
    "list[str]": [["a.b"]],
    "list": [[1, 2]],
}
ALL = keys.all_keys()
ZERO = [key for key in ALL if key.path.startswith("zero_optimization.")]
PRECISION = [key for key in ALL if key.path.startswith(("fp16", "bf16", "data_types", "communication", "seq_par"))]
ARGUMENTS = {kind: [key for key in ALL if key.path.startswith(f"{kind}.params.")] for kind in ("optimizer", "scheduler")}
OPTIMIZERS = ["Adam", "AdamW", "adamw", "Lion", "Lamb", "Adagrad", "Muon", "SGD", "MuAdam", "OneBitAdam"]
SCHEDULERS = ["WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "LRRangeTest", "StepLR", "CosineAnnealingLR"]
OFTEN: list[tuple[float, str, list[Any]]] = [
    (0.8, "train_micro_batch_size_per_gpu", [1, 2, 4]),
    (0.4, "train_batch_size", [4, 8, 16, 32, 64, 7]),
    (0.5, "gradient_accumulation_steps", [1, 2, 8]),
    (0.9, "zero_optimization.stage", [0, 1, 2, 3, 3]),
    (0.3, "fp16.enabled", [True]),
    (0.3, "bf16.enabled", [True]),
    (0.4, "zero_optimization.offload_optimizer.device", ["cpu", "nvme", "none"]),
    (0.3, "zero_optimization.offload_param.device", ["cpu", "nvme", "none"]),
    (0.3, "zero_optimization.offload_optimizer.nvme_path", ["/nvme", "/other"]),
    (0.3, "zero_optimization.offload_param.nvme_path", ["/nvme", "/other"]),
    (0.6, "optimizer.type", OPTIMIZERS),
    (0.4, "optimizer.params.lr", [1e-4, 0, 5e-5, "auto"]),
    (0.4, "scheduler.type", SCHEDULERS),
    (0.2, "scheduler.params.total_num_steps", [50, 1000, "auto", 100.0]),
    (0.2, "scheduler.params.warmup_num_steps", [0, 1, 10, 200, "auto", 100.0]),
    (0.2, "tensor_parallel.autotp_size", [0, 1, 2, 4]),
    (0.15, "sequence_parallel_size", [1, 2, 4]),
    (0.15, "data_parallel_size", [1, 2, 4]),
    (0.1, "foo", [1]),
    (0.1, "zero_optimization.foo", [1]),
    (0.1, "_comment", ["what it is"]),
]


def config(source: random.Random) -> dict[str, Any]:
    made: dict[str, Any] = {}
    for share, path, values in OFTEN:
        if source.random() < share:
            _put(made, path, copy.deepcopy(source.choice(values)))
    for kind, arguments in ARGUMENTS.items():
        if kind in made:
            for key in source.sample(arguments, source.randint(0, 4)):
                _put(made, key.path, source.choice([_value(key, source), key.default, 1e-3]))
    for pool, most in ((ZERO, 4), (PRECISION, 3), (ALL, 4)):
        for key in source.sample(pool, source.randint(0, most)):
            _put(made, source.choice((key.path, *key.aliases)), _value(key, source))
    if source.random() < 0.05:
        made["fp16.enabled"] = True
    return made


def _value(key: keys.Key, source: random.Random) -> Any:
    pools: list[list[Any]] = [ODD, *[[key.default]] * 3, *[list(key.choices)] * (3 if key.choices else 0)]
    pools += [USUAL.get(key.kinds[0], [key.default])] * 5
    value = copy.deepcopy(source.choice(source.choice(pools)))
    return list(value) if isinstance(value, tuple) else value


def _put(config: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.replace("*", "m").split(".")
    node: Any = config
    for parent in parents:
        node = node.setdefault(parent, {}) if isinstance(node, dict) else None
    if isinstance(node, dict):
        node[last] = value
