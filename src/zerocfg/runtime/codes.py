"""One line a diagnostic code of the runtime."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC780": "current_run() where there is no run: not started by zerocfg, or several ranks without it.",
    "ZC781": "The engine's effective values differ from the plan.",
    "ZC782": "Not nccl on cuda, or cuda without a GPU that torch can use.",
    "ZC783": "The training loop left micro batches of a step unused.",
    "ZC784": "The data gives no batches.",
    "ZC785": "What train.trackers names did not start.",
    "ZC786": "Ranks train on the same samples: the data is not split over them.",
    "ZC787": "The loader's batch size is not the plan's micro batch.",
    "ZC770": "checkpoint.resume leads to no whole checkpoint, or a rank cannot read it.",
    "ZC771": "A checkpoint that cannot be resumed with this config.",
    "ZC772": "A checkpoint is converted to another number of ranks or stage before it is resumed.",
    "ZC773": "A resumed run differs in values that the losses depend on.",
    "ZC774": "A checkpoint could not be written.",
    "ZC775": "Another run saves its checkpoints in the same folder.",
    "ZC776": "A checkpoint could not be converted, or does not give whole weights.",
    "ZC777": "Consolidated weights cannot be written.",
    "ZC778": "The steps that are asked for are done already.",
}
