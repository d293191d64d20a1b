"""Keys that older releases read and this one does not: refused by name, or silently ignored.

`loud`: DeepSpeed raises as soon as the key is there, whatever its value. The test of the table compares these with the
installed release's own lists.
"""

from __future__ import annotations

from dataclasses import dataclass

_Z = "zero_optimization"


@dataclass(frozen=True, kw_only=True)
class Removed:
    path: str
    removed_in: str
    doc: str
    replacement: str = ""
    loud: bool = False


def _loud(path: str, removed_in: str, doc: str, replacement: str = "") -> Removed:
    return Removed(path=path, removed_in=removed_in, doc=doc, replacement=replacement, loud=True)


def _silent(path: str, removed_in: str, doc: str, replacement: str = "") -> Removed:
    return Removed(path=path, removed_in=removed_in, doc=doc, replacement=replacement)


REMOVED: tuple[Removed, ...] = (
    _loud("nebula", "0.19.7", "Nebula checkpoints.", "checkpoint.writer, or torch.save as it is"),
    _loud("compression_training", "0.19.7", "The compression library: quantization and pruning while training."),
    _loud("quantize_training", "0.19.7", "Mixture of quantization."),
    _loud("sparse_attention", "0.19.7", "Sparse attention kernels.", "the attention of the model"),
    _loud("amp", "0.19.8", "NVIDIA Apex AMP.", "bf16, fp16 or torch_autocast"),
    _loud("sparse_gradients", "0.19.8", "Sparse reduction of embedding gradients.", "torch.nn.Embedding(sparse=True), which needs no key"),
    _loud("eigenvalue", "0.19.8", "Eigenvalues for mixture of quantization."),
    _loud(
        "elasticity",
        "0.19.8",
        "Elastic training.",
        "train_batch_size, train_micro_batch_size_per_gpu and gradient_accumulation_steps, written for the ranks there are",
    ),
    _loud("graph_harvesting", "0.19.8", "CUDA graphs of training.", "compile"),
    _loud(
        "curriculum_learning",
        "0.19.8",
        "The old curriculum.",
        "data_efficiency.data_sampling.curriculum_learning",
    ),
    _loud("progressive_layer_drop", "0.19.8", "Progressive layer dropping."),
    _loud(f"{_Z}.mics_shard_size", "0.19.7", "MiCS.", f"{_Z}.zero_hpz_partition_size"),
    _loud(f"{_Z}.mics_hierarchical_params_gather", "0.19.7", "MiCS.", f"{_Z}.zero_hpz_partition_size"),
    _loud(f"{_Z}.zeropp_loco_param", "0.19.8", "LoCo error feedback.", f"{_Z}.zero_quantized_gradients"),
    _silent("aio.thread_count", "0.16.9", "Threads of one request.", "aio.intra_op_parallelism"),
    _silent("seq_parallel_comm_data_type", "0.16.9", "Old name.", "seq_parallel_communication_data_type"),
)

REMOVED_OPTIMIZERS: dict[str, tuple[str, str]] = {
    "onebitadam": ("0.19.7", "AdamW"),
    "onebitlamb": ("0.19.7", "Lamb"),
    "zerooneadam": ("0.19.7", "AdamW"),
}
"""Lower-case optimizer type -> (release that lost it, what is left). Their names are no class of torch.optim either."""
