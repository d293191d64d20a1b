"""All jobs of a launch, composed and compiled, before anything is started or any folder is made."""

from __future__ import annotations

import gc
import os
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path

from hydra.core.utils import filter_overrides
from hydra.errors import HydraException
from omegaconf import DictConfig, open_dict, read_write
from omegaconf.errors import OmegaConfBaseException

from zerocfg.artifact import CompiledRun
from zerocfg.compose import compose_job, from_hydra, uses_groups
from zerocfg.compose.paste import to_paste
from zerocfg.compose.sweep import SweepJob
from zerocfg.diagnostics import Diagnostic, has_errors, in_order, render_report
from zerocfg.facts import Detected
from zerocfg.hidden import hide_override
from zerocfg.launch.hydra_state import hydra_config
from zerocfg.launch.preflight import (
    check_container,
    check_folder_name,
    check_folders,
    check_machine,
    check_nesting,
    check_packages,
    check_requeues,
)
from zerocfg.launch.resume import check_apart, check_resume
from zerocfg.probe.installed import installed
from zerocfg.runtime.swap_folder import check_here


@dataclass(frozen=True, kw_only=True, slots=True)
class PreparedJob:
    """One job of a launch, ready to start."""

    number: int
    """hydra.job.num."""
    overrides: tuple[str, ...]
    """As given, without hydra.* and without the values of secrets."""
    config: DictConfig
    """Whole, with the hydra node; hydra.runtime.output_dir is set."""
    folder: Path
    """Absolute."""
    run: CompiledRun | None
    """None: the app uses none of zerocfg's groups."""

    @property
    def world_size(self) -> int:
        return self.run.plan.topology.world_size if self.run is not None else 1


@dataclass(frozen=True, kw_only=True, slots=True)
class Infeasible:
    """A point of a sweep that does not compile and is left out (on_infeasible=skip)."""

    number: int
    overrides: tuple[str, ...]
    config: DictConfig | None = None


@dataclass(slots=True)
class Prepared:
    jobs: list[PreparedJob] = field(default_factory=list)
    infeasible: list[Infeasible] = field(default_factory=list)
    report: list[tuple[str, list[Diagnostic]]] = field(default_factory=list)
    """Title of a job ("" for what concerns all) and what was found; jobs without a finding are not listed."""

    @property
    def refused(self) -> bool:
        skipped = {_title(point.number, point.overrides) for point in self.infeasible}
        return any(has_errors(found) for title, found in self.report if title not in skipped)

    def render(self) -> str:
        """One text for all jobs; a finding that several jobs share is shown once, with their numbers."""
        shared: dict[Diagnostic, list[str]] = {}
        for title, found in self.report:
            for diagnostic in in_order(found):
                titles = shared.setdefault(diagnostic, [])
                if title not in titles:
                    titles.append(title)
        groups: dict[tuple[str, ...], list[Diagnostic]] = {}
        for diagnostic, titles in shared.items():
            groups.setdefault(tuple(titles), []).append(diagnostic)
        texts = []
        for named, found in sorted(groups.items(), key=lambda group: not has_errors(group[1])):
            heading = "\n".join(f"-- {title}" for title in named if title)
            texts.append(f"{heading}\n{render_report(found)}" if heading else render_report(found))
        return "\n\n".join(texts)


