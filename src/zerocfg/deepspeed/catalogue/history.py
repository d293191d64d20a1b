"""When keys came and how defaults moved, read from the sources of the releases in RELEASES.

`since` is the first of these releases that has the key; a key that 0.14.5 already had says nothing. A path that ends in
".*" stands for the section and everything in it that is not named on its own.
"""

from __future__ import annotations

RELEASES = (
    "0.14.5",
    "0.15.4",
    "0.16.9",
    "0.17.6",
    "0.18.9",
    "0.19.0",
    "0.19.2",
    "0.19.3",
    "0.19.4",
    "0.19.5",
    "0.19.6",
    "0.19.7",
    "0.19.8",
)

_Z = "zero_optimization"
_B = "data_efficiency.data_sampling"
_SPEC = "tensor_parallel.partition_config.layer_specs.*"

SINCE: dict[str, tuple[str, ...]] = {
    "0.15.4": ("aio.use_gds", "sequence_parallel_size", "data_parallel_size"),
    "0.16.9": (
        "aio.intra_op_parallelism",
        "compile.*",
        "tensor_parallel.*",
        "seq_parallel_communication_data_type",
        f"{_B}.pin_memory",
        f"{_B}.dynamic_batching.*",
        f"{_Z}.stage3_module_granularity_threshold",
        f"{_Z}.log_trace_cache_warnings",
    ),
    "0.17.6": (
        f"{_Z}.zenflow.*",
        f"{_Z}.enable_sanity_checks",
        "bf16.check_grad_overflow",
        "compile.keep_int_input_tensors",
        "compile.keep_all_input_tensors",
        "torch_autocast.*",
        "checkpoint.checkpoint_serialization",
        "checkpoint.writer.*",
    ),
    "0.18.9": (
        f"{_Z}.stage3_allgather_sequential",
        f"{_Z}.save_muon_momentum_buffer_in_memory",
        f"{_Z}.leaf_module.*",
        f"{_Z}.offload_optimizer.super_offload",
        f"{_Z}.offload_optimizer.cpuadam_cores_perc",
        "bf16.bf16_master_weights_and_grads",
        "bf16.bf16_optimizer_states",
        "compile.free_activation_threshold",
        "compile.passes",
        "tensor_parallel.partition_config.*",
        "tensor_parallel.preset_model",
        "datastates_ckpt",
    ),
    "0.19.2": ("data_types.param_dtype", "data_types.buffer_dtype", "expert_parallel.*"),
    "0.19.3": ("log_level", "expert_parallel.expert_tensor_parallel_size", "expert_parallel.validate_folding_routing"),
    "0.19.4": ("managed_gradient_accumulation", f"{_SPEC}.gather_output", "expert_parallel.disable_triton_grouped_mm"),
    "0.19.6": (
        "hybrid_engine.enable_cuda_graph",
        "compile.offload_activation_pin_memory",
        "gradient_allreduce_op",
        f"{_SPEC}.grad_allreduce",
    ),
    "0.19.7": (
        f"{_Z}.compute_grad_norm",
        f"{_Z}.parameter_alignment",
        "expert_parallel.comm_backend",
        "expert_parallel.comm_num_sm",
        "expert_parallel.comm_qp_margin",
        "expert_parallel.comm_max_tokens_per_rank",
    ),
    "0.19.8": (
        "compile.autoep_non_moe",
        "tensor_parallel.vocab_parallel_lm_head",
        "tensor_parallel.vocab_parallel_ce_backend",
        "disable_python_gc",
        "data_types.keep_in_fp32_modules",
        "expert_parallel.async_split_plan",
        "expert_parallel.expert_activation",
        "expert_parallel.gate_up_impl",
        "expert_parallel.row_weighting_impl",
    ),
}

CHANGED_DEFAULTS: dict[str, tuple[str, object, object]] = {
    "steps_per_print": ("0.15.4", 10, None),
    "gradient_clipping": ("0.19.3", 0.0, 1.0),
    "bf16.check_grad_overflow": ("0.19.3", False, True),
    f"{_Z}.offload_param.pin_memory": ("0.19.5", False, True),
    f"{_Z}.offload_optimizer.pin_memory": ("0.19.5", False, True),
}
"""Path -> (first release with the new default, old, new)."""


def since(path: str) -> str:
    """The release in which `path` came, most special statement first; empty for the oldest."""
    for release, paths in SINCE.items():
        if path in paths:
            return release
    best, length = "", -1
    for release, paths in SINCE.items():
        for pattern in paths:
            stem = pattern[:-2]
            if pattern.endswith(".*") and (path == stem or path.startswith(stem + ".")) and len(stem) > length:
                best, length = release, len(stem)
    return best
