"""TensorBoard and wandb, the latter as a stand-in module: no network, no account."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from zerocfg.diagnostics import ConfigProblems
from zerocfg.runtime.run import Run
from zerocfg.runtime.trackers import Trackers

MakeRun = Callable[..., Run]
pytestmark = pytest.mark.filterwarnings("ignore::DeprecationWarning")


class Wandb:
    """What is used of the package."""

    def __init__(self) -> None:
        self.starts: list[dict[str, Any]] = []
        self.logged: list[dict[str, Any]] = []
        self.metrics: list[Any] = []
        self.finished = 0
        self.broken = ""

    def init(self, **options: Any) -> Any:
        if self.broken:
            raise RuntimeError(self.broken)
        self.starts.append(options)
        return SimpleNamespace(
            id=options.get("id", "abc"),
            log=self.logged.append,
            define_metric=lambda name, **more: self.metrics.append((name, more)),
            finish=lambda: setattr(self, "finished", self.finished + 1),
        )


@pytest.fixture
def wandb(monkeypatch: pytest.MonkeyPatch) -> Wandb:
    made = Wandb()
    monkeypatch.setitem(sys.modules, "wandb", made)  # type: ignore[misc]
    return made


def train(run: Run) -> None:
    engine = SimpleNamespace(optimizer=SimpleNamespace(param_groups=[{"lr": 0.5}]), skipped_steps=0)
    for step in run.steps([torch.zeros(2, 128)], engine=engine):
        for _ in step:
            step.record(torch.tensor(float(step.number)))


def test_wandb_gets_every_logged_step(cpu_run: MakeRun, wandb: Wandb) -> None:
    run = cpu_run({"train.steps": 3, "train.log_every": 2, "train.trackers": ["wandb"], "env": {"HF_TOKEN": "s3cret"}})
    train(run)
    (start,) = wandb.starts
    assert start.keys() == {"dir", "name", "config"}
    assert (start["dir"], start["name"]) == (str(run.output_dir), f"{run.output_dir.parent.name}/job")
    assert start["config"]["train"]["steps"] == 3
    assert "s3cret" not in repr(start)
    assert [(line["train/step"], line["train/loss"], line["train/lr"]) for line in wandb.logged] == [
        (1, 1.0, 0.5),
        (2, 2.0, 0.5),
        (3, 3.0, 0.5),
    ]
    assert wandb.metrics == [("train/step", {}), ("train/*", {"step_metric": "train/step"})]
    assert wandb.finished == 1
    assert list(run.output_dir.glob("events.out.tfevents.*")) == []


def test_a_resumed_run_goes_on_under_its_id(cpu_run: MakeRun, wandb: Wandb) -> None:
    run = cpu_run({"train.trackers": ["wandb"]})
    first = Trackers(run, 0, {})
    assert first.facts() == {"wandb": {"id": "abc"}}
    Trackers(run, 30, first.facts())
    assert {name: wandb.starts[1].get(name) for name in ("id", "resume")} == {"id": "abc", "resume": "allow"}


@pytest.mark.parametrize("missing", [True, False])
def test_wandb_that_does_not_start(cpu_run: MakeRun, wandb: Wandb, monkeypatch: pytest.MonkeyPatch, missing: bool) -> None:
    if missing:
        monkeypatch.setitem(sys.modules, "wandb", None)  # type: ignore[arg-type]
    wandb.broken = "api_key not configured\nmore"
    run = cpu_run({"train.trackers": ["wandb"]})
    with pytest.raises(ConfigProblems) as caught:
        train(run)
    (found,) = caught.value.diagnostics
    why = "import of wandb halted; None in sys.modules" if missing else "api_key not configured"
    assert (found.code, found.message) == ("ZC785", f"train.trackers: wandb did not start: {why}")
    assert "WANDB_MODE=offline" in found.hint


def test_none(cpu_run: MakeRun) -> None:
    run = cpu_run({"train.steps": 1, "train.trackers": []})
    train(run)
    assert sorted(path.name for path in run.output_dir.iterdir()) == ["compiled", "metrics.jsonl", "summary.json"]
