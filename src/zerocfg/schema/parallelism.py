from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from zerocfg.schema.types import Count


@dataclass
class ParallelismConfig:
    """Group `parallelism`: ZeRO stage and degrees. A size left null is chosen from the model's dims (see `zerocfg explain`)."""

    name: str = ""
    """The option's name, for reports."""
    stage: Optional[Count] = 0
    """ZeRO stage: 0 replicates everything (DDP), 1 shards optimizer states, 2 also gradients, 3 also parameters. Null: the planner's."""
    tensor_parallel_degree: Count = 1
    """Ranks that share each weight matrix (DeepSpeed AutoTP); divides the world."""
    sequence_parallel_degree: Count = 1
    """Ranks that share each sequence (Ulysses); divides the world and num_attention_heads."""
    overlap_comm: Optional[bool] = None
    """Reduce gradients while the backward pass runs. Null: on for stages 1-3."""
    contiguous_gradients: Optional[bool] = None
    """Copy gradients to one buffer as they are produced. Null: on for stages 1-3."""
    reduce_scatter: Optional[bool] = None
    """Reduce-scatter instead of all-reduce. Null: on, but off where the optimizer is muon at stage 3."""
    reduce_bucket_size: Optional[Count] = None
    """Elements reduced at a time."""
    allgather_bucket_size: Optional[Count] = None
    """Elements gathered at a time, stages 1-2."""
    round_robin_gradients: Optional[bool] = None
    """Stages 1-2: spread gradient copies to CPU over ranks."""
    stage3_prefetch_bucket_size: Optional[Count] = None
    """Elements of parameters fetched ahead."""
    stage3_param_persistence_threshold: Optional[Count] = None
    """Parameters with at most this many elements stay whole on every rank."""
    stage3_max_live_parameters: Optional[Count] = None
    """Most parameter elements that may be whole on a rank at a time."""
    stage3_max_reuse_distance: Optional[Count] = None
    """A parameter used again within this many elements is not released."""
    stage3_gather_16bit_weights_on_model_save: bool = False
    """Let save_16bit_model gather the whole model on rank 0."""
    sub_group_size: Optional[Count] = None
    """Elements of the optimizer's state updated at a time."""
    zero_hpz_partition_size: Optional[Count] = None
    """ZeRO++ hpZ: ranks that hold a second full shard; null is off, 0 means gpus_per_node."""
    zero_quantized_weights: bool = False
    """ZeRO++ qwZ: gather int8 weights."""
    zero_quantized_gradients: bool = False
    """ZeRO++ qgZ: reduce int4 gradients between nodes."""
    memory_efficient_linear: Optional[bool] = None
    """DeepSpeed's linear layers, which let a gathered weight go until the backward pass; torch's own take less of the host's time. Null:
    torch's own where the gathered weights stay anyway, or activations are recomputed."""
    leaf_module_classes: Optional[List[str]] = None
    """Class names fetched as one unit at stage 3 (zero_optimization.leaf_module.classes). Null: run.initialize finds the repeated
    block; []: none."""
