"""Importing the installed release quietly. DeepSpeed is imported in functions only."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

Row = dict[str, object]
"""One row of the table: fields of `zerocfg.deepspeed.keys.Key` that differ from its defaults."""


@contextmanager
def quiet_deepspeed() -> Iterator[None]:
    """Import DeepSpeed without its warnings and without touching a GPU (its accelerator is asked for at import)."""
    import logging
    import warnings

    before = os.environ.get("DS_ACCELERATOR")
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            import deepspeed  # noqa: F401

            logging.getLogger("DeepSpeed").setLevel(logging.CRITICAL)
            yield
    finally:
        if before is None:
            del os.environ["DS_ACCELERATOR"]


def load(reference: str) -> Any:
    """The object named "module:attribute"."""
    import importlib

    module, _, name = reference.partition(":")
    return getattr(importlib.import_module(module), name)
