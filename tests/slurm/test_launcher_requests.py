"""hydra/launcher=zerocfg_slurm on the test cluster: what a job asks for, and what of it sbatch or the cluster refuses."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from .cluster import CONTROLLER, SlurmCluster
from .launching import run, value_of, write_app

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
HOSTILE = 'it\'s $(touch PWNED) `touch PWNED` "q" ; touch PWNED #%j \\ end'


@pytest.fixture
def app(tmp_path: Path, slurm: SlurmCluster) -> Path:
    return write_app(tmp_path)


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
        "SLURM_JOB_ID": "7777777",
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
    assert value["SLURM_JOB_ID"] not in ("", "7777777")
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
