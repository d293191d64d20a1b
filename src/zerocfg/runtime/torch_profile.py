"""torch.profiler over a few early steps: train.profile=torch."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from types import TracebackType
from typing import Any

from zerocfg.runtime.trace_shares import trace_shares

log = logging.getLogger("zerocfg")
FOLDER = "profile"
SKIPPED, STEPS = 2, 3
"""Steps before the first one that is traced, and how many are."""


class TorchProfile:
    """All ranks trace, so that all are slowed alike; rank 0 keeps its trace, for Perfetto or chrome://tracing. start: steps done."""

    def __init__(self, output_dir: Path, start: int, *, on: bool, main: bool, cuda: bool) -> None:
        self._on, self._main, self._cuda = on, main, cuda
        self._file = output_dir / FOLDER / f"steps_{start + SKIPPED + 1}_to_{start + SKIPPED + STEPS}.json"
        self._profile: Any = None
        self._written = False

    def __enter__(self) -> TorchProfile:
        if self._on:
            from torch.profiler import ProfilerActivity, profile, schedule

            activities = [ProfilerActivity.CPU, *([ProfilerActivity.CUDA] if self._cuda else [])]
            plan = schedule(wait=SKIPPED - 1, warmup=1, active=STEPS, repeat=1)
            self._profile = profile(activities=activities, schedule=plan, on_trace_ready=self._keep)
            self._profile.__enter__()
        return self

    def step(self) -> None:
        """At a step's end."""
        if self._profile is not None and not self._written:
            self._profile.step()

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._profile is not None:
            self._profile.__exit__(kind, error, trace)
            self._profile = None

    def _keep(self, profile: Any) -> None:
        self._written = True
        if self._main:
            self._file.parent.mkdir(exist_ok=True)
            profile.export_chrome_trace(str(self._file))
            log.info("trace: %s", self._file)

    def shares(self) -> dict[str, Any]:
        """`trace_shares` of rank 0's trace and its path, for summary.json; empty without one. Reads the whole file."""
        if not self._written or not self._main:
            return {}
        try:
            found = json.loads(self._file.read_text(encoding="utf-8", errors="replace"))
        except (OSError, ValueError) as problem:
            log.warning("%s cannot be read: %s", self._file, problem)
            return {}
        return {**trace_shares(found.get("traceEvents", [])), "profile_trace": f"{FOLDER}/{self._file.name}"}
