"""Old spellings, texts for numbers and sections that are off -> what DeepSpeed 0.19.8 reads, without a change of meaning.

A migration changes the working copy and notes what it did; it never guesses at a meaning that DeepSpeed did not see before.
Where DeepSpeed itself would fail on what stands there, the evident meaning is written instead.
"""

from __future__ import annotations

import math
from collections.abc import Callable

from zerocfg.deepspeed.importer.draft import Draft
from zerocfg.deepspeed.keys import Key, canonical, lookup, scheduler_params
from zerocfg.deepspeed.values import Outcome
from zerocfg.deepspeed.view import Item

MIGRATE_CODES: dict[str, str] = {
    "ZC900": "A null stands for an absent key; DeepSpeed crashes on some of them.",
    "ZC901": "A value was written in another type than DeepSpeed's: text for a number, a fraction for a whole number.",
    "ZC902": "An old spelling was replaced by today's.",
    "ZC903": "A section that DeepSpeed removed was off, and is dropped.",
    "ZC904": 'An "auto" was resolved, or left to zerocfg.',
    "ZC905": "Two spellings of one key: DeepSpeed refuses the pair, or reads one of them.",
    "ZC906": "The value has no effect while its section is off.",
    "ZC907": "No group can say this value, and the groups decide it.",
    "ZC909": "DeepSpeed counts the global batch over the tensor-parallel ranks too.",
}

ZERO = "zero_optimization"
_A_SIZE = 1000
"""From here on a fraction comes from arithmetic on sizes (0.9 x hidden_size^2), not from a mistaken count."""


def migrate(draft: Draft) -> None:
    """Everything that needs no number of ranks."""
    for step in (both_spellings, nulls, switches, boolean_zero):
        step(draft)


def migrate_values(draft: Draft) -> None:
    """After "auto" is resolved."""
    for step in VALUES:
        step(draft)


def both_spellings(draft: Draft) -> None:
    """The second spelling stands under its own name (Draft.of); DeepSpeed refuses the pair, so the documented one stays."""
    for path, spelled in list(draft.sources.items()):
        if path.startswith("bfloat16.") or path == "bfloat16":
            draft.refuse(path, "ZC612", "is ignored in silence: bf16 is written too; remove bfloat16")
        elif path == spelled and '"' not in path and (key := lookup(path)) is not None and key.status != "removed":
            documented = canonical(path)
            if documented != path and documented in draft.leaves:
                draft.refuse(path, "ZC905", f"{documented} is written too, and DeepSpeed refuses the pair: that one is kept")


def nulls(draft: Draft) -> None:
    for path in [p for p, v in draft.leaves.items() if v is None and lookup(p) is not None]:
        draft.drop(path, "ZC900", "null: the same as leaving it out")


def switches(draft: Draft) -> None:
    """`"bf16": true`, where DeepSpeed wants {"enabled": true} and raises."""
    for section in ("fp16", "bf16"):
        value = draft.leaves.get(section)
        if isinstance(value, bool):
            text = f"DeepSpeed raises on it; became {section}.enabled={str(value).lower()}"
            draft.rename(section, f"{section}.enabled", value, "ZC902", text)


def boolean_zero(draft: Draft) -> None:
    """`"zero_optimization": true` meant stage 1 (zero/config.py:64)."""
    value = draft.leaves.get(ZERO)
    if isinstance(value, bool):
        draft.rename(ZERO, f"{ZERO}.stage", int(value), "ZC902", f"{str(value).lower()} is the old form of stage {int(value)}")
        size = draft.leaves.get("allgather_size")
        if value and isinstance(size, int) and f"{ZERO}.allgather_bucket_size" not in draft.leaves:
            draft.rename("allgather_size", f"{ZERO}.allgather_bucket_size", size, "ZC902", "became zero_optimization.allgather_bucket_size")


def types(draft: Draft) -> None:
    """What DeepSpeed coerces, and what it would keep as text and stumble over later."""
    for item in draft.view().items:
        path, key, judged = item.path, item.key, item.judgement
        if key is None or judged is None or path not in draft.leaves or isinstance(item.value, (dict, list)):
            continue
        value = draft.leaves[path]
        if judged.outcome is Outcome.OK and type(judged.value) is not type(value) and not key.is_section:
            draft.leaves[path] = judged.value  # 5e8 for a whole number: the same number
        elif judged.outcome is Outcome.COERCED:
            draft.change(path, judged.value, "ZC901", f"{_shown(value)} became {_shown(judged.value)}: {judged.reason}")
        elif judged.outcome is Outcome.FRACTION and isinstance(value, float) and key.reader == "model" and value >= _A_SIZE:
            draft.change(path, math.floor(value), "ZC901", f"DeepSpeed counts in whole numbers; {value} became {math.floor(value)}")
        elif judged.outcome is Outcome.KEPT and isinstance(value, str) and (read := typed(value, key.kinds)) is not None:
            was = _as_python(item)
            draft.change(path, read, "ZC901", f"the text {value!r} became {_shown(read)}{was}")
    for path, value in list(draft.leaves.items()):
        if isinstance(value, float) and value.is_integer() and (key := _argument_key(draft, path)) is not None and key.kinds[0] == "int":
            text = f"{value} became {int(value)}: the class takes whole numbers only" if path in _STRICTLY_WHOLE else ""
            draft.leaves[path] = int(value)
            if text:
                draft.note(path, "ZC901", text)


