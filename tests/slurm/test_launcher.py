"""hydra/launcher=zerocfg_slurm on the test cluster: an app without zerocfg's groups is one plain process a job."""

from __future__ import annotations

import csv
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.launch.paths import JobPaths
from zerocfg.launch.results import read_results

from .cluster import CONTROLLER, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
CONFIG = """
defaults:
  - _self_
  - override hydra/launcher: zerocfg_slurm
a: 1
what: answer
text: ''
hydra:
  mode: MULTIRUN
  sweep: {dir: out dir, subdir: "${hydra.job.num}"}
  launcher: {poll_seconds: 0.3}
"""
HOSTILE = 'it\'s $(touch PWNED) `touch PWNED` "q" ; touch PWNED #%j \\ end'


@pytest.fixture
def app(tmp_path: Path, slurm: SlurmCluster) -> Path:
    shutil.copy(Path(__file__).with_name("app.py"), tmp_path)
    (tmp_path / "config.yaml").write_text(CONFIG)
    return tmp_path


def run(app: Path, *overrides: str, **environ: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "app.py", *overrides]
    return subprocess.run(command, cwd=app, env={**os.environ, **environ}, capture_output=True, text=True, timeout=120, check=False)


def zerocfg(app: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-m", "zerocfg", *words], cwd=app, capture_output=True, text=True, timeout=60, check=False)


def results(sweep: Path) -> list[dict[str, str]]:
    with (sweep / "results.csv").open(newline="") as file:
        return list(csv.DictReader(file))


def value_of(job: Path) -> Any:
    return pickle.loads(read_results(JobPaths(job))[0].value)


def eventually(probe: Callable[[], object], timeout: float = 60) -> None:
    deadline = time.monotonic() + timeout
    while not probe():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.1)


class Background:
    """A launcher that waits for its jobs."""

    def __init__(self, app: Path, *overrides: str) -> None:
        self.out = app / "launcher.txt"
        with self.out.open("w") as file:
            self.process = subprocess.Popen([sys.executable, "app.py", *overrides], cwd=app, stdout=file, stderr=subprocess.STDOUT)

    def __enter__(self) -> Background:
        return self

    def __exit__(self, *_: object) -> None:
        self.process.kill()
        self.process.wait()

    def end(self, timeout: float = 60) -> tuple[int, str]:
        return self.process.wait(timeout), self.out.read_text()


def test_an_array_of_six_of_which_three_fail(app: Path) -> None:
    done = run(app, "what=answer,fail,kill", "a=3,4", "hydra.launcher.array_parallelism=4")
    assert done.returncode == 1
    sweep = app / "out dir"
    (script,) = (sweep / "slurm").glob("*_submission.sh")
    array = script.name.removesuffix("_submission.sh")
    assert "#SBATCH --array=0-5%4\n" in script.read_text()
    assert f"jobs 0-5: submitted as SLURM array {array}, 1 node a job, one process" in done.stdout
    rows = results(sweep)
    assert [(row["job"], row["state"], row["objective"], row["overrides"]) for row in rows] == [
        ("0", "done", "1.5", "what=answer a=3"),
        ("1", "done", "2.0", "what=answer a=4"),
        ("2", "failed", "", "what=fail a=3"),
        ("3", "failed", "", "what=fail a=4"),
        ("4", "failed", "", "what=kill a=3"),
        ("5", "failed", "", "what=kill a=4"),
    ]
    for number, a in ((2, 3), (3, 4)):
        shown = done.stderr.partition(f"job {number} failed: rank 0 of 1: ValueError: boom {a}\n")[2]
        lines = shown.splitlines()
        assert lines[0] == f"  log: {sweep}/{number}/rank_0.log"
        assert lines[1].startswith(f"  SLURM job {array}_{number}: FAILED, exit status 1 on node")
        assert '        raise ValueError(f"boom {cfg.a}")' in shown
    assert "job 4 failed: ended by signal 9; no word from rank 0: killed (out of memory?)" in done.stderr
    assert "    srun: error: node" in done.stderr
    assert "2 of 6 jobs done, 4 failed" in done.stdout
    # nothing of submitit's polling without accounting, and no stack of ours
    assert "sacct" not in done.stdout + done.stderr
    assert "site-packages" not in done.stderr
    assert (sweep / "0/rank_0.log").read_text().startswith("argv [] host node")


