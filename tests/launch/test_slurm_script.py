"""The sbatch script: whole text, and what it does in a shell whose srun and scontrol only take notes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from zerocfg.launch.slurm_script import Start, sbatch_script
from zerocfg.passes.lower.slurm import SlurmShape

ONE = SlurmShape(
    nodes=1,
    directives=(("job-name", "train"), ("comment", 'it\'s \\ "me" #1'), ("exclusive", "")),
    srun=(("nodes", "1"), ("output", ".zerocfg/torchrun.log"), ("label", "")),
)
TWO = SlurmShape(nodes=2, directives=(("nodes", "2"),), srun=(("ntasks", "2"),), array_parallelism=4, rdzv_port=0)
HERE = Start(python="/venv/bin/python", home="/home/me")


def test_one_job_on_one_node() -> None:
    assert (
        sbatch_script(ONE, [Path("/s/0")], Path("/s/slurm"), HERE)
        == r"""#!/bin/bash
# Written by zerocfg: 1 job, 1 node a job. `sbatch FILE` runs it again.
#SBATCH --job-name=train
#SBATCH --comment="it's \\ \"me\" #1"
#SBATCH --exclusive
#SBATCH --chdir=/s/slurm
#SBATCH --output=%j.log

job=/s/0
id=${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}
mkdir -p -- "$job/.zerocfg" || { echo "zerocfg: $(hostname) cannot write $job: all nodes must share its file system" >&2; exit 1; }
rm -f -- "$job/.zerocfg/slurm_end"
trap 'echo "$id $?" >"$job/.zerocfg/slurm_end"' EXIT
trap 'exit 143' TERM
trap : USR2
export ZEROCFG_RUN_DIR="$job" ZEROCFG_JOB_TOKEN="slurm-$SLURM_JOB_ID"
cd -- /home/me || exit

cd -- "$job" || exit
/venv/bin/python -m zerocfg.launch.slurm_step \
  srun --nodes=1 --output=.zerocfg/torchrun.log --label \
    /venv/bin/python -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh"
"""
    )


def test_an_array_on_two_nodes() -> None:
    text = sbatch_script(TWO, [Path("/s/0"), Path("/s/a b")], Path("/s/slurm"), HERE)
    assert "#SBATCH --array=0-1%4\n#SBATCH --chdir=/s/slurm\n#SBATCH --output=%A_%a.log\n" in text
    assert "\njobs=(\n  /s/0\n  '/s/a b'\n)\njob=${jobs[$SLURM_ARRAY_TASK_ID]}\n" in text
    assert text.endswith(r"""
# where the nodes meet: the first host's address and a free port on it, which is this one
hosts=$(scontrol show hostnames "$SLURM_JOB_NODELIST") || exit
meet=$(/venv/bin/python -m zerocfg.launch.slurm_node rendezvous $hosts) || exit
export ZEROCFG_RDZV_HOST="${meet% *}" ZEROCFG_RDZV_PORT="${meet##* }"
export ZEROCFG_RDZV_ID="$SLURM_JOB_ID.${SLURM_RESTART_COUNT:-0}"

cd -- "$job" || exit
/venv/bin/python -m zerocfg.launch.slurm_step \
  srun --ntasks=2 \
    /venv/bin/python -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh"
""")


def test_a_port_of_the_users_and_no_limit_of_the_array() -> None:
    shape = SlurmShape(nodes=2, directives=(), srun=(), rdzv_port=29500)
    text = sbatch_script(shape, [Path("/s/0"), Path("/s/1")], Path("/s/slurm"), HERE)
    assert "slurm_node rendezvous --port=29500 $hosts" in text
    assert "#SBATCH --array=0-1\n" in text


HOSTILE = ["plain", "a b", 'it\'s "q"', "$(touch PWNED)`touch PWNED`;touch PWNED", "new\nline", "100%j %u", "back\\slash", "#x", "-n"]


@pytest.fixture
def shell(tmp_path: Path) -> Path:
    """A PATH in which SLURM's commands and the interpreter write down how they were called; around the step it only runs the step."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name, answer in {"srun": "exit 7", "scontrol": "printf 'n1\\nn2\\n'", "py": "echo '[fd00::1] 15008'"}.items():
        note = f'printf "%s\\0" {name} "$@" "$PWD" >>"$NOTES"; env -0 >"$NOTES.env"'
        around = 'if [ "$2" = zerocfg.launch.slurm_step ]; then shift 2; exec "$@"; fi' if name == "py" else ""
        (tools / name).write_text(f"#!/bin/bash\n{around}\n{note}\n{answer}\n")
        (tools / name).chmod(0o755)
    return tools


