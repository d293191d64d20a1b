"""Writing a checkpoint: all ranks write, then all know whether all could, then it gets its name."""

from __future__ import annotations

import logging
import shutil
import threading
import time
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic, Severity
from zerocfg.runtime import checkpoint_files as files
from zerocfg.runtime.checkpoint_check import optimizer_of, parameters_of
from zerocfg.runtime.checkpoint_write import Writer, copy_nvme, tried, written_by
from zerocfg.runtime.resumed_settings import schedule_of
from zerocfg.units import human_bytes

if TYPE_CHECKING:
    from zerocfg.runtime.agreement import Agreement
    from zerocfg.runtime.run import Run

log = logging.getLogger("zerocfg")


def rank_file(rank: int) -> str:
    return f"zerocfg_rank_{rank:05d}.pt"


class Saver:
    """Checkpoints of one training loop. Every method that says so is called by all ranks, in step."""

    def __init__(self, run: Run, engine: Any, agreement: Agreement, *, started_from: str, newest: files.Checkpoint | None) -> None:
        self._run = run
        self._engine = engine
        self._agreement = agreement
        self._started_from = started_from
        self._plan = run.plan.checkpoint
        self._own = files.folder(self._plan, run.output_dir)
        self._plan_nvme = run.plan.offload.optimizer == "nvme"
        self._draft: _Draft | None = None
        self.newest = newest
        """The newest whole checkpoint that this rank knows of."""
        self.unsaved: Diagnostic | None = None
        """Why the last checkpoint that was begun could not be written, where the run went on; the same on all ranks."""
        self.saved = 0
        """Step of the last checkpoint that was begun."""

    @property
    def writing(self) -> bool:
        """An async checkpoint is under way on this rank."""
        return self._draft is not None and self._draft.busy

    @property
    def failed(self) -> bool:
        return self._draft is not None and self._draft.problem != ""

    @property
    def under_way(self) -> bool:
        """Begun and not yet settled; the same on all ranks."""
        return self._draft is not None

    def save(self, step: int, rank_state: dict[str, Any], facts: dict[str, Any]) -> None:
        """All ranks: save after `step`. With async_save it returns when the state is copied; `settle` finishes it.

        rank_state: of this rank, for `zerocfg_rank_<r>.pt`. facts: of the run, for the manifest; rank 0's count. Raises ConfigProblems
        (ZC774) when it cannot be written and checkpoint.on_error is stop.
        """
        if self._draft is not None:
            self.settle()
        begun = time.perf_counter()
        self.saved = step
        draft = _Draft(self._own / f"{files.DRAFT}{files.tag(step)}", step, facts, begun)
        made = tried(lambda: self._make(draft.path)) if self._run.rank == 0 else ""
        if any(texts := self._agreement.texts(made)):
            self._give_up(draft, texts)
            return
        writer = Writer(self._engine.checkpoint_engine, in_memory=self._plan.async_save)
        with written_by(self._engine, writer):
            self._engine.save_checkpoint(str(self._own), tag=draft.path.name, client_state={}, save_latest=False)
        if self._plan_nvme and not writer.problem:
            writer.problem = tried(lambda: copy_nvme(self._engine, draft.path, self._run.rank))
        writer.save({**rank_state, "masters": masters(self._engine)}, str(draft.path / rank_file(self._run.rank)))
        self._draft = draft
        draft.start(writer)
        if not self._plan.async_save:
            self.settle()

    def settle(self) -> None:
        """All ranks: wait for what is under way, and make it the newest checkpoint or give it up."""
        draft = self._draft
        if draft is None:
            return
        draft.wait()
        self._draft = None
        texts = self._agreement.texts(draft.problem)
        if any(texts):
            self._give_up(draft, texts)
            return
        problem = tried(lambda: self._commit(draft)) if self._run.rank == 0 else ""
        texts = self._agreement.texts(problem)
        if any(texts):
            self._give_up(draft, texts)
            return
        self.unsaved = None
        if self._run.rank != 0:
            found = files.read(draft.path.with_name(files.tag(draft.step)))
            self.newest = found if isinstance(found, files.Checkpoint) else self.newest

    def abandon(self) -> None:
        """Without the other ranks, on the way out: let this rank's writing end; the folder is dropped at the next start."""
        if self._draft is not None:
            self._draft.wait()
            self._draft = None

    def _make(self, draft: Path) -> None:
        shutil.rmtree(draft, ignore_errors=True)
        draft.mkdir(parents=True)

    def _commit(self, draft: _Draft) -> None:
        manifest = {
            "plan": _jsonable(asdict(self._run.plan)),
            "started_from": self._started_from,
            "world_size": self._run.world_size,
            "parameters": parameters_of(self._engine),
            "optimizer": optimizer_of(self._engine),
            "schedule": schedule_of(self._engine),
            "time": time.time(),
            **draft.facts,
        }
        self.newest, dropped = files.commit(draft.path, draft.step, manifest, keep_last=self._plan.keep_last)
        size = sum(self.newest.manifest["files"].values())
        gone = f", dropped {', '.join(dropped)}" if dropped else ""
        log.info(
            "checkpoint of step %d: %s in %.1f s: %s%s",
            draft.step,
            human_bytes(size),
            time.perf_counter() - draft.begun,
            self.newest.path,
            gone,
        )

    def _give_up(self, draft: _Draft, texts: list[str]) -> None:
        """All ranks."""
        free = self._agreement.texts(self._free() if self._run.rank == 0 else "")[0]
        if self._run.rank == 0:
            shutil.rmtree(draft.path, ignore_errors=True)
        problem = self._diagnose(draft.step, texts, free)
        if self._plan.on_error == "stop":
            raise ConfigProblems([problem])
        if self._run.rank == 0:
            said = replace(problem, severity=Severity.WARNING).render()
            log.warning("%s", said.partition("\n")[0] if self.unsaved else said)  # at length once
        self.unsaved = problem

    def _free(self) -> str:
        try:
            return f"{human_bytes(shutil.disk_usage(self._own).free)} were free in {self._own}"
        except OSError as problem:
            return f"{self._own}: {problem.strerror or problem}"

    def _room(self) -> str:
        kept = self._plan.keep_last
        return f"room for {kept + 1} checkpoints (keep_last + 1)" if kept else "room for more of them, checkpoint.keep_last=2"

    def _diagnose(self, step: int, texts: list[str], free: str) -> Diagnostic:
        failed = [f"rank {rank}: {text}" for rank, text in enumerate(texts) if text]
        more = f" (and {len(failed) - 4} more ranks)" if len(failed) > 4 else ""
        kept = f"whole: the checkpoint of step {self.newest.step}, {self.newest.path}" if self.newest else "there is no earlier checkpoint"
        return Diagnostic(
            code="ZC774",
            path="checkpoint.directory",
            message=f"the checkpoint of step {step} could not be written: {failed[0]}",
            detail=(*failed[1:4], free + more, kept),
            hint=f"{self._room()}, then the same command into this folder"
            + ("; or checkpoint.on_error=continue" if self._plan.on_error == "stop" else ""),
        )


