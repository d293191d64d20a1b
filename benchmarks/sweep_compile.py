"""What one job of a sweep costs before it is queued: ours and Hydra's, for the same jobs, in turns.

compose: overrides -> the job's config. compile: that config -> a checked run (`zerocfg.compiler.examine`). prepare: all that the
launcher does with a job before anything is started, origins of the values included. whole: `python app.py -m optimizer.lr=...
hydra.launcher.dry_run=true`, CPU time of the process less that of a sweep of two: each job's folder is written, nothing is started;
Hydra's: its basic sweeper, which composes each job once more, and for scale its basic launcher, which runs an empty function.
`python benchmarks/sweep_compile.py [--jobs 1000] [--prepared 100] [--whole 200]`
"""

from __future__ import annotations

import argparse
import itertools
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode
from omegaconf import DictConfig

from zerocfg.compiler import examine
from zerocfg.compose.plain import to_plain
from zerocfg.compose.sweep import SweepComposer, SweepJob
from zerocfg.confsource import conf_dir
from zerocfg.facts import Detected
from zerocfg.launch.prepare import prepare
from zerocfg.nodes import same

TARGET_MS = 10.0

GRID = {
    "parallelism": ["zero1", "zero2", "zero3", "zeropp", "ddp"],
    "hardware": ["a100x4", "a100x8", "h100x8", "h200x4", "b200x8"],
    "precision": ["bf16", "fp16", "fp32", "bf16_lowmem"],
    "offload": ["none", "optimizer", "all"],
    "optimizer": ["adamw", "lion"],
    "model": ["llama2_7b", "gpt_1b3"],
}


