"""One rank of a plan: element counts, widths, and what it holds from step to step."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from zerocfg.memory.activations import DTYPE_BYTES
from zerocfg.memory.constants import MUON_CACHE_BYTES
from zerocfg.memory.parameters import largest_sub_group, owned_elements, padded_partition, sharded
from zerocfg.plan import Plan
from zerocfg.traced import ActivationTrace, ModelParameters, Parameter, total

BASIC, FUSED_16, UNFUSED_16 = "basic", "FP16_Optimizer", "FP16_UnfusedOptimizer"
BF16_OPTIMIZER, ZERO_1_2, ZERO_3 = "BF16_Optimizer", "DeepSpeedZeroOptimizer", "DeepSpeedZeroOptimizer_Stage3"

_ADAM = ("", "adam", "adamw")
"""Empty: the script's own optimizer, taken for Adam."""
_MOMENTS = {"adam": 2, "adamw": 2, "": 2, "lamb": 2, "lion": 1, "adagrad": 1, "muon": 2}
"""Copies of the master weights that the optimizer keeps; Muon's are those of its Adam half."""


def wrapper(plan: Plan) -> str:
    """Which of DeepSpeed's optimizer wrappers the engine builds (engine.py:2290, _do_optimizer_sanity_check)."""
    precision, stage = plan.precision, plan.zero.stage
    if stage == 3:
        return ZERO_3
    if stage == 1 and precision.dtype == "bf16" and precision.grad_accum_dtype == "fp32" and plan.offload.optimizer == "none":
        return BF16_OPTIMIZER
    if stage in (1, 2):
        return ZERO_1_2
    if precision.dtype == "fp32":
        return BASIC
    fused = plan.optimizer.type.lower() in _ADAM and "torch_adam" not in plan.optimizer.params
    return FUSED_16 if fused else UNFUSED_16


@dataclass(frozen=True)
class Rank:
    """Widths in bytes an element, counts in elements."""

    plan: Plan
    parameters: ModelParameters
    trace: ActivationTrace

    @cached_property
    def wrapper(self) -> str:
        return wrapper(self.plan)

    @cached_property
    def shards(self) -> int:
        """Ranks that states are cut over: stage 3 includes the sequence-parallel ranks, stages 1 and 2 do not."""
        if self.plan.zero.stage == 0:
            return 1
        return self.plan.topology.param_shards if self.plan.zero.stage == 3 else self.plan.topology.data_parallel_size

    # widths
    @property
    def param_width(self) -> int:
        return DTYPE_BYTES[self.plan.precision.dtype]

    @property
    def accum_width(self) -> int:
        return DTYPE_BYTES[self.plan.precision.grad_accum_dtype]

    @property
    def comm_width(self) -> int:
        """With sequence parallelism gradients are reduced in fp32 (constants.py:236, seq_parallel_communication_data_type)."""
        if self.plan.topology.sequence_parallel_degree > 1:
            return 4
        return DTYPE_BYTES[self.plan.precision.communication_data_type]

    @property
    def master_width(self) -> int:
        return DTYPE_BYTES[self.plan.precision.master_dtype] if self.plan.zero.stage else 4

    @property
    def separate_accumulation(self) -> bool:
        """Gradients are accumulated in another dtype than the weights'."""
        return self.plan.precision.grad_accum_dtype != self.plan.precision.dtype

    # counts
    @cached_property
    def is_muon(self) -> bool:
        return self.plan.optimizer.type.lower() == "muon"

    @cached_property
    def moments(self) -> int:
        return _MOMENTS.get(self.plan.optimizer.type.lower(), 2)

    @cached_property
    def muon(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters.trainable if self.is_muon and p.uses_muon)

    @cached_property
    def other(self) -> tuple[Parameter, ...]:
        return tuple(p for p in self.parameters.trainable if not (self.is_muon and p.uses_muon))

    @cached_property
    def numel(self) -> int:
        """Trainable elements on this rank before sharding."""
        return self.parameters.num_trainable

    @cached_property
    def shard(self) -> int:
        """Trainable elements of this rank's part, padding counted."""
        return self.part(self.muon) + self.part(self.other)

    def part(self, group: tuple[Parameter, ...]) -> int:
        if not group:
            return 0
        if self.plan.zero.stage == 3:
            return sharded((p.numel for p in group), self.shards)
        return padded_partition(total(group), self.shards) if self.plan.zero.stage else total(group)

    @cached_property
    def frozen_bytes(self) -> int:
        frozen = [p.numel for p in self.parameters.entries if not p.trainable]
        return self.param_width * (sharded(frozen, self.shards) if self.plan.zero.stage == 3 else sum(frozen))

    @cached_property
    def state_bytes(self) -> int:
        """Optimizer states of this rank's part, wherever they live."""
        width = self.master_width
        states = self.moments * width * self.part(self.other)
        if self.plan.optimizer.type.lower() == "adagrad" and self.wrapper not in (BASIC, ZERO_3) and not self.offloads_optimizer:
            # torch's Adagrad makes its state for the model's weights, before DeepSpeed replaces them by its own, and keeps it
            states += self.param_width * self.numel
        if not self.muon:
            return states
        momentum = self.part(self.muon)
        if self.plan.zero.stage == 3:
            # stage3.py:1066; buffers of the all-gathers of a few shapes are kept for the next step (line 2080)
            chunk = max(min(self.plan.zero.reduce_bucket_size, total(self.muon)), max(p.numel for p in self.muon))
            cache = 3 * self.comm_width * (chunk + chunk // self.shards) if self.shards > 1 else 0
            return states + self.comm_width * momentum + min(MUON_CACHE_BYTES, cache)
        if self.wrapper == ZERO_1_2:
            # momentum and its staged copy, of whole parameters (stage_1_and_2.py:2831 and 3000)
            owned = max(owned_elements((p.numel for p in self.muon), self.shards))
            width = self.accum_width if self.plan.zero.stage == 1 else self.param_width
            return states + 2 * width * owned
        return states + 4 * momentum

    @cached_property
    def gpu_sub_groups(self) -> float:
        """Share of stage 3's sub-groups whose optimizer states stay on the GPU (stage3.py:1098)."""
        if self.plan.offload.optimizer == "none":
            return 1.0
        _, count = self.sub_groups
        return int((1 - self.plan.offload.ratio) * count) / count

    @cached_property
    def sub_groups(self) -> tuple[int, int]:
        """(elements of the largest sub-group, number of sub-groups) at stage 3."""
        groups = [g for g in (self.muon, self.other) if g]
        found = [largest_sub_group((p.numel for p in g), self.shards, self.plan.zero.sub_group_size) for g in groups]
        return max((size for size, _ in found), default=0), max(1, sum(n for _, n in found))

    @property
    def gathers_blocks(self) -> bool:
        """A block is a leaf module: it is gathered as one, and its gradients are reduced when all of them are there."""
        zero = self.plan.zero
        return zero.stage == 3 and (bool(zero.leaf_module_classes) or zero.find_leaf_modules)

    @property
    def offloads_optimizer(self) -> bool:
        return self.plan.offload.optimizer != "none" and self.plan.zero.stage > 0

    @property
    def offloads_params(self) -> bool:
        return self.plan.offload.param != "none" and self.plan.zero.stage == 3

    @property
    def accumulates(self) -> bool:
        return self.plan.batch.gradient_accumulation_steps > 1

    @property
    def micro(self) -> int:
        return self.plan.batch.micro_batch_size
