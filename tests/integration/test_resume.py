"""Real DeepSpeed engines on CPU: a resumed run equals the uninterrupted one, also on another number of ranks or at another stage."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from zerocfg.runtime.checkpoint_convert import convert
from zerocfg.runtime.checkpoint_files import survey

pytestmark = pytest.mark.integration
REPOSITORY = Path(__file__).parents[2]
STAGES = range(4)


def start(root: Path, ranks: int, *scenarios: str) -> str:
    environ = {**os.environ, "OMP_NUM_THREADS": "1", "DS_ACCELERATOR": "cpu", "PYTHONWARNINGS": "ignore"}
    command = [
        sys.executable,
        "-m",
        "torch.distributed.run",
        "--standalone",
        f"--nproc-per-node={ranks}",
        "-m",
        "tests.integration.resume_ranks",
        str(root),
        *scenarios,
    ]
    done = subprocess.run(command, cwd=REPOSITORY, env=environ, capture_output=True, text=True, timeout=500, check=False)
    assert done.returncode == 0, (done.stdout + done.stderr)[-6000:]
    assert json.loads((root / f"done_{ranks}").read_text()) == list(scenarios)
    return done.stdout + done.stderr


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("resume")
    start(made, 4, "save3", "save1")
    start(made, 2, *(f"exact{stage}" for stage in STAGES), "half_precision", "3_to_2", "3_to_1", "1_to_3", "damaged")
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
    shapes = {"a": 16, "frozen": 16, "b": 64, "c": 64, "tied": 64}
    parameters = whole[0].manifest["parameters"]
    assert {name: shape[1] for name, shape in parameters.items() if name.endswith("weight")} == {
        f"{name}.weight": width for name, width in shapes.items() if name != "tied"
    }
    summary = json.loads((resumed / "summary.json").read_text())
    assert (summary["first_loss"], summary["last_loss"], summary["finished"]) == (made[0][1], made[-1][1], True)
    assert len(summary["peak_memory_bytes_by_rank"]) == 2


def test_a_damaged_file_of_one_rank(root: Path) -> None:
    """All ranks go back to the checkpoint before."""
    assert losses(root / "damaged") == losses(root / "undamaged")
    assert json.loads((root / "damaged/summary.json").read_text())["resumed_at"] == [4]


@pytest.mark.parametrize("stage", [0, 2, 3])
def test_another_schedule_and_another_rate(tmp_path: Path, stage: int) -> None:
    """Added, dropped or of another kind: from the checkpoint's step on the rate is that of a run which has always had it."""
    start(tmp_path, 2, f"settings{stage}")

    def rates(job: str) -> list[float]:
        return [r["lr"] for r in map(json.loads, (tmp_path / job / "metrics.jsonl").read_text().splitlines()) if r["step"] > 6]

    for source, target in (("none", "warmup"), ("none", "cosine"), ("warmup", "cosine"), ("warmup", "none")):
        assert rates(f"{source}{stage}_to_{target}") == rates(f"{target}{stage}")


@pytest.mark.parametrize("stage", [0, 2])
def test_in_sixteen_bits(root: Path, stage: int) -> None:
    assert losses(root / f"resumed_bf16_{stage}") == losses(root / f"straight_bf16_{stage}")


def test_a_conversion_has_no_weight_more_than_once(root: Path, tmp_path: Path) -> None:
    """In fp32 at stages 1 and 2 all weights are views into one tensor, and torch saves a view with all that it is one into."""
    made = convert(root / "saved1_4/checkpoints/global_step10", tmp_path / "converted")
    sizes = {name: (made / name).stat().st_size for name in ("zero/tied.weight/fp32.pt", "zero/b.weight/fp32.pt", "zerocfg_rest.pt")}
    of_one = 4 * 64 * 64
    assert of_one < sizes["zero/tied.weight/fp32.pt"] < of_one + 2000
    assert of_one < sizes["zero/b.weight/fp32.pt"] < of_one + 2000
    # tied and frozen weights, and a buffer
    assert sizes["zerocfg_rest.pt"] < of_one + 4 * 65 * 16 + 4000


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


@pytest.mark.parametrize(
    ("scenario", "source", "targets"),
    [
        # out of a tensor a weight: into one a group, and sharded
        ("carry0_fp32", "0_fp32", {"0_bf16": "precision.dtype fp32 -> bf16", "2_fp32": "zero.stage 0 -> 2"}),
        ("carry0", "0_bf16", {"3_fp32": "zero.stage 0 -> 3, precision.dtype bf16 -> fp32"}),
        (
            "carry3",
            "3_bf16",
            {"0_fp32": "zero.stage 3 -> 0, precision.dtype bf16 -> fp32", "1_fp32": "zero.stage 3 -> 1, precision.dtype bf16 -> fp32"},
        ),
    ],
)
def test_to_and_from_stage_0_and_in_another_precision(tmp_path: Path, scenario: str, source: str, targets: dict[str, str]) -> None:
    """fp32 weights, moments and Adam's count are the same bit for bit (resume_ranks.carry); the curve goes on."""
    said = start(tmp_path, 2, scenario)
    made = dict(losses(tmp_path / f"carried_{source}"))
    assert list(made) == list(range(1, 9))
    for target, differences in targets.items():
        assert f"note[ZC772] the checkpoint of step 6 is converted first: {differences}\n" in said
        resumed = losses(tmp_path / f"carried_{source}_to_{target}")
        assert [step for step, _ in resumed] == [7, 8]
        exact = source.endswith("fp32") and target.endswith("fp32")
        for step, loss in resumed:
            assert loss == pytest.approx(made[step], rel=1e-5 if exact else 2e-2)
    # far closer than one step is to the next
    assert abs(made[8] - made[7]) > 0.5 * made[8]
