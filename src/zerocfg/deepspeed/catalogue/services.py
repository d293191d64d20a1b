"""Activation checkpointing, pipeline, checkpoints, asynchronous IO, compile, hybrid engine, quantized weights."""

from __future__ import annotations

from zerocfg.deepspeed.catalogue.entry import Entry, model, raw, section

CONFIGURE = ("call: deepspeed.checkpointing.configure(mpu, deepspeed_config=...)",)
PIPELINE = ("model: deepspeed.pipe.PipelineModule",)
NVME = ("zero_optimization.offload_optimizer.device=nvme or zero_optimization.offload_param.device=nvme",)
WRITER = ("env: CROSS_RANK, CROSS_SIZE",)
COMPILE = ("call: engine.compile()",)
HYBRID = ("hybrid_engine.enabled",)
AC = "activation_checkpointing"

ENTRIES: tuple[Entry, ...] = (
    section(
        AC, "Settings of deepspeed.checkpointing.checkpoint(); the JSON alone recomputes nothing.", status="needs_call", needs=CONFIGURE
    ),
    raw(f"{AC}.partition_activations", "bool", False, "Split stored activations over the model-parallel ranks.", needs=CONFIGURE),
    raw(f"{AC}.number_checkpoints", "int|null", None, "Stored activations a forward pass; sizes the flat buffer.", gt=0, needs=CONFIGURE),
    raw(
        f"{AC}.contiguous_memory_optimization",
        "bool",
        False,
        "Store activations in one flat buffer; needs partition_activations and number_checkpoints.",
        needs=CONFIGURE,
    ),
    raw(f"{AC}.cpu_checkpointing", "bool", False, "Keep stored activations on the CPU.", needs=CONFIGURE),
    raw(f"{AC}.profile", "bool", False, "Log the time of each checkpointed call.", needs=CONFIGURE),
    raw(f"{AC}.synchronize_checkpoint_boundary", "bool", False, "Synchronize the device around each checkpointed call.", needs=CONFIGURE),
    section("pipeline", "Settings of the pipeline engine; read only when the model is a PipelineModule.", needs=PIPELINE),
    raw("pipeline.stages", 'int|str|"auto"', "auto", "Never consumed: num_stages is an argument of PipelineModule.", status="dead"),
    raw("pipeline.partition", "str", "best", "Never consumed: partition_method is an argument of PipelineModule.", status="dead"),
    raw("pipeline.seed_layers", "bool", False, "Never consumed: an argument of PipelineModule.", status="dead"),
    raw("pipeline.activation_checkpoint_interval", "int", 0, "Layers between stored activations; 0 stores all.", ge=0, needs=PIPELINE),
    raw("pipeline.pipe_partitioned", "bool", True, "Split activations sent between stages over the tensor-parallel ranks.", needs=PIPELINE),
    raw("pipeline.grad_partitioned", "bool", True, "Split gradients sent between stages over the tensor-parallel ranks.", needs=PIPELINE),
    raw("pipeline.use_reentrant", "bool|null", None, "Reentrant activation checkpointing; null means true.", needs=PIPELINE),
    section("checkpoint", "How engine.save_checkpoint() and load_checkpoint() work."),
    raw(
        "checkpoint.tag_validation",
        "str",
        "WARN",
        "When ranks disagree about the tag: WARN, IGNORE or FAIL.",
        choices=("WARN", "IGNORE", "FAIL"),
        casefold=True,
    ),
    raw("checkpoint.load_universal", "bool", False, "Load a universal checkpoint, whatever layout wrote it."),
    raw("checkpoint.use_node_local_storage", "bool", False, "Each node writes and reads its own disk."),
    section("checkpoint.parallel_write", "Who writes which file.", needs=PIPELINE),
    raw("checkpoint.parallel_write.pipeline_stage", "bool", False, "Data-parallel ranks share the writing of a stage.", needs=PIPELINE),
    raw("checkpoint.checkpoint_serialization", "bool", True, "Use torch's zip format."),
    section(
        "checkpoint.writer",
        "The fast writer; null keeps torch.save. Needs variables only DeepSpeed's launcher sets.",
        nullable=True,
        needs=WRITER,
    ),
    raw(
        "checkpoint.writer.type",
        "str|null",
        "FAST",
        "Which writer: FAST, PYTHON or MOCK.",
        choices=("MOCK", "PYTHON", "FAST"),
        casefold=True,
        needs=WRITER,
    ),
    raw("checkpoint.writer.io_buffer_size", "int", 64 * 1024**2, "Bytes of the IO buffer.", gt=0, needs=WRITER),
    raw("checkpoint.writer.io_buffer_double", "bool", True, "Two buffers instead of one.", needs=WRITER),
    raw("checkpoint.writer.show_statistics", "bool", False, "Log the speed of writing.", needs=WRITER),
    raw(
        "checkpoint.writer.data_parallel",
        "str|null",
        None,
        "Ranks that share the writing: REPLICA, SOCKET or MACHINE.",
        choices=("REPLICA", "SOCKET", "MACHINE"),
        casefold=True,
        needs=WRITER,
    ),
    raw("checkpoint.writer.decoupled", "bool", False, "Write in another process while training goes on.", needs=WRITER),
    raw("checkpoint.writer.io_multiplier", "int", 1, "Writers a file is spread over.", gt=0, needs=WRITER),
    raw("datastates_ckpt", "object|bool", False, "Use the DataStates checkpoint engine (own package); any value but false enables it."),
    section("aio", "libaio of the NVMe swapping.", nullable=True),
    raw("aio.block_size", "int", 1048576, "Bytes of one request.", gt=0, needs=NVME),
    raw("aio.queue_depth", "int", 8, "Requests in flight.", gt=0, needs=NVME),
    raw("aio.intra_op_parallelism", "int", 1, "Threads that serve one request.", gt=0, needs=NVME),
    raw("aio.single_submit", "bool", False, "Submit requests one at a time.", needs=NVME),
    raw("aio.overlap_events", "bool", True, "Submit while earlier requests complete.", needs=NVME),
    raw("aio.use_gds", "bool", False, "GPUDirect Storage; CUDA only.", needs=(*NVME, "accelerator=cuda")),
    model("compile", "DeepCompile and other compiler passes; takes effect only when the script compiles the engine."),
    model("compile.deepcompile", "Let the compiler schedule ZeRO's communication (stages 1 to 3, CUDA).", needs=COMPILE, stages=(1, 2, 3)),
    model(
        "compile.autoep_non_moe", "Compile what is around AutoEP layers, leaving those eager.", needs=(*COMPILE, "expert_parallel.enabled")
    ),
    model("compile.free_activation", "Free large activations early.", needs=("compile.deepcompile",)),
    model("compile.free_activation_threshold", "Bytes from which an activation counts as large.", needs=("compile.free_activation",)),
    model(
        "compile.offload_activation",
        "Move saved activations to the CPU between forward and backward.",
        needs=("compile.deepcompile",),
        stages=(3,),
    ),
    model("compile.offload_activation_pin_memory", "Page-lock their buffers.", needs=("compile.offload_activation",), stages=(3,)),
    model(
        "compile.offload_opt_states",
        "Move optimizer states to the CPU during forward and backward.",
        needs=("compile.deepcompile",),
        stages=(3,),
    ),
    model("compile.double_buffer", "Two buffers for the scheduled gathers.", needs=("compile.deepcompile",)),
    model("compile.symmetric_memory", "Communicate through symmetric memory.", needs=("compile.deepcompile",)),
    model("compile.debug_log", "Write the graphs out.", needs=("compile.deepcompile",)),
    model(
        "compile.offload_parameters",
        "Move parameters to the CPU; switched on by itself when both ZeRO offloads are cpu.",
        needs=("compile.deepcompile",),
        stages=(3,),
    ),
    model("compile.sync_before_reduce", "Debugging: synchronize before each reduction.", needs=("compile.deepcompile",)),
    model("compile.sync_after_reduce", "Debugging: synchronize after each reduction.", needs=("compile.deepcompile",)),
    model("compile.sync_before_allgather", "Debugging: synchronize before each gather.", needs=("compile.deepcompile",)),
    model("compile.sync_after_allgather", "Debugging: synchronize after each gather.", needs=("compile.deepcompile",)),
    model("compile.keep_int_input_tensors", "Keep real values of integer inputs for profiling.", needs=("compile.deepcompile",)),
    model("compile.keep_all_input_tensors", "Keep real values of all inputs for profiling.", needs=("compile.deepcompile",)),
    model("compile.passes", "Compiler passes to use: z1, z3, autosp, autotp (autotp alone).", needs=COMPILE),
    model("hybrid_engine", "One engine for training and generation (RLHF)."),
    model("hybrid_engine.enabled", "Build the hybrid engine."),
    model("hybrid_engine.max_out_tokens", "Most tokens of prompt and answer together.", needs=HYBRID),
    model("hybrid_engine.inference_tp_size", "Tensor-parallel ranks while generating.", needs=HYBRID),
    model("hybrid_engine.release_inference_cache", "Free the cache after generating.", needs=HYBRID),
    model("hybrid_engine.pin_parameters", "Keep all layers gathered while generating.", needs=HYBRID),
    model("hybrid_engine.tp_gather_partition_size", "Layers gathered at a time for tensor-parallel generation.", needs=HYBRID),
    model("hybrid_engine.enable_cuda_graph", "CUDA graphs while generating; not at stage 3.", needs=(*HYBRID, "accelerator=cuda")),
    model("weight_quantization", "Quantized weights; training reads only quantized_initialization."),
    model("weight_quantization.enabled", "Never consumed by training.", status="dead"),
    model("weight_quantization.num_bits", "Never consumed by training.", status="dead"),
    model("weight_quantization.q_type", "Never consumed by training.", status="dead"),
    model("weight_quantization.q_groups", "Never consumed by training.", status="dead"),
    model("weight_quantization.quantized_initialization", "Quantize weights inside zero.Init.", stages=(3,)),
    model(
        "weight_quantization.post_init_quant",
        "Quantize an existing model for inference.",
        status="needs_call",
        needs=("call: deepspeed.inference.quantization._init_group_wise_weight_quantization(model, ds_config)",),
    ),
)
