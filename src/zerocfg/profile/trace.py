"""Activations of the user's own model, traced on fake tensors in a second or two."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from zerocfg.profile.failure import CannotTrace, told_as
from zerocfg.profile.live import Tally, live_bytes
from zerocfg.profile.standins import as_on_cuda
from zerocfg.runtime.leaf import repeated_blocks
from zerocfg.traced import OUTSIDE, ActivationTrace, ModelParameters, Parameter

Inputs = Callable[[int], Any]
"""samples -> what the model is called with: a tuple of positional, or a mapping of named arguments."""

_SAMPLES = (8, 16)
"""Bytes a sample are the slope between these; enough samples that gradients of weights do not hide activations."""


@contextmanager
def _without_torchs_log() -> Iterator[None]:
    """Of an operation that fails torch logs the traceback, too."""
    logger = logging.getLogger("torch._subclasses.fake_tensor")
    before, logger.disabled = logger.disabled, True
    try:
        yield
    finally:
        logger.disabled = before


def causal_lm_inputs(sequence_length: int, vocab_size: int) -> Inputs:
    """Token ids and targets, positional: what train.py's GPT takes."""

    def inputs(samples: int) -> tuple[Any, Any]:
        import torch

        shape = (samples, sequence_length)
        return torch.randint(vocab_size, shape), torch.randint(vocab_size, shape)

    return inputs


