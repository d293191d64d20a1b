"""The SLURM launcher where there is no SLURM, and what of it needs none: environments, arrays, states in words."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from tests.launch.empty_app import APP
from zerocfg.diagnostics import ConfigProblems
from zerocfg.launch.slurm_launch import Submitted, SubmittedReturn, arrays, numbers
from zerocfg.launch.slurm_submit import submission_environment, submit
from zerocfg.launch.slurm_wait import Watch
from zerocfg.passes.lower.slurm import SlurmShape

SHAPE = SlurmShape(nodes=1, directives=(("partition", "gpu"), ("mem", "4G"), ("time", "5")), srun=(), secrets=(("HF_TOKEN", "s3cr3t"),))


def test_the_environment_of_a_submission_inside_a_job() -> None:
    outer = {
        "SLURM_JOB_ID": "7",
        "SLURM_CPU_BIND": "x",
        "SLURM_MEM_PER_NODE": "1",
        "SLURMD_NODENAME": "n",
        "SRUN_CPUS_PER_TASK": "2",
        "SBATCH_ACCOUNT": "a",
        "SUBMITIT_EXECUTOR": "slurm",
        "CUDA_VISIBLE_DEVICES": "3",
        "RANK": "1",
        "LOCAL_WORLD_SIZE": "2",
        "MASTER_PORT": "1",
        "TORCHELASTIC_RUN_ID": "x",
        "PET_NNODES": "2",
        "ZEROCFG_RUN_DIR": "/x",
        "ZEROCFG_JOB_TOKEN": "x",
        "ZEROCFG_RDZV_HOST": "x",
    }
    kept = {"PATH": "/bin", "SLURM_CONF": "/etc/slurm.conf", "NCCL_DEBUG": "INFO", "MY_RANK": "1", "WANDB_MODE": "offline"}
    assert submission_environment({**outer, **kept}, SHAPE) == {**kept, "HF_TOKEN": "s3cr3t"}


def test_outside_of_a_job_sbatchs_own_variables_hold_unless_the_script_says_it() -> None:
    said = {"SBATCH_PARTITION": "x", "SBATCH_MEM_PER_CPU": "1", "SBATCH_TIMELIMIT": "1", "SBATCH_REQUEUE": "1", "SBATCH_OUTPUT": "x"}
    assert submission_environment({**said, "SBATCH_ACCOUNT": "a", "SBATCH_QOS": "q"}, SHAPE) == {
        "SBATCH_ACCOUNT": "a",
        "SBATCH_QOS": "q",
        "HF_TOKEN": "s3cr3t",
    }


def test_the_callers_environment_is_put_back_whatever_happens(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tools = tmp_path / "tools"
    tools.mkdir()
    (tools / "srun").write_text("#!/bin/sh\n")
    (tools / "sbatch").write_text(
        '#!/bin/sh\nenv >"$NOTES"; echo "sbatch: error: first\nsbatch: error: Batch job submission failed: No." >&2; exit 1\n'
    )
    for name in ("srun", "sbatch"):
        (tools / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{tools}:/usr/bin:/bin")
    monkeypatch.setenv("SLURM_JOB_ID", "7")
    monkeypatch.setenv("NOTES", str(tmp_path / "notes"))
    before = dict(os.environ)
    folder = tmp_path / "slurm"
    folder.mkdir()
    with pytest.raises(ConfigProblems) as refused:
        submit("#!/bin/bash\n#SBATCH --partition=gpu\n#SBATCH --chdir=/x\n", folder, SHAPE)
    assert dict(os.environ) == before
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.message) == ("ZC729", "sbatch refused: Batch job submission failed: No.")
    assert problem.detail == ("error: first", "asked for:", "  --partition=gpu")
    seen = (tmp_path / "notes").read_text().splitlines()
    assert "HF_TOKEN=s3cr3t" in seen
    assert not any(line.startswith("SLURM_JOB_ID") for line in seen)
    assert list(folder.iterdir()) == []
    # gone since the job was checked: nobody has looked at the job, so nothing is wrong with it
    gone = "sbatch: error: Batch job submission failed: Unable to contact slurm controller (connect failure)"
    (tools / "sbatch").write_text(f'#!/bin/sh\necho "{gone}" >&2; exit 1\n')
    with pytest.raises(ConfigProblems) as refused:
        submit("#!/bin/bash\n", folder, SHAPE)
    (problem,) = refused.value.diagnostics
    assert (problem.code, problem.detail) == ("ZC735", ())
    assert problem.message.endswith("answer: Batch job submission failed: Unable to contact slurm controller (connect failure)")


def prepared(number: int, run: object = "run") -> Any:
    return SimpleNamespace(number=number, run=run)


def test_one_array_a_shape_no_longer_than_the_cluster_allows() -> None:
    other = SlurmShape(nodes=2, directives=(), srun=())
    jobs = [(prepared(n), SHAPE if n % 2 else other) for n in range(7)]
    made = [(shape.nodes, [job.number for job in group]) for shape, group in arrays(jobs, 1001)]
    assert made == [(2, [0, 2, 4, 6]), (1, [1, 3, 5])]
    made = [(shape.nodes, [job.number for job in group]) for shape, group in arrays(jobs, 3)]
    assert made == [(2, [0, 2, 4]), (2, [6]), (1, [1, 3, 5])]
    assert [len(group) for _, group in arrays(jobs, 0)] == [1] * 7
    # an app without groups starts otherwise
    assert len(list(arrays([(prepared(0), SHAPE), (prepared(1, None), SHAPE)], 1001))) == 2


def test_numbers_of_jobs() -> None:
    assert [numbers(of) for of in ([3], [0, 1, 2], [5, 0, 1, 7, 8])] == ["job 3", "jobs 0-2", "jobs 0-1, 5, 7-8"]


def test_a_job_that_nobody_waits_for_has_no_value_yet() -> None:
    ret = SubmittedReturn()
    ret._return_value = Submitted("12_3", "/s/3")
    assert ret.status.name == "UNKNOWN"
    assert (ret.return_value.state, str(ret.return_value)) == ("SUBMITTED", "submitted as SLURM job 12_3: /s/3")


def test_a_silent_controller_ends_no_job(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from zerocfg.launch import slurm_wait
    from zerocfg.launch.slurm_state import JobState, SlurmJob

    answers = iter([{"12": JobState("RUNNING", "", "n0")}, None, None, {"12": JobState("RUNNING", "", "n0")}, {}])
    monkeypatch.setattr(slurm_wait, "query", lambda ids: next(answers))
    watch = Watch([SlurmJob(number=0, folder=str(tmp_path), slurm_id="12")])
    seen = []
    with caplog.at_level("INFO", "zerocfg.launch"):
        for _ in range(5):
            watch.poll()
            seen.append(watch.states["12"].state)
    assert seen == ["RUNNING"] * 4 + ["LOST"]
    assert [record.getMessage() for record in caplog.records] == [
        "job 0: RUNNING on n0",
        "SLURM's controller does not answer; waiting for it",
        "SLURM's controller answers again",
    ]


def test_another_start_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    from zerocfg.launch import slurm_wait
    from zerocfg.launch.slurm_state import JobState, SlurmJob

    (tmp_path / ".zerocfg").mkdir()
    start = tmp_path / ".zerocfg/slurm_start"
    looks = [("12 0", "RUNNING", ""), ("12 0", "COMPLETING", ""), ("12 0", "PENDING", "BeginTime"), ("12 0", "PENDING", "Priority")]
    looks += [("12 0", "RUNNING", ""), ("12 1", "RUNNING", ""), ("12 1", "COMPLETED", "")]
    watch = Watch([SlurmJob(number=0, folder=str(tmp_path), slurm_id="12")])
    with caplog.at_level("INFO", "zerocfg.launch"):
        for written, state, reason in looks:
            start.write_text(written)
            said = {"12": JobState(state, reason, "" if reason else "n0")}
            monkeypatch.setattr(slurm_wait, "query", lambda ids, said=said: said)
            watch.poll()
    assert [record.getMessage() for record in caplog.records] == [
        "job 0: RUNNING on n0",
        "job 0: REQUEUED (BeginTime), restart 1",
        "job 0: RUNNING on n0, restart 1",
    ]
    assert (watch.states["12"].state, watch.states["12"].restarts) == ("COMPLETED", 1)


def run(folder: Path, *overrides: str) -> subprocess.CompletedProcess[str]:
    (folder / "app.py").write_text(APP)
    env = {**os.environ, "PATH": "/nowhere"}
    command = [sys.executable, "app.py", "-m", "hydra/launcher=zerocfg_slurm", "hydra.sweep.dir=out", *overrides]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=60, check=False)


@pytest.mark.integration
def test_without_slurm_nothing_is_started(tmp_path: Path) -> None:
    done = run(tmp_path, "hydra.launcher.mem_gb=1", "hydra.launcher.mem_per_cpu_gb=1")
    assert done.returncode == 1
    assert "error[ZC720]" in done.stderr
    assert "  decided by: command line: hydra.launcher.mem_gb=1\n" in done.stderr
    assert "error[ZC724] hydra/launcher=zerocfg_slurm, but this machine has no sbatch, squeue, scontrol, srun" in done.stderr
    assert done.stderr.count("error[") == 2
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.integration
def test_a_dry_run_needs_no_slurm(tmp_path: Path) -> None:
    done = run(tmp_path, "hydra.launcher.dry_run=true", "hydra.launcher.partition=gpu", "+a=1,2")
    assert done.returncode == 0, done.stderr
    script = tmp_path / "out/slurm/job_0.sh"
    assert script.read_text() in done.stdout
    assert "#SBATCH --partition=gpu\n" in script.read_text()
    assert "#SBATCH --array=0-1\n" in script.read_text()
    assert sorted(p.name for p in (tmp_path / "out").iterdir()) == ["0", "1", "multirun.yaml", "slurm"]


@pytest.mark.parametrize(
    ("enabled", "expected"),
    [
        (None, ["  try: a longer hydra.launcher.timeout_min"]),
        (
            False,
            ["  try: a longer hydra.launcher.timeout_min; or checkpoint=on_stop: it saves before the limit, and goes on in another start"],
        ),
        (
            True,
            [
                "  go on from the last checkpoint: the same command with 'hydra.sweep.dir=\"/s 1\"'",
                "  try: a longer hydra.launcher.signal_delay_s: time for a step and a checkpoint",
            ],
        ),
    ],
)
def test_a_time_limit_says_what_to_do(tmp_path: Path, enabled: bool | None, expected: list[str]) -> None:
    from zerocfg.launch.slurm_state import JobState, SlurmJob
    from zerocfg.launch.slurm_wait import outcome

    run = None if enabled is None else SimpleNamespace(plan=SimpleNamespace(checkpoint=SimpleNamespace(enabled=enabled)))
    config = SimpleNamespace(hydra=SimpleNamespace(sweep=SimpleNamespace(dir="/s 1")))
    job: Any = SimpleNamespace(number=0, run=run, folder=tmp_path, world_size=1, config=config)
    ended = outcome(job, SlurmJob(number=0, folder=str(tmp_path), slurm_id="12"), JobState("TIMEOUT", "TimeLimit", "n0", 143), tmp_path)
    assert not isinstance(ended, str)
    assert ended.stopped_by.splitlines() == ["time limit (SLURM job 12 TIMEOUT, TimeLimit, n0)", *expected]
