"""The memory model against published runs: predicted beside measured, and why a row is left out.

`python benchmarks/published.py MEASURED.csv`, a table with the columns source, model, params, layers, hidden, heads, seq, vocab,
gpu, num_gpus, sharding, precision, micro_batch, act_ckpt, global_batch, tokens_per_s_per_gpu, mfu, peak_mem_gib, notes.
Beside ours: DeepSpeed's estimate_zero*_model_states_mem_needs (states only) and accelerate's rule (8 bytes a parameter in
16 bit, on one GPU).
"""

from __future__ import annotations

import argparse
import csv
import re
import statistics
import sys
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import yaml

from zerocfg.compiler import resolve
from zerocfg.confsource import conf_dir
from zerocfg.memory import MemoryEstimate, estimate, parameters_of
from zerocfg.memory.constants import GIB
from zerocfg.passes.resolve.model import resolve_model
from zerocfg.plan import Plan
from zerocfg.schema.load import load
from zerocfg.schema.model import ModelConfig
from zerocfg.traced import ModelParameters, Parameter

TARGET = 0.10
"""Median error of the rows that are counted."""

DEFAULTS = {
    "reduce_bucket_size": 500_000_000,
    "stage3_prefetch_bucket_size": 50_000_000,
    "stage3_param_persistence_threshold": 100_000,
}
"""DeepSpeed's own: what a row ran with whose source gives none."""

PRINTED = {"zeropp": {"reduce_bucket_size": 10_000_000}}
"""Sizes in the JSON that the source itself prints, by a part of its address."""


@dataclass
class Compared:
    row: dict[str, str]
    plan: Plan
    predicted: MemoryEstimate

    @property
    def published(self) -> float:
        return float(self.row["peak_mem_gib"])

    @property
    def ours(self) -> float:
        """GiB of what the source measured: allocated, reserved, or all of the card that is taken."""
        found = re.search(r"mem_metric=([^;]+)", self.row["notes"])
        metric = found[1] if found else "max_allocated"
        if "nvidia-smi" in metric:
            context = re.search(r"CUDA context (\d+) MiB", metric)
            return self.predicted.peak_reserved_bytes / GIB + (float(context[1]) / 1024 if context else 0.0)
        return (self.predicted.peak_reserved_bytes if "reserved" in metric else self.predicted.peak_allocated_bytes) / GIB

    @property
    def error(self) -> float:
        return self.ours / self.published - 1


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("table", help="CSV of measured runs")
    parser.add_argument("--excluded", action="store_true", help="list each row that is left out")
    given = parser.parse_args()
    with open(given.table, encoding="utf-8", newline="") as table:
        rows = [row for row in csv.DictReader(table) if row["peak_mem_gib"]]
    counted: list[Compared] = []
    shown: list[Compared] = []
    frozen: list[Compared] = []
    excluded: Counter[tuple[str, str]] = Counter()
    left_out: list[tuple[dict[str, str], str]] = []
    for row in rows:
        reason = why_not(row)
        if not reason:
            counted.append(compare(row))
            continue
        excluded[(reason, source(row))] += 1
        left_out.append((row, reason))
        if reason == OLD_STAGE_1 and row["act_ckpt"] == "full" and "TP=1" in row["sharding"] and not missing(row):
            shown.append(compare(row))
        if reason == ONE_GPU and model_option(row) and row["model"].endswith("LoRA") and not missing(row):
            frozen.append(compare_lora(row))
    print(f"memory: {len(rows)} rows, {len(counted)} counted\n")
    print_table(counted)
    errors = [abs(c.error) for c in counted]
    median = statistics.median(errors)
    print(f"\nmedian error {median:.1%}, largest {max(errors):.1%} (target: median {TARGET:.0%})")
    print("\nbetween steps, where the source prints it")
    print_resident(counted)
    print("\nnot counted, for comparison: DeepSpeed of 2021")
    print_table(shown)
    print("\nnot counted, for comparison: activations without recomputation, LoRA on one GPU in plain torch (litgpt)")
    print_table(frozen)
    print("\nexcluded")
    for (reason, where), count in sorted(excluded.items(), key=lambda item: (item[0][0], -item[1])):
        print(f"  {count:4}  {reason}  [{where}]")
    if given.excluded:
        print("\neach of them")
        for row, reason in left_out:
            print(
                f"  {source(row):22}{row['model'][:20]:21}{row['num_gpus']:>5} {row['sharding'][:33]:34}{row['micro_batch']:>5}  {reason}"
            )
    return 0 if median <= TARGET else 1


ONE_GPU = "one GPU without DeepSpeed"
OLD_STAGE_1 = "DeepSpeed before 0.5.9: its stage 1 (legacy_stage1) is gone, and attention was not fused"
DEEPSPEED = ("ZeRO-1", "ZeRO-2", "ZeRO-3 (DeepSpeed)", "ZeRO-3 + ZeRO++")


