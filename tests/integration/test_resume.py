"""Real DeepSpeed engines on CPU: a resumed run equals the uninterrupted one, also on another number of ranks or at another stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerocfg.runtime.checkpoint_files import survey

pytestmark = pytest.mark.integration
RANKS = Path(__file__).with_name("resume_ranks.py")
STAGES = range(4)


def start(root: Path, ranks: int, *scenarios: str) -> None:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONWARNINGS": "ignore"}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        str(RANKS),
        str(root),
        *scenarios,
    ]
    done = subprocess.run(command, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert json.loads((root / f"done_{ranks}").read_text()) == list(scenarios)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("resume")
    start(made, 4, "save3", "save1")
    start(made, 2, *(f"exact{stage}" for stage in STAGES), "half_precision", "3_to_2", "3_to_1", "1_to_3")
    return made


def losses(job: Path) -> list[tuple[int, float]]:
    return [(r["step"], r["loss"]) for r in map(json.loads, (job / "metrics.jsonl").read_text().splitlines())]


@pytest.mark.parametrize("stage", STAGES)
def test_to_the_last_digit(root: Path, stage: int) -> None:
    straight, resumed = root / f"straight{stage}", root / f"resumed{stage}"
    made = losses(straight)
    assert [step for step, _ in made] == list(range(1, 61))
    assert losses(resumed) == made
    # both ranks stopped after the same step
    stopped = {(resumed / f"stopped_{rank}").read_text() for rank in (0, 1)}
    assert len(stopped) == 1
    assert stopped.pop() in ("SIGUSR2 30", "SIGUSR2 31")
    whole, damaged = survey(resumed / "checkpoints")
    assert ([c.step for c in whole], damaged) == ([60], [])
    summary = json.loads((resumed / "summary.json").read_text())
    assert (summary["first_loss"], summary["last_loss"], summary["finished"]) == (made[0][1], made[-1][1], True)
    assert len(summary["peak_memory_bytes_by_rank"]) == 2


@pytest.mark.parametrize("stage", [0, 2])
def test_in_sixteen_bits(root: Path, stage: int) -> None:
    assert losses(root / f"resumed_bf16_{stage}") == losses(root / f"straight_bf16_{stage}")


@pytest.mark.parametrize(("source", "target"), [("saved3_4", 2), ("saved3_4", 1), ("saved1_4", 3)])
def test_on_other_ranks_and_another_stage(root: Path, source: str, target: int) -> None:
    """The same curve; sums are taken in another order."""
    made = dict(losses(root / source))
    resumed = losses(root / f"{source}_to_{target}_2")
    assert [step for step, _ in resumed] == list(range(11, 21))
    for step, loss in resumed:
        assert loss == pytest.approx(made[step], rel=1e-5)
    # far closer than one step is to the next
    assert abs(made[20] - made[19]) > 1e-3 * made[20]
    assert int((root / f"{source}_to_{target}_2/calls").read_text()) >= 20
    left = sorted(p.name for p in (root / f"{source}_to_{target}_2/checkpoints").iterdir())
    assert left == [".lock", "global_step20", "latest"]
