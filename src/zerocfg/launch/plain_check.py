"""What can be said of a script and its arguments before it is started. Pure, but for a look at the script's file."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from zerocfg.deepspeed.importer.arguments import HF_DEFAULTS, HF_SHORT
from zerocfg.deepspeed.importer.autos import BETAS, FROM_ARGUMENT
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.launch.plain_rank import DS_CONFIG, PLACEHOLDER

_STARTERS = {"python", "python3", "torchrun", "deepspeed", "accelerate", "mpirun", "srun", "bash", "sh"}
_LOCAL_RANK = ("--local_rank", "--local-rank")
_JSON_OPTIONS = ("--deepspeed", "--deepspeed_config", "--deepspeed-config", "--deepscale_config")
_GROUPS = {
    "train_micro_batch_size_per_gpu": "batch.micro_batch_size",
    "gradient_accumulation_steps": "batch.gradient_accumulation_steps",
    "gradient_clipping": "optimizer.gradient_clipping",
    "optimizer.params.lr": "optimizer.lr",
    "optimizer.params.eps": "optimizer.eps",
    "optimizer.params.weight_decay": "optimizer.weight_decay",
    "optimizer.params.betas": "optimizer.betas",
    "scheduler.params.warmup_max_lr": "optimizer.lr",
}
"""JSON path -> the override that decides it."""
_TRUTH = {"true": True, "t": True, "yes": True, "y": True, "1": True, "false": False, "f": False, "no": False, "n": False, "0": False}


def check_program(words: Sequence[str]) -> Iterator[Diagnostic]:
    """ZC750 no script to run, ZC751 a local rank. words: what followed `--`."""
    hint = "zerocfg launch OVERRIDES -- SCRIPT.py ARGUMENTS, or -- -m MODULE ARGUMENTS"
    first = words[0] if words else ""
    if first == "-m":
        if len(words) < 2 or words[1].startswith("-"):
            yield _no_program("-m needs the name of a module", hint)
    elif Path(first).name in _STARTERS and not Path(first).is_file():
        yield _no_program(f"{first} is no script: zerocfg starts the ranks itself, with its own Python", hint)
    elif not first or first.startswith("-"):
        yield _no_program(f"{first or 'nothing'} is no script", hint)
    elif not Path(first).exists():
        yield _no_program(f"there is no {first} in {Path.cwd()}", hint)
    elif Path(first).suffix in (".sh", ".bash") or (Path(first).is_dir() and not (Path(first) / "__main__.py").is_file()):
        yield _no_program(f"{first} is not a Python script", hint)
    for word in words[1:]:
        if word.partition("=")[0] in _LOCAL_RANK:
            yield Diagnostic(
                code="ZC751",
                path=word.partition("=")[0],
                message=f"{word}: each rank has its own, in the environment: LOCAL_RANK",
                detail=("torchrun sets it, and adds no argument",),
                hint=f"leave {word.partition('=')[0]} out; in the script: int(os.environ['LOCAL_RANK'])",
            )


def _no_program(message: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC750", message=message, hint=hint)


def check_json_reaches(words: Sequence[str]) -> Iterator[Diagnostic]:
    """ZC753 another JSON; ZC754 (note) none, and the script names neither the variable nor zerocfg."""
    pairs = list(_pairs(words))
    for name, value in pairs:
        if name in _JSON_OPTIONS and value is not None and PLACEHOLDER not in value and (value.endswith(".json") or Path(value).is_file()):
            yield Diagnostic(
                code="ZC753",
                path=name,
                message=f"{name} {value} is not the JSON that was compiled: batch, ZeRO stage and precision would be that file's",
                hint=f"{name} {PLACEHOLDER}; `zerocfg import {shlex.quote(value)}` turns the file into overrides",
            )
            return
    if any(PLACEHOLDER in word for word in words) or words[0] == "-m" or _mentions(Path(words[0])):
        return
    yield Diagnostic(
        code="ZC754",
        severity=Severity.NOTE,
        message=f"no argument holds {PLACEHOLDER}, and {words[0]} reads neither {DS_CONFIG} nor zerocfg.current_run()",
        hint=f"--deepspeed_config {PLACEHOLDER} (Trainer: --deepspeed {PLACEHOLDER}), or os.environ['{DS_CONFIG}'] in the script",
    )


def _mentions(script: Path) -> bool:
    try:
        text = script.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return True  # a folder or an archive: not looked into
    return DS_CONFIG in text or "zerocfg" in text


def check_trainer(words: Sequence[str], deepspeed: Mapping[str, Any]) -> Iterator[Diagnostic]:
    """ZC752 for each of the Trainer's arguments that the compiled JSON contradicts: the Trainer refuses the pair at its start.

    An error where the argument is given, a warning where its default counts: the script may have its own. Nothing for a
    script that is not given the JSON as the Trainer takes it, nor --per_device_train_batch_size.
    """
    pairs = list(_pairs(words[1:]))
    takes_json = any(name == "--deepspeed" and value is not None and PLACEHOLDER in value for name, value in pairs)
    given = _given(pairs)
    if not takes_json and "per_device_train_batch_size" not in given:
        return
    for path, argument in FROM_ARGUMENT.items():
        written = _leaf(deepspeed, path)
        if written is None and argument in ("fp16", "bf16"):
            written = False  # accelerate would write the section itself
        if written is None:
            if argument in given and path.partition(".")[0] in (deepspeed if "." in path else {path}):
                yield _without_effect(path, argument, given[argument])
        elif given.get(argument, HF_DEFAULTS[argument]) != written:
            yield _disagrees(path, written, {argument: given.get(argument)})
    betas = _leaf(deepspeed, BETAS)
    names = ("adam_beta1", "adam_beta2")
    if isinstance(betas, list) and [given.get(name, HF_DEFAULTS[name]) for name in names] != betas:
        yield _disagrees(BETAS, betas, {name: given.get(name) for name in names})


def _given(pairs: Sequence[tuple[str, str | None]]) -> dict[str, Any]:
    """The Trainer's arguments that stand on the line, by its names; a value that it would not take is left to it."""
    found: dict[str, Any] = {}
    for option, text in pairs:
        name = option.removeprefix("--").replace("-", "_")
        name = HF_SHORT.get(name, name)
        if name not in HF_DEFAULTS:
            continue
        try:
            found[name] = _value(type(HF_DEFAULTS[name]), text)
        except (KeyError, ValueError, TypeError):
            continue
    return found