def test_scancel_and_a_lost_node_end_their_jobs_alone(app: Path, slurm: SlurmCluster) -> None:
    sweep = app / "out dir"
    with Background(app, "what=sleep", "a=1,2,3,4", "hydra.launcher.array_parallelism=2") as launcher:
        eventually(lambda: (sweep / "0/sleeping").exists() and (sweep / "1/sleeping").exists())
        (script,) = (sweep / "slurm").glob("*_submission.sh")
        array = script.name.removesuffix("_submission.sh")
        slurm.run("scancel", f"{array}_2")  # it has not started
        slurm.run("scancel", f"{array}_0")
        eventually(lambda: (sweep / "3/sleeping").exists())
        host = (sweep / "3/rank_0.log").read_text().split()[3]
        other = (sweep / "1/rank_0.log").read_text().split()[3]
        slurm.down(host)
        eventually(lambda: "job 3 was stopped" in launcher.out.read_text())
        if other != host:
            assert slurm.job_state(f"{array}_1") == "RUNNING"
            slurm.run("scancel", f"{array}_1")
        status, out = launcher.end()
    assert status == 1
    assert f"job 0 was stopped: cancelled in SLURM (scancel) (SLURM job {array}_0 CANCELLED" in out
    assert "job 2 was stopped: cancelled in SLURM (scancel)" in out
    assert f"job 3 was stopped: a node was lost (SLURM job {array}_3 NODE_FAIL" in out
    expected = ["cancelled", "node_fail" if other == host else "cancelled", "cancelled", "node_fail"]
    assert [row["state"] for row in results(sweep)] == expected


def test_without_waiting(app: Path, slurm: SlurmCluster) -> None:
    """Ids at once; `zerocfg jobs` tells the states later, also when SLURM has forgotten them."""
    began = time.monotonic()
    done = run(app, "what=sleep,answer,fail", "hydra.launcher.wait=false")
    took = time.monotonic() - began
    assert (done.returncode, done.stderr) == (0, "")
    assert took < 60  # not the 600 s of the first job
    sweep = app / "out dir"
    array = done.stdout.partition("submitted as SLURM array ")[2].partition(",")[0]
    assert f"`zerocfg jobs '{sweep}'` shows states and collects results" in done.stdout
    assert slurm.wait_job(f"{array}_1") == "COMPLETED"
    assert slurm.wait_job(f"{array}_2") == "FAILED"
    eventually((sweep / "0/sleeping").exists)

    # the folder is taken as long as a job of it is under SLURM
    again = run(app, "what=answer")
    assert again.returncode == 1
    assert f"error[ZC706] SLURM job {array}_0 is using {sweep}/0" in again.stderr

    running = json.loads(zerocfg(app, "jobs", "out dir", "--json").stdout)
    assert [e["state"] for e in running] == ["running", "done", "failed"]
    slurm.run("scancel", f"{array}_0")
    slurm.wait_job(f"{array}_0")
    told = zerocfg(app, "jobs", "out dir", "--json")
    assert told.returncode == 1
    entries = json.loads(told.stdout)
    assert [(e["job"], e["slurm_id"], e["state"], e["objective"]) for e in entries] == [
        (0, f"{array}_0", "cancelled", None),
        (1, f"{array}_1", "done", 0.5),
        (2, f"{array}_2", "failed", None),
    ]
    assert [row["state"] for row in results(sweep)] == [e["state"] for e in entries]
    table = zerocfg(app, "jobs", "out dir").stdout.splitlines()
    assert table[0].split() == ["job", "state", "SLURM", "where", "or", "why", "objective", "overrides"]
    assert table[2].split() == ["1", "done", f"{array}_1", entries[1]["nodes"], "0.5", "what=answer"]
    assert table[-2:] == ["job 2: failed: rank 0 of 1: ValueError: boom 1", f"  log: {sweep}/2/rank_0.log"]


def test_hostile_names_and_values_run_and_execute_nothing(app: Path) -> None:
    text = HOSTILE.replace("'", "\\'")
    for folder in ("new\nline 'q' $(touch PWNED)", '100%u \\n `touch PWNED` "q" #1'):
        quoted = folder.replace("'", "\\'")
        done = run(app, "what=text", f"text='{text}'", f"hydra.sweep.dir='{quoted}'")
        assert done.returncode == 0, done.stderr
        assert value_of(app / folder / "0") == HOSTILE
        (log,) = (app / folder / "slurm").glob("*.log")
        assert "error" not in log.read_text()
        assert "job 0: done" in done.stdout
    assert list(app.rglob("PWNED")) == []


