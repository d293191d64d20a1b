"""Sections that DeepSpeed looks up in the plain dict: their defaults, and the names its source reads.

No object of DeepSpeed lists these keys. Two views of the release stand in for a list: what its parsers answer for an empty
config (defaults), and the names its reading functions hand to `.get()`, `get_scalar_param()`, `[...]` and `in` (found in
the syntax tree, constants resolved). A new raw key of a new release shows up in the second.
"""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

from zerocfg.deepspeed.catalogue import ENTRIES
from zerocfg.deepspeed.catalogue.entry import FROM_RELEASE

READERS: tuple[str, ...] = (
    "deepspeed.runtime.config",
    "deepspeed.runtime.precision_config",
    "deepspeed.runtime.zero.config",
    "deepspeed.runtime.activation_checkpointing.config",
    "deepspeed.profiling.config",
    "deepspeed.autotuning.config",
    "deepspeed.runtime.data_pipeline.config",
    "deepspeed.runtime.swap_tensor.aio_config",
    "deepspeed.runtime.model_checkpointing.config",
    "deepspeed.module_inject.auto_ep_config",
    "deepspeed.module_inject.autotp_config",
    "deepspeed.monitor.config",
    "deepspeed.comm.config",
    "deepspeed.utils.config",
    "deepspeed.datastates.config",
    "deepspeed.runtime.tensor_parallel.config",
)
"""Modules in which every name read is a key (or on IGNORED)."""

IGNORED = frozenset(
    {
        ".",  # a test for dots in a name
        "_tp_plan",  # an attribute of Hugging Face models
        "deprecated",  # json_schema_extra of pydantic fields
        "new_param",
        "new_param_fn",
        "set_new_param",
        "data_parallel",  # name of a mesh dimension, and a key of checkpoint.writer
        "classes",  # container coercion of leaf_module, whose keys are its model's
        "names",
        "name_suffixes",
        "torch_dist_init_args",
        "max_grad_norm",  # looked for in optimizer.params, to refuse it
    }
)


def observed_names(module: ModuleType) -> set[str]:
    """The names that the functions of `module` look up in dicts."""
    found: set[str] = set()
    for node in ast.walk(ast.parse(inspect.getsource(module))):
        asked: list[ast.expr] = []
        if isinstance(node, ast.Call):
            called = node.func.attr if isinstance(node.func, ast.Attribute) else getattr(node.func, "id", "")
            if called in ("get", "pop") and node.args:
                asked = node.args[:1]
            elif called in ("get_scalar_param", "get_dict_param", "get_list_param") and len(node.args) > 1:
                asked = node.args[1:2]
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            asked = [node.left]
        for expression in asked:
            name = _constant(expression, module)
            if name is not None:
                found.add(name)
    return found


def _constant(expression: ast.expr, module: ModuleType) -> str | None:
    if isinstance(expression, ast.Constant):
        return expression.value if isinstance(expression.value, str) else None
    if isinstance(expression, ast.Name) and expression.id.isupper():
        value = getattr(module, expression.id, None)
        return value if isinstance(value, str) else None
    return None


