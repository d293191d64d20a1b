"""That the test cluster is a SLURM like those out there: what the launcher's tests rely on."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.needs import require

from .cluster import CONTROLLER, SlurmCluster

pytestmark = [pytest.mark.slurm, pytest.mark.integration]
TESTS = Path(__file__).resolve().parents[1]
# seconds to sleep, by which the processes of this test run are told from those of another beside it
SLEEP = 10**7 + os.getpid()


def eventually(probe: Callable[[], object], timeout: float = 20) -> None:
    deadline = time.monotonic() + timeout
    while not probe():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.1)


def test_two_idle_nodes_with_four_gpus_each(slurm: SlurmCluster) -> None:
    sinfo = slurm.run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %T %G %c %m")
    assert sinfo == "node0 idle gpu:a100:4 8 10000\nnode1 idle gpu:a100:4 8 10000\n"


def test_srun_gives_each_node_its_gpus(slurm: SlurmCluster) -> None:
    command = 'echo "$SLURM_NODEID $(hostname) $CUDA_VISIBLE_DEVICES"'
    printed = slurm.run("srun", "--nodes=2", "--ntasks-per-node=1", "--gpus-per-node=a100:4", "bash", "-c", command)
    assert sorted(printed.splitlines()) == ["0 node0 0,1,2,3", "1 node1 0,1,2,3"]


def test_impossible_requests_are_refused_at_submission(slurm: SlurmCluster, tmp_path: Path) -> None:
    refused = {
        "--partition=nowhere": "invalid partition specified: nowhere",
        "--gpus-per-node=5": "Requested node configuration is not available",
        "--partition=short --time=10": "Requested time limit is invalid",
        "--nodes=3": "Node count specification invalid",
    }
    said = {}
    for options in refused:
        with pytest.raises(RuntimeError) as error:
            slurm.sbatch("true", *options.split(), cwd=tmp_path)
        said[options] = str(error.value)
    assert {options: text for options, text in refused.items() if text not in said[options]} == {}, said


def test_nodes_are_hosts_of_their_own_and_reach_each_other_by_name(slurm: SlurmCluster, tmp_path: Path) -> None:
    """What a rendezvous on the first host needs: a name that all nodes resolve to an address that is not the loopback's."""
    (tmp_path / "meet.py").write_text(
        "import os, socket, sys, time\n"
        "first, port = sys.argv[1], 29400\n"
        "if os.environ['SLURM_NODEID'] == '0':\n"
        "    with socket.create_server(('', port)) as server:\n"
        "        server.settimeout(20)\n"
        "        print(socket.gethostname(), 'met', server.accept()[1][0], flush=True)\n"
        "else:\n"
        "    for _ in range(100):\n"
        "        try:\n"
        "            with socket.create_connection((first, port), timeout=20) as other:\n"
        "                print(socket.gethostname(), 'met', other.getpeername()[0], flush=True)\n"
        "                break\n"
        "        except ConnectionRefusedError:\n"
        "            time.sleep(0.1)\n"
    )
    hosts_before, name_before = Path("/etc/hosts").read_bytes(), socket.gethostname()
    first = 'first=$(scontrol show hostnames "$SLURM_JOB_NODELIST" | head -n1)'
    job = slurm.sbatch(
        f'{first}\nsrun {sys.executable} meet.py "$first"', "--nodes=2", "--ntasks-per-node=1", "--output=out.txt", cwd=tmp_path
    )
    assert slurm.wait_job(job) == "COMPLETED", (tmp_path / "out.txt").read_text()
    met = dict(line.split(" met ") for line in (tmp_path / "out.txt").read_text().splitlines() if " met " in line)
    assert met.keys() == {"node0", "node1"}
    assert not any(address.startswith("127.") for address in met.values())
    assert met["node0"] != met["node1"]
    assert (Path("/etc/hosts").read_bytes(), socket.gethostname()) == (hosts_before, name_before)


