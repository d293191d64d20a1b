"""What each "auto" becomes: Hugging Face Trainer's argument given beside the file, that argument's default, or zerocfg's own rule."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from zerocfg.deepspeed.importer.migrate import Draft
from zerocfg.deepspeed.keys import lookup
from zerocfg.diagnostics import ConfigProblems, Diagnostic

HF_DEFAULTS: dict[str, Any] = {
    "per_device_train_batch_size": 8,
    "gradient_accumulation_steps": 1,
    "learning_rate": 5e-5,
    "weight_decay": 0.0,
    "adam_beta1": 0.9,
    "adam_beta2": 0.999,
    "adam_epsilon": 1e-8,
    "max_grad_norm": 1.0,
    "warmup_steps": 0,
    "warmup_ratio": 0.0,
    "max_steps": -1,
    "fp16": False,
    "bf16": False,
}
"""transformers.TrainingArguments' defaults for what its DeepSpeed integration fills in."""

LAUNCHER: dict[str, str] = {
    "num_gpus": "hardware.gpus_per_node",
    "num_nodes": "hardware.num_nodes",
    "nproc_per_node": "hardware.gpus_per_node",
    "nproc-per-node": "hardware.gpus_per_node",
    "nnodes": "hardware.num_nodes",
}
"""Arguments of the deepspeed launcher and of torchrun -> config path."""

# auto -> the Trainer argument that decides it
_FROM_ARGUMENT = {
    "train_micro_batch_size_per_gpu": "per_device_train_batch_size",
    "gradient_accumulation_steps": "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
}
_FIXED = {"scheduler.params.warmup_min_lr": (0, "the Trainer always uses 0")}


def read_arguments(arguments: Sequence[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Command-line arguments -> (Trainer arguments, config values from launcher arguments). Raises ConfigProblems (ZC908)."""
    trainer: dict[str, Any] = {}
    launcher: dict[str, Any] = {}
    problems: list[Diagnostic] = []
    rest = list(arguments)
    while rest:
        word = rest.pop(0)
        name, equals, text = word.removeprefix("--").partition("=")
        key = name.replace("-", "_")
        if not word.startswith("--") or (key not in HF_DEFAULTS and name not in LAUNCHER and key not in LAUNCHER):
            problems.append(_unknown(word))
            if rest and not rest[0].startswith("--"):
                rest.pop(0)
            continue
        if not equals:
            is_flag = isinstance(HF_DEFAULTS.get(key), bool)
            if rest and not rest[0].startswith("--"):
                text = rest.pop(0)
            elif is_flag:
                text = "true"
        value = _value(key, text)
        if value is None:
            problems.append(_unknown(f"{word} {text}".strip()))
        elif key in HF_DEFAULTS:
            trainer[key] = value
        else:
            launcher[LAUNCHER[name] if name in LAUNCHER else LAUNCHER[key]] = value
    if problems:
        raise ConfigProblems(problems)
    return trainer, launcher


def _value(key: str, text: str) -> Any:
    default = HF_DEFAULTS.get(key, 1)
    try:
        if isinstance(default, bool):
            return {"true": True, "false": False, "1": True, "0": False}[text.lower()]
        return int(text) if isinstance(default, int) else float(text)
    except (KeyError, ValueError):
        return None


def _unknown(word: str) -> Diagnostic:
    known = ", ".join(f"--{name}" for name in (*HF_DEFAULTS, "num_gpus", "num_nodes"))
    return Diagnostic(code="ZC908", path=word, message=f"{word} is not an argument that decides a DeepSpeed value", hint=f"one of {known}")


AUTO_CODES: dict[str, str] = {"ZC908": "An argument beside the file that decides no DeepSpeed value."}


def resolve_autos(draft: Draft, trainer: Mapping[str, Any]) -> None:
    """Replace or drop each "auto" that DeepSpeed itself does not understand."""

    def argument(name: str) -> tuple[Any, str]:
        given = name in trainer
        value = trainer[name] if given else HF_DEFAULTS[name]
        return value, f"--{name}{'' if given else ', its default'}"

    for path in [p for p, v in draft.leaves.items() if v == "auto"]:
        key = lookup(path)
        if key is not None and '"auto"' in key.kinds:
            continue
        if path in _FROM_ARGUMENT:
            value, source = argument(_FROM_ARGUMENT[path])
        elif path in _FIXED:
            value, source = _FIXED[path]
        elif path == "optimizer.params.betas":
            (first, source), (second, _) = argument("adam_beta1"), argument("adam_beta2")
            value = [first, second]
        elif path == "scheduler.params.warmup_num_steps":
            value, source = _warmup(trainer)
        elif path == "scheduler.params.total_num_steps":
            value, source = trainer.get("max_steps", -1), "--max_steps"
            if value < 1:
                draft.drop(path, "ZC904", "auto: train.steps decides (no --max_steps given)")
                continue
        else:
            why = "DeepSpeed reads no such key" if key is None else "left to zerocfg, which says in `zerocfg explain` what it chose"
            draft.drop(path, "ZC904", f"auto: {why}")
            continue
        draft.leaves[path] = value
        draft.note(path, "ZC904", f"auto became {value} from {source}")


def _warmup(trainer: Mapping[str, Any]) -> tuple[int, str]:
    if trainer.get("warmup_steps", 0) > 0:
        return int(trainer["warmup_steps"]), "--warmup_steps"
    steps = trainer.get("max_steps", -1)
    if trainer.get("warmup_ratio", 0.0) > 0 and steps > 0:
        return max(2, round(steps * trainer["warmup_ratio"])), f"--warmup_ratio x --max_steps = {trainer['warmup_ratio']} x {steps}"
    return 2, "--warmup_steps (0 is no warm-up; DeepSpeed's least is 2)"