def raw_defaults() -> dict[str, object]:
    """Path -> default, as the parsers of the release answer for an empty config."""
    from deepspeed.autotuning.config import DeepSpeedAutotuningConfig
    from deepspeed.module_inject.auto_ep_config import AutoEPConfig
    from deepspeed.module_inject.autotp_config import AutoTPConfig
    from deepspeed.profiling.config import DeepSpeedFlopsProfilerConfig
    from deepspeed.runtime import config, constants
    from deepspeed.runtime.activation_checkpointing.config import DeepSpeedActivationCheckpointingConfig
    from deepspeed.runtime.data_pipeline.config import get_data_efficiency_config
    from deepspeed.runtime.model_checkpointing.config import get_checkpoint_config
    from deepspeed.runtime.swap_tensor.aio_config import get_aio_config

    found: dict[str, object] = {}
    top = {entry.path for entry in ENTRIES if "." not in entry.path}
    for name, value in vars(constants).items():
        if isinstance(value, str) and value in top and f"{name}_DEFAULT" in vars(constants):
            found[value] = getattr(constants, f"{name}_DEFAULT")
    found["optimizer.legacy_fusion"] = constants.LEGACY_FUSION_DEFAULT
    for name in ("grad_accum_dtype", "param_dtype", "buffer_dtype", "keep_in_fp32_modules"):
        found[f"data_types.{name}"] = getattr(constants, f"{name.upper()}_DEFAULT")
    found["checkpoint.load_universal"] = constants.LOAD_UNIVERSAL_CHECKPOINT_DEFAULT
    found["checkpoint.use_node_local_storage"] = constants.USE_NODE_LOCAL_STORAGE_CHECKPOINT_DEFAULT
    found["checkpoint.parallel_write.pipeline_stage"] = config.get_checkpoint_parallel_write_pipeline({})
    found["torch_autocast.enabled"] = constants.TORCH_AUTOCAST_ENABLED_DEFAULT
    _spread("activation_checkpointing", vars(DeepSpeedActivationCheckpointingConfig({})), found)
    _spread("flops_profiler", vars(DeepSpeedFlopsProfilerConfig({})), found)
    _spread("pipeline", config.get_pipeline_config({}), found)
    _spread("aio", get_aio_config({}), found)
    _spread("checkpoint", get_checkpoint_config({"checkpoint": {"writer": {}}}), found)
    _spread("data_efficiency", get_data_efficiency_config({}), found)
    tuning = dict(vars(DeepSpeedAutotuningConfig({})))
    for unused in ("start_step", "end_step", "model_info"):  # attributes of the class that no key fills
        tuning.pop(unused, None)
    _spread("autotuning", tuning, found)
    experts = {name: value for name, value in vars(AutoEPConfig()).items() if not name.startswith("_")}
    experts["expert_w3"] = None  # a sentinel object stands for "follow the preset"
    _spread("expert_parallel", experts, found)
    _spread("tensor_parallel.partition_config", vars(AutoTPConfig()), found)
    return found


def _spread(section: str, values: dict[str, Any], found: dict[str, object]) -> None:
    for name, value in values.items():
        if isinstance(value, dict):
            _spread(f"{section}.{name}", value, found)
        else:
            found[f"{section}.{name}"] = value


def raw_complaints() -> list[str]:
    """What the raw part of the catalogue and the release disagree about."""
    import importlib

    complaints: list[str] = []
    described = {entry.path: entry for entry in ENTRIES if entry.reader == "raw"}
    for path, default in raw_defaults().items():
        entry = described.get(path)
        if entry is None:
            complaints.append(f"added: {path} (default {default!r}) is new in the release; describe it in catalogue/")
        elif entry.default is not FROM_RELEASE and (type(entry.default), entry.default) != (type(default), default):
            complaints.append(f"changed: default of {path}: {entry.default!r} in the catalogue, {default!r} in the release")
    known = {part for entry in ENTRIES for part in entry.path.split(".")}
    known |= {alias.rpartition(".")[2] for entry in ENTRIES for alias in entry.aliases}
    observed: set[str] = set()
    for module in READERS:
        names = observed_names(importlib.import_module(module))
        observed |= names
        for name in sorted(names - known - IGNORED):
            complaints.append(f"added: {module} reads {name!r}; describe it in catalogue/ or add it to IGNORED")
    probed = raw_defaults()
    for path in described:
        name = path.rpartition(".")[2]
        if path not in probed and name not in observed and not _mentioned(name):
            complaints.append(f"removed: nothing in the release reads {path}")
    return complaints


_ELSEWHERE: tuple[str, ...] = (
    "deepspeed",
    "deepspeed.runtime.data_pipeline.constants",
    "deepspeed.runtime.constants",
    "deepspeed.autotuning.constants",
    "deepspeed.compile.custom_ops.sp_dp_registry",
    "deepspeed.runtime.pipe.engine",
)
"""Modules outside READERS that name keys: as a string constant, or as the value of a module constant."""


def _mentioned(name: str) -> bool:
    import importlib

    if name == "*":
        return True
    for reference in _ELSEWHERE:
        module = importlib.import_module(reference)
        if any(value == name for value in vars(module).values() if isinstance(value, str)):
            return True
        source = inspect.getsource(module)
        if f'"{name}"' in source or f"'{name}'" in source:
            return True
    return False
