"""One line a diagnostic code of `zerocfg launch`."""

from __future__ import annotations

PLAIN_CODES: dict[str, str] = {
    "ZC750": "zerocfg launch: what follows -- is no Python script or module that can be run.",
    "ZC751": "zerocfg launch: the script is given a local rank.",
    "ZC752": "zerocfg launch: an argument of Hugging Face's Trainer, or its default, is not what the compiled JSON says.",
    "ZC753": "zerocfg launch: the script is given another DeepSpeed JSON than the compiled one.",
    "ZC754": "zerocfg launch: nothing tells the script where the compiled JSON is.",
    "ZC755": "The folder of a launch cannot be written.",
    "ZC756": "zerocfg launch: the launcher is none of zerocfg's.",
}
