"""hydra/launcher=zerocfg_slurm with torchrun in it: ranks over two nodes, two shapes in one sweep, failures and signals."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from .cluster import SlurmCluster
from .launching import Background, eventually, results, value_of

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
TRAIN = Path(__file__).parents[2] / "train.py"
TINY = (
    "hardware=cpu",
    "precision=fp32",
    "model.num_hidden_layers=1",
    "model.hidden_size=32",
    "model.sequence_length=32",
    "batch.global_batch_size=8",
    "train.steps=3",
    "train.log_every=1",
    "hydra/launcher=zerocfg_slurm",
    "hydra.launcher.poll_seconds=0.5",
    "hydra.launcher.cpus_per_task=2",
)
CONFIG = """
defaults:
  - zerocfg
  - _self_
  - override hydra/launcher: zerocfg_slurm
  - override hardware: cpu
hardware: {num_nodes: 2}
a: 1
what: answer
text: ''
hydra:
  sweep: {dir: out}
  launcher: {poll_seconds: 0.3, cpus_per_task: 2}
"""


def summary(job: Path) -> dict[str, Any]:
    made: dict[str, Any] = json.loads((job / "summary.json").read_text())
    return made


def test_training_over_one_and_two_nodes_in_one_sweep(slurm: SlurmCluster, tmp_path: Path) -> None:
    """The same global batches on 2 and on 4 ranks: the same losses."""
    home = tmp_path / "it's a folder"
    home.mkdir()
    sweep = home / "runs"
    overrides = [*TINY, "hardware.num_nodes=1,2", "parallelism=zero3", "hydra.sweep.dir=runs"]
    done = subprocess.run([sys.executable, str(TRAIN), *overrides], cwd=home, capture_output=True, text=True, timeout=300, check=False)
    assert done.returncode == 0, done.stderr + done.stdout
    jobs = json.loads((sweep / "slurm/jobs.json").read_text())["jobs"]
    assert [(job["number"], job["world_size"], job["last"]["state"]) for job in jobs] == [(0, 2, "COMPLETED"), (1, 4, "COMPLETED")]
    assert jobs[1]["last"]["nodes"] == "node[0-1]"
    # no array: one script a shape, in the sweep's folder
    scripts = sorted((sweep / "slurm").glob("*_submission.sh"))
    assert [script.name for script in scripts] == sorted(f"{job['slurm_id']}_submission.sh" for job in jobs)
    assert ["#SBATCH --nodes=1\n" in s.read_text() or "#SBATCH --nodes=2\n" in s.read_text() for s in scripts] == [True, True]
    two = (sweep / "slurm" / f"{jobs[1]['slurm_id']}_submission.sh").read_text()
    assert "#SBATCH --nodes=2\n#SBATCH --ntasks-per-node=1\n#SBATCH --cpus-per-task=2\n" in two
    assert "srun --nodes=2 --ntasks=2 --cpus-per-task=2 --kill-on-bad-exit=1 " in two

    made = summary(sweep / "1")
    assert {k: made[k] for k in ("steps", "finished", "backend", "zero_stage", "world_size")} == {
        "steps": 3,
        "finished": True,
        "backend": "gloo",
        "zero_stage": 3,
        "world_size": 4,
    }
    assert sorted(p.name for p in (sweep / "1").glob("rank_*.log")) == [f"rank_{r}.log" for r in range(4)]
    losses = [[json.loads(line)["loss"] for line in (sweep / n / "metrics.jsonl").read_text().splitlines()] for n in "01"]
    assert losses[0] == pytest.approx(losses[1], rel=2e-4)
    assert [float(row["objective"]) for row in results(sweep)] == pytest.approx([losses[0][-1], losses[1][-1]])
    assert [row["state"] for row in results(sweep)] == ["done"] * 2
    assert all(float(row["tokens_per_s"]) > 0 and int(row["peak_memory_bytes"]) > 1e8 for row in results(sweep))
    assert "2 of 2 jobs done" in done.stdout


def test_a_failing_rank_ends_its_job_on_all_nodes_and_a_signal_reaches_every_rank(slurm: SlurmCluster, tmp_path: Path) -> None:
    shutil.copy(Path(__file__).with_name("app.py"), tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    out = tmp_path / "out"
    with Background(tmp_path, "what=fail,signal") as launcher:
        eventually(lambda: all((out / f"1/ready_{rank}").exists() for rank in range(4)), 90)
        (script,) = (out / "slurm").glob("*_submission.sh")
        array = script.name.removesuffix("_submission.sh")
        slurm.run("scancel", "--signal=USR2", f"{array}_1")
        eventually(lambda: all((out / f"1/got_{rank}").exists() for rank in range(4)))
        # the other three ranks of job 0 would sleep for ten minutes
        status, said = launcher.end(90)
    assert status == 1
    assert "job 0 failed: rank 3 of 4: ValueError: boom 1" in said
    assert f"  log: {out}/0/rank_3.log" in said
    hosts = {(out / f"1/rank_{rank}.log").read_text().split()[3] for rank in range(4)}
    assert hosts == {"node0", "node1"}
    assert value_of(out / "1") == "signalled"
    assert slurm.node_states() == {"node0": "idle", "node1": "idle"}


def test_the_nodes_meet_at_an_address_of_the_first_host(slurm: SlurmCluster, tmp_path: Path) -> None:
    """With a taken port in the way, and a host's own name that is a loopback address there (Debian's 127.0.1.1)."""
    script = (
        "hosts=$(scontrol show hostnames $SLURM_JOB_NODELIST)\n"
        f"first=$({sys.executable} -c 'from zerocfg.launch.slurm_node import first_port; print(first_port('$SLURM_JOB_ID'))')\n"
        f"{sys.executable} -m http.server $first >/dev/null 2>&1 &\n"
        "for _ in $(seq 100); do (exec 3<>/dev/tcp/127.0.0.1/$first) 2>/dev/null && break; sleep 0.1; done\n"
        "sed 's/^.* node0$/127.0.1.1 node0/' /etc/hosts >hosts && mount --bind hosts /etc/hosts\n"
        "trap 'umount /etc/hosts; kill %1' EXIT\n"
        f'echo "$first $({sys.executable} -m zerocfg.launch.slurm_node rendezvous $hosts)"\n'
        f'echo "$({sys.executable} -m zerocfg.launch.slurm_node rendezvous --port=29500 $hosts)"'
    )
    job = slurm.sbatch(script, "--nodes=2", "--output=out.txt", cwd=tmp_path)
    assert slurm.wait_job(job) == "COMPLETED", (tmp_path / "out.txt").read_text()
    probed, fixed = (tmp_path / "out.txt").read_text().splitlines()
    first, address, port = probed.split()
    assert int(port) == int(first) + 1
    assert address.startswith("10.231.")
    assert fixed == f"{address} 29500"