@contextmanager
def uncollected() -> Iterator[None]:
    """A third of the time would go into looking for garbage among the configs of a sweep, all of which are kept."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()


@uncollected()
def prepare(
    config: DictConfig,
    job_overrides: Sequence[Sequence[str]],
    initial_job_idx: int,
    *,
    compose: Callable[[list[str]], SweepJob],
    detect: Callable[[], Detected],
    environ: Mapping[str, str],
    start: bool = True,
    skip_infeasible: bool = False,
    place: Callable[[PreparedJob], Iterable[Diagnostic]] | None = None,
) -> Prepared:
    """Compose and compile every job and check it against this machine.

    config: the sweep's own config. compose: overrides -> the job's config, as Hydra's load_sweep_config does. detect: looks
    at this machine, once. start: False leaves out what only a start needs (GPUs, nodes): a dry run.
    skip_infeasible: points that do not compile are listed in `infeasible` and do not refuse the launch.
    place: checks a job against where it would run, in place of this machine.
    """
    done = Prepared()
    several = len(job_overrides) > 1
    if start and (nested := list(check_nesting(environ))):
        done.report.append(("", nested))
    cached: list[Detected] = []

    def machine() -> Detected:
        if not cached:
            cached.append(detect())
        return cached[0]

    for number, overrides in enumerate(job_overrides, initial_job_idx):
        job, found = _one(number, list(overrides), config, compose, machine, environ)
        if job is not None:
            if place is None and start and job.run is not None and job.run.plan.container.kind == "none":
                found = [*found, *check_here(job.run.deepspeed, job.run.plan)]
            if place is not None:
                found = [*found, *place(job)]
            elif start and job.run is not None and (job.run.plan.hardware.is_cuda or job.run.plan.hardware.num_nodes > 1):
                found = [*found, *check_machine(job.run.plan, machine(), environ)]
            if place is None and start and job.run is not None:
                found = [*found, *check_container(job.run.plan, shutil.which), *check_requeues(job.run.plan)]
        if left_out := skip_infeasible and has_errors(found):
            done.infeasible.append(Infeasible(number=number, overrides=tuple(overrides)))
        elif job is not None:
            done.jobs.append(job)
        if found:
            done.report.append((_title(number, overrides) if several or left_out else "", found))
    saving = [(job.number, job.run.plan, job.folder) for job in done.jobs if job.run is not None]
    if clashes := [*check_folders([job.folder for job in done.jobs]), *check_apart(saving)]:
        done.report.append(("", clashes))
    return done


def _title(number: int, overrides: Sequence[str]) -> str:
    return f"job {number}: {' '.join(map(hide_override, filter_overrides(list(overrides))))}".rstrip(": ")


def _one(
    number: int,
    overrides: list[str],
    app: DictConfig,
    compose: Callable[[list[str]], SweepJob],
    machine: Callable[[], Detected],
    environ: Mapping[str, str],
) -> tuple[PreparedJob | None, list[Diagnostic]]:
    try:
        composed_job = compose(overrides)
        config = composed_job.cfg
        with open_dict(config):
            config.hydra.job.id = number
            config.hydra.job.num = number
        with hydra_config(config):
            folder = os.path.abspath(os.path.join(str(config.hydra.sweep.dir), str(config.hydra.sweep.subdir)))
    except (HydraException, OmegaConfBaseException) as problem:
        return None, _not_composed(app, overrides, problem)
    with read_write(config.hydra.runtime), open_dict(config.hydra.runtime):
        config.hydra.runtime.output_dir = folder
    run: CompiledRun | None = None
    if found := list(check_folder_name(folder, overrides)):
        return None, found
    if uses_groups(config):
        from zerocfg.compiler import examine
        from zerocfg.probe.calibration import decide

        with hydra_config(config):
            composed = from_hydra(config, overrides, parsed=composed_job.parsed, sources=composed_job.sources)
        outcome = examine(
            composed.container, origins=composed.origins, detect=machine, environ=environ, torch=installed("torch"), decide=decide
        )
        found = to_paste([*composed.diagnostics, *outcome.diagnostics], composed.origins)
        run = outcome.run
        if run is None or has_errors(found):
            return None, found
        looks = (*check_resume(run.plan, Path(folder)), *check_packages(run.plan, installed))
        found += [replace(d, decided_by=composed.origins.of(d.path)) for d in looks]
    job = PreparedJob(
        number=number,
        overrides=tuple(map(hide_override, filter_overrides(overrides))),
        config=config,
        folder=Path(folder),
        run=run,
    )
    return job, found


def _not_composed(app: DictConfig, overrides: list[str], problem: Exception) -> list[Diagnostic]:
    """All that is wrong with the overrides of an app of ours; of another app, what Hydra says."""
    found = compose_job(app, overrides).diagnostics if uses_groups(app) else []
    if has_errors(found):
        return found
    first, *rest = str(problem).strip().splitlines() or [type(problem).__name__]
    cause = str(problem.__cause__).strip().splitlines() if problem.__cause__ is not None else []
    return [Diagnostic(code="ZC710", message=first, detail=tuple(line.strip() for line in (*rest, *cause) if line.strip()))]
