"""hydra.launcher.preflight for real, on two processes of the CPU."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
SCRIPT = """\
import hydra

@hydra.main(version_base="1.3", config_path=None, config_name="zerocfg")
def main(cfg):
    print("trained")

main()
"""


def launch(home: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    (home / "app.py").write_text(SCRIPT)
    words = ["hardware=cpu", "hydra.launcher.preflight=true", "hydra.launcher.progress=false", "hydra.sweep.dir=out", *overrides]
    return subprocess.run([sys.executable, "app.py", *words], cwd=home, capture_output=True, text=True, timeout=240)


def test_a_fit_machine_trains(tmp_path: Path) -> None:
    done = launch(tmp_path)
    assert done.returncode == 0, done.stderr
    assert "trained" in (tmp_path / "out/0/rank_0.log").read_text()
    assert "preflight: 1 node, 2 ranks" in (tmp_path / "out/0/.zerocfg/torchrun.log").read_text()
    records = [json.loads(file.read_text()) for file in sorted((tmp_path / "out/0/.zerocfg/preflight").glob("rank_*.json"))]
    assert [(r["rank"], r["stage"], r["right"]) for r in records] == [(0, "done", True), (1, "done", True)]
    assert records[0]["checksum"] == records[1]["checksum"]
    assert all(r["tflops"] > 0 and r["busbw_gbps"] > 0 for r in records)
    # the node is looked at once
    assert [bool(r["findings"]) for r in records] == [True, False]


def test_a_machine_that_is_not_fit_does_not(tmp_path: Path) -> None:
    done = launch(tmp_path, "hardware.network_interface=nonet9")
    assert done.returncode == 1
    assert "job 0 failed its preflight, nothing was trained" in done.stderr
    assert "GLOO_SOCKET_IFNAME=nonet9: there is no such network interface" in done.stderr
    assert not (tmp_path / "out/0/rank_0.log").exists()
