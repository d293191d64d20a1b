"""ZeRO stage and what goes with it; the sizes are those of zerocfg.sizes where nothing else is asked for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import ModelFacts
from zerocfg.plan import TopologyPlan, ZeroPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.parallelism import ParallelismConfig
from zerocfg.sizes import Size, keeps_weights, own_linear, shape_of, zero_sizes
from zerocfg.traced import ModelParameters

_PASS = "resolve.zero"


@dataclass
class _Chooser:
    """Takes a field as asked, or by the rule given; remembers why."""

    config: ParallelismConfig
    sizes: Mapping[str, Size]
    reasons: dict[str, Reason] = field(default_factory=dict)

    def flag(self, name: str, default: bool, why: str) -> bool:
        given = getattr(self.config, name)
        self.reasons[name] = rule(_PASS, why) if given is None else asked(f"parallelism.{name}")
        return default if given is None else bool(given)

    def size(self, name: str) -> int:
        given = getattr(self.config, name)
        size = self.sizes[name]
        self.reasons[name] = rule(_PASS, size.why) if given is None else asked(f"parallelism.{name}")
        return size.value if given is None else int(given)


def resolve_zero(
    config: ParallelismConfig,
    model: ModelFacts | None,
    topology: TopologyPlan,
    optimizer_type: str,
    *,
    param_offload: str = "none",
    parameters: ModelParameters | None = None,
    memory_bytes: int = 0,
    width: int = 2,
    recomputes: bool = False,
) -> Resolved[ZeroPlan]:
    """Codes: ZC301 a stage other than 0-3.

    param_offload: where parameters live, none, cpu or nvme. parameters: of a traced model. memory_bytes: of a GPU. width: bytes of a
    weight. recomputes: activation checkpointing is on.
    """
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
    sharded, third = stage >= 1, stage == 3
    find_leaf, leaf_reason = _leaf(config, topology, param_offload)
    find_leaf = find_leaf and third
    by_block = third and (find_leaf or bool(config.leaf_module_classes))
    shape = shape_of(model, parameters)
    # where zerocfg finds the leaf modules, all of stage 3's shape is its choice
    keep = find_leaf and param_offload == "none" and keeps_weights(shape, memory_bytes, width)
    pick = _Chooser(config, zero_sizes(shape, stage, by_block=by_block, keep=keep))
    pick.reasons["stage"] = asked("parallelism.stage")
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
        reduce_bucket_size=pick.size("reduce_bucket_size"),
        allgather_bucket_size=pick.size("allgather_bucket_size"),
        round_robin_gradients=bool(config.round_robin_gradients),
        stage3_prefetch_bucket_size=pick.size("stage3_prefetch_bucket_size"),
        stage3_param_persistence_threshold=pick.size("stage3_param_persistence_threshold"),
        stage3_max_live_parameters=pick.size("stage3_max_live_parameters"),
        stage3_max_reuse_distance=pick.size("stage3_max_reuse_distance"),
        stage3_gather_16bit_weights_on_model_save=config.stage3_gather_16bit_weights_on_model_save,
        sub_group_size=pick.size("sub_group_size"),
        zero_hpz_partition_size=hpz,
        zero_quantized_weights=config.zero_quantized_weights,
        zero_quantized_gradients=config.zero_quantized_gradients,
        memory_efficient_linear=pick.flag("memory_efficient_linear", True, "DeepSpeed's default"),
        leaf_module_classes=tuple(config.leaf_module_classes or ()),
        find_leaf_modules=find_leaf,
    )
    pick.reasons["round_robin_gradients"] = asked("parallelism.round_robin_gradients")
    live, reuse = plan.stage3_max_live_parameters, plan.stage3_max_reuse_distance
    if find_leaf and config.memory_efficient_linear is None and own_linear(shape, live, reuse, recomputes=recomputes):
        plan = replace(plan, memory_efficient_linear=False)
        kept = "activations are recomputed" if recomputes else "the weights that they keep stay gathered anyway"
        pick.reasons["memory_efficient_linear"] = rule(_PASS, f"torch's own linear layers take less of the host: {kept}")
    return Resolved(plan, pick.reasons, problems)


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
