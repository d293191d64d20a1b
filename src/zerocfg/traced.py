"""A model as it was found by running it on tensors without data: parameters, activations, operations. Frozen data, read and written
as JSON; made by zerocfg.profile, or from dims by zerocfg.memory.closed_form."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

OUTSIDE = -1
"""`Parameter.block` of what belongs to no repeated block: embeddings, final norm, head."""


@dataclass(frozen=True, slots=True)
class Parameter:
    name: str
    numel: int
    """Elements on this tensor-parallel rank."""
    is_matrix: bool = True
    trainable: bool = True
    block: int = OUTSIDE
    """Index of the repeated block that owns it."""
    module: str = ""
    """Path of the module that owns it; parameters of one module are gathered in one call at stage 3."""
    head: bool = False
    """Output projection, or the embedding where both share one weight."""

    @property
    def uses_muon(self) -> bool:
        """DeepSpeed's rule: a matrix whose name has neither embed nor lm_head in it (deepspeed/__init__.py:369)."""
        name = self.name.lower()
        return self.is_matrix and "embed" not in name and "lm_head" not in name


@dataclass(frozen=True)
class ModelParameters:
    """In the order of `model.parameters()`, a shared weight once."""

    entries: tuple[Parameter, ...]
    num_blocks: int

    @cached_property
    def trainable(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.entries if p.trainable)

    @cached_property
    def num_trainable(self) -> int:
        return total(self.trainable)

    @cached_property
    def num_frozen(self) -> int:
        return total(self.entries) - self.num_trainable

    @cached_property
    def largest(self) -> int:
        """Elements of the largest trainable parameter."""
        return max((p.numel for p in self.trainable), default=0)

    @cached_property
    def largest_in_block(self) -> int:
        return max((p.numel for p in self.trainable if p.block != OUTSIDE), default=self.largest)

    @cached_property
    def largest_module(self) -> int:
        """Elements of the module with the most parameters of its own: what one all-gather fetches at least."""
        sizes: dict[str, int] = {}
        for p in self.entries:
            sizes[p.module or p.name] = sizes.get(p.module or p.name, 0) + p.numel
        return max(sizes.values(), default=0)

    @cached_property
    def block_numel(self) -> int:
        """Elements of the largest block."""
        return _largest_block(self.entries)

    @cached_property
    def trainable_in_block(self) -> int:
        """Trainable elements of the block with the most of them."""
        return _largest_block(self.trainable)

    @cached_property
    def head_numel(self) -> int:
        """Trainable elements of the output projection."""
        return total(p for p in self.trainable if p.head)

    @cached_property
    def embedding_numel(self) -> int:
        """Trainable elements of the largest parameter outside of the blocks that is not the head: its gradient comes last."""
        return max((p.numel for p in self.trainable if p.block == OUTSIDE and p.is_matrix), default=0)

    @cached_property
    def is_tied(self) -> bool:
        """The head is the embedding: one parameter that autograd finishes only at the end of the backward pass. It comes before the
        blocks then, under the embedding's name."""
        for p in self.entries:
            if p.head or p.block != OUTSIDE:
                return p.head
        return False


def _largest_block(parameters: Iterable[Parameter]) -> int:
    sizes: dict[int, int] = {}
    for p in parameters:
        if p.block != OUTSIDE:
            sizes[p.block] = sizes.get(p.block, 0) + p.numel
    return max(sizes.values(), default=0)


def total(parameters: Iterable[Parameter]) -> int:
    return sum(p.numel for p in parameters)


