"""zerocfg plan --measure: the first plans run for a few steps through the launcher, predicted beside measured."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from zerocfg.cli import output
from zerocfg.deepspeed.importer.text import override
from zerocfg.planner.rank import Ranked
from zerocfg.units import human_bytes

STEPS = 8
"""The first is not counted."""
_LINES = 15
"""Of a run that failed, the last ones: its folder, logs included, is gone afterwards."""


def measure_command(
    ranked: Sequence[Ranked], overrides: Sequence[str], script: str, config_path: str | None, config_name: str | None
) -> int:
    """Run each as `python SCRIPT OVERRIDES` would. Status 1 when one did not end well, 2 without the script."""
    if not Path(script).is_file():
        output.say(f"--measure runs {script}, and there is no such file: --script FILE")
        return 2
    status = 0
    output.product("")
    unit = "tokens/s/" + ("GPU" if all(found.plan.hardware.is_cuda for found in ranked) else "rank")
    output.product(f"{'':4}{unit:>13}{'measured':>11}{'error':>8}{'allocated':>12}{'measured':>12}{'error':>8}")
    for number, found in enumerate(ranked, 1):
        measured, problem = run(script, words(overrides, found.overrides), config_path, config_name)
        if measured is None:
            output.product(f"{number:>3}. " + problem.replace("\n", "\n     "))
            status = 1
            continue
        speed = float(measured.get("tokens_per_s") or 0.0) / found.plan.topology.world_size
        memory = int(measured.get("peak_memory_bytes") or 0)
        guess, bytes_ = found.tokens_per_s_per_gpu, found.memory.peak_allocated_bytes
        output.product(
            f"{number:>3}.{guess:>13,.0f}{speed:>11,.0f}{error(guess, speed):>8}"
            f"{human_bytes(bytes_):>12}{human_bytes(memory):>12}{error(bytes_, memory) if found.plan.hardware.is_cuda else '-':>8}"
        )
    return status


def words(asked: Sequence[str], chosen: Sequence[str]) -> list[str]:
    """One command line: what the planner chose replaces what was asked under the same key."""
    keys = {text.lstrip("+").partition("=")[0] for text in chosen}
    return [*(text for text in asked if text.lstrip("+").partition("=")[0] not in keys), *chosen]


def error(predicted: float, measured: float) -> str:
    return f"{predicted / measured - 1:+.0%}" if measured else "-"


def run(script: str, overrides: Sequence[str], config_path: str | None, config_name: str | None) -> tuple[dict[str, Any] | None, str]:
    """(summary.json, "") or (None, what went wrong)."""
    with tempfile.TemporaryDirectory(prefix="zerocfg-measure-") as folder:
        options = [f"--config-path={Path(config_path).resolve()}"] if config_path else []
        options += [f"--config-name={config_name}"] if config_name else []
        steps = [f"train.steps={STEPS}", "train.log_every=1", override("hydra.sweep.dir", folder), "hydra.sweep.subdir=run"]
        done = subprocess.run(
            [sys.executable, script, *options, *overrides, *steps], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False
        )
        summary = Path(folder, "run", "summary.json")
        if done.returncode or not summary.is_file():
            said = [line for line in done.stdout.splitlines() if line.strip() and "HYDRA_FULL_ERROR" not in line]
            return None, "\n".join(said[-_LINES:]) or f"exit status {done.returncode}"
        found: dict[str, Any] = json.loads(summary.read_text(encoding="utf-8"))
        return found, ""
