"""Real apps through the launcher: without zerocfg's groups a job is one plain process, and all else is the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.launch.small_app import APP, left_behind, run, write_app

pytestmark = pytest.mark.integration


@pytest.fixture
def app(tmp_path: Path) -> Path:
    return write_app(tmp_path)


def test_a_sweep(app: Path) -> None:
    done = run(app, "a=1,2", SLURM_JOB_ID="77", SLURM_NTASKS="2", SLURM_PROCID="1", SLURM_JOB_NODELIST="n[1-2]")
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    for number in (0, 1):
        job = app / "out dir" / str(number)
        # frozen in the launcher, the same for all ranks
        words = (job / "rank_0.log").read_text()
        assert f"argv [] name run_{words.partition('run_')[2][:6]} helped yes env bar $(touch PWNED) {number + 1}\n" in words
        assert [line for line in done.stdout.splitlines() if line.startswith(f"[{number}] ")] == [
            f"[{number}] {line}" for line in words.splitlines()
        ]
        assert "own class 7 class Answer:" in words
        assert "callback True COMPLETED Answer" in words
        assert "[app][INFO] - logged" in (job / "app.log").read_text()
        assert (job / ".hydra" / "overrides.yaml").read_text() == f"- a={number + 1}\n"
        assert (job / ".hydra" / "config.yaml").read_text() == f"a: {number + 1}\nwhat: answer\nname: run_${{now:%f}}\n"
        assert "zerocfg_local" in (job / ".hydra" / "hydra.yaml").read_text()
        assert sorted(p.name for p in job.iterdir()) == [".hydra", ".zerocfg", "app.log", "rank_0.log"]
    assert done.stdout.count("job 1: done") == 1
    assert "multirun ended" in done.stdout
    assert left_behind(app) == []


def test_a_failure_shows_the_functions_own_traceback_once(app: Path) -> None:
    done = run(app, "a=1,2", "what=fail")
    assert done.returncode == 1
    # both jobs ran: the first failure does not hide the second
    for number in (0, 1):
        assert done.stdout.count(f"ValueError: boom {number + 1}\n") == 1
    line = APP.splitlines().index('        raise ValueError("boom %d" % cfg.a)') + 1
    assert f'app.py", line {line}, in main\n' in done.stdout
    assert 'raise ValueError("boom %d" % cfg.a)' in done.stdout
    assert "Traceback" not in done.stderr
    assert "job 0 failed: rank 0 of 1: ValueError: boom 1" in done.stderr
    assert f"log: {app}/out dir/0/rank_0.log" in done.stderr
    assert "site-packages" not in done.stdout


def test_what_cannot_be_written_is_told_and_the_other_jobs_run(app: Path) -> None:
    (app / "out dir/results.csv").mkdir(parents=True)
    (app / "out dir/0").touch()
    done = run(app, "a=1,2")
    assert done.returncode == 1
    assert "Traceback" not in done.stdout + done.stderr
    assert f"job 0 was not started\nerror[ZC755] {app}/out dir/0 cannot be written: " in done.stdout
    assert "job 1: done in " in done.stdout
    assert f"results: {app}/out dir/results.csv cannot be written: Is a directory\njob  state" in done.stdout


@pytest.mark.parametrize(("code", "status"), [(0, 0), (3, 1)])
def test_sys_exit(app: Path, code: int, status: int) -> None:
    done = run(app, "what=exit", f"a={code}")
    assert done.returncode == status
    assert ("rank 0 of 1: SystemExit: 3" in done.stderr) is (code != 0)


def test_a_rank_that_is_killed(app: Path) -> None:
    done = run(app, "what=kill")
    assert done.returncode == 1
    assert "job 0 failed: ended by signal 9; no word from rank 0: killed (out of memory?)" in done.stderr
    assert "sleeping" not in done.stdout


def test_a_value_that_cannot_come_back(app: Path) -> None:
    done = run(app, "what=unpicklable")
    assert done.returncode == 0
    assert "warning[ZC709] the return value of job 0 is lost: generator cannot be pickled" in done.stderr


def test_a_second_run_in_the_same_folder_keeps_the_first(app: Path) -> None:
    assert run(app, "a=1").returncode == 0
    first = (app / "out dir/0/rank_0.log").read_text()
    done = run(app, "a=2")
    assert "job 0: the folder holds an earlier run; kept: rank_0.log -> rank_0.1.log" in done.stdout
    assert (app / "out dir/0/rank_0.1.log").read_text() == first
    assert (app / "out dir/0/.zerocfg/torchrun.1.log").exists()  # what torchrun said of that run's end is not this one's


def test_jobs_with_one_folder_are_refused(app: Path) -> None:
    done = run(app, "a=1,2", "hydra.sweep.subdir=same")
    assert done.returncode == 1
    assert done.stdout == ""
    assert "error[ZC705] jobs 0, 1 have the same folder" in done.stderr
    assert "Traceback" not in done.stderr
    # not even the folder that Hydra's sweeper had made
    assert not (app / "out dir").exists()


def test_started_by_torchrun_is_refused(app: Path) -> None:
    done = run(app, WORLD_SIZE="2", RANK="1", LOCAL_RANK="1")
    assert done.returncode == 1
    assert "error[ZC704]" in done.stderr
    assert "in the environment: RANK=1, LOCAL_RANK=1, WORLD_SIZE=2" in done.stderr
    assert not (app / "out dir").exists()


def test_an_unpicklable_global_is_named(app: Path) -> None:
    (app / "app.py").write_text(
        APP.replace("@dataclasses", "import threading\nLOCK = threading.Lock()\n@dataclasses").replace("print(", "print(LOCK, ", 1)
    )
    done = run(app)
    assert done.returncode == 1
    assert "error[ZC707] the task function main cannot be sent to the ranks: global LOCK of main (lock) cannot be pickled" in done.stderr
    assert not (app / "out dir").exists()


def test_hydras_word_for_a_single_runs_folder(app: Path) -> None:
    done = run(app, "hydra.run.dir='a mine'")
    assert (done.returncode, done.stdout) == (1, "")
    assert "error[ZC716] hydra.run.dir=a mine has no effect: zerocfg's launchers put a job into hydra.sweep.dir=out dir\n" in done.stderr
    assert """  try: 'hydra.sweep.dir="a mine"'; or dir""" in done.stderr
    assert not (app / "a mine").exists()
    assert not (app / "out dir").exists()
    config = (app / "config.yaml").read_text()
    (app / "config.yaml").write_text(config.replace("dir: out dir", "dir: '${hydra.run.dir}'"))
    done = run(app, "hydra.run.dir=mine")
    assert done.returncode == 0, done.stderr
    assert (app / "mine/0/rank_0.log").is_file()


def test_dry_run(app: Path) -> None:
    done = run(app, "hydra.launcher.dry_run=true")
    assert done.returncode == 0
    assert "job 0: dry run, nothing started" in done.stdout
    assert not (app / "out dir/0/rank_0.log").exists()
    assert (app / "out dir/0/.hydra/config.yaml").exists()


@pytest.mark.parametrize("launcher", ["zerocfg_local", "zerocfg_slurm"])
def test_a_dry_run_leaves_a_finished_run_as_it_is(app: Path, launcher: str) -> None:
    assert run(app).returncode == 0
    folder = app / "out dir/0"
    records = [*folder.glob("rank_*"), *folder.glob(".zerocfg/results/*")]
    before = {path: path.read_bytes() for path in records}
    assert any(path.name == "rank_0.log" for path in records)
    dry = run(app, f"hydra/launcher={launcher}", "hydra.launcher.dry_run=true")
    assert dry.returncode == 0, dry.stderr
    assert {path: path.read_bytes() for path in records if path.exists()} == before
    assert "earlier run" not in dry.stdout
    assert "1 of 1 job finished before; 0 to run" in run(app, "hydra.launcher.retry_failed=true").stdout


def test_each_failed_job_of_a_sweep_says_why(app: Path) -> None:
    done = run(app, "-m", "what=fail", "a=3,4")
    assert done.returncode == 1
    for job, a in ((0, 3), (1, 4)):
        assert f"job {job} failed: rank 0 of 1: ValueError: boom {a}\n  log: {app}/out dir/{job}/rank_0.log\n" in done.stderr
    # the first once more, by Hydra
    assert done.stderr.count(" failed: ") == 3
