"""Old spellings and text for numbers -> what DeepSpeed 0.19.8 reads, without a change of meaning.

A migration takes the working copy and yields what it did; it never guesses at a meaning that DeepSpeed did not see before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zerocfg.deepspeed.keys import canonical, lookup
from zerocfg.lowered import flatten

MIGRATE_CODES: dict[str, str] = {
    "ZC900": "A null stands for an absent key; DeepSpeed crashes on some of them.",
    "ZC901": "A number or a truth value was written as text.",
    "ZC902": "An old spelling was replaced by today's.",
    "ZC903": "A section that DeepSpeed removed was off, and is dropped.",
    "ZC904": 'An "auto" was resolved.',
    "ZC905": "The batch numbers fit no number of ranks.",
    "ZC906": "The value has no effect while its section is off.",
    "ZC907": "DeepSpeed applies the other of two precisions.",
}


@dataclass
class Draft:
    """The working copy: leaves by DeepSpeed's documented path, and where each came from."""

    leaves: dict[str, Any] = field(default_factory=dict)
    origin: dict[str, str] = field(default_factory=dict)
    """Documented path -> path as spelled in the file."""
    moved: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path as spelled in the file -> (code, what was done)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Draft:
        draft = cls()
        for spelled, value in flatten(config):
            path = canonical(spelled)
            if path in draft.leaves:  # both spellings: DeepSpeed refuses it, so the checks must see both
                path = spelled
            draft.leaves[path], draft.origin[path] = value, spelled
        return draft

    def note(self, path: str, code: str, text: str) -> None:
        self.moved[self.origin.get(path, path)] = (code, text)

    def drop(self, path: str, code: str, text: str) -> None:
        self.note(path, code, text)
        self.leaves.pop(path)

    def rename(self, old: str, new: str, value: Any, text: str) -> None:
        """Move a leaf; where the new one stands already, the old one is only dropped."""
        self.note(old, "ZC902", text)
        spelled = self.origin.get(old, old)
        self.leaves.pop(old)
        if new not in self.leaves:
            self.leaves[new], self.origin[new] = value, spelled


def migrate(draft: Draft) -> None:
    for step in MIGRATIONS:
        step(draft)


def _below(draft: Draft, section: str) -> list[str]:
    return [path for path in draft.leaves if path == section or path.startswith(f"{section}.")]


def nulls(draft: Draft) -> None:
    for path in [p for p, v in draft.leaves.items() if v is None]:
        draft.drop(path, "ZC900", "null: the same as leaving it out")


def text_for_numbers(draft: Draft) -> None:
    for path, value in list(draft.leaves.items()):
        key = lookup(path)
        if not isinstance(value, str) or key is None or "str" in key.kinds or value in key.choices or value == "auto":
            continue
        read = _typed(value, key.kinds)
        if read is not None:
            draft.note(path, "ZC901", f"the text {value!r} became {read!r}")
            draft.leaves[path] = read


def _typed(text: str, kinds: tuple[str, ...]) -> Any:
    if "bool" in kinds and text.strip().lower() in ("true", "false"):
        return text.strip().lower() == "true"
    for kind, convert in (("int", int), ("float", float)):
        if kind in kinds:
            try:
                number = float(text)
            except ValueError:
                return None
            if kind == "int" and not number.is_integer():
                return None
            return convert(number)
    return None


def boolean_zero(draft: Draft) -> None:
    """`"zero_optimization": true` meant stage 1."""
    value = draft.leaves.get("zero_optimization")
    if isinstance(value, bool):
        draft.rename("zero_optimization", "zero_optimization.stage", int(value), f"zero_optimization={value} became stage {int(value)}")


def cpu_offload(draft: Draft) -> None:
    zero = "zero_optimization"
    for old, new in (("cpu_offload", "offload_optimizer"), ("cpu_offload_params", "offload_param"), ("cpu_offload_param", "offload_param")):
        path = f"{zero}.{old}"
        if path not in draft.leaves:
            continue
        if draft.leaves[path] is True:
            draft.rename(path, f"{zero}.{new}.device", "cpu", f"{old}: true became {new}.device: cpu")
        elif draft.leaves[path] is False:
            draft.drop(path, "ZC902", f"{old}: false is the same as no {new}")
    path = f"{zero}.cpu_offload_use_pin_memory"
    if path in draft.leaves:
        value = draft.leaves[path]
        targets = [t for t in ("offload_optimizer", "offload_param") if f"{zero}.{t}.device" in draft.leaves]
        if not targets:
            draft.drop(path, "ZC902", "nothing is offloaded: no effect")
        for index, target in enumerate(targets):
            if index == 0:
                draft.rename(path, f"{zero}.{target}.pin_memory", value, f"became pin_memory of {' and '.join(targets)}")
            else:
                draft.leaves.setdefault(f"{zero}.{target}.pin_memory", value)


def fp16_weights_on_save(draft: Draft) -> None:
    old, new = "stage3_gather_fp16_weights_on_model_save", "stage3_gather_16bit_weights_on_model_save"
    path = f"zero_optimization.{old}"
    if path in draft.leaves:
        draft.rename(path, f"zero_optimization.{new}", draft.leaves[path], f"became {new}")


def max_grad_norm(draft: Draft) -> None:
    path = "optimizer.params.max_grad_norm"
    if path in draft.leaves:
        value = draft.leaves[path]
        if "gradient_clipping" in draft.leaves:
            draft.drop(path, "ZC902", "DeepSpeed refuses it here, and gradient_clipping is set")
        else:
            draft.rename(path, "gradient_clipping", value, "DeepSpeed refuses it here; became gradient_clipping")


def removed_but_off(draft: Draft) -> None:
    """DeepSpeed raises on a removed section even where it was off."""
    seen: set[str] = set()
    for path in list(draft.leaves):
        key = lookup(path)
        if key is None or key.status != "removed" or key.path in seen:
            continue
        seen.add(key.path)
        below = _below(draft, key.path)
        switches = [draft.leaves[p] for p in below if p.endswith(".enabled") or p == key.path]
        if all(value in (False, {}, None) for value in switches) and switches:
            for leaf in below:
                draft.drop(leaf, "ZC903", f"{key.path} is gone from DeepSpeed, which raises on it; it was off")


MIGRATIONS: tuple[Callable[[Draft], None], ...] = (
    nulls,
    boolean_zero,
    text_for_numbers,
    cpu_offload,
    fp16_weights_on_save,
    max_grad_norm,
    removed_but_off,
)


def refused_paths(draft: Draft, problem_path: str) -> Iterator[str]:
    """Leaves that a problem at `problem_path` concerns: the leaf itself, or all below it."""
    yield from _below(draft, problem_path)
