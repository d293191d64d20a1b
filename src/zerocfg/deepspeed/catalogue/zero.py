"""zero_optimization: stages, buckets, offload, ZeRO++, ZenFlow."""

from __future__ import annotations

from zerocfg.deepspeed.catalogue.entry import Entry, model

Z = "zero_optimization"
OPT = f"{Z}.offload_optimizer"
PAR = f"{Z}.offload_param"
ZEN = f"{Z}.zenflow"

PARTITIONED = (1, 2)
ANY_STAGE = (1, 2, 3)
THREE = (3,)

ENTRIES: tuple[Entry, ...] = (
    model(Z, "ZeRO: which training states are partitioned over the data-parallel ranks, and where they are kept."),
    model(f"{Z}.stage", "0 nothing, 1 optimizer states, 2 and gradients, 3 and parameters."),
    model(f"{Z}.contiguous_gradients", "Copy gradients into one flat buffer as they appear.", stages=ANY_STAGE),
    model(f"{Z}.reduce_scatter", "Average gradients by reduce-scatter instead of all-reduce.", stages=ANY_STAGE),
    model(f"{Z}.reduce_bucket_size", "Elements reduced at a time; the buffer is allocated whole.", stages=ANY_STAGE),
    model(
        f"{Z}.use_multi_rank_bucket_allreduce", "One all-reduce for a bucket of several ranks, not one reduce a rank.", stages=PARTITIONED
    ),
    model(
        f"{Z}.allgather_partitions",
        "Parsed, and no code of this release asks for it: gathering is always by all-gather.",
        status="dead",
    ),
    model(
        f"{Z}.allgather_bucket_size",
        "Elements gathered at a time after the step; even. Gathering is in place, so it costs no memory.",
        stages=PARTITIONED,
    ),
    model(f"{Z}.overlap_comm", "Reduce gradients while backward runs; null means true at stage 3, else false.", stages=ANY_STAGE),
    model(
        f"{Z}.compute_grad_norm",
        "Compute the global gradient norm; false only with gradient_clipping=0 and without offload.",
        stages=PARTITIONED,
    ),
    model(
        f"{Z}.load_from_fp32_weights",
        "On load, take the fp32 master weights from the checkpoint, not from the 16-bit weights.",
        stages=ANY_STAGE,
    ),
    model(
        f"{Z}.elastic_checkpoint",
        "Old elastic checkpoints; stage 3 raises on save and load. Universal checkpoints replace them.",
        stages=PARTITIONED,
        status="deprecated",
        replacement="checkpoint.load_universal",
    ),
    model(PAR, "Keep the partitioned parameters on CPU or NVMe.", stages=THREE),
    model(f"{PAR}.device", "none, cpu or nvme.", stages=THREE),
    model(f"{PAR}.nvme_path", "Directory for swapped parameters; emptied at start.", stages=THREE, needs=(f"{PAR}.device=nvme",)),
    model(f"{PAR}.buffer_count", "Number of pinned buffers of buffer_size elements.", stages=THREE, needs=(f"{PAR}.device=nvme",)),
    model(
        f"{PAR}.buffer_size",
        "Elements of one pinned buffer; at least the largest partitioned parameter.",
        stages=THREE,
        needs=(f"{PAR}.device=nvme",),
    ),
    model(
        f"{PAR}.max_in_cpu",
        "Elements kept in CPU memory when parameters are on NVMe.",
        stages=THREE,
        needs=(f"{PAR}.device=nvme",),
    ),
    model(f"{PAR}.pin_memory", "Page-lock the CPU copies.", stages=THREE, needs=(f"{PAR}.device=cpu|nvme",)),
    model(OPT, "Keep optimizer states on CPU or NVMe and step there.", stages=ANY_STAGE),
    model(f"{OPT}.device", "none, cpu or nvme (nvme only at stage 3).", stages=ANY_STAGE),
    model(f"{OPT}.nvme_path", "Directory for swapped optimizer states.", stages=THREE, needs=(f"{OPT}.device=nvme",)),
    model(f"{OPT}.buffer_count", "Number of pinned swap buffers.", stages=THREE, needs=(f"{OPT}.device=nvme",)),
    model(f"{OPT}.pin_memory", "Page-lock the CPU copies.", stages=ANY_STAGE, needs=(f"{OPT}.device=cpu|nvme",)),
    model(f"{OPT}.pipeline_read", "Read the next states while this part steps.", stages=THREE, needs=(f"{OPT}.device=nvme",)),
    model(f"{OPT}.pipeline_write", "Write the last states while this part steps.", stages=THREE, needs=(f"{OPT}.device=nvme",)),
    model(f"{OPT}.fast_init", "Faster start when states live on NVMe.", stages=THREE, needs=(f"{OPT}.device=nvme",)),
    model(
        f"{OPT}.ratio",
        "Share of the parameters whose states step on the CPU; below 1 only at stage 3 with Adam.",
        stages=THREE,
        needs=(f"{OPT}.device=cpu|nvme",),
    ),
    model(
        f"{OPT}.super_offload",
        "SuperOffload: overlap the CPU step with backward; CUDA, stage 3, device cpu.",
        stages=THREE,
        needs=(f"{OPT}.device=cpu", "accelerator=cuda"),
    ),
    model(
        f"{OPT}.cpuadam_cores_perc",
        "Share of the CPU cores given to the SuperOffload optimizer; above 0.",
        stages=THREE,
        needs=(f"{OPT}.super_offload",),
    ),
    model(ZEN, "ZenFlow: step the important gradients on the GPU, the rest later on the CPU.", stages=ANY_STAGE),
    model(f"{ZEN}.topk_ratio", "Share of gradient columns kept as important.", stages=ANY_STAGE),
    model(
        f"{ZEN}.select_strategy",
        "How often the important columns are chosen anew: auto, step or epoch.",
        choices=("auto", "step", "epoch"),
        stages=ANY_STAGE,
    ),
    model(
        f"{ZEN}.select_interval",
        'Steps or epochs between choices, or "auto"; a number only with step or epoch.',
        type='int|"auto"',
        stages=ANY_STAGE,
    ),
    model(
        f"{ZEN}.update_interval",
        "Micro steps between CPU updates; the engine makes it the accumulation steps, so write that number.",
        type='int|"auto"',
        ge=1,
        stages=ANY_STAGE,
    ),
    model(f"{ZEN}.overlap_step", "Run the CPU step beside forward and backward.", stages=ANY_STAGE),
    model(f"{ZEN}.offload", "Offload the selective optimizer states too; needs overlap_comm.", stages=ANY_STAGE),
    model(f"{ZEN}.auto_ratio", 'Threshold that "auto" uses to choose the update interval.', stages=ANY_STAGE),
    model(f"{ZEN}.full_warm_up_rounds", "First rounds in which every gradient is updated at once.", stages=ANY_STAGE),
    model(f"{ZEN}.pt_reserved_cores_perc", "Share of the CPU cores left to PyTorch.", stages=ANY_STAGE),
    model(f"{ZEN}.steps_per_epoch", "Filled in by the engine; not for users.", stages=ANY_STAGE),
    model(f"{Z}.sub_group_size", "Parameters stepped at a time.", stages=THREE),
    model(f"{Z}.cpu_offload_param", "Old form of offload_param.device=cpu.", stages=THREE),
    model(
        f"{Z}.cpu_offload_use_pin_memory",
        "Old flag; no code of this release asks for it.",
        status="dead",
        replacement=f"{OPT}.pin_memory or {PAR}.pin_memory",
    ),
    model(f"{Z}.cpu_offload", "Old form of offload_optimizer.device=cpu.", stages=ANY_STAGE),
    model(f"{Z}.stage3_prefetch_bucket_size", "Parameters fetched ahead of use.", stages=THREE),
    model(f"{Z}.stage3_param_persistence_threshold", "Parameters up to this many elements stay whole on each rank.", stages=THREE),
    model(f"{Z}.stage3_model_persistence_threshold", "Most elements that may stay whole, all parameters together.", stages=THREE),
    model(f"{Z}.stage3_max_live_parameters", "Parameters gathered at a time, per rank.", stages=THREE),
    model(f"{Z}.stage3_max_reuse_distance", "Keep a parameter that is used again within this many elements.", stages=THREE),
    model(
        f"{Z}.stage3_gather_16bit_weights_on_model_save",
        "Let save_16bit_model() gather the weights; without it that call returns False.",
        stages=THREE,
    ),
    model(
        f"{Z}.stage3_module_granularity_threshold",
        "Fetch a module as one unit when parameters / (1 + descendants) is below this.",
        stages=THREE,
    ),
    model(f"{Z}.stage3_use_all_reduce_for_fetch_params", "Fetch parameters by all-reduce, sparing host-side copies.", stages=THREE),
    model(
        f"{Z}.stage3_allgather_sequential",
        "Gather parameter by parameter without a flat buffer; sets the prefetch bucket to 1.",
        stages=THREE,
    ),
    model(f"{Z}.stage3_gather_fp16_weights_on_model_save", "Old name of stage3_gather_16bit_weights_on_model_save.", stages=THREE),
    model(f"{Z}.ignore_unused_parameters", "false: stop when a parameter got no gradient.", stages=PARTITIONED),
    model(f"{Z}.legacy_stage1", "true raises when the engine is built: stage 1 has one implementation.", status="dead"),
    model(f"{Z}.round_robin_gradients", "Spread the copying of gradients to the CPU over the ranks.", stages=PARTITIONED),
    model(f"{Z}.parameter_alignment", "Pad flat buffers so that each parameter starts on 16 bytes; costs memory.", stages=PARTITIONED),
    model(f"{Z}.zero_hpz_partition_size", "hpZ: ranks of the secondary (node-local) parameter partition.", stages=THREE),
    model(f"{Z}.zero_quantized_weights", "qwZ: gather parameters as int8.", stages=THREE, needs=("accelerator=cuda",)),
    model(
        f"{Z}.zero_quantized_nontrainable_weights",
        "Keep frozen weights quantized; fp16 only.",
        stages=THREE,
        needs=("fp16.enabled", "accelerator=cuda"),
    ),
    model(
        f"{Z}.zero_quantized_gradients",
        "qgZ: reduce gradients quantized, by all-to-all; more than one node only.",
        stages=THREE,
        needs=("accelerator=cuda",),
    ),
    model(f"{Z}.memory_efficient_linear", "Linear layers that do not keep the gathered weight for backward.", stages=THREE),
    model(f"{Z}.pipeline_loading_checkpoint", "Load the checkpoint parameter by parameter; other stages raise on load.", stages=THREE),
    model(f"{Z}.override_module_apply", "Let Module.apply see gathered parameters inside zero.Init.", stages=THREE),
    model(f"{Z}.log_trace_cache_warnings", "Warn when the recorded order of modules no longer holds.", stages=THREE),
    model(f"{Z}.enable_sanity_checks", "Extra checks of gradients and parameter states; slow.", stages=THREE),
    model(
        f"{Z}.save_muon_momentum_buffer_in_memory",
        "Keep Muon's momentum in memory when the other states are on NVMe.",
        stages=THREE,
        needs=("optimizer.type=muon", f"{OPT}.device=nvme"),
    ),
    model(f"{Z}.leaf_module", "Modules fetched whole, without hooks inside.", type="section|null", stages=THREE),
    model(f"{Z}.leaf_module.classes", "Class names (short or full) of leaf modules.", type="list[str]|str", stages=THREE),
    model(f"{Z}.leaf_module.names", "Module names of leaf modules.", type="list[str]|str", stages=THREE),
    model(f"{Z}.leaf_module.name_suffixes", "Endings of names of leaf modules.", type="list[str]|str", stages=THREE),
)
