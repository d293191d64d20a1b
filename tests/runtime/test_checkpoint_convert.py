"""What a conversion's loading leaves as it was."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from zerocfg.runtime import checkpoint_convert


@pytest.mark.parametrize(("keep", "scaler"), [(True, ("saved", False)), (False, ("own", True))])
def test_a_loss_scale_of_another_precision_is_not_taken_over(monkeypatch: pytest.MonkeyPatch, keep: bool, scaler: tuple[Any, ...]) -> None:
    """DeepSpeed lays the saved one over that of the engine, whatever that trains in (stage3.py:3760)."""
    engine = SimpleNamespace(optimizer=SimpleNamespace(loss_scaler="own", dynamic_loss_scale=True))

    def load(engine: Any, folder: Path, stage: int) -> None:
        engine.optimizer.loss_scaler, engine.optimizer.dynamic_loss_scale = "saved", False

    monkeypatch.setattr(checkpoint_convert, "_load_sharded", load)
    monkeypatch.setattr(checkpoint_convert, "_load_rest", lambda engine, folder: None)
    checkpoint_convert.load_converted(engine, Path("/c"), 2, keep_loss_scale=keep)
    assert (engine.optimizer.loss_scaler, engine.optimizer.dynamic_loss_scale) == scaler