@dataclass(frozen=True, kw_only=True, slots=True)
class Operations:
    """What one part of a model asks of a GPU in a forward and a backward pass. FLOPs and bytes of one sample; launches of one pass."""

    matmul_flops: float = 0.0
    attention_flops: float = 0.0
    """Counted in full, causal or not."""
    traffic_bytes: float = 0.0
    """Read and written by everything that is no product of matrices."""
    launches: float = 0.0
    """Operators, however many samples."""
    forward_flops: float = 0.0
    """Of both kinds of FLOPs, those of the forward pass: what recomputation repeats."""
    forward_launches: float = 0.0

    def scaled(self, factor: float) -> Operations:
        return replace(
            self,
            matmul_flops=self.matmul_flops * factor,
            attention_flops=self.attention_flops * factor,
            traffic_bytes=self.traffic_bytes * factor,
            forward_flops=self.forward_flops * factor,
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ActivationTrace:
    """Bytes a sample, by where they are held. Blocks are the repeated part; the loss is the head and all behind it."""

    source: str
    """closed form or traced."""
    dtype: str
    tokens: int
    """Tokens a sample on this rank."""
    num_blocks: int
    block_saved: int
    """Kept by one block for its backward pass, its output counted, its input not."""
    block_input: int
    """A block's input: all that activation checkpointing keeps of a block."""
    block_backward: int
    """Most that the backward pass of one block needs on top of what the block has saved, the incoming gradient counted."""
    outside_saved: int
    """Kept outside of blocks and loss: the embedding's output, token ids."""
    loss_forward: int
    """Most that final norm, head and loss hold at once in the forward pass."""
    loss_saved: int
    """What they keep for the backward pass."""
    loss_backward: int
    """Most that they hold at once in the backward pass, what they saved included."""
    head_backward: int
    """Held while the head's weight gradient is computed: the logits' gradient and the gradient of the head's input."""
    shared: int = 0
    """Independent of the number of samples: rotary tables, masks."""
    flops_per_token: float = 0.0
    """Forward and backward, attention counted in full (non-causal); 0 when unknown."""
    blocks: Operations = Operations()
    """Of all blocks together."""
    outside: Operations = Operations()
    """Embedding, final norm, head, loss."""
    parameters: ModelParameters | None = None
    """The traced model's own parameters; None: those of the dims."""
    block_classes: tuple[str, ...] = ()
    """Class names of the repeated blocks: candidates for zero_optimization.leaf_module.classes."""

    def kept(self, samples: int, *, checkpointing: bool) -> int:
        """Bytes held when the forward pass of the blocks is done."""
        block = self.block_input if checkpointing else self.block_saved
        return self.shared + samples * (self.outside_saved + self.num_blocks * block)

    def of_part(self, ranks: int) -> ActivationTrace:
        """For one of `ranks` ranks that share each sample (Ulysses)."""
        counts = {name: getattr(self, name) // ranks for name in _PER_SAMPLE}
        counts["tokens"] = max(1, counts["tokens"])
        return replace(self, **counts, blocks=self.blocks.scaled(1 / ranks), outside=self.outside.scaled(1 / ranks))

    def with_blocks_cut(self, memory: float, work: float) -> ActivationTrace:
        """For a rank of tensor parallelism: what blocks keep times `memory`, what they compute times `work`; the rest is whole."""
        saved, backward = int(self.block_saved * memory), int(self.block_backward * memory)
        return replace(self, block_saved=saved, block_backward=backward, blocks=self.blocks.scaled(work))


_PER_SAMPLE = (
    "tokens",
    "block_saved",
    "block_input",
    "block_backward",
    "outside_saved",
    "loss_forward",
    "loss_saved",
    "loss_backward",
    "head_backward",
)
_WIDTHS = {"fp32": 4, "fp16": 2, "bf16": 2}
VERSION = 1


class NotAProfile(ValueError):
    """The mapping is none that `as_profile` wrote; str() says what is wrong."""


def as_profile(trace: ActivationTrace) -> dict[str, Any]:
    """JSON-ready: what `zerocfg profile --out` writes and `model.profile` reads."""
    plain = dataclasses.asdict(trace)
    entries = plain.pop("parameters")["entries"] if trace.parameters is not None else []
    return {"zerocfg_profile": VERSION, **plain, "block_classes": list(trace.block_classes), "parameter_list": entries}


def read_profile(found: Any) -> ActivationTrace:
    """The trace that `as_profile` made a mapping of. Raises NotAProfile."""
    if not isinstance(found, Mapping) or "zerocfg_profile" not in found:
        raise NotAProfile("it has no key zerocfg_profile")
    if found["zerocfg_profile"] != VERSION:
        raise NotAProfile(f"it is of version {found['zerocfg_profile']}, this zerocfg reads {VERSION}")
    if found.get("dtype") not in _WIDTHS:
        raise NotAProfile(f"its dtype is {found.get('dtype')!r}, not {' or '.join(_WIDTHS)}")
    try:
        entries = tuple(_made(Parameter, entry) for entry in found["parameter_list"])
        values = {
            field.name: found[field.name]
            for field in dataclasses.fields(ActivationTrace)
            if field.name not in ("parameters", "blocks", "outside", "block_classes")
        }
        trace = ActivationTrace(
            **values,
            blocks=_made(Operations, found["blocks"]),
            outside=_made(Operations, found["outside"]),
            block_classes=tuple(str(name) for name in found["block_classes"]),
            parameters=ModelParameters(entries, int(found["num_blocks"])),
        )
    except KeyError as missing:
        raise NotAProfile(f"it has no {missing.args[0]}") from None
    except TypeError as wrong:
        raise NotAProfile(str(wrong)) from None
    counts = {f.name: getattr(trace, f.name) for f in dataclasses.fields(trace) if f.type == "int"}
    wrong_counts = [name for name, value in counts.items() if isinstance(value, bool) or not isinstance(value, int) or value < 0]
    if wrong_counts or trace.tokens < 1 or not entries:
        raise NotAProfile(f"{', '.join(wrong_counts) or 'tokens or parameter_list'} is not a count")
    return trace


def _made(cls: type, found: Any) -> Any:
    if not isinstance(found, Mapping):
        raise TypeError(f"{cls.__name__} is {type(found).__name__}, not an object")
    made = cls(**found)
    for field in dataclasses.fields(cls):
        value, kinds = getattr(made, field.name), {"int": int, "float": (int, float), "str": str, "bool": bool}[str(field.type)]
        if not isinstance(value, kinds) or (field.type != "bool" and isinstance(value, bool)):  # type: ignore[arg-type]
            raise TypeError(f"{field.name}={value!r} is not of type {field.type}")
    return made


def same_width(one: str, other: str) -> bool:
    """Whether a trace in one dtype holds for the other: fp16 and bf16 take the same bytes."""
    return _WIDTHS[one] == _WIDTHS[other]
