"""One line a diagnostic code of the runtime."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC720": "current_run() where there is no run: not started by zerocfg, or several ranks without it.",
    "ZC721": "The engine's effective values differ from the plan.",
    "ZC722": "Not nccl on cuda, or cuda without a GPU that torch can use.",
    "ZC723": "The training loop left micro batches of a step unused.",
    "ZC724": "The data gives no batches.",
}