_STRICTLY_WHOLE = ("scheduler.params.warmup_num_steps", "scheduler.params.lr_range_test_step_size")


def _argument_key(draft: Draft, path: str) -> Key | None:
    if not path.startswith("scheduler.params."):
        return None
    return (scheduler_params(str(draft.leaves.get("scheduler.type"))) or {}).get(path.rpartition(".")[2])


def _as_python(item: Item) -> str:
    """DeepSpeed took the text as it is; any text but the empty one is true to Python."""
    if item.key is not None and "bool" in item.key.kinds:
        return "; DeepSpeed took the text for true" if item.value else "; DeepSpeed took the empty text for false"
    return "; DeepSpeed keeps the text and fails on it"


def typed(text: str, kinds: tuple[str, ...]) -> bool | int | float | None:
    """The number or truth value that a text evidently stands for."""
    word = text.strip().lower()
    if "bool" in kinds and word in ("true", "false"):
        return word == "true"
    if not {"int", "float"} & set(kinds):
        return None
    try:
        number = float(word)
    except ValueError:
        return None
    if not math.isfinite(number) or ("float" not in kinds and not number.is_integer()):
        return None
    return number if "float" in kinds and not word.lstrip("+-").isdigit() else int(number)


def _shown(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else repr(value)


def cpu_offload(draft: Draft) -> None:
    for old, new in (("cpu_offload", "offload_optimizer"), ("cpu_offload_params", "offload_param"), ("cpu_offload_param", "offload_param")):
        path, section = f"{ZERO}.{old}", f"{ZERO}.{new}"
        if path not in draft.leaves:
            continue
        if draft.leaves[path] is False:
            draft.drop(path, "ZC902", f"false is the old form of no {new}")
        elif draft.leaves[path] is True and not draft.below(section):
            draft.rename(path, f"{section}.device", "cpu", "ZC902", f"true is the old form of {new}.device=cpu")


def fp16_weights_on_save(draft: Draft) -> None:
    old, new = f"{ZERO}.stage3_gather_fp16_weights_on_model_save", f"{ZERO}.stage3_gather_16bit_weights_on_model_save"
    if old in draft.leaves and new not in draft.leaves:
        draft.rename(old, new, draft.leaves[old], "ZC902", "became stage3_gather_16bit_weights_on_model_save")


def max_grad_norm(draft: Draft) -> None:
    path = "optimizer.params.max_grad_norm"
    if path in draft.leaves and not isinstance(draft.leaves[path], (dict, list)):
        if "gradient_clipping" in draft.leaves:
            draft.drop(path, "ZC647", "the engine raises on it here, and gradient_clipping is set")
        else:
            draft.rename(path, "gradient_clipping", draft.leaves[path], "ZC647", "the engine raises on it here; became gradient_clipping")


def removed_but_off(draft: Draft) -> None:
    """DeepSpeed raises on a removed section even where it was off."""
    seen: set[str] = set()
    for path in list(draft.leaves):
        key = lookup(path) if '"' not in path else None
        if key is None or key.status != "removed" or key.path in seen:
            continue
        seen.add(key.path)
        below = draft.below(key.path)
        switches = [draft.leaves[p] for p in below if p.endswith(".enabled") or p == key.path]
        if switches and all(value in (False, None) or value == {} for value in switches):
            for leaf in below:
                consequence = ", which raises on it" if key.loud else ""
                draft.drop(leaf, "ZC903", f"{key.path} is gone from DeepSpeed{consequence}; it was off")


def nvme_below_stage_3(draft: Draft) -> None:
    """Stages 1 and 2 take any device but none for cpu (stage_1_and_2.py:220)."""
    view, path = draft.view(), f"{ZERO}.offload_optimizer.device"
    if view.stage in (1, 2) and draft.leaves.get(path) == "nvme":
        draft.change(path, "cpu", "ZC633", f"at stage {view.stage} nvme means cpu: became cpu; stage 3 swaps to NVMe")


def one_step_of_warmup(draft: Draft) -> None:
    path = "scheduler.params.warmup_num_steps"
    value = draft.leaves.get(path)
    if value in (0, 1) and not isinstance(value, bool):
        why = "DeepSpeed raises it to 2" if value == 1 else "DeepSpeed refuses 0 (and would divide by it)"
        draft.change(path, 2, "ZC657", f"{value} became 2: {why}")


def hpz_off(draft: Draft) -> None:
    path = f"{ZERO}.zero_hpz_partition_size"
    if draft.leaves.get(path) == 0 and not isinstance(draft.leaves[path], bool):
        draft.change(path, 1, "ZC902", "0 is off, as is 1")


def tensor_parallel_off(draft: Draft) -> None:
    """The engine asks for more than one rank everywhere (engine.py:595, 958, 1019)."""
    path = "tensor_parallel.autotp_size"
    value = draft.leaves.get(path)
    if value in (0, 1) and not isinstance(value, bool):
        draft.drop(path, "ZC902", f"{value} is off: parallelism.tensor_parallel_degree=1")


VALUES: tuple[Callable[[Draft], None], ...] = (
    removed_but_off,
    types,
    cpu_offload,
    fp16_weights_on_save,
    max_grad_norm,
    nvme_below_stage_3,
    one_step_of_warmup,
    hpz_off,
    tensor_parallel_off,
)