def test_tasks_of_an_array_run_side_by_side_on_gpus_of_their_own(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = (
        'echo "$SLURMD_NODENAME $CUDA_VISIBLE_DEVICES" > "task_$SLURM_ARRAY_TASK_ID"\n'
        "for _ in $(seq 200); do [ $(ls task_* | wc -l) = 4 ] && exit 0; sleep 0.1; done; exit 1"  # 1: not all four at once
    )
    job = slurm.sbatch(script, "--array=0-3", "--gpus-per-node=2", cwd=tmp_path)
    assert [slurm.wait_job(f"{job}_{task}") for task in range(4)] == ["COMPLETED"] * 4
    placed = sorted((tmp_path / f"task_{task}").read_text().strip() for task in range(4))
    assert placed == ["node0 0,1", "node0 2,3", "node1 0,1", "node1 2,3"]


def test_a_failed_job_has_its_exit_code(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.sbatch("exit 3", cwd=tmp_path)
    assert slurm.wait_job(job) == "FAILED"
    assert " ExitCode=3:0 " in slurm.run("scontrol", "--oneliner", "show", "job", job)


def test_scancel_ends_a_job_and_its_processes(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.sbatch(f"srun --nodes=2 sleep {SLEEP}", "--nodes=2", cwd=tmp_path)
    eventually(lambda: _sleeping() == 2)
    slurm.run("scancel", job)
    assert slurm.wait_job(job) == "CANCELLED"
    assert slurm.run("squeue", "--noheader") == ""
    eventually(lambda: not _processes(str(SLEEP)))


def test_scancel_sends_a_signal_to_the_tasks(slurm: SlurmCluster, tmp_path: Path) -> None:
    (tmp_path / "task.sh").write_text(
        'trap \'echo "$SLURM_PROCID got USR2"; exit 0\' USR2\ntouch "ready_$SLURM_PROCID"\nfor _ in $(seq 200); do sleep 0.1; done\n'
    )
    job = slurm.sbatch("srun bash task.sh", "--nodes=2", "--ntasks-per-node=1", "--output=out.txt", cwd=tmp_path)
    eventually(lambda: len(list(tmp_path.glob("ready_*"))) == 2)
    slurm.run("scancel", "--signal=USR2", job)
    assert slurm.wait_job(job) == "COMPLETED"
    # the tasks' children get it as well, and bash reports their end
    assert sorted(line for line in (tmp_path / "out.txt").read_text().splitlines() if "got" in line) == ["0 got USR2", "1 got USR2"]


def test_a_requeued_job_runs_again_under_its_id(slurm: SlurmCluster, tmp_path: Path) -> None:
    script = 'echo "$SLURM_JOB_ID ${SLURM_RESTART_COUNT:-0}" >> runs.txt; [ "${SLURM_RESTART_COUNT:-0}" = 1 ] || sleep 60'
    job = slurm.sbatch(script, cwd=tmp_path)
    eventually((tmp_path / "runs.txt").exists)
    slurm.run("scontrol", "requeue", job)
    assert slurm.wait_job(job, "COMPLETED") == "COMPLETED"
    assert (tmp_path / "runs.txt").read_text() == f"{job} 0\n{job} 1\n"


def test_a_lost_node_fails_its_job_and_comes_back(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.sbatch(f"srun sleep {SLEEP}", "--nodes=2", "--ntasks-per-node=1", "--no-requeue", cwd=tmp_path)
    eventually(lambda: _sleeping() == 2)
    slurm.down("node1")
    assert slurm.wait_job(job) == "NODE_FAIL"
    eventually(lambda: slurm.node_states() == {"node0": "idle", "node1": "down"})
    assert _sleeping() == 0
    slurm.up("node1")
    assert slurm.node_states() == {"node0": "idle", "node1": "idle"}


def test_jobs_outlive_a_restart_of_the_controller(slurm: SlurmCluster, tmp_path: Path) -> None:
    job = slurm.sbatch("touch started; for _ in $(seq 300); do [ -e go ] && exit 0; sleep 0.1; done; exit 1", cwd=tmp_path)
    eventually((tmp_path / "started").exists)
    slurm.down(CONTROLLER)
    slurm.up(CONTROLLER)
    assert slurm.job_state(job) == "RUNNING"
    (tmp_path / "go").touch()
    assert slurm.wait_job(job) == "COMPLETED"


def test_there_is_no_accounting(slurm: SlurmCluster) -> None:
    sacct = subprocess.run(["sacct"], capture_output=True, text=True)
    assert (sacct.returncode, sacct.stdout, sacct.stderr) == (1, "", "Slurm accounting storage is disabled\n")


def test_a_cluster_of_another_shape_and_configuration(slurm: SlurmCluster, tmp_path: Path) -> None:
    with SlurmCluster(tmp_path / "s", nodes=1, gpus=0, cpus=2, options={"MinJobAge": 7}) as other:
        assert other.run("sinfo", "--noheader", "--Node", "--partition=gpu", "--format=%N %T %G %c") == "node0 idle (null) 2\n"
        assert "MinJobAge               = 7 sec" in other.run("scontrol", "show", "config")
        assert other.job_state("1") is None  # jobs are each cluster's own
    assert slurm.node_states() == {"node0": "idle", "node1": "idle"}


def test_submitit_gets_results_but_never_learns_that_a_job_was_cancelled(slurm: SlurmCluster, tmp_path: Path) -> None:
    """Without sacct submitit's only news of a job is its result: a job that leaves none is waited for without end."""
    import submitit

    def where(greeting: str) -> tuple[str, str, str]:
        return greeting, socket.gethostname(), os.environ["CUDA_VISIBLE_DEVICES"]

    executor = submitit.SlurmExecutor(tmp_path)
    executor.update_parameters(partition="gpu", time=5, nodes=2, ntasks_per_node=1, gpus_per_node=2)
    job = executor.submit(where, "hello")
    assert job.results() == [("hello", "node0", "0,1"), ("hello", "node1", "0,1")]
    assert job.state == "UNKNOWN"

    cancelled = executor.submit(time.sleep, 60)
    slurm.wait_job(cancelled.job_id, "RUNNING")
    slurm.run("scancel", cancelled.job_id)
    assert slurm.wait_job(cancelled.job_id) == "CANCELLED"
    assert (cancelled.done(force_check=True), cancelled.state) == (False, "UNKNOWN")


def test_clusters_live_side_by_side_and_die_with_their_owner(slurm: SlurmCluster, tmp_path_factory: pytest.TempPathFactory) -> None:
    script = f"scontrol show config | grep SLURM_CONF; srun -N2 --gpus-per-node=4 hostname; srun -N2 sleep {SLEEP}"
    owner = subprocess.Popen(
        [sys.executable, "-m", "slurm.cluster", "bash", "-c", script],
        cwd=TESTS,
        stdout=subprocess.PIPE,
        text=True,
        start_new_session=True,
        env={**os.environ, "TMPDIR": str(tmp_path_factory.mktemp("owner"))},
    )
    assert owner.stdout is not None
    with owner.stdout as said:
        try:
            conf = said.readline().split("=")[1].strip()
            assert conf != slurm.env()["SLURM_CONF"]
            assert {said.readline().strip() for _ in range(2)} == {"node0", "node1"}
            eventually(lambda: _sleeping() == 2)
        finally:
            os.killpg(owner.pid, signal.SIGKILL)  # with its own srun; the hosts are no part of its group
            owner.wait()
    eventually(lambda: not _processes(str(SLEEP)) and not _processes(str(Path(conf).parent)))
    assert slurm.node_states() == {"node0": "idle", "node1": "idle"}


def test_the_variables_of_an_outer_job_do_not_reach_the_cluster(
    slurm: SlurmCluster, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SBATCH_PARTITION", "nowhere")
    monkeypatch.setenv("SLURM_CPU_BIND", "cores")
    job = slurm.sbatch('echo "${SLURM_CPU_BIND:-unset}"', "--output=out.txt", cwd=tmp_path)
    assert slurm.wait_job(job) == "COMPLETED"
    assert (tmp_path / "out.txt").read_text() == "unset\n"


def test_a_missing_slurm_fails_in_ci_and_is_a_skip_with_the_remedy_elsewhere() -> None:
    reason = "no slurmctld: install SLURM with `bash .ci/slurm_packages.sh`"
    for environ in ({}, {"CI": ""}, {"CI": "false"}):
        with pytest.raises(pytest.skip.Exception, match=r"bash \.ci/slurm_packages\.sh"):
            require(reason, environ)
    with pytest.raises(pytest.fail.Exception, match=r"in CI: no slurmctld.*bash \.ci/slurm_packages\.sh"):
        require(reason, {"CI": "true"})
    require(None, {"CI": "true"})


def _processes(text: str) -> list[str]:
    """Command lines of the processes, on all hosts, that contain `text`; each argument ends with a NUL."""
    found = []
    for file in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found.append(file.read_text(errors="replace"))
        except OSError:  # it ended meanwhile
            continue
    return [command for command in found if text in command]


def _sleeping() -> int:
    """How many tasks run `sleep SLEEP`; srun gives them the command with its path."""
    return sum(command.endswith(f"/sleep\0{SLEEP}\0") for command in _processes(str(SLEEP)))
