"""hydra/launcher=zerocfg_slurm on the test cluster: an app without zerocfg's groups is one plain process a job."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from .cluster import SlurmCluster
from .launching import Background, eventually, results, run, write_app, zerocfg

pytestmark = [pytest.mark.slurm, pytest.mark.integration]


@pytest.fixture
def app(tmp_path: Path, slurm: SlurmCluster) -> Path:
    return write_app(tmp_path)


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


def test_a_closed_stdout_leaves_the_jobs_to_slurm(app: Path, slurm: SlurmCluster) -> None:
    command = [sys.executable, "app.py", "what=sleep"]
    launcher = subprocess.Popen(command, cwd=app, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    assert launcher.stdout is not None
    assert launcher.stderr is not None
    eventually((app / "out dir/0/sleeping").exists)
    launcher.stdout.close()
    with launcher.stderr:
        err = launcher.stderr.read()
    assert launcher.wait(60) == 141
    assert "stdout was closed: 1 job goes on under SLURM; `zerocfg jobs " in err
    assert "Traceback" not in err
    (script,) = (app / "out dir/slurm").glob("*_submission.sh")
    assert slurm.job_state(script.name.removesuffix("_submission.sh")) == "RUNNING"


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
