"""The model's parameters as DeepSpeed sees them: an ordered list, because partitions and buckets are cut along it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache

from zerocfg.facts import ModelFacts

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
        """The head is the embedding: one parameter that autograd finishes only at the end of the backward pass."""
        first = next(iter(self.entries), None)
        return first is not None and first.head


def _largest_block(parameters: Iterable[Parameter]) -> int:
    sizes: dict[int, int] = {}
    for p in parameters:
        if p.block != OUTSIDE:
            sizes[p.block] = sizes.get(p.block, 0) + p.numel
    return max(sizes.values(), default=0)


def total(parameters: Iterable[Parameter]) -> int:
    return sum(p.numel for p in parameters)


@lru_cache(maxsize=256)
def parameters_of(model: ModelFacts, tensor_parallel_degree: int = 1) -> ModelParameters:
    """The decoder described by `model`, laid out as train.py's GPT.

    tensor_parallel_degree: AutoTP cuts the projections inside the blocks and leaves embeddings, norms and head whole.
    """
    tp, h, bias = tensor_parallel_degree, model.hidden_size, model.bias
    q, kv, f = model.num_attention_heads * model.head_dim, model.num_key_value_heads * model.head_dim, model.intermediate_size
    entries: list[Parameter] = [
        Parameter("embed.weight", model.embedding_parameters, module="embed", head=model.tie_word_embeddings),
    ]
    if model.positions == "learned":
        entries.append(Parameter("positions.weight", model.sequence_length * h, module="positions"))

    def linear(module: str, out: int, into: int, block: int, *, column: bool) -> Iterable[Parameter]:
        yield Parameter(f"{module}.weight", out * into // tp, block=block, module=module)
        if bias:
            yield Parameter(f"{module}.bias", out // tp if column else out, False, block=block, module=module)

    def norm(module: str, block: int) -> Iterable[Parameter]:
        yield Parameter(f"{module}.weight", h, False, block=block, module=module)
        if model.norm == "layernorm":
            yield Parameter(f"{module}.bias", h, False, block=block, module=module)

    for i in range(model.num_hidden_layers):
        at = f"blocks.{i}"
        entries += norm(f"{at}.norm1", i)
        for name, out in (("q", q), ("k", kv), ("v", kv)):
            entries += linear(f"{at}.attention.{name}", out, h, i, column=True)
        entries += linear(f"{at}.attention.out", h, q, i, column=False)
        entries += norm(f"{at}.norm2", i)
        for name in ("gate", "up") if model.mlp == "swiglu" else ("up",):
            entries += linear(f"{at}.mlp.{name}", f, h, i, column=True)
        entries += linear(f"{at}.mlp.down", h, f, i, column=False)
    entries += norm("norm", OUTSIDE)
    if not model.tie_word_embeddings:
        entries.append(Parameter("head.weight", model.embedding_parameters, module="head", head=True))
    return ModelParameters(tuple(entries), model.num_hidden_layers)


def owned_elements(numels: Iterable[int], ranks: int) -> tuple[int, ...]:
    """By rank, elements of the parameters that its partition touches, whole ones.

    Stages 1 and 2 cut the flat list of parameters in equal parts and keep the gradient of each parameter that a part
    touches whole (stage_1_and_2.py:2185, copy_grads_in_partition).
    """
    sizes = list(numels)
    if ranks <= 1:
        return (sum(sizes),)
    part = padded_partition(sum(sizes), ranks)
    owned = [0] * ranks
    start = 0
    for size in sizes:
        for rank in range(start // part, min(ranks, -(-(start + size) // part))):
            owned[rank] += size
        start += size
    return tuple(owned)


def padded_partition(numel: int, ranks: int) -> int:
    """Elements a rank at stages 1 and 2: the flat group is padded to a multiple of 2 x ranks (stage_1_and_2.py:441)."""
    unit = 2 * ranks
    return -(-numel // unit) * unit // ranks


def sharded(numels: Iterable[int], ranks: int) -> int:
    """Elements a rank at stage 3: each parameter is padded to a multiple of the ranks (partition_parameters.py:1690)."""
    return sum(-(-n // ranks) for n in numels)


def largest_sub_group(numels: Iterable[int], ranks: int, sub_group_size: int) -> tuple[int, int]:
    """(elements of the largest sub-group's shard, number of sub-groups) at stage 3 (stage3.py:1236, _create_fp16_sub_groups).

    Parameters are taken until the group holds sub_group_size elements of this rank's shards or more.
    """
    shards = [-(-n // ranks) for n in numels]
    if sub_group_size >= sum(shards):
        return sum(shards), 1
    largest = now = count = 0
    for i, shard in enumerate(shards):
        now += shard
        if now >= sub_group_size or i == len(shards) - 1:
            largest, now, count = max(largest, now), 0, count + 1
    return largest, count
