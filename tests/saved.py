"""What every manifest of a checkpoint has of the plan."""

from __future__ import annotations

from typing import Any

SAVED_PLAN: dict[str, Any] = {
    "topology": {"num_nodes": 1, "nproc_per_node": 2, "tensor_parallel_degree": 1},
    "zero": {"stage": 2},
    "precision": {"dtype": "fp32"},
    "batch": {"global_batch_size": 8, "micro_batch_size": 4},
    "optimizer": {"type": "AdamW", "params": {}},
    "scheduler": {"type": ""},
}
