"""Rules of the plan that a JSON alone does not break: what the groups refuse to run, and what they cannot say."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.importer.draft import Draft, split
from zerocfg.deepspeed.importer.text import is_name, sayable
from zerocfg.deepspeed.importer.world import MICRO, STEPS, TOTAL, micro_and_steps, tiles, world_sizes
from zerocfg.deepspeed.keys import optimizer_type
from zerocfg.units import counted

ZERO = "zero_optimization"
_LARGEST = 2**63 - 1
DTYPES = {
    "fp16": "fp16",
    "float16": "fp16",
    "half": "fp16",
    "bf16": "bf16",
    "bfloat16": "bf16",
    "fp32": "fp32",
    "float32": "fp32",
    "float": "fp32",
}
"""DeepSpeed's spellings (runtime/config.py:144), without "torch."."""


def refuse_by_plan(draft: Draft) -> None:
    """Refuse each key that the compiler would refuse, or that no config of ours can say, with the code and the fix."""
    _beyond_64_bits(draft)
    _degrees(draft)
    _lamb(draft)
    _muon(draft)
    _zenflow(draft)
    _bf16_states(draft)
    _not_sayable(draft)
    _names(draft)


def _count(draft: Draft, path: str) -> int:
    value = draft.leaves.get(path)
    return value if isinstance(value, int) and not isinstance(value, bool) else 1


def _beyond_64_bits(draft: Draft) -> None:
    for path, value in list(draft.leaves.items()):
        if _too_large(value):
            draft.refuse(path, "ZC106", f"does not fit in 64 bits; try: {_LARGEST} at the very most")


def _too_large(value: Any) -> bool:
    if isinstance(value, (list, dict)):
        return any(map(_too_large, value.values() if isinstance(value, dict) else value))
    return isinstance(value, int) and abs(value) > _LARGEST


def _degrees(draft: Draft) -> None:
    tensor, sequence = _count(draft, "tensor_parallel.autotp_size"), _count(draft, "sequence_parallel_size")
    if sequence > 1 and "data_parallel_size" not in draft.leaves:
        why = "alone it makes no sequence-parallel group, it only divides the batch; try: parallelism.sequence_parallel_degree"
        draft.refuse("sequence_parallel_size", "ZC644", f"{why}={sequence}")
    elif sequence > 1 and tensor > 1:
        for path in ("sequence_parallel_size", "data_parallel_size"):
            draft.refuse(path, "ZC216", f"not together with tensor_parallel.autotp_size={tensor}: the same ranks would be in both groups")
    if tensor > 1:
        for name, off in (("zero_hpz_partition_size", 1), ("zero_quantized_gradients", False)):
            if draft.leaves.get(f"{ZERO}.{name}", off) != off:
                draft.refuse(f"{ZERO}.{name}", "ZC318", "groups ranks without regard to tensor_parallel.autotp_size; try: one of the two")


def tensor_parallel_batch(draft: Draft, world_size: int | None) -> None:
    """DeepSpeed divides train_batch_size by all ranks, tensor-parallel ones included: micro and steps say the same without it."""
    if _count(draft, "tensor_parallel.autotp_size") < 2 or TOTAL not in draft.leaves:
        return
    total, micro, steps = (draft.leaves.get(path) for path in (TOTAL, MICRO, STEPS))
    if micro is not None and steps is not None:
        draft.drop(TOTAL, "ZC909", "micro x accumulation says it: DeepSpeed counts all ranks, tensor-parallel ones share their samples")
    elif world_size is not None:
        draft.leaves[MICRO], draft.leaves[STEPS] = micro_and_steps(total, micro, steps, world_size)
        became = f"{MICRO}={draft.leaves[MICRO]} and {STEPS}={draft.leaves[STEPS]}"
        draft.drop(TOTAL, "ZC909", f"became {became}, as DeepSpeed derives them on {counted(world_size, 'rank')}")
    else:
        draft.refuse(TOTAL, "ZC643", "what it means depends on the ranks with tensor_parallel.autotp_size; try: --world-size N")


def _lamb(draft: Draft) -> None:
    if optimizer_type(str(draft.leaves.get("optimizer.type", ""))) != "lamb":
        return
    if draft.view().offloaded:
        for path in draft.below("optimizer"):
            draft.refuse(path, "ZC320", "Lamb has no CPU version, and the optimizer is offloaded; try: optimizer=adamw, or offload=none")
        return
    for name in ("bf16_master_weights_and_grads", "bf16_optimizer_states"):
        if draft.leaves.get(f"bf16.{name}") is True:
            draft.refuse(f"bf16.{name}", "ZC320", "Lamb has no bf16 kernel: the first step fails; try: precision=bf16")


