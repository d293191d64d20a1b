"""metrics.jsonl, TensorBoard scalars and summary.json, written by rank 0."""

from __future__ import annotations

import json
import logging
import os
import resource
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zerocfg.emit import replace_text, set_aside
from zerocfg.progress import StepBar
from zerocfg.units import human_bytes

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run
    from zerocfg.runtime.steps import Step

log = logging.getLogger("zerocfg")
METRICS = "metrics.jsonl"
SUMMARY = "summary.json"


class Recorder:
    """Follows the steps of one loop. All ranks call it in step: at a logged step it averages the loss over them.

    Speed is counted from the end of step 1, which pays for allocations, compilation and NCCL's connections.
    """

    def __init__(self, run: Run, engine: Any) -> None:
        self._run = run
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
        """When step 1 was over."""
        self._warm_elements = 0
        self._lr: float | None = None
        self._summary: dict[str, Any] = {}
        self._completed = 0
        self.finished = False

    def __enter__(self) -> Recorder:
        run = self._run
        self._begun = time.perf_counter()
        if self._main:
            if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                _keep_earlier(run.output_dir)
            self._metrics = (run.output_dir / METRICS).open("a", encoding="utf-8")
            self._writer = _tensorboard(run)
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
        if step.number > 1:
            self._warm_elements += step.elements
        if not log:
            return
        loss = self._mean_loss(step)
        if loss is not None:
            self._run.last_loss = loss
        memory = self._peak_memory()
        self._synchronize()
        now = time.perf_counter()
        speed = None
        if step.number == 1:
            self._warm = (now, 1)
        else:
            speed = self._tokens(self._elements, step.number - self._marked[1]) / max(now - self._marked[0], 1e-9)
        self._marked, self._elements = (now, step.number), 0
        self._note(step.number, loss, speed, memory, now)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        if self._bar is not None:
            self._bar.close()
        if not self._main:
            return
        self._metrics.close()
        if self._writer is not None:
            self._writer.close()
        if self._summary:
            self._summary |= {"steps": self._completed, "finished": self.finished}
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
            "seconds": round(now - self._begun, 3),
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
        steps = step - self._warm[1]
        speed = self._tokens(self._warm_elements, steps) / (now - self._warm[0]) if step > 1 else None
        first = self._summary.get("first_loss", loss)
        self._summary = {
            "steps": step,
            "planned_steps": plan.train.steps,
            "first_loss": first,
            "last_loss": loss,
            "tokens_per_s": speed,
            "peak_memory_bytes": memory,
            "backend": plan.topology.backend,
            "zero_stage": plan.zero.stage,
            "world_size": self._run.world_size,
            "dtype": plan.precision.dtype,
            "global_batch_size": plan.batch.global_batch_size,
            "skipped_steps": int(getattr(self._engine, "skipped_steps", 0)),
            "seconds": round(now - self._begun, 3),
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
        most = torch.tensor(own, dtype=torch.int64, device=self._run.device)
        if torch.distributed.is_initialized():
            torch.distributed.all_reduce(most, op=torch.distributed.ReduceOp.MAX)
        return int(most.item())

    def _synchronize(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def _learning_rate(self) -> float | None:
        optimizer = getattr(self._engine, "optimizer", None)
        groups = getattr(optimizer, "param_groups", None)
        return float(groups[0]["lr"]) if groups else None


def _tensorboard(run: Run) -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError as problem:
        log.warning("no TensorBoard scalars: %s", problem)
        return None
    return SummaryWriter(log_dir=str(run.output_dir))


def _keep_earlier(folder: Path) -> None:
    for name in (METRICS, SUMMARY):
        kept = set_aside(folder / name)
        if kept is not None:
            log.info("%s of an earlier run is kept as %s", name, kept.name)
