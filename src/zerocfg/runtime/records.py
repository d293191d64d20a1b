"""metrics.jsonl, the trackers' scalars and summary.json, written by rank 0."""

from __future__ import annotations

import json
import logging
import math
import os
import sys
import time
from collections.abc import Mapping
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any

from zerocfg.progress import StepBar
from zerocfg.runtime.collectives import Collectives
from zerocfg.runtime.measured import PARTS, Measured, measured
from zerocfg.runtime.predicted import peak_flops, predicted, step_flops
from zerocfg.runtime.record_files import METRICS, SUMMARY, Lines, drop_redone, keep_earlier, keep_summary
from zerocfg.runtime.split import Split
from zerocfg.runtime.torch_profile import TorchProfile
from zerocfg.runtime.trackers import Trackers
from zerocfg.units import human_bytes

if TYPE_CHECKING:
    from zerocfg.runtime.checkpoint_load import Resumed
    from zerocfg.runtime.run import Run
    from zerocfg.runtime.steps import Step

log = logging.getLogger("zerocfg")
FOUND_ONCE = ("communication_share", "exposed_communication_share", "profile_trace")


class Recorder:
    """Follows the steps of one loop. All ranks call it in step: at a logged step it averages loss and times over them.

    A record that cannot be written (a full disk) is told and is no reason to lose the run. Speed and times are counted from the end of
    the first step of each start, which pays for allocations, compilation and NCCL's connections. A resumed run goes on with the files
    of the one before: lines of steps that are done again are dropped.
    """

    def __init__(self, run: Run, engine: Any, resumed: Resumed) -> None:
        self._run = run
        self._start = resumed.step
        self._earlier = resumed.facts
        """What the starts before this one add up to."""
        self._engine = engine
        self._cuda = run.plan.hardware.is_cuda
        self._main = run.rank == 0
        profile = run.plan.train.profile
        self._split = Split(engine if profile != "none" else None, cuda=self._cuda)
        self._collectives = Collectives(on=profile == "comms")
        self._trace = TorchProfile(run.output_dir, self._start, on=profile == "torch", main=self._main, cuda=self._cuda)
        self._waited: float | None = None if profile == "none" else 0.0
        """Seconds that this rank waited for batches since the last mark."""
        self._bar: StepBar | None = None
        self._elements = 0
        """Since the last mark."""
        self._marked = (0.0, 0)
        """When and at which step the current stretch began."""
        self._warm = (0.0, 0)
        """When the first step was over."""
        self._warm_elements = 0
        self._warm_split = {part: float(s) for part, s in self._earlier.get("warm_split", {}).items()}
        """Seconds by part in all logged stretches but the first step of each start."""
        self._warm_steps = int(self._earlier.get("warm_steps", 0))
        """Steps of those stretches."""
        self._saving_seconds = 0.0
        self._lr: float | None = None
        self._summary: dict[str, Any] = {}
        self._kept: dict[str, Any] = {}
        """What an earlier start found once, in its trace."""
        self._completed = resumed.step
        self._memory: tuple[int, ...] = ()
        """Bytes at their highest, by rank."""
        self.finished = False
        self._predicted = predicted(run.plan) if self._main else {}
        self._flops = step_flops(run.plan) if self._main else 0.0
        self._peak = peak_flops(run.plan)
        if self._start:
            if (last := self._earlier.get("last_loss")) is not None:  # none was recorded, or it was no number
                run.last_loss = last
            self._summary = dict(self._earlier.get("summary", {}))
            self._kept = {name: self._summary[name] for name in FOUND_ONCE if name in self._summary}

    def __enter__(self) -> Recorder:
        run = self._run
        self._begun = time.perf_counter()
        with ExitStack() as stack:
            if self._main:
                if self._start:
                    drop_redone(run.output_dir / METRICS, self._start)
                elif os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
                    keep_earlier(run.output_dir)
                else:
                    drop_redone(run.output_dir / METRICS, 0)
                self._metrics = Lines(run.output_dir / METRICS)
                self._trackers = Trackers(run, self._start, self._earlier.get("trackers", {}))
                stack.callback(self._trackers.close)
                if "ZEROCFG_RUN_DIR" not in os.environ and sys.stdout.isatty():
                    self._bar = StepBar(run.plan.train.steps)
                    stack.callback(self._bar.close)
            if self._cuda:
                import torch

                torch.cuda.reset_peak_memory_stats()
            stack.enter_context(self._split)
            stack.enter_context(self._trace)
            self._stack = stack.pop_all()
        return self

    def begin(self, step: Step) -> None:
        self._lr = self._learning_rate()

    def end(self, step: Step, *, log: bool) -> None:
        self._completed = step.number
        self._elements += step.elements
        if self._waited is not None:
            self._waited += step.waited
        self._split.collect()
        self._trace.step()
        first = step.number == self._start + 1
        if not first:
            self._warm_elements += step.elements
        if not log:
            if first:
                self._mark_warm(step.number)
            return
        self._synchronize()
        found = measured(step.losses, self._seconds_by_part(), device=self._run.device, cuda=self._cuda)
        self._memory = found.memory_by_rank
        if found.loss is not None:
            self._run.last_loss = found.loss
        now = time.perf_counter()
        steps, seconds = step.number - self._marked[1], now - self._marked[0]
        speed = self._tokens(self._elements, steps) / max(seconds, 1e-9) if not first else None
        if first:
            self._warm = (now, step.number)
        else:
            self._warm_steps += steps
            self._warm_split = {part: self._warm_split.get(part, 0.0) + s for part, s in found.seconds.items()}
        self._marked, self._elements = (now, step.number), 0
        if self._main:
            self._note(step.number, found, self._rates(speed, steps, seconds, {} if first else found.seconds), now)

    def _mark_warm(self, step: int) -> None:
        """After the first step of a resumed run, where it is not logged."""
        self._synchronize()
        self._warm = self._marked = (time.perf_counter(), step)
        self._elements = 0
        self._seconds_by_part()

    def _seconds_by_part(self) -> dict[str, float]:
        """Of this rank since the last call."""
        seconds = {**self._split.take(), **self._collectives.take()}
        if self._waited is not None:
            seconds["data"], self._waited = self._waited, 0.0
        return seconds

    def _rates(self, speed: float | None, steps: float, seconds: float, parts: Mapping[str, float]) -> dict[str, float | None]:
        """What follows from the tokens/s of a stretch and from its times. None where something is not known."""
        each = seconds / steps if speed is not None and steps else None
        return {
            "tokens_per_s": speed,
            "tokens_per_s_per_gpu": speed / self._run.world_size if speed is not None else None,
            "mfu": self._flops / each / self._peak if each and self._flops and self._peak else None,
            "step_seconds": each,
            **{f"{part}_seconds": parts[part] / steps for part in PARTS if part in parts and steps},
        }

    def saved(self, seconds: float) -> None:
        """A checkpoint took so long."""
        self._saving_seconds += seconds

    def facts(self) -> dict[str, Any]:
        """What a later start needs to go on with these records; rank 0's are kept."""
        if not self._main:
            return {}
        now = time.perf_counter()
        tokens, seconds, steps = self._warm_so_far(self._completed, now)
        return {
            "last_loss": self._run.last_loss if math.isfinite(self._run.last_loss) else None,
            "seconds": self._seconds(now),
            "warm_tokens": tokens,
            "warm_seconds": seconds,
            "warm_done": steps,
            "warm_split": self._warm_split,
            "warm_steps": self._warm_steps,
            "checkpoint_seconds": self._checkpoint_seconds(),
            "memory_by_rank": self._most_memory(),
            "starts": [*self._earlier.get("starts", []), self._start],
            "trackers": self._trackers.facts(),
            "summary": self._summary,
        }

    def _warm_so_far(self, step: int, now: float) -> tuple[float, float, int]:
        """Tokens, seconds and steps without the first step of each start."""
        tokens, seconds, steps = (self._earlier.get(f"warm_{name}", 0) for name in ("tokens", "seconds", "done"))
        if step > self._warm[1] > 0:
            tokens += self._tokens(self._warm_elements, step - self._warm[1])
            seconds += now - self._warm[0]
            steps += step - self._warm[1]
        return float(tokens), float(seconds), int(steps)

    def _seconds(self, now: float) -> float:
        return float(self._earlier.get("seconds", 0.0)) + now - self._begun

    def _checkpoint_seconds(self) -> float:
        return round(float(self._earlier.get("checkpoint_seconds", 0.0)) + self._saving_seconds, 3)

    def _most_memory(self) -> list[int]:
        """By rank, over all starts on the same number of ranks."""
        before = self._earlier.get("memory_by_rank", [])
        return [max(pair) for pair in zip(before, self._memory, strict=True)] if len(before) == len(self._memory) else list(self._memory)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None) -> None:
        self._stack.close()
        if self._main and self._summary:
            self._summary |= {"steps": self._completed, "finished": self.finished, "checkpoint_seconds": self._checkpoint_seconds()}
            self._summary |= self._trace.shares()
            keep_summary(self._run.output_dir / SUMMARY, self._summary)

    def _note(self, step: int, found: Measured, rates: Mapping[str, float | None], now: float) -> None:
        memory = max(found.memory_by_rank)
        record = {
            "step": step,
            "loss": found.loss,
            "lr": self._lr,
            **rates,
            "memory_bytes": memory,
            "seconds": round(self._seconds(now), 3),
            "time": time.time(),
        }
        line = json.dumps(record)
        self._metrics.append(line)
        self._trackers.scalars({name: value for name, value in record.items() if name not in ("step", "time")}, step)
        self._update_summary(step, found.loss, memory, now)
        total = self._run.plan.train.steps
        parts = [f"step {step:>{len(str(total))}}/{total}"]
        parts += [f"loss {found.loss:.4f}"] if found.loss is not None else []
        parts += [f"lr {self._lr:.3g}"] if self._lr is not None else []
        parts += [f"{rates['tokens_per_s']:,.0f} tokens/s"] if rates["tokens_per_s"] is not None else []
        parts += [f"MFU {rates['mfu']:.1%}"] if rates["mfu"] is not None else []
        log.info("  ".join([*parts, human_bytes(memory)]))
        if self._bar is not None:
            self._bar.advance(line)

    def _update_summary(self, step: int, loss: float | None, memory: int, now: float) -> None:
        plan = self._run.plan
        tokens, seconds, steps = self._warm_so_far(step, now)
        by_rank = self._most_memory()
        first = self._summary.get("first_loss", loss)
        rates = self._rates(tokens / seconds if seconds else None, steps, seconds, {})
        self._summary = {
            "steps": step,
            "planned_steps": plan.train.steps,
            "first_loss": first,
            "last_loss": loss,
            **rates,
            **{f"{part}_seconds": s / self._warm_steps for part, s in self._warm_split.items() if self._warm_steps},
            **self._kept,
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

    def _synchronize(self) -> None:
        if self._cuda:
            import torch

            torch.cuda.synchronize()

    def _learning_rate(self) -> float | None:
        optimizer = getattr(self._engine, "optimizer", None)
        groups = getattr(optimizer, "param_groups", None)
        return float(groups[0]["lr"]) if groups else None
