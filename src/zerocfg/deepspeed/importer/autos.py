"""What each "auto" becomes: an argument given beside the file, that argument's default in Hugging Face's Trainer, or
zerocfg's own rule; and what the arguments decide where the file says nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from zerocfg.deepspeed.importer.arguments import HF_DEFAULTS, Arguments
from zerocfg.deepspeed.importer.draft import Draft
from zerocfg.deepspeed.keys import Key, lookup
from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity

ZERO = "zero_optimization"
MICRO, STEPS = "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"
TOTAL_STEPS, WARMUP_STEPS = "scheduler.params.total_num_steps", "scheduler.params.warmup_num_steps"

FROM_ARGUMENT = {
    MICRO: "per_device_train_batch_size",
    STEPS: "gradient_accumulation_steps",
    "gradient_clipping": "max_grad_norm",
    "optimizer.params.lr": "learning_rate",
    "optimizer.params.eps": "adam_epsilon",
    "optimizer.params.weight_decay": "weight_decay",
    "scheduler.params.warmup_max_lr": "learning_rate",
    "fp16.enabled": "fp16",
    "bf16.enabled": "bf16",
}
"""JSON path -> the Trainer's argument that decides its "auto"."""
BETAS = "optimizer.params.betas"
_ELSEWHERE = (MICRO, STEPS, "fp16.enabled", "bf16.enabled")
"""What an argument decides although the file has no such key: accelerate writes these keys itself."""
SIZES = {
    f"{ZERO}.reduce_bucket_size": "hidden_size^2",
    f"{ZERO}.stage3_prefetch_bucket_size": "0.9 x hidden_size^2",
    f"{ZERO}.stage3_param_persistence_threshold": "10 x hidden_size",
}
"""What the Trainer fills in from the model, and zerocfg as well."""


def resolve_autos(draft: Draft, arguments: Arguments, *, described: bool) -> list[Diagnostic]:
    """Replace or drop each "auto"; put in what the arguments decide besides. Gives notes (ZC921).

    described: the model is known, so sizes follow from it. Raises ConfigProblems (ZC922) where an argument contradicts the
    file: the Trainer refuses that too.
    """
    _refuse_contradictions(draft, arguments)
    used: set[str] = set()
    for path in [p for p, v in draft.leaves.items() if v == "auto" and isinstance(v, str)]:
        key = lookup(path) if '"' not in path else None
        if key is not None and ('"auto"' in key.kinds or "auto" in key.choices):
            continue
        if path in arguments.zero:
            name = path.rpartition(".")[2]
            draft.change(path, arguments.zero[path], "ZC904", f"auto became {arguments.zero[path]} from accelerate's {name}")
        elif (found := _value(path, arguments.trainer, used)) is not None:
            value, source = found
            draft.change(path, value, "ZC904", f"auto became {_shown(value)} from {source}")
        elif key is not None or path in SIZES:
            draft.drop(path, "ZC904", f"auto: {_left(path, key, described)}")
    _besides(draft, arguments, used)
    return [*arguments.notes, *_unused(draft, arguments.trainer, used)]


