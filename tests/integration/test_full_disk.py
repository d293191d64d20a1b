"""A real file system of 50 MB as the folder of checkpoints: two of them fit, and a third does not."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from zerocfg.runtime.checkpoint_files import survey

pytestmark = pytest.mark.integration
TRAIN = Path(__file__).parents[2] / "train.py"
TINY = (
    *("hardware=cpu", "precision=fp32", "parallelism=zero2", "train.steps=8", "train.log_every=1", "hydra.sweep.dir=out"),
    *("model.num_hidden_layers=1", "model.hidden_size=320", "model.sequence_length=16", "batch.global_batch_size=4"),
    *("checkpoint.every_steps=2", "checkpoint.keep_last=2"),
)
# seen by what runs in it alone, and gone with it; root of the namespace where this user is not
_OWN_MOUNTS = ("unshare", "--mount") if os.geteuid() == 0 else ("unshare", "--mount", "--map-root-user")
_SMALL = 'mount -t tmpfs -o size=50m small small && "$@"; status=$?; du -sb small >used; cp -a small/. kept; exit $status'


def train(home: Path, *words: str, small: bool = False) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(TRAIN), *TINY, *words]
    if small:
        for name in ("small", "kept"):
            (home / name).mkdir()
        command = [*_OWN_MOUNTS, "/bin/sh", "-c", _SMALL, "sh", *command, f"checkpoint.directory={home}/small"]
    return subprocess.run(command, cwd=home, capture_output=True, text=True, timeout=300, check=False)


def steps(home: Path) -> list[int]:
    return [json.loads(line)["step"] for line in (home / "out/0/metrics.jsonl").read_text().splitlines()]


@pytest.mark.parametrize("on_error", ["stop", "continue"])
def test_two_fit_and_the_third_does_not(tmp_path: Path, on_error: str) -> None:
    done = train(tmp_path, f"checkpoint.on_error={on_error}", small=True)
    said = done.stdout + done.stderr
    # what it is, where, what is left, and what to do
    assert "[ZC774] the checkpoint of step 6 could not be written: rank " in said, said
    assert ": No space left on device" in said
    assert f" were free in {tmp_path}/small" in said
    assert f"whole: the checkpoint of step 4, {tmp_path}/small/global_step4" in said
    other = "; or checkpoint.on_error=continue" if on_error == "stop" else ""
    assert f"try: room for 3 checkpoints (keep_last + 1), then the same command into this folder{other}\n" in said
    # the ones before are whole, and nothing half-written is left
    whole, damaged = survey(tmp_path / "kept")
    assert ([checkpoint.step for checkpoint in whole], damaged) == ([2, 4], [])
    assert (tmp_path / "kept/latest").read_text() == "global_step4"
    assert [path.name for path in sorted((tmp_path / "kept").iterdir()) if path.is_dir()] == ["global_step2", "global_step4"]
    assert int((tmp_path / "used").read_text().split()[0]) < 50 * 2**20

    if on_error == "continue":
        # trained to its end; what was done after step 4 is nowhere
        assert (done.returncode, steps(tmp_path)) == (1, list(range(1, 9)))
        assert "warning[ZC774] the checkpoint of step 8 could not be written" in said
        assert "error[ZC774] the checkpoint of step 8 could not be written" in done.stderr
        assert "Traceback" not in said
        return
    assert (done.returncode, steps(tmp_path)) == (1, list(range(1, 7)))
    assert "Traceback" not in done.stderr
    # with room for a third one the same command goes on
    shutil.rmtree(tmp_path / "small")
    (tmp_path / "kept").rename(tmp_path / "small")
    again = train(tmp_path, f"checkpoint.directory={tmp_path}/small")
    assert again.returncode == 0, again.stderr
    assert "resumed from step 4" in again.stdout
    assert steps(tmp_path) == list(range(1, 9))
