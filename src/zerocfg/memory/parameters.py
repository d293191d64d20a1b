"""The model's parameters as DeepSpeed sees them: an ordered list, because partitions and buckets are cut along it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from functools import lru_cache

from zerocfg.facts import ModelFacts
from zerocfg.traced import OUTSIDE, ModelParameters, Parameter


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


def cut_over(parameters: ModelParameters, tensor_parallel_degree: int) -> ModelParameters:
    """What AutoTP leaves of a traced model on one rank: the matrices of the blocks are cut, all else is whole."""
    entries = tuple(
        replace(p, numel=-(-p.numel // tensor_parallel_degree)) if p.block != OUTSIDE and p.is_matrix else p for p in parameters.entries
    )
    return ModelParameters(entries, parameters.num_blocks)


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
