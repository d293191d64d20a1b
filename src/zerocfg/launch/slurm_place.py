"""Where jobs run: the cluster in place of this machine."""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Mapping

from omegaconf import OmegaConf

from zerocfg.artifact import CompiledRun
from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import is_secret
from zerocfg.launch.prepare import PreparedJob
from zerocfg.launch.slurm_cluster import Cluster, Unread
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_preflight import check_request, partition_machine, threads_per_core, unknown_hardware
from zerocfg.launch.slurm_restart import check_signal, with_restarts
from zerocfg.passes.lower.container import pyxis_words
from zerocfg.passes.lower.slurm import SlurmShape, lower_slurm


class Placement:
    """Lowers and checks jobs, and keeps each one's shape.

    needs_cluster: off: that the cluster cannot be read is no job's own problem; it is reported already.
    """

    def __init__(self, options: SlurmOptions, cluster: Cluster | Unread, *, needs_cluster: bool = True) -> None:
        self._needs_cluster = needs_cluster
        self._options = options
        self._cluster = cluster
        self._threads = threads_per_core(options, cluster, os.environ)
        self._checked: dict[tuple[SlurmShape, bool], list[Diagnostic]] = {}
        self.machine = partition_machine(options, cluster, os.environ)
        self.shapes: dict[int, SlurmShape] = {}
        """By hydra.job.num."""

    def check(self, job: PreparedJob) -> Iterator[Diagnostic]:
        asked = OmegaConf.select(job.config, "hardware.accelerator") if job.run is not None else None
        shape, problems = self.shape(job.run, str(job.config.hydra.job.name), accelerator_asked=asked is not None)
        self.shapes[job.number] = shape
        yield from problems
        if shape.container:
            yield from check_mountable({"hydra.sweep.dir": str(job.folder), "": os.getcwd()})

    def shape(self, run: CompiledRun | None, job_name: str, *, accelerator_asked: bool) -> tuple[SlurmShape, list[Diagnostic]]:
        options = with_restarts(self._options, run)
        shape, problems = lower_slurm(
            options,
            run.resources if run is not None else None,
            job_name=job_name,
            threads_per_core=self._threads,
            rdzv_port=fixed_port(run) if run is not None else 0,
        )
        found = [*problems, *check_signal(options)]
        if run is not None and run.plan.detected and not accelerator_asked and self.machine.unknown:
            return shape, [*found, unknown_hardware(self.machine.unknown)] if self._needs_cluster else found
        if isinstance(self._cluster, Cluster):
            asked = (shape, run is not None)
            if asked not in self._checked:
                self._checked[asked] = list(check_request(self._options, shape, self._cluster, os.environ, grouped=run is not None))
            told = {problem.path for problem in found}
            found += [problem for problem in self._checked[asked] if problem.path not in told]
        return _without_secrets(_in_container(shape, run), run), found


def check_mountable(folders: Mapping[str, str]) -> Iterator[Diagnostic]:
    """ZC741 for a folder that pyxis cannot mount. folders: by the config path that decides them."""
    for path, folder in folders.items():
        if set(folder) & set(",:"):
            yield Diagnostic(
                code="ZC741",
                path=path,
                message=f"container=pyxis cannot mount {folder}: it has no way to write a path with a comma or a colon",
                hint="hydra.sweep.dir and hydra.sweep.subdir='${hydra.job.num}' without them" if path else "start from another folder",
            )


def _in_container(shape: SlurmShape, run: CompiledRun | None) -> SlurmShape:
    """srun itself enters a pyxis container; docker and apptainer are launch.sh's."""
    if run is None or run.plan.container.kind != "pyxis":
        return shape
    words = (
        word.replace('"$PWD:$PWD"', '"$here:$here"').replace('"$PWD"', '"$here"')
        for word in pyxis_words(run.plan.container, run.environment)
    )
    return dataclasses.replace(shape, container=tuple(words), container_python=run.plan.container.python)


def _without_secrets(shape: SlurmShape, run: CompiledRun | None) -> SlurmShape:
    """Values that look like secrets go by sbatch's environment; jobs with different ones cannot share an array."""
    secrets = {name: value for name, value in (run.environment if run is not None else {}).items() if is_secret(name)}
    secrets |= {name: value for name, value in shape.environment if is_secret(name)}
    open_ones = tuple((name, value) for name, value in shape.environment if not is_secret(name))
    return dataclasses.replace(shape, environment=open_ones, secrets=tuple(sorted(secrets.items())))


def fixed_port(run: CompiledRun) -> int:
    """torchrun.rdzv_port where the user set it, else 0: the job id decides."""
    entry = run.provenance.get("torchrun.rdzv-endpoint")
    return run.plan.torchrun.rdzv_port if entry is not None and entry.reason == "torchrun.rdzv_port" else 0