def test_an_outer_jobs_variables_and_the_launchers_environment(app: Path) -> None:
    outer = {
        "SLURM_JOB_ID": "77",
        "SLURM_CPU_BIND": "quiet,mask_cpu:0x1",
        "SLURM_MEM_PER_NODE": "100",
        "SLURM_NTASKS": "9",
        "SBATCH_PARTITION": "nowhere",
        "SBATCH_MEM_PER_CPU": "50",
        "CUDA_VISIBLE_DEVICES": "7",
        "MASTER_ADDR": "elsewhere",
    }
    names = [*outer, "OPEN", "A_TOKEN", "FROM_SETUP", "KEPT"]
    done = run(
        app,
        "what=environment",
        f"text={'-'.join(names)}",
        "+hydra.launcher.environment.OPEN='a b $(touch PWNED)'",
        "+hydra.launcher.environment.A_TOKEN=s3cr3t",
        "hydra.launcher.setup=['export FROM_SETUP=$OPEN']",
        "hydra.launcher.mem_gb=1",
        "+hydra.launcher.sbatch.comment='a \\' b'",
        KEPT="yes",
        **outer,
    )
    assert done.returncode == 0, done.stderr
    value = value_of(app / "out dir/0")
    assert value["SLURM_JOB_ID"] not in ("", "77")
    assert value.get("SLURM_CPU_BIND", "none").split(",")[0] in ("none", "quiet")
    assert "mask_cpu:0x1" not in value.get("SLURM_CPU_BIND", "")
    assert value["SLURM_MEM_PER_NODE"] == "1024"
    assert value["SLURM_NTASKS"] == "1"
    assert {name: value.get(name) for name in ("CUDA_VISIBLE_DEVICES", "MASTER_ADDR", "SBATCH_PARTITION")} == {
        "CUDA_VISIBLE_DEVICES": None,
        "MASTER_ADDR": None,
        "SBATCH_PARTITION": None,
    }
    expected = {"OPEN": "a b $(touch PWNED)", "FROM_SETUP": "a b $(touch PWNED)", "A_TOKEN": "s3cr3t", "KEPT": "yes"}
    assert {name: value[name] for name in expected} == expected
    (script,) = (app / "out dir/slurm").glob("*_submission.sh")
    assert "s3cr3t" not in script.read_text()
    assert list(app.rglob("PWNED")) == []


def test_what_sbatch_refuses_is_said_in_its_words(app: Path) -> None:
    done = run(app, "a=1,2", "hydra.launcher.reservation=nowhere")
    assert done.returncode == 1
    assert "error[ZC729] sbatch refused: " in done.stderr
    assert "Requested reservation is invalid" in done.stderr
    assert "    --reservation=nowhere\n" in done.stderr
    assert done.stderr.count("reservation is invalid") == 1
    assert "error[ZC729] sbatch refused: unrecognized option '--foo=1'\n" in run(app, "hydra.launcher.sbatch.foo=1").stderr
    assert "nothing was started" in done.stderr
    assert "Traceback" not in done.stderr
    # what an earlier launch wrote of its results would stand
    assert not (app / "out dir/results.csv").exists()


def test_what_the_cluster_does_not_have_is_refused_before_submission(app: Path) -> None:
    done = run(app, "hydra.launcher.partition=shrt", "hydra.launcher.gpus_per_node=5", "hydra.launcher.timeout_min=5")
    assert done.returncode == 1
    assert "error[ZC725] hydra.launcher.partition=shrt: there is no partition shrt\n  partitions: gpu, short\n" in done.stderr
    assert "try: hydra.launcher.partition=short\n" in done.stderr
    wrong = ("hydra.launcher.gpus_per_node=5", "hydra.launcher.timeout_min=5", "hydra.launcher.mem_gb=-1")
    done = run(app, "hydra.launcher.partition=short", *wrong)
    assert "error[ZC723] hydra.launcher.mem_gb=-1.0 is not 0 or more" in done.stderr
    assert "error[ZC726] hydra.launcher.timeout_min=5 is over the limit of partition short: 2 minutes" in done.stderr
    assert "  decided by: command line: hydra.launcher.timeout_min=5\n" in done.stderr
    assert (
        "error[ZC727] hydra.launcher.gpus_per_node: the run needs 5 GPUs a node, and no node of partition short has more than 4"
        in done.stderr
    )
    assert not (app / "out dir").exists()