def _shown(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _value(path: str, trainer: Mapping[str, Any], used: set[str]) -> tuple[Any, str] | None:
    def argument(name: str) -> tuple[Any, str]:
        used.add(name)
        return trainer.get(name, HF_DEFAULTS[name]), f"--{name}" + ("" if name in trainer else ", the Trainer's default")

    if path in FROM_ARGUMENT:
        return argument(FROM_ARGUMENT[path])
    if path == BETAS:
        (first, source), (second, other) = argument("adam_beta1"), argument("adam_beta2")
        return [first, second], f"{source}" if source == other else f"--adam_beta1 and --adam_beta2{other.removeprefix('--adam_beta2')}"
    if path == "scheduler.params.warmup_min_lr":
        return 0, "the Trainer, which always takes 0"
    if path == WARMUP_STEPS:
        return _warmup(trainer, used)
    if path == TOTAL_STEPS and trainer.get("max_steps", -1) > 0:
        return argument("max_steps")
    return None


def _warmup(trainer: Mapping[str, Any], used: set[str]) -> tuple[int, str]:
    used.update(("warmup_steps", "warmup_ratio", "max_steps"))
    if trainer.get("warmup_steps", 0) > 0:
        return int(trainer["warmup_steps"]), "--warmup_steps"
    ratio, steps = trainer.get("warmup_ratio", 0.0), trainer.get("max_steps", -1)
    if ratio > 0 and steps > 0:
        return max(2, -int(-steps * ratio // 1)), f"--warmup_ratio x --max_steps = {ratio} x {steps}"
    return 2, "--warmup_steps, its default 0: DeepSpeed's least is 2"


def _left(path: str, key: Key | None, described: bool) -> str:
    if path == "train_batch_size":
        return "micro x accumulation x ranks"
    if path == TOTAL_STEPS:
        return "train.steps decides, as no --max_steps was given"
    if path in SIZES:
        rule = SIZES[path]
        return f"{rule}, by the model" if described else f"{rule} with --model; without it DeepSpeed's own size"
    if key is not None and key.reader == "model" and not key.is_section:
        return f"DeepSpeed leaves it out and uses {_shown(key.default)}"
    return "nothing fills it in: left out"


def _besides(draft: Draft, arguments: Arguments, used: set[str]) -> None:
    for path in _ELSEWHERE:
        name = FROM_ARGUMENT[path]
        if name in arguments.trainer and name not in used:
            section = path.partition(".")[0]
            present = draft.below(section) if "." in path else [path] if path in draft.leaves else []
            if not present:
                draft.leaves[path] = arguments.trainer[name]
                used.add(name)
    for path, value in arguments.zero.items():
        draft.leaves.setdefault(path, value)


def _refuse_contradictions(draft: Draft, arguments: Arguments) -> None:
    problems = [
        _contradiction(path, draft.leaves[path], f"--{name}", arguments.trainer[name])
        for path, name in FROM_ARGUMENT.items()
        if name in arguments.trainer and _differs(draft.leaves.get(path), arguments.trainer[name])
    ]
    problems += [
        _contradiction(path, draft.leaves[path], f"accelerate's {path.rpartition('.')[2]}", value)
        for path, value in arguments.zero.items()
        if _differs(draft.leaves.get(path), value)
    ]
    betas = draft.leaves.get(BETAS)
    if isinstance(betas, list) and len(betas) == 2:
        for place, name in enumerate(("adam_beta1", "adam_beta2")):
            if name in arguments.trainer and _differs(betas[place], arguments.trainer[name]):
                problems.append(_contradiction(BETAS, betas, f"--{name}", arguments.trainer[name]))
    if problems:
        raise ConfigProblems(problems)


def _differs(written: Any, given: Any) -> bool:
    return written is not None and written != "auto" and not isinstance(written, (dict, list)) and written != given


def _contradiction(path: str, written: Any, source: str, given: Any) -> Diagnostic:
    return Diagnostic(
        code="ZC922",
        path=path,
        message=f"{path}={_shown(written)} in the file, {source}={_shown(given)} beside it: the Trainer refuses the pair",
        hint=f'leave {source} out, or write "{path.rpartition(".")[2]}": "auto"',
    )


def _unused(draft: Draft, trainer: Mapping[str, Any], used: set[str]) -> Iterator[Diagnostic]:
    decided = {name: path for path, name in FROM_ARGUMENT.items()} | {"adam_beta1": BETAS, "adam_beta2": BETAS}
    for name, value in trainer.items():
        path = decided.get(name, TOTAL_STEPS if name == "max_steps" else WARMUP_STEPS)
        if name in used or path in draft.leaves or value == HF_DEFAULTS[name] or name == "max_steps":
            continue
        yield Diagnostic(
            code="ZC921",
            severity=Severity.NOTE,
            path=f"--{name}",
            message=f"--{name} {_shown(value)} decides nothing: the file has no {path} to fill in",
            hint=f'"{path}": "auto" in the file, or an override after the import',
        )
