"""Numbers as DeepSpeed's JSON wants them."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.keys import lookup


def coerce_whole(path: str, value: Any) -> Any:
    """5e8 -> 500000000 where DeepSpeed reads a whole number; everything else as it is."""
    if isinstance(value, float) and value.is_integer():
        key = lookup(path)
        if key is not None and "int" in key.kinds:
            return int(value)
    return value
