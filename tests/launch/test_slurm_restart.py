"""What a run that saves checkpoints asks SLURM for, where the launcher's options leave it open."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.artifact import CompiledRun
from zerocfg.compiler import compile_run
from zerocfg.launch.slurm_cluster import Unread
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.launch.slurm_place import Placement
from zerocfg.launch.slurm_restart import with_restarts

Make = Callable[..., dict[str, Any]]


@pytest.fixture
def saving(container: Make) -> CompiledRun:
    return compile_run(container({"checkpoint.every_steps": 10}))


def decided(run: CompiledRun | None, **options: Any) -> tuple[bool | None, str | None, int]:
    made = with_restarts(SlurmOptions(**options), run)
    return made.requeue, made.signal, made.signal_delay_s


def test_only_what_saves_is_signalled_and_started_again(saving: CompiledRun, container: Make) -> None:
    assert decided(saving) == (True, "USR2", 90)
    assert decided(saving, timeout_min=120) == (True, "USR2", 90)
    # half of a short limit is for training
    assert decided(saving, timeout_min=1) == (True, "USR2", 30)
    assert decided(saving, timeout_min=1, signal_delay_s=5) == (True, "USR2", 5)
    assert decided(compile_run(container())) == (False, None, 90)
    assert decided(None) == (False, None, 90)
    never = compile_run(container({"checkpoint.every_steps": 10, "checkpoint.max_requeues": 0}))
    assert decided(never) == (False, "USR2", 90)


def test_what_is_asked_for_holds(saving: CompiledRun) -> None:
    assert decided(saving, requeue=False, signal="TERM", timeout_min=1) == (False, "TERM", 90)
    assert decided(None, requeue=True, signal="USR1") == (True, "USR1", 90)
    options = SlurmOptions()
    with_restarts(options, saving)
    assert (options.requeue, options.signal) == (None, None)


def test_directives(saving: CompiledRun, container: Make) -> None:
    def asked(run: CompiledRun, **options: Any) -> list[tuple[str, str]]:
        shape, problems = Placement(SlurmOptions(**options), Unread("none")).shape(run, "train", accelerator_asked=True)
        assert problems == []
        return [(name, value) for name, value in shape.directives if name in ("signal", "requeue", "no-requeue")]

    assert asked(saving) == [("signal", "USR2@90"), ("requeue", "")]
    assert asked(compile_run(container())) == [("no-requeue", "")]
    assert asked(saving, sbatch={"signal": None, "requeue": None}) == []


@pytest.mark.parametrize(("bad", "good"), [({"timeout_min": 1}, {"timeout_min": 2}), ({"timeout_min": 0.5}, {"timeout_min": 1.5})])
def test_a_signal_at_the_start(saving: CompiledRun, bad: dict[str, Any], good: dict[str, Any]) -> None:
    def problems(**options: Any) -> list[tuple[str, str, str]]:
        _, found = Placement(SlurmOptions(signal="USR2", **options), Unread("none")).shape(saving, "train", accelerator_asked=True)
        return [(problem.code, problem.path, problem.hint) for problem in found]

    hint = "hydra.launcher.signal_delay_s=30, or a longer hydra.launcher.timeout_min"
    assert problems(**bad) == [("ZC734", "hydra.launcher.signal_delay_s", hint)]
    assert problems(**good) == []
    assert problems(**bad, signal_delay_s=30) == []
