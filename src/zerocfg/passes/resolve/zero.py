"""ZeRO stage and the sizes that go with it.

Stage 3 spends its time on the host, in the hooks of each module (1.4 ms a module and step): with the repeated block as leaf
module it takes one fetch for the block, 56.8 against 28.6 thousand tokens/s for a 1.3 B GPT on two H200 at micro batch 4. Bucket and
prefetch then hold a block, so that the next block is on its way while one computes. With leaf_module_classes=[] the sizes follow the
widely used rule by hidden size (Hugging Face Trainer's values for "auto"): hidden^2, 0.9 hidden^2, 10 hidden.
Every size is a whole number and never larger than the model, because DeepSpeed allocates reduce buckets whole, whatever the model
needs (stage_1_and_2.py:3256, stage3.py:779).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import ModelFacts
from zerocfg.plan import TopologyPlan, ZeroPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.parallelism import ParallelismConfig

_PASS = "resolve.zero"

# DeepSpeed 0.19.8's own sizes (runtime/zero/config.py), elements
_BUCKET = 500_000_000
_PREFETCH = 50_000_000
_PERSISTENCE = 100_000
_BILLION = 1_000_000_000
_LARGEST_BUCKET, _LARGEST_PREFETCH = 100_000_000, 400_000_000
"""With leaf modules: beyond these a longer message gains nothing, and the memory is needed."""


@dataclass
class _Chooser:
    """Takes a field as asked, or by the rule given; remembers why."""

    config: ParallelismConfig
    model: ModelFacts | None
    reasons: dict[str, Reason] = field(default_factory=dict)

    def flag(self, name: str, default: bool, why: str) -> bool:
        given = getattr(self.config, name)
        self.reasons[name] = rule(_PASS, why) if given is None else asked(f"parallelism.{name}")
        return default if given is None else bool(given)

    def size(self, name: str, default: int, why: str, *, even: bool = False) -> int:
        """`default` elements, but not more than the model holds."""
        given = getattr(self.config, name)
        if given is not None:
            self.reasons[name] = asked(f"parallelism.{name}")
            return int(given)
        if self.model is not None and default > self.model.num_parameters:
            default, why = self.model.num_parameters, f"{why}, capped at the model's {self.model.num_parameters} parameters"
        if even:
            default -= default % 2
        self.reasons[name] = rule(_PASS, why)
        return default


def resolve_zero(
    config: ParallelismConfig, model: ModelFacts | None, topology: TopologyPlan, optimizer_type: str, *, param_offload: str = "none"
) -> Resolved[ZeroPlan]:
    """Codes: ZC301 a stage other than 0-3. param_offload: where parameters live, none, cpu or nvme."""
    stage = int(config.stage or 0)
    problems = []
    if stage not in (0, 1, 2, 3):
        problems.append(
            Diagnostic(
                code="ZC301",
                path="parallelism.stage",
                message=f"parallelism.stage={stage} is not a ZeRO stage",
                hint="parallelism.stage=0, 1, 2 or 3",
            )
        )
        stage = 3 if stage > 3 else 0
    pick = _Chooser(config, model)
    pick.reasons["stage"] = asked("parallelism.stage")
    hidden = model.hidden_size if model else 0
    sharded, third = stage >= 1, stage == 3
    no_dims = "DeepSpeed's default (model not described)"
    find_leaf, leaf_reason = _leaf(config, topology, param_offload)
    find_leaf = find_leaf and third
    by_block = third and (find_leaf or bool(config.leaf_module_classes))
    prefetch, prefetch_why = _prefetch(model, by_block) if model else (_PREFETCH, no_dims)
    if third and model and by_block and hidden**2 <= _LARGEST_BUCKET // 2:
        times = max(1, min(round(model.block_parameters / hidden**2), _LARGEST_BUCKET // hidden**2))
        bucket, bucket_why = times * hidden**2, f"{times} x hidden_size^2 = {times} x {hidden}^2: gradients of a block at once"
    elif third and model:
        bucket, bucket_why = hidden**2, f"hidden_size^2 = {hidden}^2"
    else:
        bucket, bucket_why = _BUCKET, "DeepSpeed's default, 5e8" if model else no_dims
    muon3 = third and optimizer_type.lower() == "muon"
    hpz, hpz_reason = _hpz(config, topology)
    pick.reasons["zero_hpz_partition_size"] = hpz_reason
    for name in ("zero_quantized_weights", "zero_quantized_gradients", "stage3_gather_16bit_weights_on_model_save"):
        pick.reasons[name] = asked(f"parallelism.{name}")
    pick.reasons["leaf_module_classes"] = asked("parallelism.leaf_module_classes")
    pick.reasons["find_leaf_modules"] = leaf_reason
    plan = ZeroPlan(
        stage=stage,
        overlap_comm=pick.flag("overlap_comm", sharded, "on from stage 1: reduction hides behind the backward pass"),
        contiguous_gradients=pick.flag("contiguous_gradients", sharded, "on from stage 1: no fragmentation of gradients"),
        reduce_scatter=pick.flag(
            "reduce_scatter",
            sharded and not muon3,
            "off: Muon at stage 3 refuses it (stage3.py:360)" if muon3 else "on from stage 1: each rank receives only its shard",
        ),
        reduce_bucket_size=pick.size("reduce_bucket_size", bucket, bucket_why),
        allgather_bucket_size=pick.size("allgather_bucket_size", _BUCKET, "DeepSpeed's default, 5e8", even=True),
        round_robin_gradients=bool(config.round_robin_gradients),
        stage3_prefetch_bucket_size=pick.size("stage3_prefetch_bucket_size", prefetch, prefetch_why),
        stage3_param_persistence_threshold=pick.size(
            "stage3_param_persistence_threshold",
            *((10 * hidden, f"10 x hidden_size = 10 x {hidden}: norms and biases stay whole") if model else (_PERSISTENCE, no_dims)),
        ),
        stage3_max_live_parameters=pick.size("stage3_max_live_parameters", _BILLION, "DeepSpeed's default, 1e9"),
        stage3_max_reuse_distance=pick.size("stage3_max_reuse_distance", _BILLION, "DeepSpeed's default, 1e9"),
        stage3_gather_16bit_weights_on_model_save=config.stage3_gather_16bit_weights_on_model_save,
        sub_group_size=pick.size("sub_group_size", _BILLION, "DeepSpeed's default, 1e9"),
        zero_hpz_partition_size=hpz,
        zero_quantized_weights=config.zero_quantized_weights,
        zero_quantized_gradients=config.zero_quantized_gradients,
        leaf_module_classes=tuple(config.leaf_module_classes or ()),
        find_leaf_modules=find_leaf,
    )
    pick.reasons["round_robin_gradients"] = asked("parallelism.round_robin_gradients")
    return Resolved(plan, pick.reasons, problems)


def _prefetch(model: ModelFacts, by_block: bool) -> tuple[int, str]:
    hidden, block = model.hidden_size, model.block_parameters
    if by_block:
        return min(block, _LARGEST_PREFETCH), f"the next block, a leaf module, while one computes: {block} parameters"
    return 9 * hidden**2 // 10, f"0.9 x hidden_size^2 = 0.9 x {hidden}^2, rounded down"


def _leaf(config: ParallelismConfig, topology: TopologyPlan, param_offload: str) -> tuple[bool, Reason]:
    if config.leaf_module_classes is not None:
        return False, asked("parallelism.leaf_module_classes")
    if param_offload == "nvme":
        return False, rule(_PASS, "parameters on NVMe: a block would need more swap buffers than there are", "offload.param")
    if topology.tensor_parallel_degree > 1:
        return False, rule(_PASS, "tensor parallelism replaces the modules", "parallelism.tensor_parallel_degree")
    return True, rule(_PASS, "one fetch a block instead of one a module; the model itself says which class it is")


def _hpz(config: ParallelismConfig, topology: TopologyPlan) -> tuple[int, Reason]:
    path = "parallelism.zero_hpz_partition_size"
    if config.zero_hpz_partition_size is None:
        return 1, rule(_PASS, "off")
    if int(config.zero_hpz_partition_size) == 0:
        n = topology.nproc_per_node
        return n, rule(_PASS, f"the ranks of one node, {n}: parameters are gathered over the node's own link", path)
    return int(config.zero_hpz_partition_size), asked(path)
