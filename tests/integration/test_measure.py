"""zerocfg plan --measure: the first plan trains through the launcher, on two CPU ranks; what it reached stands beside the prediction."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
ROOT = Path(__file__).parents[2]
TINY = (
    "hardware=cpu",
    "hardware.gpus_per_node=2",
    "model=gpt_tiny",
    "model.num_hidden_layers=1",
    "precision=fp32",
    "batch.global_batch_size=4",
)


def plan(*words: str, home: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    environ = {**os.environ, "XDG_CACHE_HOME": str(home), **environment}
    command = [sys.executable, "-m", "zerocfg", "plan", *words]
    return subprocess.run(command, cwd=ROOT, env=environ, capture_output=True, text=True, timeout=300, check=False)


def test_predicted_beside_measured(tmp_path: Path) -> None:
    done = plan(*TINY, "--top", "1", "--measure", "1", home=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    head, row = done.stdout.splitlines()[-2:]
    assert head.split() == ["tokens/s/rank", "measured", "error", "allocated", "measured", "error"]
    found = re.fullmatch(r" *1\. +([\d,]+) +([\d,]+) +([+-]\d+%) +\S+ \w+ +\S+ \w+ +-", row)
    assert found is not None, row
    predicted, measured = (int(text.replace(",", "")) for text in found.groups()[:2])
    assert predicted > 0
    assert measured > 0
    assert found[3] == f"{predicted / measured - 1:+.0%}"
    # nothing is left behind in the project
    assert not list(ROOT.glob("zerocfg-measure-*"))


def test_why_a_plan_cannot_run_here_is_told_whole(tmp_path: Path) -> None:
    """All of it: the run's folder is gone afterwards. The folder for temporary files may have any name."""
    (tmp_path / "it's a").mkdir()
    words = ("hardware=a100x4", "model=gpt_tiny", "--top", "1", "--measure", "1")
    done = plan(*words, home=tmp_path, TMPDIR=str(tmp_path / "it's a"), CUDA_VISIBLE_DEVICES="")
    assert done.returncode == 1
    _, _, told = done.stdout.rpartition("  1. error[ZC701] the run is for 4 GPUs a node (A100-SXM4-80GB), this machine has 0\n")
    assert "     nothing was started" in told.splitlines()
    assert "HYDRA_FULL_ERROR" not in told


def test_a_script_that_fails_is_told(tmp_path: Path) -> None:
    script = tmp_path / "broken.py"
    script.write_text("raise SystemExit('no model here')\n", encoding="utf-8")
    done = plan(*TINY, "--top", "1", "--measure", "1", "--script", str(script), home=tmp_path)
    assert done.returncode == 1
    assert done.stdout.splitlines()[-1] == "  1. no model here"
    assert "Traceback" not in done.stderr
