"""ZeRO's sizes, elements, from what is known of the model. Pure: the resolve pass and the memory model's neighbours share it.

Stage 3 spends its time on the host: with the repeated block as leaf module it takes one fetch for the block instead of one for each
module (42-57 against 28-35 thousand tokens/s for a 1.3 B GPT on two H200 at micro batch 4). Bucket and prefetch then hold a block,
so that the next block is on its way while one computes; norms and biases stay whole, because each that does not is waited for and
released in Python in both passes (29.4 against 34.2 thousand tokens/s a GPU). Where the GPU has room, weights stay gathered from the
forward to the backward pass, and torch's own linear layers, which keep them too, cost no memory then.
Without leaf modules the sizes follow the widely used rule by hidden size (Hugging Face Trainer's values for "auto"): hidden^2,
0.9 hidden^2, 10 hidden.
Every size is a whole number and never larger than the model, because DeepSpeed allocates reduce buckets whole, whatever the model
needs (stage_1_and_2.py:3256, stage3.py:779).
"""

from __future__ import annotations

from dataclasses import dataclass

from zerocfg.facts import ModelFacts
from zerocfg.traced import ModelParameters, total

# DeepSpeed 0.19.8's own sizes (runtime/zero/config.py)
BUCKET = 500_000_000
PREFETCH = 50_000_000
PERSISTENCE = 100_000
SWAPPED_SUB_GROUP = 100_000_000
"""Elements stepped at a time where optimizer states are on NVMe: the swap buffers in host memory are eight times as large."""
BILLION = 1_000_000_000
LARGEST_BUCKET, LARGEST_PREFETCH = 100_000_000, 400_000_000
"""With leaf modules: beyond these a longer message gains nothing, and the memory is needed."""


@dataclass(frozen=True, slots=True)
class Size:
    value: int
    why: str


@dataclass(frozen=True, slots=True)
class Shape:
    """Elements. Zero: unknown."""

    whole: int = 0
    block: int = 0
    hidden: int = 0
    vector: int = 0
    """The largest parameter that is no matrix."""


def shape_of(model: ModelFacts | None, parameters: ModelParameters | None) -> Shape:
    """parameters: of the user's own model, as traced; they win over the dims."""
    if parameters is not None:
        vector = max((p.numel for p in parameters.entries if not p.is_matrix), default=0)
        block = parameters.block_numel or parameters.largest_module
        return Shape(total(parameters.entries), block, model.hidden_size if model else 0, vector)
    return Shape(model.num_parameters, model.block_parameters, model.hidden_size) if model else Shape()


KEPT_SHARE = 0.1
"""Of a GPU, for weights that stay gathered from the forward to the backward pass."""
WALKS = 3
"""Times that a step passes the parameters at most: forward, recomputation, backward."""


def keeps_weights(shape: Shape, memory_bytes: int, width: int) -> bool:
    """Whether a GPU of this size has room for all weights, width bytes each, through both passes."""
    return 0 < shape.whole * width <= KEPT_SHARE * memory_bytes


def own_linear(shape: Shape, max_live: int, max_reuse: int, *, recomputes: bool) -> bool:
    """Whether torch's own linear layers cost no memory: the weights stay gathered anyway, or none is kept for the backward pass."""
    return recomputes or (0 < shape.whole <= max_live and (WALKS - 1) * shape.whole <= max_reuse)


def zero_sizes(shape: Shape, stage: int, *, by_block: bool, keep: bool = False) -> dict[str, Size]:
    """Field of ZeroPlan -> size. by_block: stage 3 with the repeated block as leaf module. keep: gathered weights stay for the backward
    pass."""
    own = "DeepSpeed's default (model not described)"
    default = Size(BUCKET, "DeepSpeed's default, 5e8" if shape.whole else own)
    sizes = {
        "reduce_bucket_size": _bucket(shape, by_block) if stage == 3 and shape.whole else default,
        "allgather_bucket_size": Size(BUCKET, "DeepSpeed's default, 5e8"),
        "stage3_prefetch_bucket_size": _prefetch(shape, by_block) if shape.whole else Size(PREFETCH, own),
        "stage3_param_persistence_threshold": _persistence(shape) if shape.whole else Size(PERSISTENCE, own),
        "stage3_max_live_parameters": Size(BILLION, "DeepSpeed's default, 1e9"),
        "stage3_max_reuse_distance": Size(BILLION, "DeepSpeed's default, 1e9"),
        "sub_group_size": Size(BILLION, "DeepSpeed's default, 1e9"),
    }
    if shape.whole:
        sizes = {name: _capped(size, shape.whole) for name, size in sizes.items()}
    if keep:
        stay = "weights stay gathered from the forward to the backward pass: at most a tenth of the GPU"
        sizes["stage3_max_live_parameters"] = Size(shape.whole, f"the whole model: {stay}")
        sizes["stage3_max_reuse_distance"] = Size(WALKS * shape.whole, f"{WALKS} x the model: {stay}")
    gathered = sizes["allgather_bucket_size"]
    sizes["allgather_bucket_size"] = Size(gathered.value - gathered.value % 2, gathered.why)
    return sizes


def _bucket(shape: Shape, by_block: bool) -> Size:
    """One reduction a block: a bucket that lacks a few elements of it reduces each block's last matrix apart."""
    if not by_block and shape.hidden:
        return Size(shape.hidden**2, f"hidden_size^2 = {shape.hidden}^2")
    if shape.block > LARGEST_BUCKET:
        return Size(LARGEST_BUCKET, f"1e8 at most: a block has {shape.block} parameters")
    return Size(shape.block, f"gradients of a block at once: {shape.block} parameters")


def _prefetch(shape: Shape, by_block: bool) -> Size:
    if by_block or not shape.hidden:
        what = "the next block, a leaf module, while one computes" if by_block else "a block's worth of parameters ahead"
        return Size(min(shape.block, LARGEST_PREFETCH), f"{what}: {shape.block} parameters")
    return Size(9 * shape.hidden**2 // 10, f"0.9 x hidden_size^2 = 0.9 x {shape.hidden}^2, rounded down")


def _persistence(shape: Shape) -> Size:
    if shape.hidden:
        return Size(10 * shape.hidden, f"10 x hidden_size = 10 x {shape.hidden}: norms and biases stay whole")
    return Size(shape.vector, f"the largest parameter that is no matrix, {shape.vector}: norms and biases stay whole")


def _capped(size: Size, whole: int) -> Size:
    return size if size.value <= whole else Size(whole, f"{size.why}, capped at the model's {whole} parameters")