def masters(engine: Any) -> list[list[tuple[str, tuple[int, ...]]]]:
    """Stage 0: name and shape of each weight in the optimizer's state, which DeepSpeed saves without names."""
    if engine.zero_optimization() or engine.optimizer is None:
        return []
    groups = getattr(engine.optimizer, "fp16_groups", None)
    if groups is None:
        groups = [group["params"] for group in engine.optimizer.param_groups]
    return [[(engine.param_names[weight], tuple(weight.shape)) for weight in group] for group in groups]


class _Draft:
    """A checkpoint while it is written, on one rank."""

    def __init__(self, path: Path, step: int, facts: dict[str, Any], begun: float) -> None:
        self.path, self.step, self.facts, self.begun = path, step, facts, begun
        self.problem = ""
        self._thread: threading.Thread | None = None

    @property
    def busy(self) -> bool:
        return self._thread is not None and self._thread.is_alive()

    def start(self, writer: Writer) -> None:
        self.problem = writer.problem
        if writer.kept and not self.problem:
            self._thread = threading.Thread(target=self._write, args=(writer,), name="zerocfg-checkpoint", daemon=True)
            self._thread.start()

    def _write(self, writer: Writer) -> None:
        self.problem = tried(writer.write_kept)

    def wait(self) -> None:
        if self._thread is not None:
            self._thread.join()


def _jsonable(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(name): _jsonable(item) for name, item in value.items()}
    return [_jsonable(item) for item in value] if isinstance(value, (list, tuple)) else value