def trace_model(build: Callable[[], Any], inputs: Inputs, *, dtype: str, tokens: int = 0) -> ActivationTrace:
    """What `build()`'s model keeps, bytes a sample; its parameters, FLOPs a token and repeated blocks.

    build: returns a torch.nn.Module without activation checkpointing. Called once, on fake CPU tensors in `dtype` (fp32, fp16,
    bf16). Its output is the loss: a scalar tensor, an object or mapping with a `loss`, or a tuple that begins with it.
    tokens: a sample's; 0: what the first input says (_tokens). Raises CannotTrace.
    """
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode

    before = torch.get_default_dtype()
    with FakeTensorMode(), _without_torchs_log():
        torch.set_default_dtype({"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[dtype])
        try:
            with told_as("building the model"):
                model = build()
            with told_as("making its inputs"):
                batches = [inputs(samples) for samples in _SAMPLES]
        finally:
            torch.set_default_dtype(before)
        _check(model, batches[0])
        model.train()
        names, blocks = repeated_blocks(model)
        with told_as("a forward and backward pass on tensors without data"):
            few, many = (_run(model, blocks, batch, samples) for batch, samples in zip(batches, _SAMPLES, strict=True))

    def slope(name: str) -> int:
        rise: int = getattr(many, name) - getattr(few, name)
        return max(0, round(rise / (_SAMPLES[1] - _SAMPLES[0])))

    outside = slope("body") - len(blocks) * slope("block_saved")
    return ActivationTrace(
        source="traced",
        dtype=dtype,
        tokens=tokens or few.tokens // _SAMPLES[0],
        num_blocks=max(1, len(blocks)),
        block_saved=slope("block_saved"),
        block_input=slope("block_input"),
        block_backward=slope("block_backward"),
        outside_saved=max(0, outside),
        loss_forward=slope("loss_forward"),
        loss_saved=slope("loss_saved"),
        loss_backward=slope("loss_backward"),
        head_backward=slope("head_backward"),
        shared=max(0, few.body - _SAMPLES[0] * slope("body")),
        flops_per_token=many.flops / _SAMPLES[1] / max(1, tokens or few.tokens // _SAMPLES[0]),
        blocks=many.inside.of_samples(_SAMPLES[1]),
        outside=many.around.of_samples(_SAMPLES[1]),
        parameters=parameters_in(model, blocks, few.head),
        block_classes=names,
    )


def _check(model: Any, batch: Any) -> None:
    import torch

    if not isinstance(model, torch.nn.Module):
        raise CannotTrace(f"it returned {type(model).__name__}, not a torch.nn.Module")
    if not any(p.requires_grad for p in model.parameters()):
        raise CannotTrace("it has no trainable parameter")
    if not isinstance(batch, (tuple, list, Mapping)):
        raise CannotTrace(f"its inputs are {type(batch).__name__}, not a tuple of positional or a mapping of named arguments")


def parameters_in(model: Any, blocks: list[Any], head: Any) -> ModelParameters:
    """The model's parameters in order, a shared one once."""
    owner = {id(p): i for i, block in enumerate(blocks) for p in block.parameters()}
    head_weight = id(head.weight) if head is not None else 0
    entries = tuple(
        Parameter(
            name,
            p.numel(),
            is_matrix=p.dim() >= 2,
            trainable=p.requires_grad,
            block=owner.get(id(p), OUTSIDE),
            module=name.rpartition(".")[0],
            head=id(p) == head_weight,
        )
        for name, p in model.named_parameters()
    )
    return ModelParameters(entries, max(1, len(blocks)))


@dataclass
class _Measured:
    """Bytes over the model itself, for one number of samples."""

    tokens: int = 0
    body: int = 0
    block_saved: int = 0
    block_input: int = 0
    block_backward: int = 0
    loss_forward: int = 0
    loss_saved: int = 0
    loss_backward: int = 0
    head_backward: int = 0
    inside: Tally = field(default_factory=Tally)
    """Of the blocks."""
    around: Tally = field(default_factory=Tally)
    head: Any = None
    marks: list[int] = field(default_factory=list)

    @property
    def flops(self) -> float:
        return sum(part.matmul_flops + part.attention_flops for part in (self.inside, self.around))


def _run(model: Any, blocks: list[Any], given: Any, samples: int) -> _Measured:
    from torch.utils._pytree import tree_iter

    live = live_bytes(work=True)
    live.ignore(model.parameters())
    live.ignore(model.buffers())
    found = _Measured()
    live.tally = found.around
    with as_on_cuda(live.attention, live.norm), _hooks(model, blocks, live, found), _without_recomputation(live), live:
        live.count(tree_iter(given))
        output = model(**given) if isinstance(given, Mapping) else model(*given)
        loss = _loss_of(output)
        del output
        if not blocks:
            found.body, found.marks = live.now, [live.now]
        found.tokens = samples * _tokens(given)
        found.loss_forward = live.peak - found.marks[-1]
        found.loss_saved = live.now - found.marks[-1]
        live.restart()
        live.forward = False
        loss.backward()
        if not blocks:
            found.loss_backward = live.peak - found.marks[-1]
    if blocks:
        found.block_saved = (found.marks[-1] - found.marks[0]) // len(blocks)
    return found


@contextmanager
def _without_recomputation(live: Any) -> Iterator[None]:
    """A module that runs again in the backward pass is recomputed by the model itself, which is the plan's to decide."""
    from torch.nn.modules.module import register_module_forward_pre_hook

    def hook(module: Any, _: Any) -> None:
        if not live.forward:
            again = f"it recomputes {type(module).__name__} in the backward pass by itself (torch.utils.checkpoint)"
            raise CannotTrace(f"{again}: build it without, the group activation_checkpointing decides that")

    handle = register_module_forward_pre_hook(hook)
    try:
        yield
    finally:
        handle.remove()


@contextmanager
def _hooks(model: Any, blocks: list[Any], live: Any, found: _Measured) -> Iterator[None]:
    """Note what is live when each block begins and ends, in both passes; drop gradients of weights as they come."""
    import torch

    handles: list[Any] = []
    inside = {id(module) for block in blocks for module in block.modules()}
    entered: dict[str, int] = {}

    def begin(_: Any, args: Any, kwargs: Any) -> None:
        hidden = _first_tensor([*args, *kwargs.values()])
        found.block_input = hidden.numel() * hidden.element_size() if hidden is not None else 0
        if not found.marks:
            found.marks.append(live.now)
            if hidden is not None and hidden.requires_grad:
                hidden.register_hook(lambda _: setattr(live, "tally", found.around))
        live.tally = found.inside

    def backward_reaches(index: int) -> Callable[[Any], None]:
        def hook(_: Any) -> None:
            live.tally = found.inside
            if index == len(blocks) - 1:
                found.loss_backward = live.peak - found.marks[-1]
            elif "at" in entered:
                found.block_backward = max(found.block_backward, live.peak - entered["at"])
            # the incoming gradient is live already, and belongs to this block's backward pass
            entered["at"] = live.now - found.block_input
            live.restart()

        return hook

    def end(index: int) -> Callable[..., None]:
        def hook(_: Any, args: Any, output: Any) -> None:
            hidden = _first_tensor([output])
            found.marks.append(live.now)
            live.tally = found.around
            live.restart()
            if hidden is not None and hidden.requires_grad:
                hidden.register_hook(backward_reaches(index))
            if index == len(blocks) - 1:
                found.body = live.now

        return hook

    def ran(module: Any, args: Any, output: Any) -> None:
        found.head = module
        if output.requires_grad:
            output.register_hook(lambda gradient: head_reached(module, gradient))

    def head_reached(module: Any, gradient: Any) -> None:
        # the gradient of the head's input comes on top of what is live
        if module is found.head and found.marks:
            wide = gradient.numel() // gradient.shape[-1] * module.in_features * gradient.element_size()
            found.head_backward = live.now - found.marks[-1] + wide

    for index, block in enumerate(blocks):
        handles.append(block.register_forward_pre_hook(begin, with_kwargs=True))
        handles.append(block.register_forward_hook(end(index)))
    for module in model.modules():
        if isinstance(module, torch.nn.Linear) and id(module) not in inside:
            handles.append(module.register_forward_hook(ran))
    for parameter in model.parameters():
        if parameter.requires_grad:
            handles.append(parameter.register_post_accumulate_grad_hook(lambda p: setattr(p, "grad", None)))
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def _loss_of(output: Any) -> Any:
    import torch

    if isinstance(output, Mapping):
        output = output.get("loss")
    elif hasattr(output, "loss"):
        output = output.loss
    elif isinstance(output, (tuple, list)) and output:
        output = output[0]
    if not isinstance(output, torch.Tensor) or output.numel() != 1 or not output.requires_grad:
        raise CannotTrace("the model's output is not a loss: return a scalar, or an object with `loss`")
    return output


def _first_tensor(values: Any) -> Any:
    import torch
    from torch.utils._pytree import tree_iter

    return next((v for v in tree_iter(values) if isinstance(v, torch.Tensor) and v.is_floating_point()), None)


def _tokens(given: Any) -> int:
    """Of one sample: the second dim of token ids, or of (samples, tokens, features); of images and all else 1."""
    import torch
    from torch.utils._pytree import tree_iter

    first = next((v for v in tree_iter(given) if isinstance(v, torch.Tensor)), None)
    sequences = first is not None and (first.dim() == 3 or (first.dim() == 2 and not first.is_floating_point()))
    return int(first.shape[1]) if first is not None and sequences else 1