def jobs_of(count: int) -> list[list[str]]:
    """Each with its own choice of options as far as the grid goes, its own learning rate, and a key of the app's own."""
    every = [[f"{group}={option}" for group, option in zip(GRID, point, strict=True)] for point in itertools.product(*GRID.values())]
    stride = max(1, len(every) // count)
    points = itertools.cycle(every[::stride])
    return [
        [*next(points), f"optimizer.lr={1e-4 + i * 1e-7:.7f}", f"batch.micro_batch_size={1 + i % 4}", f"+note.number={i}"]
        for i in range(count)
    ]


class Clock:
    """Wall and CPU time of each call, in ms."""

    def __init__(self) -> None:
        self.wall: list[float] = []
        self.cpu: list[float] = []

    def run(self, what: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        result = what()
        self.wall.append((time.perf_counter() - wall) * 1e3)
        self.cpu.append((time.process_time() - cpu) * 1e3)
        return result

    def row(self, per: int = 1) -> str:
        """per: jobs a call."""
        numbers = (statistics.mean(self.wall), statistics.median(self.wall), statistics.mean(self.cpu))
        return "".join(f"{number / per:>9.2f}" for number in numbers)


def sweep() -> Iterator[tuple[Any, DictConfig]]:
    """Hydra's loader and the sweep's own config."""
    with initialize_config_dir(str(conf_dir()), version_base=None, job_name="train"):
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        yield hydra.config_loader, hydra.config_loader.load_configuration("zerocfg", ["hydra.mode=MULTIRUN"], RunMode.MULTIRUN)


def unasked() -> Detected:
    raise AssertionError("no job of this sweep looks at the machine")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=1000, help="composed and compiled both ways")
    parser.add_argument("--prepared", type=int, default=100, help="prepared both ways, as the launcher does")
    parser.add_argument("--whole", type=int, default=200, help="of a whole `python app.py -m`; 0: left out")
    given = parser.parse_args()
    for loader, master in sweep():
        status = measure(loader, master, given.jobs, given.prepared)
        if given.whole > 2:
            measure_whole(given.whole)
        return status
    return 1


def measure(loader: Any, master: DictConfig, num_jobs: int, num_prepared: int) -> int:
    jobs = jobs_of(num_jobs)
    clocks = {name: Clock() for name in ("composed", "Hydra's composed", "compiled", "Hydra's compiled")}
    composer = SweepComposer(loader, master)
    num_equal = num_feasible = 0
    for overrides in jobs:
        ours = clocks["composed"].run(lambda o=overrides: composer.compose(o))
        outcome = clocks["compiled"].run(lambda c=ours: examine(to_plain(c)[0]))
        hydras = clocks["Hydra's composed"].run(lambda o=overrides: loader.load_sweep_config(master, list(o)))
        clocks["Hydra's compiled"].run(lambda c=hydras: examine(to_plain(c)[0]))
        num_equal += same(ours, hydras)
        num_feasible += outcome.run is not None
    prepared = jobs_of(num_prepared)
    ours_prepared, hydras_prepared = Clock(), Clock()
    fresh = SweepComposer(loader, master)
    for clock, compose in (
        (ours_prepared, fresh.compose_job),
        (hydras_prepared, lambda o: SweepJob(loader.load_sweep_config(master, list(o)), None, None)),
    ):
        clock.run(lambda c=compose: prepare(master, prepared, 0, compose=c, detect=unasked, environ={}, start=False))

    print(f"{num_jobs} jobs, {len({tuple(job[: len(GRID)]) for job in jobs})} choices of options; {num_feasible} of them can run")
    print(f"{'ms a job':28}{'mean':>9}{'median':>9}{'CPU':>9}")
    for name, clock in (("compose, Hydra", clocks["Hydra's composed"]), ("compose, zerocfg", clocks["composed"])):
        print(f"{name:28}{clock.row()}")
    for name, first, second in (
        ("compose + compile, Hydra", "Hydra's composed", "Hydra's compiled"),
        ("compose + compile, zerocfg", "composed", "compiled"),
    ):
        print(f"{name:28}{together(clocks[first], clocks[second]).row()}")
    for name, clock in ((f"prepare {num_prepared}, Hydra", hydras_prepared), (f"prepare {num_prepared}, zerocfg", ours_prepared)):
        print(f"{name:28}{clock.row(num_prepared)}")
    print(f"configs equal to Hydra's own: {num_equal} of {num_jobs}")
    print(f"target: compose + compile at most {TARGET_MS:.0f} ms a job")
    return 0 if num_equal == num_jobs else 1


APP = """
import hydra

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    pass

if __name__ == "__main__":
    main()
"""
CONFIG = "defaults: [zerocfg, _self_, override hardware: a100x4, override model: llama2_7b]"
WHOLE = {
    "whole, zerocfg": ["hydra.launcher.dry_run=true"],
    "whole, Hydra's sweeper": ["hydra.launcher.dry_run=true", "hydra/sweeper=basic"],
    "whole, Hydra's both": ["hydra/launcher=basic", "hydra/sweeper=basic"],
}


def measure_whole(num_jobs: int) -> None:
    """num_jobs: above 2."""
    print(f"python app.py -m, {num_jobs} jobs: CPU ms a job")
    for name, overrides in WHOLE.items():
        two, all_of_them = (_whole(count, overrides) for count in (2, num_jobs))
        print(f"{name:28}{(all_of_them - two) / (num_jobs - 2) * 1e3:>27.2f}")


def _whole(num_jobs: int, overrides: list[str]) -> float:
    """CPU seconds of one process."""
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "app.py").write_text(APP)
        (Path(folder) / "config.yaml").write_text(CONFIG)
        values = ",".join(f"{1e-4 + i * 1e-7:.7f}" for i in range(num_jobs))
        before = resource.getrusage(resource.RUSAGE_CHILDREN)
        command = [sys.executable, "app.py", "-m", f"optimizer.lr={values}", *overrides]
        subprocess.run(command, cwd=folder, check=True, stdout=subprocess.DEVNULL)
        after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


def together(first: Clock, second: Clock) -> Clock:
    both = Clock()
    both.wall = [a + b for a, b in zip(first.wall, second.wall, strict=True)]
    both.cpu = [a + b for a, b in zip(first.cpu, second.cpu, strict=True)]
    return both


if __name__ == "__main__":
    sys.exit(main())
