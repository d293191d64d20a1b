"""A DeepSpeed JSON as DeepSpeed would understand it: what is written, what each key then means, what follows from it.

Unusable values (wrong type, "auto", out of range) count as the key's default, so that one mistake is reported once and
the rules about combinations see a sensible config.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.keys import Key
from zerocfg.deepspeed.values import Judgement, judge

OPT = "zero_optimization.offload_optimizer"
PAR = "zero_optimization.offload_param"


@dataclass(frozen=True, slots=True)
class Item:
    """One key as written."""

    parts: tuple[str, ...]
    path: str
    """Canonical spelling, dotted."""
    value: object
    key: Key | None
    """None: DeepSpeed reads no such key here."""
    judgement: Judgement | None

    @property
    def written(self) -> str:
        return ".".join(self.parts)


@dataclass(frozen=True)
class View:
    config: Mapping[str, object]
    world_size: int | None = None
    data_parallel_size: int | None = None
    """Ranks that the batch is divided over, where the caller knows better than the JSON (a PipelineModule, an mpu)."""
    accelerator: str = "cuda"
    compute_capability: tuple[int, int] | None = None
    trainable_params: int | None = None
    prefix: str = "deepspeed"

    # ---- what is written

    @cached_property
    def _sections(self) -> tuple[Item, ...]:
        return tuple(_items(self.config))

    @cached_property
    def items(self) -> tuple[Item, ...]:
        """Every key as written, the arguments of the optimizer and the schedule last."""
        return (
            *self._sections,
            *_arguments("optimizer", self.optimizer_params, self.optimizer_arguments),
            *_arguments("scheduler", self.scheduler_params, self.scheduler_arguments),
        )

    @cached_property
    def _by_path(self) -> dict[str, Item]:
        found: dict[str, Item] = {}
        for item in sorted(self._sections, key=lambda item: item.written != item.path):  # bf16 before its old name bfloat16
            if item.key is not None:
                found.setdefault(item.path, item)
        return found

    def item(self, path: str) -> Item | None:
        """The key as written, in any spelling; None when it is absent."""
        return self._by_path.get(path)

    def has(self, path: str) -> bool:
        return path in self._by_path

    def raw(self, path: str) -> object:
        """The value as written; None when absent."""
        item = self._by_path.get(path)
        return None if item is None else item.value

    def value(self, path: str) -> object:
        """What the key means to DeepSpeed: the (coerced) value, else the default."""
        item = self._by_path.get(path)
        if item is not None and item.judgement is not None:
            return item.judgement.value
        key = keys.lookup(path)
        return None if key is None else key.default

    def sure(self, path: str) -> bool:
        """The value of `path` is what the file says (or the default): nothing unusable stands there or above it."""
        parts = path.split(".")
        above = [".".join(parts[:n]) for n in range(1, len(parts) + 1)]
        if above[0] == "zero_optimization" and isinstance(self.config.get("zero_optimization"), bool):
            above = above[1:]
        written = [self._by_path[place] for place in above if place in self._by_path]
        return all(item.judgement is None or item.judgement.usable for item in written)

    def on(self, path: str) -> bool:
        return bool(self.value(path))

    def number(self, path: str) -> float:
        value = self.value(path)
        return value if isinstance(value, int | float) and not isinstance(value, bool) else 0

    # ---- what follows

    @cached_property
    def stage(self) -> int:
        """ZeRO stage; `zero_optimization: true` means 1."""
        written = self.config.get("zero_optimization")
        return int(written) if isinstance(written, bool) else int(self.number("zero_optimization.stage"))

    @cached_property
    def fp16(self) -> bool:
        return self.on("fp16.enabled")

    @cached_property
    def bf16(self) -> bool:
        return self.on("bf16.enabled")

    @cached_property
    def precision(self) -> str:
        """Type of the parameters while training: fp16, bf16 or fp32."""
        return "fp16" if self.fp16 else "bf16" if self.bf16 else "fp32"

    @cached_property
    def optimizer_device(self) -> str:
        """Where optimizer states live: none, cpu or nvme."""
        return self._device(OPT, "zero_optimization.cpu_offload")

    @cached_property
    def param_device(self) -> str:
        """Where parameters live: none, cpu or nvme (DeepSpeed acts on it at stage 3 only)."""
        return self._device(PAR, "zero_optimization.cpu_offload_param")

    def _device(self, section: str, old: str) -> str:
        if not self.has(section) and self.value(old) is True:
            return "cpu"
        return str(self.value(f"{section}.device"))

    @cached_property
    def offloaded(self) -> bool:
        """DeepSpeed will build the CPU class of the optimizer."""
        return self.optimizer_device in ("cpu", "nvme")

    @cached_property
    def optimizer_type(self) -> str | None:
        """As DeepSpeed keeps it; None when the script brings the optimizer."""
        name = self.value("optimizer.type")
        return keys.optimizer_type(name) if isinstance(name, str) else None

    @cached_property
    def optimizer_params(self) -> Mapping[str, object]:
        value = self.value("optimizer.params")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def optimizer_arguments(self) -> Mapping[str, Key]:
        """What `optimizer.params` may hold for this type and place; empty when that is not known."""
        if self.optimizer_type is None:
            return {}
        torch_adam = self.optimizer_params.get("torch_adam") is True
        return keys.optimizer_params(self.optimizer_type, self.offloaded, torch_adam=torch_adam) or {}

    @cached_property
    def scheduler_type(self) -> str | None:
        name = self.value("scheduler.type")
        return name if isinstance(name, str) else None

    @cached_property
    def scheduler_params(self) -> Mapping[str, object]:
        value = self.value("scheduler.params")
        return value if isinstance(value, Mapping) else {}

    @cached_property
    def scheduler_arguments(self) -> Mapping[str, Key]:
        return (keys.scheduler_params(self.scheduler_type) if self.scheduler_type is not None else None) or {}

    @cached_property
    def zenflow(self) -> bool:
        return isinstance(self.raw("zero_optimization.zenflow"), Mapping)

    @cached_property
    def overlap_comm(self) -> bool:
        value = self.value("zero_optimization.overlap_comm")
        return self.stage == 3 if value is None else bool(value)

    @cached_property
    def autotp_size(self) -> int:
        return int(self.number("tensor_parallel.autotp_size"))

    # ---- words of a report

    def full(self, path: str) -> str:
        """`path` with the prefix of this config."""
        return f"{self.prefix}.{path}" if self.prefix else path

    def assign(self, path: str, value: object) -> str:
        """An override ready to paste."""
        return f"{self.full(path)}={shown(value)}"

    def unmet(self, needs: tuple[str, ...]) -> list[str]:
        """Those conditions of `needs` that the JSON shows not to hold, in words. What only the script or the machine can
        show (call:, model:, env:) is left out."""
        return [condition for condition in needs if not self._holds(condition)]

    def _holds(self, condition: str) -> bool:
        if condition.startswith(("call:", "model:", "env:")):
            return True
        return any(self._holds_one(part) for part in condition.split(" or "))

    def _holds_one(self, condition: str) -> bool:
        path, equals, wanted = condition.partition("=")
        if path == "accelerator":
            return self.accelerator in wanted.split("|")
        if path == "zero_optimization":
            return self.config.get(path) is True
        if path in ("optimizer.type", "scheduler.type"):
            type_ = self.optimizer_type if path == "optimizer.type" else self.scheduler_type
            return type_ is not None if not equals else type_ is None or type_ in wanted.split("|")
        value: object = {f"{OPT}.device": self.optimizer_device, f"{PAR}.device": self.param_device}.get(path, self.value(path))
        if not equals:
            return bool(value)
        return (f"{value:g}" if isinstance(value, int | float) else str(value)) in wanted.split("|")


def _items(section: Mapping[str, object], parts: tuple[str, ...] = (), path: str = "") -> Iterator[Item]:
    for name, value in section.items():
        here = (*parts, str(name))
        dotted = f"{path}.{name}" if path else str(name)
        key = keys.lookup(dotted) if "." not in str(name) else None
        canonical = keys.canonical(dotted) if key is not None else dotted
        if key is None and isinstance(value, Mapping) and keys.children(dotted) and "." not in str(name):
            yield from _items(value, here, dotted)  # an item of a list of dicts
            continue
        yield Item(here, canonical, value, key, None if key is None or key.status == "removed" else judge(key, value))
        if key is None or key.status == "removed":
            continue
        if isinstance(value, Mapping) and key.is_section:
            yield from _items(value, here, canonical)
        elif isinstance(value, list | tuple) and keys.children(f"{canonical}.0"):
            yield from _items({str(i): item for i, item in enumerate(value)}, here, canonical)


def _arguments(kind: str, written: Mapping[str, object], known: Mapping[str, Key]) -> Iterator[Item]:
    """The arguments that the class takes; what it does not take has its own rule."""
    for name, value in written.items():
        if name in known:
            path = f"{kind}.params.{name}"
            yield Item((kind, "params", name), path, value, known[name], judge(known[name], value))


def shown(value: object, width: int = 60) -> str:
    """`value` as JSON, shortened."""
    try:
        text = json.dumps(value)
    except (TypeError, ValueError):  # an object of Python, or a number with thousands of digits
        text = f"<{type(value).__name__}>"
    return text if len(text) <= width else text[: width - 3] + "..."
