"""How every launch begins and ends: all jobs are composed, compiled and checked, those to run are picked, and a table is left."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra.core.singleton import Singleton
from hydra.core.utils import JobReturn, JobStatus, configure_log, filter_overrides, setup_globals
from hydra.errors import CompactHydraException
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig, OmegaConf

from zerocfg.deepspeed.importer.text import pasted
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.errors import ZerocfgError
from zerocfg.facts import Detected
from zerocfg.hidden import hide_override
from zerocfg.launch.folders import check_free, remove_unused, unwritable
from zerocfg.launch.hidden_yaml import hide_multirun
from zerocfg.launch.hydra_state import hydra_config
from zerocfg.launch.options import LocalOptions, OnInfeasible
from zerocfg.launch.payload import Sealer, frozen
from zerocfg.launch.prepare import Infeasible, Prepared, PreparedJob, prepare
from zerocfg.launch.read_options import Options, decided, read_options
from zerocfg.launch.returns import JobFailed, earlier_return
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_state import check_active
from zerocfg.launch.sweep_results import RESULTS, SweepRow, read_rows, results_table, sweep_row, write_results
from zerocfg.units import counted

log = logging.getLogger("zerocfg.launch")


NONE_FEASIBLE = "nothing was started: no job can run, and hydra.launcher.on_infeasible=skip leaves such jobs out"


class LaunchRefused(ZerocfgError, CompactHydraException):  # type: ignore[misc]
    """Nothing was started; str() is the report. Hydra prints it without a stack and ends with status 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """What Hydra wants of a launcher."""

    context: HydraContext
    task_function: TaskFunction
    config: DictConfig
    """The sweep's own."""
    job_overrides: Sequence[Sequence[str]]
    initial_job_idx: int
    fresh_folder: bool = False
    """hydra.sweep.dir did not exist before Hydra made it for this launch."""

    @property
    def sweep(self) -> Path:
        return Path(os.path.abspath(str(self.config.hydra.sweep.dir)))

    @property
    def is_grid(self) -> bool:
        """Whether the sweep's points are known from its start: of Hydra's basic sweeper and ours."""
        return self.sweeper in ("BasicSweeper", "ZerocfgSweeper")

    @property
    def has_all_jobs(self) -> bool:
        """Whether the launch has no further jobs: a grid is handed over all at once, unless it is to be in batches."""
        return self.is_grid and self.config.hydra.sweeper.get("max_batch_size") is None

    @property
    def is_last(self) -> bool:
        """Whether no further jobs come, where that can be told."""
        return self.is_grid and self.initial_job_idx + len(self.job_overrides) == _points_of_grid(self.context, self.config)

    @property
    def sweeper(self) -> str:
        """Name of its class."""
        return str(self.config.hydra.sweeper.get("_target_")).rpartition(".")[2]

    def options(self, kind: type[Options], given: Mapping[str, Any]) -> tuple[Options, list[Diagnostic]]:
        """`read_options` of hydra.launcher, and who decided each."""
        return read_options(kind, given, self.config)

    @property
    def hydra_overrides(self) -> list[str]:
        """Those of hydra.*, as typed."""
        typed: Any = OmegaConf.to_container(self.config.hydra.overrides.hydra)
        return [str(line) for line in typed]

    def configure_log(self) -> None:
        configure_log(self.config.hydra.hydra_logging, self.config.hydra.verbose)


def _points_of_grid(context: HydraContext, config: DictConfig) -> int:
    """As BasicSweeper.sweep counts them."""
    from hydra._internal.core_plugins.basic_sweeper import BasicSweeper
    from hydra.core.override_parser.overrides_parser import OverridesParser

    params = [f"{key}={value}" for key, value in (config.hydra.sweeper.get("params") or {}).items()]
    words = [*params, *config.hydra.overrides.task]
    overrides = OverridesParser.create(config_loader=context.config_loader).parse_overrides(words)
    return sum(map(len, BasicSweeper.split_arguments(overrides, None)))


@dataclass
class Launch:
    """The jobs of one call of a launcher, checked."""

    asked: Asked
    prepared: Prepared
    seal: Callable[[PreparedJob], bytes]
    """Makes a job's payload, just before it is needed."""
    jobs: list[PreparedJob] = field(default_factory=list)
    """Those to run."""
    returns: dict[int, JobReturn] = field(default_factory=dict)
    """By hydra.job.num; those that need not run are in it already."""
    states: dict[int, str] = field(default_factory=dict)
    """As results.csv shows them, where the return does not say it."""

    @property
    def several(self) -> bool:
        return len(self.asked.job_overrides) > 1

    def write_table(self, *, show: bool) -> None:
        """results.csv of the whole sweep, jobs of earlier calls of this sweep included; a single run has none."""
        if self.several or self.asked.initial_job_idx > 0 or not self.asked.has_all_jobs:
            write_table(self.asked.sweep, self.prepared, self.returns, self.states, show=show and self.several)

    def in_order(self) -> list[JobReturn]:
        return [self.returns[number] for number in sorted(self.returns)]