def _muon(draft: Draft) -> None:
    path = f"{ZERO}.reduce_scatter"
    muon = optimizer_type(str(draft.leaves.get("optimizer.type", ""))) == "muon"
    if muon and draft.leaves.get(f"{ZERO}.stage") == 3 and path not in draft.leaves:
        draft.leaves[path] = False
        draft.note("optimizer.type", "ZC653", "Muon at stage 3 needs reduce_scatter=false, which is added: DeepSpeed raises without it")


def allowed_world_sizes(draft: Draft) -> list[int]:
    """Ranks that the batch numbers and the degrees allow; numbers and degrees that none of them fits are refused."""
    sizes = world_sizes(draft.leaves)
    if not sizes and "data_parallel_size" in draft.leaves:
        for path in draft.below("sequence_parallel_size") + draft.below("data_parallel_size"):
            draft.refuse(path, "ZC644", "no machine has so many ranks, or the batch numbers do not fit them; try: another size")
        sizes = world_sizes(draft.leaves)
    if not sizes and TOTAL in draft.leaves:
        draft.refuse(TOTAL, "ZC642", f"fits no number of ranks; try: {TOTAL} = {MICRO} x {STEPS} x ranks")
        sizes = world_sizes(draft.leaves)
    for path, code in ((f"{ZERO}.zero_hpz_partition_size", "ZC677"), ("tensor_parallel.autotp_size", "ZC681")):
        tensor, secondary = _count(draft, "tensor_parallel.autotp_size"), _count(draft, f"{ZERO}.zero_hpz_partition_size")
        if fit := [size for size in sizes if tiles(size, tensor, secondary)]:
            return fit
        if path in draft.leaves:
            few = ", ".join(map(str, sizes[:6]))
            draft.refuse(path, code, f"divides no number of ranks that the batch numbers allow ({few}); try: one of its divisors")
    return sizes


def _zenflow(draft: Draft) -> None:
    """It overwrites the accumulation steps with its own number, which must be the same; here they depend on the ranks."""
    if TOTAL in draft.leaves and MICRO in draft.leaves and STEPS not in draft.leaves:
        for path in draft.below(f"{ZERO}.zenflow"):
            why = f"takes the place of {STEPS}, which is not written and depends on the ranks; try: write {STEPS}"
            draft.refuse(path, "ZC637", why)


def _bf16_states(draft: Draft) -> None:
    view = draft.view()
    fp32_sums = str(view.value("data_types.grad_accum_dtype")).removeprefix("torch.") in ("fp32", "float32", "float")
    if view.stage == 1 and view.bf16 and fp32_sums and view.optimizer_device != "cpu":
        for name in ("bf16_master_weights_and_grads", "bf16_optimizer_states"):
            if draft.leaves.get(f"bf16.{name}") is True:
                why = "no effect at stage 1 with fp32 accumulation: DeepSpeed's BF16_Optimizer does not read it (engine.py:2305)"
                draft.refuse(f"bf16.{name}", "ZC404", f"{why}; try: parallelism=zero2")


def _not_sayable(draft: Draft) -> None:
    flags = [f"bf16.{name}" for name in ("bf16_master_weights_and_grads", "bf16_optimizer_states")]
    on = [path for path in flags if draft.leaves.get(path) is True]
    if len(on) == 1:
        draft.refuse(on[0], "ZC907", "the group says bf16 for weights and states, or fp32 for both; try: precision=bf16_lowmem")
    path = "data_types.grad_accum_dtype"
    if path in draft.leaves and str(draft.leaves[path]).removeprefix("torch.") not in DTYPES:
        draft.refuse(path, "ZC907", "gradients are accumulated in fp32, fp16 or bf16; try: precision.grad_accum_dtype=fp32")
    section = "activation_checkpointing"
    if draft.leaves.get(f"{section}.contiguous_memory_optimization") is not True and f"{section}.number_checkpoints" in draft.leaves:
        draft.refuse(f"{section}.number_checkpoints", "ZC315", "no effect without contiguous_memory_optimization")


def _names(draft: Draft) -> None:
    """Free names (a metric, an argument) that an override cannot spell."""
    for path, value in list(draft.leaves.items()):
        if not (all(is_name(name) for name in split(path)) and sayable(value)):
            draft.refuse(path, "ZC907", "no override can spell this name; try: letters, digits, _ - . / and *, a letter first")