def why_not(row: dict[str, str]) -> str:
    """Why a row cannot be predicted; empty when it can."""
    sharding, notes = row["sharding"], row["notes"]
    if re.search(r"PP=([2-9]|\d\d)", sharding):
        return "pipeline parallelism, which zerocfg does not plan"
    if "OOM" in notes:
        return "ran out of memory: the peak is the card"
    if re.search(r"nf4|fp8|MXFP8|NVFP4|8bit|QLoRA", row["precision"] + row["model"] + notes, re.IGNORECASE):
        return "quantized weights, products or states"
    if row["act_ckpt"] == "selective":
        return "selective checkpointing and torch.compile"
    if "FSDP" in sharding:
        # 7B on two GPUs: 22.2 GB are the weights of 13.5, their half once more, and 2 GB of training
        loading = "litgpt" in row["source"]
        return "FSDP, the peak is of loading: whole weights beside their shards" if loading else "FSDP with torch.compile, act_ckpt missing"
    if "multi-GPU" in sharding:
        return "settings missing: sharding"
    if sharding == "none":
        return ONE_GPU
    if not sharding.startswith(DEEPSPEED):
        return "Megatron's or nanotron's data parallelism"
    if "bigscience" in row["source"]:
        return OLD_STAGE_1
    if lacking := missing(row):
        return f"settings missing: {', '.join(lacking)}"
    return "" if row["vocab"] or row["params"] else "settings missing: vocab"


def missing(row: dict[str, str]) -> list[str]:
    return [name for name in ("layers", "hidden", "heads", "seq", "micro_batch", "act_ckpt") if not row[name]]


def compare(row: dict[str, str]) -> Compared:
    plan = plan_of(row)
    return Compared(row, plan, estimate(plan))


