"""metrics.jsonl, TensorBoard scalars and summary.json, written by rank 0."""

from __future__ import annotations

import json
import logging
import math
import os
import resource
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zerocfg.emit import replace_text, set_aside
from zerocfg.progress import StepBar
from zerocfg.runtime.predicted import predicted
from zerocfg.units import human_bytes

if TYPE_CHECKING:
    from zerocfg.runtime.checkpoint_load import Resumed
    from zerocfg.runtime.run import Run
    from zerocfg.runtime.steps import Step

log = logging.getLogger("zerocfg")
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"


class Recorder:
    """Follows the steps of one loop. All ranks call it in step: at a logged step it averages the loss over them.

    Speed is counted from the end of the first step of each start, which pays for allocations, compilation and NCCL's connections. A
    resumed run goes on with the files of the one before: lines of steps that are done again are dropped.
    """

    def __init__(self, run: Run, engine: Any, resumed: Resumed) -> None:
        self._run = run
        self._start = resumed.step
        self._earlier = resumed.facts
        """What the starts before this one add up to."""
        self._engine = engine
        self._cuda = run.plan.hardware.is_cuda
        self._main = run.rank == 0
        self._writer: Any = None
        self._bar: StepBar | None = None
        self._elements = 0
        """Since the last mark."""
        self._marked = (0.0, 0)
        """When and at which step the current stretch began."""
        self._warm = (0.0, 0)
        """When the first step was over."""
        self._warm_elements = 0
        self._saving_seconds = 0.0
        self._lr: float | None = None
        self._summary: dict[str, Any] = {}
        self._completed = resumed.step
        self._memory: list[int] = []
        """Bytes at their highest, by rank."""
        self.finished = False
        self._predicted = predicted(run.plan) if self._main else {}
        if self._start:
            run.last_loss = self._earlier.get("last_loss", run.last_loss)
            self._summary = dict(self._earlier.get("summary", {}))

    def __enter__(self) -> Recorder:
        run = self._run
        self._begun = time.perf_counter()
        if self._main:
            if self._start:
                _drop_redone(run.output_dir / METRICS, self._start)
            elif os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                _keep_earlier(run.output_dir)
            else:
                _drop_redone(run.output_dir / METRICS, 0)
            self._metrics = (run.output_dir / METRICS).open("a", encoding="utf-8")
            self._writer = _tensorboard(run, self._start)
            if "ZEROCFG_RUN_DIR" not in os.environ and sys.stdout.isatty():
                self._bar = StepBar(run.plan.train.steps)
        if self._cuda:
            import torch

            torch.cuda.reset_peak_memory_stats()
        return self

    def begin(self, step: Step) -> None:
        self._lr = self._learning_rate()

    def end(self, step: Step, *, log: bool) -> None:
        self._completed = step.number
        self._elements += step.elements
        first = step.number == self._start + 1
        if not first:
            self._warm_elements += step.elements
        if not log:
            if first:
                self._mark_warm(step.number)
            return
        loss = self._mean_loss(step)
        if loss is not None:
            self._run.last_loss = loss
        memory = self._peak_memory()
        self._synchronize()
        now = time.perf_counter()
        speed = None
        if first:
            self._warm = (now, step.number)
        else:
            speed = self._tokens(self._elements, step.number - self._marked[1]) / max(now - self._marked[0], 1e-9)
        self._marked, self._elements = (now, step.number), 0
        self._note(step.number, loss, speed, memory, now)

    def _mark_warm(self, step: int) -> None:
        """After the first step of a resumed run, where it is not logged."""
        self._synchronize()
        self._warm = self._marked = (time.perf_counter(), step)
        self._elements = 0

    def saved(self, seconds: float) -> None:
        """A checkpoint took so long."""
        self._saving_seconds += seconds

    def facts(self) -> dict[str, Any]:
        """What a later start needs to go on with these records; rank 0's are kept."""
        if not self._main:
            return {}
        now = time.perf_counter()
        tokens, seconds = self._warm_so_far(self._completed, now)
        return {
            "last_loss": self._run.last_loss if math.isfinite(self._run.last_loss) else None,
            "seconds": self._seconds(now),
            "warm_tokens": tokens,
            "warm_seconds": seconds,
            "checkpoint_seconds": self._checkpoint_seconds(),
            "memory_by_rank": self._most_memory(),
            "starts": [*self._earlier.get("starts", []), self._start],
            "summary": self._summary,
        }

    def _warm_so_far(self, step: int, now: float) -> tuple[float, float]:
        """Tokens and seconds without the first step of each start."""
        tokens, seconds = self._earlier.get("warm_tokens", 0.0), self._earlier.get("warm_seconds", 0.0)
        if step > self._warm[1] > 0:
            tokens += self._tokens(self._warm_elements, step - self._warm[1])
            seconds += now - self._warm[0]
        return tokens, seconds

    def _seconds(self, now: float) -> float:
        return float(self._earlier.get("seconds", 0.0)) + now - self._begun

    def _checkpoint_seconds(self) -> float:
        return round(float(self._earlier.get("checkpoint_seconds", 0.0)) + self._saving_seconds, 3)

    def _most_memory(self) -> list[int]:
        """By rank, over all starts on the same number of ranks."""
        before = self._earlier.get("memory_by_rank", [])
        return [max(pair) for pair in zip(before, self._memory, strict=True)] if len(before) == len(self._memory) else self._memory

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
        if not self._main:
            return
        self._metrics.close()
        if self._writer is not None:
            self._writer.close()
        if self._summary:
            self._summary |= {"steps": self._completed, "finished": self.finished, "checkpoint_seconds": self._checkpoint_seconds()}
            replace_text(self._run.output_dir / SUMMARY, json.dumps(self._summary, indent=2) + "\n")

    def _note(self, step: int, loss: float | None, speed: float | None, memory: int, now: float) -> None:
        if not self._main:
            return
        record = {
            "step": step,
            "loss": loss,
            "lr": self._lr,
            "tokens_per_s": speed,
            "memory_bytes": memory,
            "seconds": round(self._seconds(now), 3),
            "time": time.time(),
        }
        line = json.dumps(record)
        self._metrics.write(line + "\n")
        self._metrics.flush()
        if self._writer is not None:
            for name in ("loss", "lr", "tokens_per_s", "memory_bytes"):
                if record[name] is not None:
                    self._writer.add_scalar(f"train/{name}", record[name], step)
        self._update_summary(step, loss, memory, now)
        total = self._run.plan.train.steps
        parts = [f"step {step:>{len(str(total))}}/{total}"]
        parts += [f"loss {loss:.4f}"] if loss is not None else []
        parts += [f"lr {self._lr:.3g}"] if self._lr is not None else []
        parts += [f"{speed:,.0f} tokens/s"] if speed is not None else []
        log.info("  ".join([*parts, human_bytes(memory)]))
        if self._bar is not None:
            self._bar.advance(line)

    def _update_summary(self, step: int, loss: float | None, memory: int, now: float) -> None:
        plan = self._run.plan
        tokens, seconds = self._warm_so_far(step, now)
        by_rank = self._most_memory()
        first = self._summary.get("first_loss", loss)
        self._summary = {
            "steps": step,
            "planned_steps": plan.train.steps,
            "first_loss": first,
            "last_loss": loss,
            "tokens_per_s": tokens / seconds if seconds else None,
            "peak_memory_bytes": max(memory, *by_rank),
            "peak_memory_bytes_by_rank": by_rank,
            "backend": plan.topology.backend,
            "zero_stage": plan.zero.stage,
            "world_size": self._run.world_size,
            "dtype": plan.precision.dtype,
            "global_batch_size": plan.batch.global_batch_size,
            "leaf_module_classes": list(self._run.leaf_module_classes or plan.zero.leaf_module_classes),
            **self._predicted,
            "skipped_steps": int(getattr(self._engine, "skipped_steps", 0)),
            "seconds": round(self._seconds(now), 3),
            "checkpoint_seconds": self._checkpoint_seconds(),
            "resumed_at": [start for start in [*self._earlier.get("starts", []), self._start] if start],
        }

    def _tokens(self, elements: int, steps: int) -> float:
        """Of all ranks: from the model's sequence length, or from this rank's own batches."""
        plan = self._run.plan
        if plan.model is not None:
            return float(steps * plan.batch.global_batch_size * plan.model.sequence_length)
        return float(elements * self._run.data_parallel_size)

    def _mean_loss(self, step: Step) -> float | None:
        if not step.losses:
            return None
        import torch

        loss = torch.stack(step.losses).mean()
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(loss)
            loss = loss / torch.distributed.get_world_size()
        return float(loss.item())

    def _peak_memory(self) -> int:
        """Bytes, of the rank that needs most: torch's allocator on cuda, the resident set on cpu."""
        import torch

        own = torch.cuda.max_memory_allocated() if self._cuda else resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if not torch.distributed.is_initialized():
            self._memory = [own]
            return own
        by_rank = torch.zeros(torch.distributed.get_world_size(), dtype=torch.int64, device=self._run.device)
        by_rank[torch.distributed.get_rank()] = own
        torch.distributed.all_reduce(by_rank)
        self._memory = by_rank.tolist()
        return max(self._memory)

    def _synchronize(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def _learning_rate(self) -> float | None:
        optimizer = getattr(self._engine, "optimizer", None)
        groups = getattr(optimizer, "param_groups", None)
        return float(groups[0]["lr"]) if groups else None


def _drop_redone(metrics: Path, start: int) -> None:
    """Leave out the lines after the step that a start begins with: those steps are done again. Also a line cut short."""
    try:
        lines = metrics.read_text(encoding="utf-8").splitlines(keepends=True)
    except FileNotFoundError:
        return
    kept = [line for line in lines if (step := _step_of(line)) is not None and step <= start]
    if len(kept) < len(lines):
        replace_text(metrics, "".join(kept))
        log.info("%s: %d lines after step %d are dropped, those steps are done again", metrics.name, len(lines) - len(kept), start)


def _step_of(line: str) -> int | None:
    try:
        return int(json.loads(line)["step"]) if line.endswith("\n") else None
    except (ValueError, KeyError, TypeError):
        return None


def _tensorboard(run: Run, start: int) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        log.warning("no TensorBoard scalars: %s", problem)
        return None
    return SummaryWriter(log_dir=str(run.output_dir), purge_step=start + 1 if start else None)


def _keep_earlier(folder: Path) -> None:
    for name in (METRICS, SUMMARY):
        kept = set_aside(folder / name)
        if kept is not None:
            log.info("%s of an earlier run is kept as %s", name, kept.name)
