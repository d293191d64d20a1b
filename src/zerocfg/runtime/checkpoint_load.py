"""Going on from a checkpoint: which one, whether it fits, its state into the engine."""

from __future__ import annotations

import logging
import os
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.runtime import checkpoint_files as files
from zerocfg.runtime.checkpoint_check import check_model, damage
from zerocfg.runtime.checkpoint_save import rank_file
from zerocfg.runtime.checkpoint_shape import Way, fit
from zerocfg.runtime.checkpoint_start import find_start, make_way
from zerocfg.runtime.resumed_settings import config_holds
from zerocfg.runtime.together import rank_0_does

if TYPE_CHECKING:
    from zerocfg.runtime.run import Run

log = logging.getLogger("zerocfg")


@dataclass(frozen=True, kw_only=True, slots=True)
class Resumed:
    """Where this run begins, after the engine has the state."""

    checkpoint: files.Checkpoint | None = None
    """None: nothing was loaded."""
    started_from: str = ""
    rank_state: dict[str, Any] | None = None
    """What this rank saved: generators, place in the data. None: a fresh start, or another number of ranks."""
    lock: Any = field(default=None, repr=False)
    """Rank 0 holds the folder of checkpoints while the run lasts."""

    @property
    def step(self) -> int:
        return self.checkpoint.step if self.checkpoint is not None else 0

    @property
    def facts(self) -> dict[str, Any]:
        """Of the run so far, as its last manifest has them."""
        return dict(self.checkpoint.manifest.get("recorded", {})) if self.checkpoint is not None else {}

    def release(self) -> None:
        if self.lock is not None:
            self.lock.release()


@dataclass(frozen=True, slots=True)
class _Decision:
    """Rank 0's, sent to all."""

    path: Path | None
    """Of the checkpoint that the run begins with."""
    started_from: str
    way: Way
    remarks: tuple[Diagnostic, ...] = ()


def resume(run: Run, engine: Any) -> Resumed:
    """All ranks: find out where the run begins and load that into a fresh engine. Raises ConfigProblems (ZC770, ZC771, ZC775)."""
    held: list[Any] = []
    unfit: dict[Path, str] = {}
    decision = rank_0_does(run.rank, lambda: _decide(run, engine, held, unfit))
    while decision.path is not None and (why := _damage(run, decision.path)):
        unfit[decision.path] = why
        if run.rank == 0:
            log.warning("%s: %s", decision.path, why)
        decision = rank_0_does(run.rank, lambda: _decide(run, engine, held, unfit))
    lock = held[0] if held else None
    path = decision.path
    if path is None:
        return Resumed(started_from=decision.started_from, lock=lock)
    for remark in decision.remarks if run.rank == 0 else ():  # the launcher has told the rest
        log.warning("%s", remark.render().partition("\n")[0])
    checkpoint = files.read(path)
    if isinstance(checkpoint, str):
        raise ConfigProblems([_unseen(run.rank, path, checkpoint)])
    if decision.way is Way.converted:
        from zerocfg.runtime.checkpoint_convert import load_converted

        converted = rank_0_does(run.rank, lambda: _converted(run, path))
        same = checkpoint.plan["precision"]["dtype"] == run.plan.precision.dtype
        with config_holds(engine, checkpoint, run.plan, main=run.rank == 0):
            load_converted(engine, converted, run.plan.zero.stage, keep_loss_scale=same)
        state = None
    else:
        with config_holds(engine, checkpoint, run.plan, main=run.rank == 0):
            loaded, _ = engine.load_checkpoint(str(path.parent), tag=path.name)
        if loaded is None:
            raise ConfigProblems([_unseen(run.rank, path, "DeepSpeed found nothing in it")])
        state = _rank_state(run, path, checkpoint)
    if run.rank == 0:
        how = "" if decision.way is Way.as_it_is else f", {decision.way.value}"
        log.info("resumed from step %d%s: %s", checkpoint.step, how, checkpoint.path)
    return Resumed(checkpoint=checkpoint, started_from=decision.started_from, rank_state=state, lock=lock)