def run_script(text: str, tools: Path, **environ: str) -> tuple[int, list[str], dict[str, str]]:
    notes = tools / "notes"
    env = {"PATH": f"{tools}:{os.environ['PATH']}", "NOTES": str(notes), "SLURM_JOB_ID": "13", "SLURM_JOB_NODELIST": "n[1-2]", **environ}
    script = tools / "script.sh"
    script.write_text(text)
    done = subprocess.run(["bash", str(script), "an argument"], env=env, cwd=tools, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    said = dict(pair.split("=", 1) for pair in Path(f"{notes}.env").read_text().split("\0") if pair)
    return done.returncode, notes.read_text().split("\0")[:-1], said


@pytest.mark.parametrize("name", HOSTILE)
def test_folders_and_values_arrive_as_they_are_and_nothing_is_executed(tmp_path: Path, shell: Path, name: str) -> None:
    jobs = [tmp_path / "other", tmp_path / f"jobs {name}" / "1"]
    jobs[1].mkdir(parents=True)
    home = tmp_path / f"home {name}"
    home.mkdir()
    shape = SlurmShape(
        nodes=1, directives=(), srun=(("comment", name),), environment=(("VALUE", name),), setup=('export SET_UP="$VALUE in $PWD"',)
    )
    start = Start(python=str(shell / "py"), home=str(home), program=("-m", "worker", name))
    text = sbatch_script(shape, jobs, tmp_path / "slurm", start)
    status, called, env = run_script(text, shell, SLURM_ARRAY_JOB_ID="12", SLURM_ARRAY_TASK_ID="1")
    command = ["/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "start", str(home), str(shell / "py"), "-u", "-m", "worker", name]
    assert called == ["srun", f"--comment={name}", *command, str(jobs[1])]
    assert (env["VALUE"], env["SET_UP"]) == (name, f"{name} in {home}")
    assert (env["ZEROCFG_RUN_DIR"], env["ZEROCFG_JOB_TOKEN"]) == (str(jobs[1]), "slurm-13")
    assert status == 7
    assert (jobs[1] / ".zerocfg/slurm_end").read_text() == "12_1 7\n"
    assert list(tmp_path.rglob("PWNED*")) == []


def test_a_script_that_is_stopped_does_not_say_that_all_went_well(tmp_path: Path, shell: Path) -> None:
    """scancel and the time limit: SIGTERM to the shell and to srun. Once SLURM has forgotten the job, only this word is left."""
    (tmp_path / "job").mkdir()
    (shell / "srun").write_text("#!/bin/bash\nkill -TERM $PPID; exit 0\n")
    text = sbatch_script(ONE, [tmp_path / "job"], tmp_path, Start(python="py", home=str(tmp_path)))
    (shell / "notes").touch()
    (shell / "notes.env").touch()
    assert run_script(text, shell)[0] == 143
    assert (tmp_path / "job/.zerocfg/slurm_end").read_text() == "13 143\n"


def test_two_nodes_meet_where_the_helper_says(tmp_path: Path, shell: Path) -> None:
    (tmp_path / "job").mkdir()
    start = Start(python=str(shell / "py"), home=str(tmp_path), takes_arguments=True)
    text = sbatch_script(TWO, [tmp_path / "job"], tmp_path / "slurm", start)
    _, called, env = run_script(text, shell, SLURM_RESTART_COUNT="2")
    node = "zerocfg.launch.slurm_node"
    assert called == [
        *("scontrol", "show", "hostnames", "n[1-2]", str(tmp_path)),
        *("py", "-m", node, "rendezvous", "n1", "n2", str(tmp_path)),
        *(
            "srun",
            "--ntasks=2",
            str(shell / "py"),
            "-m",
            node,
            "start",
            str(tmp_path / "job/compiled/launch.sh"),
            "an argument",
            str(tmp_path / "job"),
        ),
    ]
    names = ("ZEROCFG_RDZV_HOST", "ZEROCFG_RDZV_PORT", "ZEROCFG_RDZV_ID")
    assert [env[name] for name in names] == ["[fd00::1]", "15008", "13.2"]
    assert (tmp_path / "job/.zerocfg/slurm_end").read_text() == "13 7\n"


def test_a_failing_setup_line_ends_the_job_with_its_status(tmp_path: Path, shell: Path) -> None:
    (tmp_path / "job").mkdir()
    shape = SlurmShape(nodes=1, directives=(), srun=(), setup=("exit 9",))
    start = Start(python="py", home=str(tmp_path))
    (shell / "notes").touch()
    (shell / "notes.env").touch()
    status, called, _ = run_script(sbatch_script(shape, [tmp_path / "job"], tmp_path, start), shell)
    assert (status, called) == (9, [])
    assert (tmp_path / "job/.zerocfg/slurm_end").read_text() == "13 9\n"


@pytest.mark.parametrize("name", ["100%j", "back\\slash", "new\nline"])
def test_a_log_whose_folder_slurm_would_change_is_opened_by_the_script(tmp_path: Path, name: str) -> None:
    text = sbatch_script(ONE, [Path("/s/0")], tmp_path / name, HERE)
    assert "#SBATCH --output=/dev/null\n" in text
    assert 'exec >>"${SLURM_ARRAY_JOB_ID:-$SLURM_JOB_ID}${SLURM_ARRAY_TASK_ID:+_$SLURM_ARRAY_TASK_ID}.log" 2>&1\n' in text
    assert ("--chdir" in text) is ("\n" not in name)
    assert all(line.startswith("#") for line in text.splitlines()[:5])


def test_a_preflight_goes_before_the_step() -> None:
    start = Start(python="/v env/bin/python", home="/home/me", preflight=True)
    lines = [line.strip() for line in sbatch_script(TWO, [Path("/s/0")], Path("/s/slurm"), start).splitlines()]
    assert lines[-3:] == [
        "'/v env/bin/python' -m zerocfg.doctor.preflight \\",
        "srun --ntasks=2 \\",
        """'/v env/bin/python' -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh\"""",
    ]
    # an app without zerocfg's groups has no plan to look at the machine for
    program = Start(python="py", home="/home/me", preflight=True, program=("-m", "x"))
    assert "preflight" not in sbatch_script(ONE, [Path("/s/0")], Path("/s/slurm"), program)


def test_srun_enters_a_container(tmp_path: Path, shell: Path) -> None:
    """pyxis: the step starts in the folder of the submission, with the image's interpreter."""
    (tmp_path / "job").mkdir()
    home = tmp_path / "ho me"
    home.mkdir()
    words = ("--container-image='/i m.sqsh'", '--container-mounts="$here:$here","$ZEROCFG_RUN_DIR:$ZEROCFG_RUN_DIR"')
    shape = SlurmShape(nodes=2, directives=(), srun=(("ntasks", "2"),), container=words, container_python="/opt/py")
    text = sbatch_script(shape, [tmp_path / "job"], tmp_path, Start(python=str(shell / "py"), home=str(home)))
    _, called, _ = run_script(text, shell)
    job = tmp_path / "job"
    assert called[called.index("srun") :] == [
        *("srun", "--ntasks=2", "--container-image=/i m.sqsh", f"--container-mounts={home}:{home},{job}:{job}"),
        *("/opt/py", "-m", "zerocfg.launch.slurm_node", "start", f"{job}/compiled/launch.sh", str(job)),
    ]