def begin(
    asked: Asked,
    options: LocalOptions | SlurmOptions,
    *,
    problems: Sequence[Diagnostic],
    detect: Callable[[], Detected],
    place: Callable[[PreparedJob], Iterable[Diagnostic]] | None = None,
    reachable: bool = True,
) -> Launch:
    """Raises LaunchRefused before anything is started.

    problems: known already, of all jobs. detect, place: as `prepare` takes them. reachable: off: SLURM cannot be asked, as they say.
    """
    from zerocfg.compose.sweep import SweepComposer

    setup_globals()
    asked.configure_log()
    hide_multirun(asked.config)
    total = len(asked.job_overrides)
    prepared = prepare(
        asked.config,
        asked.job_overrides,
        asked.initial_job_idx,
        compose=SweepComposer(asked.context.config_loader, asked.config).compose_job,
        detect=detect,
        environ=os.environ,
        start=not options.dry_run,
        skip_infeasible=options.on_infeasible is OnInfeasible.skip,
        place=place,
    )
    folders = [job.folder for job in prepared.jobs]
    problems = [*problems, *_check_run_dir(asked)]
    in_use = [*check_free(folders), *(check_active(folders, asked.sweep) if reachable else ())]
    for found in (list(problems), in_use):
        if found:
            prepared.report.append(("", found))
    prepared.report = [(title, decided(found, asked.config)) for title, found in prepared.report]
    launch = Launch(asked, prepared, sealing(asked), list(prepared.jobs))
    if problem := _problem(launch, total):
        if asked.fresh_folder and asked.sweep.is_dir():
            remove_unused(asked.sweep)
        raise LaunchRefused(problem)
    if report := prepared.render():
        print(report, file=sys.stderr, flush=True)
    for point in prepared.infeasible:
        launch.returns[point.number], launch.states[point.number] = skipped_return(point, asked.sweeper), "infeasible"
    if options.retry_failed:
        _take_over(launch)
    return launch


def _check_run_dir(asked: Asked) -> Iterator[Diagnostic]:
    """ZC716: Hydra's word for a single run's folder, in an app whose hydra.sweep.dir does not follow it."""
    keys = {line.partition("=")[0].lstrip("+") for line in asked.hydra_overrides}
    hydra = asked.config.hydra
    if len(asked.job_overrides) > 1 or "hydra.run.dir" not in keys or "hydra.sweep.dir" in keys or hydra.run.dir == hydra.sweep.dir:
        return
    yield Diagnostic(
        code="ZC716",
        path="hydra.run.dir",
        message=f"hydra.run.dir={hydra.run.dir} has no effect: zerocfg's launchers put a job into hydra.sweep.dir={hydra.sweep.dir}",
        hint=f"{pasted('hydra.sweep.dir', str(hydra.run.dir))}; or dir: ${{hydra.run.dir}} for hydra.sweep in the app's config",
    )


def _problem(launch: Launch, total: int) -> str:
    """Why nothing can be started; empty when it can."""
    if launch.prepared.refused:
        return f"{launch.prepared.render()}\n\nnothing was started" + (f" ({total} jobs)" if total > 1 else "")
    if not launch.prepared.jobs and launch.asked.has_all_jobs:
        return f"{launch.prepared.render()}\n\n{NONE_FEASIBLE}"
    try:
        for job in launch.jobs[:1]:
            launch.seal(job)  # what cannot travel is the function's, the same for all jobs
    except ConfigProblems as problems:
        return f"{problems}\nnothing was started"
    return ""


def _take_over(launch: Launch) -> None:
    """hydra.launcher.retry_failed: jobs that finished before need not run."""
    for job in launch.prepared.jobs:
        if (ret := earlier_return(job)) is not None:
            launch.returns[job.number], launch.states[job.number] = ret, "finished before"
            launch.jobs.remove(job)
    total = len(launch.prepared.jobs)
    log.info("%d of %s finished before; %d to run", total - len(launch.jobs), counted(total, "job"), len(launch.jobs))


def sealing(asked: Asked) -> Callable[[PreparedJob], bytes]:
    sealer = Sealer(asked.task_function, singletons=Singleton.get_state(), callbacks=asked.context.callbacks)

    def seal(job: PreparedJob) -> bytes:
        with hydra_config(job.config):
            config = frozen(job.config)
            env_set = {str(k): str(v) for k, v in job.config.hydra.job.env_set.items()}
        return sealer.seal(config, env_set=env_set)

    return seal


class LeftOut(JobReturn):  # type: ignore[misc]
    """Of a point that cannot run."""


def skipped_return(point: Infeasible, sweeper: str) -> JobReturn:
    """A sweeper gets NaN for a point that cannot run; Optuna, which ends at NaN, a failed trial."""
    ret = LeftOut(overrides=list(point.overrides), cfg=point.config, task_name=None)
    ret.status, ret.return_value = JobStatus.COMPLETED, float("nan")
    if sweeper == "OptunaSweeper":
        text = f"job {point.number} was left out: it cannot run\n  try: hydra.sweeper.max_failure_rate=1, with which Optuna goes on"
        ret.status, ret.return_value = JobStatus.FAILED, JobFailed(text)
    return ret


def write_table(sweep: Path, prepared: Prepared, returns: Mapping[int, JobReturn], states: Mapping[int, str], *, show: bool) -> None:
    rows: dict[int, SweepRow] = {row.job: row for row in read_rows(sweep)}
    for job in prepared.jobs:
        ret = returns.get(job.number)
        ended = "not started" if ret is None else "done" if ret.status is JobStatus.COMPLETED else "failed"
        rows[job.number] = sweep_row(job.number, states.get(job.number, ended), filter_overrides(list(job.overrides)), job.folder)
    for point in prepared.infeasible:
        words = map(hide_override, filter_overrides(list(point.overrides)))
        rows[point.number] = SweepRow(job=point.number, state="infeasible", overrides=" ".join(words))
    ordered = [rows[number] for number in sorted(rows)]
    try:
        where = str(write_results(sweep, ordered))
    except OSError as error:  # the folder is gone, or its disk is full: the table is still worth showing
        where = unwritable(sweep / RESULTS, error, hint="").message
    if show:
        log.info("results: %s\n%s", where, results_table(ordered))
