"""Every command of docs/how-to/import-a-deepspeed-json.md, one after the other in a fresh project."""

from __future__ import annotations

import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).resolve().parents[1] / "docs" / "how-to" / "import-a-deepspeed-json.md"
CONFIG = """\
{
  // as many have it
  "train_micro_batch_size_per_gpu": "auto",
  "bf16": {"enabled": "auto"},
  "optimizer": {"type": "AdamW", "params": {"lr": "auto"}},
  "zero_optimization": {"stage": 3, "reduce_bucket_size": "auto",},
}
"""


def test_each_command_of_the_page_runs(tmp_path: Path) -> None:
    blocks = re.findall(r"^```\n(.*?)^```", PAGE.read_text(encoding="utf-8"), flags=re.S | re.M)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 9
    (tmp_path / "ds_config.json").write_text(CONFIG)
    said = {}
    for line in ["zerocfg init .", *lines]:
        words = shlex.split(line)
        assert words[0] == "zerocfg"
        done = subprocess.run([sys.executable, "-m", *words], cwd=tmp_path, capture_output=True, text=True, timeout=120)
        assert done.returncode == (1 if words[1] == "diff" else 0), f"{line}\n{done.stdout}\n{done.stderr}"
        assert "Traceback" not in done.stderr
        said[line] = done
    assert "zero_optimization.offload_optimizer.device" in said[next(line for line in lines if " diff " in line)].stdout
    assert said["zerocfg check +experiment=old hardware=a100x8"].stderr.endswith("no problems found\n")
    assert json.loads(said["zerocfg schema deepspeed --json"].stdout)["title"].startswith("DeepSpeed")
