"""Arguments given beside the file: Hugging Face's Trainer, accelerate, and the launchers. What decides no DeepSpeed value is
never taken in silence."""

from __future__ import annotations

import difflib
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity
from zerocfg.units import counted

ARGUMENT_CODES: dict[str, str] = {
    "ZC920": "An argument beside the file that is not known, or has no such value.",
    "ZC921": "An argument beside the file decides nothing in it.",
    "ZC922": "An argument beside the file contradicts it.",
    "ZC923": "The arguments beside the file name two different world sizes.",
}

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

HF_SHORT = {"fp16_full_eval": "fp16", "bf16_full_eval": "bf16"}
"""Arguments that switch the same thing on."""


@dataclass
class Arguments:
    """What the arguments say, by Hugging Face's names, and the machines that the launcher was given."""

    trainer: dict[str, Any] = field(default_factory=dict)
    zero: dict[str, Any] = field(default_factory=dict)
    """accelerate's own: JSON path -> value, for keys that its "auto" leaves to it."""
    num_nodes: int | None = None
    gpus_per_node: int | None = None
    world_size: int | None = None
    """accelerate's --num_processes counts all machines."""
    notes: list[Diagnostic] = field(default_factory=list)
    """Arguments of the script itself."""

    @property
    def world(self) -> int | None:
        """Ranks of the run, as far as the arguments say."""
        if self.world_size is not None:
            return self.world_size
        return None if self.gpus_per_node is None else self.gpus_per_node * (self.num_nodes or 1)


@dataclass(frozen=True)
class _Known:
    """How one argument is read."""

    convert: Callable[[str], Any]
    store: Callable[[Arguments, Any], None]
    flag: Any = None
    """Its value when it stands alone; None: it needs one."""


def read_arguments(words: Sequence[str], script: Sequence[str] = ()) -> Arguments:
    """Read command-line arguments.

    words: each must be known. script: what stood after `--`; unknown ones are the training script's own and only noted.
    Raises ConfigProblems with all of ZC920 and ZC923.
    """
    arguments, problems, left = Arguments(), [], []
    for lenient, given in ((False, words), (True, script)):
        for name, text, word in _pairs(given):
            known = _KNOWN.get(name)
            if known is None and lenient and not _typo(name):
                left.append(word)
            elif known is None:
                problems.append(_unknown(word, name))
            else:
                value = known.flag if text is None else _convert(known, text)
                if value is None:
                    problems.append(_bad_value(word, text))
                else:
                    known.store(arguments, value)
    if arguments.world_size is not None and arguments.gpus_per_node is not None:
        product = arguments.gpus_per_node * (arguments.num_nodes or 1)
        if product != arguments.world_size:
            problems.append(two_worlds("--num_processes", arguments.world_size, "GPUs a node x nodes", product))
    if problems:
        raise ConfigProblems(problems)
    if left:
        arguments.notes.append(_left(left))
    return arguments