def _value(kind: type, text: str | None) -> Any:
    if kind is bool:
        return True if text is None else _TRUTH[text.lower()]
    return kind(text)


def _pairs(words: Sequence[str]) -> Iterator[tuple[str, str | None]]:
    """(--name, value or None); a value follows after a blank or an =."""
    rest = list(words)
    while rest:
        word = rest.pop(0)
        name, equals, text = word.partition("=")
        if not word.startswith("--"):
            continue
        if equals:
            yield name, text
        elif rest and not rest[0].startswith("--"):
            yield name, rest.pop(0)
        else:
            yield name, None


def _leaf(config: Mapping[str, Any], path: str) -> Any:
    node: Any = config
    for name in path.split("."):
        node = node.get(name) if isinstance(node, Mapping) else None
    return node


def _disagrees(path: str, written: Any, arguments: Mapping[str, Any]) -> Diagnostic:
    missing = all(value is None for value in arguments.values())
    said = " ".join(f"--{name}={_shown(HF_DEFAULTS[name] if value is None else value)}" for name, value in arguments.items())
    values = written if isinstance(written, list) else [written]
    change = " ".join(_option(name, value) for name, value in zip(arguments, values, strict=True))
    override = _override(path, [HF_DEFAULTS[name] if value is None else value for name, value in arguments.items()])
    return Diagnostic(
        code="ZC752",
        severity=Severity.WARNING if missing else Severity.ERROR,
        path=path,
        message=f"{said}{' is the default of' if missing else ' is given to'} the Trainer, the compiled JSON says {path}={_shown(written)}",
        detail=(f"the Trainer refuses the pair{', unless the script has a default of its own' if missing else ''}",),
        hint=f"{change or 'leave it out'} after --" + (f", or {override} before it" if override else ""),
    )


def _option(name: str, written: Any) -> str:
    if isinstance(written, bool):
        return f"--{name}" if written else ""
    return f"--{name} {_shown(written)}"


def _override(path: str, values: Sequence[Any]) -> str:
    if path in ("bf16.enabled", "fp16.enabled"):
        return f"precision={path.partition('.')[0]}" if values[0] else "precision=fp32"
    group = _GROUPS.get(path, "")
    text = f"[{','.join(map(_shown, values))}]" if len(values) > 1 else _shown(values[0])
    return f"{group}={text}" if group else ""


def _without_effect(path: str, argument: str, value: Any) -> Diagnostic:
    override = _override(path, [value])
    return Diagnostic(
        code="ZC752",
        severity=Severity.WARNING,
        path=path,
        message=f"--{argument}={_shown(value)} decides nothing: the compiled JSON has no {path}, and DeepSpeed's default counts",
        hint=f"{override} before --" if override else f"leave --{argument} out",
    )


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)