def _damage(run: Run, path: Path) -> str:
    """All ranks: what one of them finds wrong with the files, of which each reads a share; the same on all."""
    import torch

    checkpoint = files.read(path)
    mine = checkpoint if isinstance(checkpoint, str) else damage(checkpoint, rank=run.rank, world_size=run.world_size)
    if run.world_size == 1:
        return mine
    said: list[str] = [""] * run.world_size
    torch.distributed.all_gather_object(said, mine)
    return next((text for text in said if text), "")


def _decide(run: Run, engine: Any, held: list[Any], unfit: dict[Path, str]) -> _Decision:
    """On rank 0. held: gets the lock, which cannot be sent. unfit: checkpoints that were decided on before, and are damaged."""
    plan = run.plan.checkpoint
    own = files.folder(plan, run.output_dir)
    if plan.enabled and not held:
        held += _locked(own)
    start = find_start(plan, run.output_dir, launch_folder(), again=is_again(), unfit=unfit)
    for line in (*(() if unfit else start.damaged), *(make_way(start, own) if plan.enabled else ())):
        log.warning("%s", line)
    if start.checkpoint is None:
        return _Decision(None, start.started_from, Way.as_it_is)
    check_model(start.checkpoint, engine)
    found = fit(start.checkpoint, run.plan)
    if found.way is Way.refused:
        raise ConfigProblems(found.diagnostics)
    return _Decision(start.checkpoint.path, start.started_from, found.way, found.diagnostics)


def _converted(run: Run, path: Path) -> Path:
    """On rank 0: the folder of the conversion."""
    from zerocfg.runtime.checkpoint_convert import convert, target_in

    own = files.folder(run.plan.checkpoint, run.output_dir)
    own.mkdir(parents=True, exist_ok=True)
    return convert(path, target_in(own, path))


def is_again() -> bool:
    """Whether this run has begun before, in this very job: torchrun's restart, or SLURM's."""
    return any(os.environ.get(name, "0") not in ("", "0") for name in ("TORCHELASTIC_RESTART_COUNT", "SLURM_RESTART_COUNT"))


def launch_folder() -> Path:
    """Where the user was: hydra.job.chdir may have moved this process."""
    from hydra.core.hydra_config import HydraConfig

    return Path(HydraConfig.get().runtime.cwd) if HydraConfig.initialized() else Path.cwd()


def _locked(own: Path) -> list[Any]:
    import filelock

    try:
        own.mkdir(parents=True, exist_ok=True)
        (own / ".lock").touch()
    except OSError as problem:
        raise ConfigProblems([_no_folder(own, problem)]) from None
    lock = filelock.FileLock(own / ".lock")
    try:
        lock.acquire(timeout=0)
    except filelock.Timeout:
        raise ConfigProblems(
            [
                Diagnostic(
                    code="ZC775",
                    path="checkpoint.directory",
                    message=f"another run saves its checkpoints in {own}",
                    hint="wait for it, or another checkpoint.directory; below the job's folder each job has its own",
                )
            ]
        ) from None
    except (OSError, NotImplementedError) as problem:
        log.warning("no lock on %s: %s", own, problem)
        return []
    return [lock]


def _no_folder(own: Path, problem: OSError) -> Diagnostic:
    return Diagnostic(
        code="ZC774",
        path="checkpoint.directory",
        message=f"checkpoint.directory: {own} cannot be written: {problem.strerror or problem}",
        hint="checkpoint.directory=checkpoints, below the job's folder; or a folder that you may write on all nodes",
    )


def _rank_state(run: Run, path: Path, checkpoint: files.Checkpoint) -> dict[str, Any] | None:
    import torch

    if checkpoint.manifest.get("world_size") != run.world_size:
        return None  # stage 0 on another number of ranks
    state: dict[str, Any] = torch.load(path / rank_file(run.rank), map_location="cpu", weights_only=False)
    return state


def _unseen(rank: int, path: Path, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC770",
        path="checkpoint.resume",
        message=f"rank {rank} cannot read the checkpoint that rank 0 chose: {why}",
        detail=(str(path),),
        hint="a checkpoint.directory on a file system that all nodes share",
    )