def two_worlds(first: str, size: int, second: str, other: int) -> Diagnostic:
    return Diagnostic(code="ZC923", message=f"{first} is {counted(size, 'rank')}, {second} is {other}", hint="give one of them")


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None, str]]:
    """(name, value or None, as written); a value may follow after a blank or an =."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        if not word.startswith("--") or word == "--":
            yield "", None, word
            continue
        name, equals, text = word[2:].partition("=")
        name = name.replace("-", "_")
        if equals:
            yield name, text, word
        elif rest and not rest[0].startswith("--") and not (_is_flag(name) and rest[0].lower() not in _TRUTH):
            yield name, rest.pop(0), word
        else:
            yield name, None, word


_TRUTH = {"true": True, "false": False, "1": True, "0": False, "yes": True, "no": False}


def _is_flag(name: str) -> bool:
    known = _KNOWN.get(name)
    return known is not None and known.flag is not None


def _convert(known: _Known, text: str) -> Any:
    try:
        return known.convert(text)
    except (KeyError, ValueError):
        return None


def _truth(text: str) -> bool:
    return _TRUTH[text.lower()]


def _count(text: str) -> int:
    if (number := int(text)) < 1:
        raise ValueError
    return number


def _steps(text: str) -> int:
    if (number := int(text)) < -1:
        raise ValueError
    return number


def _rate(text: str) -> float:
    number = float(text)
    if not math.isfinite(number) or number < 0:
        raise ValueError
    return number


def _ratio(text: str) -> float:
    if (number := _rate(text)) > 1:
        raise ValueError
    return number


def _nodes(text: str) -> int:
    """torchrun also takes MIN:MAX; both must be the same here."""
    least, _, most = text.partition(":")
    if most and most != least:
        raise ValueError
    return _count(least)


def _precision(text: str) -> str:
    if text not in ("no", "fp16", "bf16"):
        raise ValueError
    return text


def _stage(text: str) -> int:
    if text not in ("0", "1", "2", "3"):
        raise ValueError
    return int(text)


def _device(text: str) -> str:
    if text not in ("none", "cpu", "nvme"):
        raise ValueError
    return text


def _trainer(name: str, convert: Callable[[str], Any], flag: Any = None) -> _Known:
    return _Known(convert, lambda arguments, value: arguments.trainer.__setitem__(name, value), flag)


def _launcher(name: str, convert: Callable[[str], Any] = _count) -> _Known:
    return _Known(convert, lambda arguments, value: setattr(arguments, name, value))


def _zero(path: str, convert: Callable[[str], Any]) -> _Known:
    return _Known(convert, lambda arguments, value: arguments.zero.__setitem__(path, value))


def _mixed(arguments: Arguments, name: str) -> None:
    for half in ("fp16", "bf16"):
        arguments.trainer[half] = name == half


_CONVERT: dict[type, Callable[[str], Any]] = {float: _rate, int: _count, bool: _truth}
_ZERO = "zero_optimization"
_KNOWN: dict[str, _Known] = {
    **{name: _trainer(name, _CONVERT[type(default)], True if isinstance(default, bool) else None) for name, default in HF_DEFAULTS.items()},
    "warmup_steps": _trainer("warmup_steps", _steps),
    "max_steps": _trainer("max_steps", _steps),
    "warmup_ratio": _trainer("warmup_ratio", _ratio),
    **{name: _trainer(same, _truth, True) for name, same in HF_SHORT.items()},
    "gradient_clipping": _trainer("max_grad_norm", _rate),
    "mixed_precision": _Known(_precision, _mixed),
    "zero_stage": _zero(f"{_ZERO}.stage", _stage),
    "offload_optimizer_device": _zero(f"{_ZERO}.offload_optimizer.device", _device),
    "offload_param_device": _zero(f"{_ZERO}.offload_param.device", _device),
    "offload_optimizer_nvme_path": _zero(f"{_ZERO}.offload_optimizer.nvme_path", str),
    "offload_param_nvme_path": _zero(f"{_ZERO}.offload_param.nvme_path", str),
    "zero3_save_16bit_model": _zero(f"{_ZERO}.stage3_gather_16bit_weights_on_model_save", _truth),
    "num_gpus": _launcher("gpus_per_node"),
    "nproc_per_node": _launcher("gpus_per_node"),
    "num_nodes": _launcher("num_nodes"),
    "nnodes": _launcher("num_nodes", _nodes),
    "num_machines": _launcher("num_nodes"),
    "num_processes": _launcher("world_size"),
}
"""Every argument that decides a DeepSpeed value or the machines, - read as _."""


def _typo(name: str) -> bool:
    """Close enough to a known argument to be one mistyped: the script is not asked."""
    return bool(difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.93))


def _left(words: Sequence[str]) -> Diagnostic:
    message = f"left to the script, as no DeepSpeed value follows from it: {', '.join(words)}"
    return Diagnostic(code="ZC921", severity=Severity.NOTE, path=words[0].partition("=")[0], message=message)


def _unknown(word: str, name: str) -> Diagnostic:
    near = difflib.get_close_matches(name, _KNOWN, n=1, cutoff=0.6)
    known = ", ".join(f"--{known}" for known in _KNOWN)
    return Diagnostic(
        code="ZC920",
        path=word.partition("=")[0],
        message=f"{word} is no argument that decides a DeepSpeed value",
        detail=(f"known: {known}",),
        hint=f"--{near[0]}" if near else "the script's own arguments after --",
    )


def _bad_value(word: str, text: str | None) -> Diagnostic:
    shown = word.partition("=")[0]
    message = f"{shown} needs a value" if text is None else f"{shown}={text} is no value that it takes"
    return Diagnostic(code="ZC920", path=shown, message=message, hint=f"{shown} VALUE, as the Trainer or the launcher takes it")
