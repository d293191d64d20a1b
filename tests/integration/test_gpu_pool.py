"""Two sweeps at once on a mask of four GPUs that are not there: eight jobs of widths 1, 2 and 4, one killed with -9."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

pytestmark = pytest.mark.integration
MASK = ["3", "5", "6", "7"]

APP = """
import json, os, time
import hydra
import zerocfg.probe
from zerocfg.facts import Detected, DetectedGpu

def gpus(**_):
    mask = os.environ.get("CUDA_VISIBLE_DEVICES", "0,1,2,3,4,5,6,7").split(",")
    found = tuple(DetectedGpu(index=int(i), uuid=f"GPU-{i}", name="NVIDIA A100-SXM4-80GB", memory_bytes=80 << 30, compute_capability=(8, 0))
                  for i in mask)
    return Detected(cpus=8, host_memory_bytes=1 << 38, numa_nodes=1, gpus=found, link="nvswitch", p2p=True, host="box")

zerocfg.probe.detect = gpus

def note(cfg, what):
    mask = os.environ["CUDA_VISIBLE_DEVICES"]
    line = {"what": what, "job": f"{cfg.sweep}.{cfg.hydra_job}", "mask": mask, "time": time.time(), "pid": os.getppid()}
    with open(cfg.log, "a") as log:
        log.write(json.dumps(line) + chr(10))

@hydra.main(version_base=None, config_path=None, config_name="app")
def main(cfg):
    if os.environ["RANK"] == "0":
        note(cfg, "start")
        time.sleep(cfg.seconds)
        note(cfg, "end")

if __name__ == "__main__":
    main()
"""

CONFIG = """
defaults: [zerocfg, _self_]
sweep: ???
log: ???
seconds: 1
hydra_job: ${hydra:job.num}
"""


def sweep(folder: Path, name: str, widths: str) -> subprocess.Popen[str]:
    environ = os.environ | {"CUDA_VISIBLE_DEVICES": ",".join(MASK), "ZEROCFG_LOCK_DIR": str(folder / "locks")}
    command = [sys.executable, str(folder / "app.py"), "--config-dir", str(folder), "hardware=a100x4", "torchrun.numa_binding=none"]
    command += [
        f"hardware.gpus_per_node={widths}",
        f"sweep={name}",
        f"log={folder / 'log.jsonl'}",
        f"hydra.sweep.dir={folder / name}",
        "-m",
    ]
    return subprocess.Popen(command, cwd=folder, env=environ, text=True, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)


def lines(log: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []


def test_no_gpu_is_shared_and_all_are_used(tmp_path: Path) -> None:
    (tmp_path / "app.py").write_text(APP)
    (tmp_path / "app.yaml").write_text(CONFIG)
    log = tmp_path / "log.jsonl"
    one, two = sweep(tmp_path, "one", "1,2,4,1"), sweep(tmp_path, "two", "2,1,4,1")

    deadline = time.monotonic() + 240
    while not (started := [line for line in lines(log) if line["what"] == "start"]):
        assert time.monotonic() < deadline, one.communicate(timeout=5)[0] if one.poll() is not None else "no job started"
        time.sleep(0.2)
    killed = str(started[0]["job"])
    os.kill(int(str(started[0]["pid"])), signal.SIGKILL)  # its torchrun

    printed = [process.communicate(timeout=300)[0] for process in (one, two)]
    victim, healthy = (0, 1) if killed.startswith("one") else (1, 0)
    assert (one, two)[victim].returncode != 0, printed[victim]
    assert (one, two)[healthy].returncode == 0, printed[healthy]

    found = lines(log)
    starts = {str(line["job"]): line for line in found if line["what"] == "start"}
    ends = {str(line["job"]): float(str(line["time"])) for line in found if line["what"] == "end"}
    assert sorted(starts) == sorted(f"{name}.{number}" for name in ("one", "two") for number in range(4)), printed
    assert set(starts) - set(ends) <= {killed}
    used: dict[str, list[tuple[float, float, str]]] = {entry: [] for entry in MASK}
    for job, line in starts.items():
        begin = float(str(line["time"]))
        for entry in str(line["mask"]).split(","):
            used[entry].append((begin, ends.get(job, begin), job))
    widths = sorted(len(str(line["mask"]).split(",")) for line in starts.values())
    assert widths == [1, 1, 1, 1, 2, 2, 4, 4]
    for entry, spans in used.items():
        assert len(spans) >= 2, f"GPU {entry} was hardly used: {used}"
        for (_, end, before), (begin, _, after) in zip(sorted(spans), sorted(spans)[1:], strict=False):
            assert end <= begin, f"GPU {entry} had {before} and {after} at once"
