"""train_batch_size = train_micro_batch_size_per_gpu x gradient_accumulation_steps x ranks, as DeepSpeed works it out."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from zerocfg.deepspeed.rules import Finding, rule
from zerocfg.deepspeed.view import View
from zerocfg.diagnostics import Severity

TRAIN, MICRO, STEPS = "train_batch_size", "train_micro_batch_size_per_gpu", "gradient_accumulation_steps"


def _sizes(view: View) -> tuple[int | None, int | None, int | None] | None:
    """The three numbers as written; None when one of them is unusable, which another rule reports."""
    found: list[int | None] = []
    for path in (TRAIN, MICRO, STEPS):
        item = view.item(path)
        if item is None or item.value is None:
            found.append(None)
        elif item.judgement is not None and item.judgement.usable and isinstance(item.judgement.value, int):
            found.append(item.judgement.value)
        else:
            return None
    return found[0], found[1], found[2]


def batch_ranks(view: View) -> Fraction | None:
    """What DeepSpeed divides the batch by; a fraction when only sequence_parallel_size is written. None when unknown.

    With AutoTP it is the whole world, although tensor-parallel ranks see the same samples.
    """
    if view.data_parallel_size is not None:
        return Fraction(view.data_parallel_size)
    sequence, data = view.value("sequence_parallel_size"), view.value("data_parallel_size")
    if isinstance(sequence, int) and isinstance(data, int):
        return Fraction(data)
    if view.world_size is None:
        return None
    return Fraction(view.world_size, sequence) if isinstance(sequence, int) else Fraction(view.world_size)


@rule("ZC640", "neither a global nor a micro batch size")
def no_batch_size(view: View) -> Iterator[Finding]:
    sizes = _sizes(view)
    if sizes is not None and sizes[0] is None and sizes[1] is None:
        yield Finding(MICRO, "is missing, and so is train_batch_size: DeepSpeed needs one of them", hint=view.assign(MICRO, 1))


@rule("ZC641", "batch numbers that do not multiply at this world size")
def batch_product(view: View) -> Iterator[Finding]:
    sizes, ranks = _sizes(view), batch_ranks(view)
    if sizes is None or ranks is None or ranks.denominator != 1 or (sizes[0] is None and sizes[1] is None):
        return  # ZC640 and ZC644 speak of the rest
    train, micro, steps = _inferred(sizes, ranks)
    if train == micro * steps * ranks and micro > 0 and steps > 0:
        return
    words = "what DeepSpeed derives: " if None in sizes else ""
    factor = max(1, (sizes[1] or 1) * (sizes[2] or 1))
    near = [int(factor * ranks * n) for n in _around(train, factor * ranks)] if ranks.denominator == 1 else []
    yield Finding(
        TRAIN if sizes[0] is not None else MICRO,
        f"cannot be reached on {_plain(ranks)} ranks",
        detail=(f"{words}{_plain(train)} = micro batch {micro} x accumulation {steps} x ranks {_plain(ranks)} does not hold",),
        hint=" or ".join(view.assign(TRAIN, size) for size in near if size > 0),
    )


def _inferred(sizes: tuple[int | None, int | None, int | None], ranks: Fraction) -> tuple[Fraction, int, int]:
    """DeepSpeed's own inference, floor divisions and all."""
    train, micro, steps = sizes
    if train is not None and micro is not None:
        if steps is None:
            steps = (train // micro) // ranks if micro else 0
        return Fraction(train), micro, int(steps)
    if train is not None:
        if steps is None:
            return Fraction(train), int(train // ranks), 1
        return Fraction(train), int(train // ranks) // steps if steps else 0, steps
    assert micro is not None
    return micro * (steps or 1) * ranks, micro, steps or 1


def _around(train: Fraction, unit: Fraction) -> list[int]:
    lower = max(1, int(train // unit))
    return [lower] if train <= unit else [lower, lower + 1]


def _plain(number: Fraction) -> str:
    return str(number.numerator) if number.denominator == 1 else f"{float(number):g}"


@rule("ZC642", "batch numbers that no world size satisfies")
def batch_impossible(view: View) -> Iterator[Finding]:
    sizes = _sizes(view)
    if sizes is None or sizes[0] is None or batch_ranks(view) is not None:
        return
    train = sizes[0]
    factor = (sizes[1] or 1) * (sizes[2] or 1)
    if train % factor == 0:
        return
    names = [name for name, size in ((MICRO, sizes[1]), (STEPS, sizes[2])) if size is not None]
    yield Finding(
        TRAIN,
        f"is no multiple of {' x '.join(names)}: no number of ranks fits",
        detail=(f"{train} / {factor} = {train / factor:g}",),
        hint=" or ".join(view.assign(TRAIN, factor * n) for n in _around(Fraction(train), Fraction(factor))),
    )


@rule("ZC643", "a global batch size together with AutoTP, which DeepSpeed counts over all ranks")
def autotp_batch(view: View) -> Iterator[Finding]:
    sizes = _sizes(view)
    if view.autotp_size < 2 or sizes is None or sizes[0] is None:
        return
    complete = None not in sizes
    at_three = view.stage == 3 and complete
    detail = [f"DeepSpeed divides by the world size, but {view.autotp_size} tensor-parallel ranks share their samples"]
    if at_three:
        detail.append("at stage 3 zero.Init checks the same numbers against world / autotp_size: one of the two checks raises")
    yield Finding(
        TRAIN,
        f"is counted wrongly with {view.full('tensor_parallel.autotp_size')}={view.autotp_size}",
        detail=tuple(detail),
        hint=f"remove {view.full(TRAIN)}; write {view.full(MICRO)} and {view.full(STEPS)}",
        severity=Severity.ERROR if at_three else Severity.WARNING,
    )


@rule("ZC644", "sequence_parallel_size and data_parallel_size that do not fill the world")
def sequence_mesh(view: View) -> Iterator[Finding]:
    sequence, data, world = view.value("sequence_parallel_size"), view.value("data_parallel_size"), view.world_size
    if not isinstance(sequence, int):
        return
    if isinstance(data, int):
        if world is not None and sequence * data != world:
            yield Finding(
                "data_parallel_size",
                f"x sequence_parallel_size {sequence} must be the world size {world}",
                detail=(f"{data} x {sequence} = {data * sequence}",),
                hint=view.assign("data_parallel_size", world // sequence) if world % sequence == 0 else "",
            )
        return
    if world is not None and world % sequence:
        yield Finding("sequence_parallel_size", f"does not divide the world size {world}")
        return
    passes = view.value("compile.passes")
    if sequence > 1 and not (isinstance(passes, list) and "autosp" in passes):
        hint = view.assign("data_parallel_size", world // sequence) if world is not None else f"add {view.full('data_parallel_size')}"
        yield Finding(
            "sequence_parallel_size",
            "alone only divides the batch: no sequence-parallel group is made",
            detail=("DeepSpeed makes its mesh when data_parallel_size is written too; the batch size becomes a fraction",),
            hint=hint,
            severity=Severity.WARNING,
        )
