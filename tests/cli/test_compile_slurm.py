"""zerocfg compile --target slurm, on a machine without SLURM: for a cluster that is elsewhere."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BASE = ("compile", "--target", "slurm", "hardware=a100x4", "model=gpt_tiny")


@pytest.fixture(autouse=True)
def no_slurm(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "/nowhere")


def test_the_script_and_nothing_else(cli: Any) -> None:
    status, out, err = cli(*BASE, "hardware.num_nodes=2", "hydra.launcher.partition=gpu", "hydra.launcher.gpu_type=a100")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[0] == "#!/bin/bash"
    directives = [line for line in lines if line.startswith("#SBATCH") and "--chdir" not in line]
    assert directives == [
        "#SBATCH --job-name=train",
        "#SBATCH --partition=gpu",
        "#SBATCH --nodes=2",
        "#SBATCH --ntasks-per-node=1",
        "#SBATCH --cpus-per-task=48",
        "#SBATCH --gpus-per-node=a100:4",
        "#SBATCH --no-requeue",
        "#SBATCH --open-mode=append",
        "#SBATCH --output=%j.log",
    ]
    assert lines[-1] == f'    {sys.executable} -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh" "$@"'


def test_out_holds_all_that_the_script_runs(cli: Any, tmp_path: Path) -> None:
    out = tmp_path / "a b"
    status, printed, err = cli(*BASE, "--out", str(out))
    assert (status, err) == (0, f"written to '{out}': sbatch '{out}/sbatch.sh' SCRIPT.py ARGUMENTS\n")
    script = out / "sbatch.sh"
    assert script.read_text() == printed
    assert stat.S_IMODE(script.stat().st_mode) == 0o700
    assert (out / "compiled/launch.sh").exists()
    assert f"job='{out}'\n" in printed
    assert f'#SBATCH --chdir="{out}"\n' in printed
    # in bash's eyes, too
    checked = subprocess.run(["/bin/bash", "-n", str(script)], capture_output=True, text=True, check=False, env=dict(os.environ))
    assert (checked.returncode, checked.stderr) == (0, "")

    assert cli(*BASE, "--out", str(out))[0] == 0
    status, _, err = cli(*BASE, "--out", str(out), "hydra.launcher.partition=other")
    assert status == 1
    assert "error[ZC181]" in err
    assert "sbatch.sh" in err
    assert script.read_text() == printed
    assert cli(*BASE, "--out", str(out), "--force", "hydra.launcher.partition=other")[0] == 0
    assert "--partition=other" in script.read_text()


def test_json(cli: Any) -> None:
    status, out, _ = cli(*BASE, "--json")
    assert status == 0
    product = json.loads(out)
    assert list(product) == ["deepspeed", "torchrun", "environment", "resources", "sbatch"]
    assert product["sbatch"].startswith("#!/bin/bash\n")
    status, out, _ = cli(*BASE, "--json", "hydra.launcher.mem_gb=1", "hydra.launcher.mem_per_cpu_gb=1", "parallelism.stage=7")
    assert status == 1
    assert {entry["code"] for entry in json.loads(out)} == {"ZC301"}
    status, out, _ = cli(*BASE, "--json", "hydra.launcher.mem_gb=1", "hydra.launcher.mem_per_cpu_gb=1")
    assert [entry["code"] for entry in json.loads(out)] == ["ZC720"]


@pytest.mark.parametrize(
    ("overrides", "code"),
    [
        (("hydra.launcher.nodes=3",), "ZC722"),
        (("hydra.launcher.timeout_min=-1",), "ZC723"),
        (("+hydra.launcher.sbatch.time=3",), "ZC721"),
        (("hydra/launcher=zerocfg_local",), "ZC723"),
        (("hardware=auto",), "ZC728"),
        (("hydra.launcher.partion=x",), "ZC715"),
        (("hydra.launcher.mem_gb=much",), "ZC715"),
        (("hydra.launcher.account='${nothing}'",), "ZC715"),
        (("+hydra.launcher.partitoin=gpu",), "ZC715"),
        (("hydra.launcher=zerocfg_slurm",), "ZC723"),
    ],
)
def test_bad_input(cli: Any, overrides: tuple[str, ...], code: str) -> None:
    status, out, err = cli(*BASE, *overrides)
    assert (status, out) == (1, "")
    assert f"error[{code}]" in err
    assert "Traceback" not in err


def test_no_such_target(cli: Any) -> None:
    assert cli("compile", "--target", "pbs") == (2, "", "--target pbs: one of local, slurm\n")


def test_the_local_target_is_what_compile_prints(cli: Any) -> None:
    assert cli("compile", "--target", "local", "hardware=a100x4") == cli("compile", "hardware=a100x4")


def test_cpu_ranks_need_no_gpu_of_the_partition(cli: Any) -> None:
    status, out, err = cli("compile", "--target=slurm", "hardware=cpu")
    assert (status, err) == (0, "")
    assert "gpus" not in out
    assert out.splitlines()[-1] == f'    {sys.executable} -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh" "$@"'


def test_a_pyxis_container_is_sruns(cli: Any) -> None:
    status, out, err = cli(*BASE, "container=pyxis", "container.image=/images/z.sqsh", "container.mounts=[/data:/d:ro]")
    assert (status, err) == (0, "")
    lines = out.splitlines()
    assert lines[-5:-3] == ["here=$PWD", 'cd -- "$job" || exit']
    mounts = '--container-mounts="$here:$here","$ZEROCFG_RUN_DIR:$ZEROCFG_RUN_DIR",/data:/d:ro'
    assert f' --container-image=/images/z.sqsh {mounts} --container-workdir="$here" --no-container-mount-home --container-env=' in lines[-2]
    assert lines[-1] == '    python3 -m zerocfg.launch.slurm_node start "$job/compiled/launch.sh" "$@"'


def test_a_preflight_is_beside_the_job(cli: Any, tmp_path: Path) -> None:
    status, out, _ = cli(*BASE, "hydra.launcher.preflight=true", "--out", str(tmp_path))
    assert status == 0
    assert out.splitlines()[-3].strip() == f"{sys.executable} -m zerocfg.doctor.preflight \\"
    text = (tmp_path / "compiled/preflight.sh").read_text()
    assert text.endswith("  -m zerocfg.doctor.node_check\n")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["compiled", "sbatch.sh"]
    status, out, _ = cli(*BASE, "--out", str(tmp_path), "--force")
    assert (status, "-m zerocfg.doctor.preflight" in out) == (0, False)