def plan_of(row: dict[str, str]) -> Plan:
    layers, hidden, heads = (int(row[name]) for name in ("layers", "hidden", "heads"))
    # without a vocabulary: what the published count leaves after 12 L h^2
    vocab = int(row["vocab"]) if row["vocab"] else 0
    if not vocab:
        vocab = round((float(row["params"]) - 12 * layers * hidden**2) / hidden) if row["params"] else 50304
    stage = int(re.search(r"ZeRO-(\d)", row["sharding"])[1])  # type: ignore[index]
    tensor = int(found[1]) if (found := re.search(r"TP=(\d+)", row["sharding"])) else 1
    nodes, gpus = nodes_of(row)
    sizes = DEFAULTS | next((printed for part, printed in PRINTED.items() if part in row["source"]), {})
    micro, together = int(row["micro_batch"]), int(row["global_batch"] or 0)
    parallel = nodes * gpus // tensor
    low = "bf16 master" in row["notes"]
    container: dict[str, Any] = {
        "hardware": {
            "name": row["gpu"],
            "accelerator": "cuda",
            "gpu": row["gpu"],
            "num_nodes": nodes,
            "gpus_per_node": gpus,
            "memory_bytes": 80 * GIB,
            "compute_capability": "7.0" if "V100" in row["gpu"] else "9.0" if "H" in row["gpu"] else "8.0",
            "link": "nvswitch",
            "p2p": True,
            "network": "infiniband",
            "network_gbps": 25.0,
            "cpus_per_node": 64,
            "host_memory_bytes": 1024 * GIB,
            "numa_nodes": 1,
        },
        "parallelism": {"stage": stage, "tensor_parallel_degree": tensor, "reduce_bucket_size": sizes["reduce_bucket_size"]},
        "precision": {"dtype": row["precision"], "master_dtype": "bf16" if low else "fp32"},
        "activation_checkpointing": {"enabled": row["act_ckpt"] == "full"},
        "batch": {"micro_batch_size": micro, "gradient_accumulation_steps": max(1, together // (micro * parallel))},
        "model": {
            "num_hidden_layers": layers,
            "hidden_size": hidden,
            "num_attention_heads": heads,
            "vocab_size": vocab,
            "sequence_length": int(row["seq"]),
            # a published count that has room for one vocabulary only is that of a tied model
            "tie_word_embeddings": not row["params"] or float(row["params"]) < 12 * layers * hidden**2 + 1.5 * vocab * hidden,
        },
        "optimizer": {"type": "AdamW", "lr": 1e-4},
    }
    if stage == 3:
        container["parallelism"] |= {name: sizes[name] for name in DEFAULTS} | {"leaf_module_classes": []}
        if hpz := re.search(r"hpZ=(\d+)", row["sharding"]):
            container["parallelism"]["zero_hpz_partition_size"] = int(hpz[1])
    config, unread = load(container)
    plan, _, problems = resolve(config, None)
    assert not [*unread, *problems], [*unread, *problems]
    return plan


def model_option(row: dict[str, str]) -> Path | None:
    """The file in conf/model of a row's Llama 2."""
    found = re.match(r"Llama 2 (\d+) B", row["model"])
    return Path(conf_dir(), "model", f"llama2_{found[1]}b.yaml") if found else None


def compare_lora(row: dict[str, str]) -> Compared:
    """All weights frozen, and as many trainable elements as the row says: memory is weights and activations."""
    option = model_option(row)
    trainable = re.search(r"trainable=(\d+)", row["notes"])
    assert option is not None
    assert trainable is not None
    plan = plan_of({**row, "precision": "bf16", "sharding": "ZeRO-0", "global_batch": row["micro_batch"]})
    dims: dict[str, Any] = yaml.safe_load(option.read_text(encoding="utf-8"))
    model = resolve_model(ModelConfig(**{**vars(load({"model": dims})[0].model), "sequence_length": int(row["seq"])})).value
    assert model is not None
    weights = parameters_of(model)
    entries = (*(replace(p, trainable=False) for p in weights.entries), Parameter("lora", int(trainable[1]), block=0))
    plan = replace(plan, model=model)
    gigabytes = {**row, "peak_mem_gib": str(float(row["peak_mem_gib"]) * 1e9 / GIB)}
    return Compared(gigabytes, plan, estimate(plan, parameters=ModelParameters(entries, weights.num_blocks)))


def nodes_of(row: dict[str, str]) -> tuple[int, int]:
    """(nodes, GPUs a node), from the notes where they say it; else nodes of at most eight."""
    total = int(row["num_gpus"])
    if found := re.search(r"nodes=(\d+)x(\d+)", row["notes"]):
        return int(found[1]), int(found[2])
    return max(1, total // 8), min(8, total)


def print_table(rows: list[Compared]) -> None:
    if not rows:
        return
    head = f"  {'source':22}{'model':14}{'GPUs':>5} {'sharding':34}{'micro':>5}{'published':>11}{'ours':>8}{'error':>8}"
    head += f"{'DeepSpeed':>11}{'accelerate':>11}"
    print(head)
    for c in rows:
        row = c.row
        estimator = f"{deepspeeds(c.plan) / GIB:.2f}" if c.plan.zero.stage else "-"
        print(
            f"  {source(row):22}{row['model']:14}{row['num_gpus']:>5} {row['sharding'][:33]:34}{row['micro_batch']:>5}"
            f"{c.published:>7.2f} GiB{c.ours:>8.2f}{c.error:>+8.1%}{estimator:>11}{accelerates(c.plan) / GIB:>11.2f}"
        )


def print_resident(rows: list[Compared]) -> None:
    for c, published in residents(rows):
        forward = next(m for m in c.predicted.moments if m.phase == "forward")
        kept = ("parameters", "fp32_master", "optimizer_states", "gradients", "reduce_buffers")
        ours = sum(forward.parts.get(part, 0) for part in kept) / GIB
        start = f"  {source(c.row):22}{c.row['model']:14}{c.row['sharding'][:33]:34}"
        print(f"{start}{published:>7.2f} GiB{ours:>8.2f}{ours / published - 1:>+8.1%}")


def residents(rows: list[Compared]) -> Iterator[tuple[Compared, float]]:
    for c in rows:
        if found := re.search(r"allocated_gib=([\d.]+)", c.row["notes"]):
            yield c, float(found[1])
        elif found := re.search(r"(?<!max_)allocated_MB=([\d.]+)", c.row["notes"]):
            yield c, float(found[1]) / 1024


def deepspeeds(plan: Plan) -> float:
    """Bytes a GPU by DeepSpeed's own estimator, no offload."""
    from deepspeed.runtime.zero.stage3 import estimate_zero3_model_states_mem_needs
    from deepspeed.runtime.zero.stage_1_and_2 import estimate_zero2_model_states_mem_needs

    assert plan.model is not None
    shape = {"num_gpus_per_node": plan.topology.nproc_per_node, "num_nodes": plan.topology.num_nodes, "cpu_offload": False}
    count = plan.model.num_parameters
    if plan.zero.stage == 3:
        _, gpu, _ = estimate_zero3_model_states_mem_needs(
            count, parameters_of(plan.model).largest_module, cpu_offload_params=False, **shape
        )
    else:
        _, gpu = estimate_zero2_model_states_mem_needs(count, **shape)
    return float(gpu)


def accelerates(plan: Plan) -> float:
    """accelerate estimate-memory, training with Adam: four times the model, at the dtype's width."""
    assert plan.model is not None
    return plan.model.num_parameters * (8.0 if plan.precision.dtype != "fp32" else 16.0)


def source(row: dict[str, str]) -> str:
    return row["source"].split(" (")[0].rstrip("/").split("/")[-1].removesuffix(".md")


if __name__ == "__main__":
    sys.exit(main())
