from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compiler import compile_run
from zerocfg.emit import COMPILED, read_compiled, write_compiled
from zerocfg.runtime.run import Run

CPU = {"hardware.accelerator": "cpu", "hardware.gpus_per_node": 1, "hardware.gpu": None, "precision.dtype": "fp32"}


@pytest.fixture
def cpu_run(tmp_path: Path, container: Callable[..., dict[str, Any]]) -> Callable[..., Run]:
    """cpu_run({"train.steps": 4}, rank=0) -> a Run of one rank's view, its folder below tmp_path."""

    def make(changes: dict[str, Any] | None = None, *, rank: int = 0) -> Run:
        compiled = compile_run(container({**CPU, **(changes or {})}))
        write_compiled(compiled, tmp_path / "job" / COMPILED)
        stored = read_compiled(tmp_path / "job" / COMPILED)
        return Run(stored, output_dir=tmp_path / "job", rank=rank, local_rank=rank, world_size=compiled.plan.topology.world_size)

    return make
