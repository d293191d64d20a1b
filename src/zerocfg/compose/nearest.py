"""Which name was meant."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

OTHER_NAMES: dict[str, str] = {
    # DeepSpeed's JSON
    "train_batch_size": "batch.global_batch_size",
    "train_micro_batch_size_per_gpu": "batch.micro_batch_size",
    "zero_stage": "parallelism.stage",
    "autotp_size": "parallelism.tensor_parallel_degree",
    "offload_optimizer": "offload.optimizer",
    "offload_param": "offload.param",
    # transformers' TrainingArguments
    "learning_rate": "optimizer.lr",
    "per_device_train_batch_size": "batch.micro_batch_size",
    "max_grad_norm": "optimizer.gradient_clipping",
    "warmup_steps": "scheduler.warmup_num_steps",
    "max_steps": "train.steps",
    "max_position_embeddings": "model.sequence_length",
    "seq_length": "model.sequence_length",
    # torchrun
    "nnodes": "hardware.num_nodes",
    "nproc_per_node": "hardware.gpus_per_node",
    "num_gpus": "hardware.gpus_per_node",
}
"""The last part of a key under other tools' names -> our key."""


def nearest(word: str, names: Iterable[str], n: int = 3) -> list[str]:
    """Names that `word` may have meant, best first: close spelling, else a name that contains it or lies in it."""
    known = list(dict.fromkeys(names))
    folded = {name.lower(): name for name in reversed(known)}
    close = difflib.get_close_matches(word.lower(), folded, n=n, cutoff=0.6)
    if not close and len(word) > 1:
        close = [name for name in folded if word.lower() in name or (len(name) > 2 and name in word.lower())][:n]
    return [folded[name] for name in close]


def nearest_key(path: str, known: Iterable[str]) -> list[str]:
    """Keys that `path` may have meant: a close name in its own section, the same name in another, another tool's name."""
    paths = list(known)
    section, _, last = path.rpartition(".")
    if not section and last in OTHER_NAMES:
        return [OTHER_NAMES[last]]
    here = {p.rpartition(".")[2]: p for p in paths if p.rpartition(".")[0] == section}
    if found := [here[name] for name in nearest(last, here, n=1)]:
        return found
    if elsewhere := [p for p in paths if p.rpartition(".")[2] == last]:
        return elsewhere[:3]
    if last in OTHER_NAMES:
        return [OTHER_NAMES[last]]
    return difflib.get_close_matches(path, paths, n=1, cutoff=0.75)
