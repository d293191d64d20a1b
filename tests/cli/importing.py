"""The DeepSpeed JSON that the tests of zerocfg import start from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

CONFIG: dict[str, Any] = {
    "train_batch_size": 8,
    "bf16": {"enabled": True},
    "zero_optimization": {"stage": 2, "overlap_comm": True},
    "gradient_clipping": 1.0,
    "max_grad_norm": 1.0,
    "steps_per_print": 10,
    "csv_monitor": {"enabled": True, "job_name": "a b"},
}


def write_config(folder: Path) -> Path:
    path = folder / "my config.json"
    path.write_text(json.dumps(CONFIG))
    return path