def test_a_controller_that_is_gone_is_no_fault_of_the_request(app: Path, slurm: SlurmCluster) -> None:
    slurm.down(CONTROLLER)
    done = run(app, "hydra.launcher.partition=gpu")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("error[ZC735] SLURM's controller does not answer: ")
    assert "\n1 error\n\nnothing was started\n" in done.stderr
    assert not (app / "out dir").exists()


def test_a_failing_setup_line_is_shown(app: Path) -> None:
    done = run(app, "hydra.launcher.setup=['echo no such module >&2', 'exit 7']")
    assert done.returncode == 1
    assert "job 0 failed: it ended without an outcome" in done.stderr
    assert "FAILED NonZeroExitCode exit code 7:0 on node" in done.stderr
    assert "    no such module" in done.stderr


def test_a_dry_run_prints_the_script_which_runs_by_hand(app: Path, slurm: SlurmCluster) -> None:
    done = run(app, "a=1,2", "hydra.launcher.dry_run=true", "hydra.launcher.gpus_per_node=2", "hydra.launcher.gpu_type=a100")
    assert done.returncode == 0, done.stderr
    script = app / "out dir/slurm/job_0.sh"
    assert script.read_text() in done.stdout
    assert "#SBATCH --gpus-per-node=a100:2\n" in script.read_text()
    assert slurm.run("squeue", "--noheader", "--states=all", "--name=app", "--user=root", "--format=%T").split().count("PENDING") == 0
    assert not (app / "out dir/0/rank_0.log").exists()
    array = slurm.run("sbatch", "--parsable", str(script), cwd=Path("/")).strip()
    assert [slurm.wait_job(f"{array}_{task}") for task in (0, 1)] == ["COMPLETED"] * 2
    assert (app / "out dir/1/rank_0.log").read_text().startswith("argv [] host node")


def test_ctrl_c_leaves_the_jobs_to_slurm(app: Path, slurm: SlurmCluster) -> None:
    with Background(app, "what=sleep") as launcher:
        eventually((app / "out dir/0/sleeping").exists)
        launcher.process.send_signal(signal.SIGINT)
        status, out = launcher.end()
    (script,) = (app / "out dir/slurm").glob("*_submission.sh")
    job = script.name.removesuffix("_submission.sh")
    assert status == 130
    told = f"Ctrl-C: 1 job goes on under SLURM; `zerocfg jobs '{app}/out dir'` shows what becomes of it, `scancel {job}` ends it"
    assert told in out
    assert "Traceback" not in out
    assert slurm.job_state(job) == "RUNNING"


def test_an_array_is_no_longer_than_the_cluster_allows(app: Path, tmp_path: Path) -> None:
    with SlurmCluster(tmp_path / "s", nodes=1, gpus=0, options={"MaxArraySize": 4}) as other:
        done = run(app, "a=range(10)", "hydra.launcher.wait=false", **other.env())
        assert done.returncode == 0, done.stderr
        jobs = json.loads((app / "out dir/slurm/jobs.json").read_text())["jobs"]
        ids = [job["slurm_id"].partition("_") for job in jobs]
        assert [index for _, _, index in ids] == ["0", "1", "2", "3", "0", "1", "2", "3", "0", "1"]
        arrays = [name for name, _, _ in ids]
        assert [arrays.count(name) for name in dict.fromkeys(arrays)] == [4, 4, 2]
        assert len(list((app / "out dir/slurm").glob("*_submission.sh"))) == 3


def test_a_rerun_submits_only_what_did_not_finish(app: Path) -> None:
    first = run(app, "what=answer,fail", "a=4")
    assert first.returncode == 1
    again = run(app, "what=answer,fail", "a=4", "hydra.launcher.retry_failed=true")
    assert again.returncode == 1
    assert "1 of 2 jobs finished before; 1 to run" in again.stdout
    assert "job 1: submitted as SLURM job" in again.stdout
    assert [(row["state"], row["objective"]) for row in results(app / "out dir")] == [("finished before", "2.0"), ("failed", "")]
    assert (app / "out dir/1/rank_0.1.log").exists()
    assert not (app / "out dir/0/rank_0.1.log").exists()
