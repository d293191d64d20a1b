"""Codes of the composition, one line each; docs/reference/diagnostics.md is made from them."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC102": "An interpolation ${...} of a group cannot be resolved: unknown key, unset environment variable, wrong type.",
    "ZC110": "A config group has no option of that name.",
    "ZC111": "An override or a config file names a key or group that does not exist, adds one that exists, or deletes one that does not.",
    "ZC112": "A value has the wrong type for its key.",
    "ZC113": "An override is not written in Hydra's syntax.",
    "ZC114": "The primary config, or the folder that should hold it, is missing.",
    "ZC115": "A value is read as something else than it looks: on, off, yes, no, 012, 1:30 and the like.",
    "ZC116": "A sweep was given to a command that takes one run.",
    "ZC117": "A config file cannot be composed: YAML syntax, defaults list, unreadable file.",
    "ZC118": "The choice of a group is left open (???) in a defaults list.",
    "ZC119": "An override in a defaults list has no effect, because another came first.",
    "ZC170": "Hydra warned while composing.",
    "ZC171": "model.hf_config names a file that cannot be read as a Hugging Face config.json.",
    "ZC172": "model.hf_config describes an architecture that the model group cannot: mixture of experts, encoder-decoder.",
    "ZC173": "model.hf_config was read with guesses.",
    "ZC174": "The primary config has none of zerocfg's groups.",
    "ZC175": "model.profile names a file that zerocfg profile did not write.",
    "ZC176": "Values of a config file have no effect: the defaults list merges zerocfg's own over them.",
}
