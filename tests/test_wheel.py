"""What a user gets from the wheel, in another folder and another environment."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import sysconfig
import tarfile
import venv
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]


def run(*command: str | Path, cwd: Path) -> str:
    environ = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    done = subprocess.run([str(c) for c in command], cwd=cwd, env=environ, capture_output=True, text=True)
    assert done.returncode == 0, f"{command}\n{done.stdout}\n{done.stderr}"
    return done.stdout


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("wheel")
    run(sys.executable, "-m", "hatchling", "build", "--target", "wheel", "--directory", out, cwd=ROOT)
    (built,) = out.glob("*.whl")
    return built


@pytest.fixture(scope="module")
def python(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An environment with the wheel, and with this one's packages behind it: nothing is downloaded. A .pth file's folders
    are not searched for further .pth files, so this checkout's editable install does not show through."""
    home = tmp_path_factory.mktemp("env") / "venv"
    venv.create(home, with_pip=False, symlinks=True)
    interpreter = home / "bin" / "python"
    run(sys.executable, "-m", "pip", "--python", interpreter, "install", "--quiet", "--no-deps", "--no-index", wheel, cwd=home)
    (site,) = home.glob("lib/python*/site-packages")
    (site / "zz_dependencies.pth").write_text(sysconfig.get_path("purelib") + "\n")
    return interpreter


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """An empty project with a config of its own."""
    folder = tmp_path / "my project"
    (folder / "conf").mkdir(parents=True)
    (folder / "conf" / "config.yaml").write_text("defaults:\n  - zerocfg\n  - _self_\nmine: 7\n")
    (folder / "app.py").write_text(
        "import json\n"
        "import hydra\n"
        "from hydra.core.hydra_config import HydraConfig\n"
        '@hydra.main(config_path="conf", config_name="config", version_base="1.3")\n'
        "def main(cfg):\n"
        "    import zerocfg\n"
        "    hydra_cfg = HydraConfig.get()\n"
        "    print(json.dumps({'mine': cfg.mine, 'keys': list(cfg), 'stage': cfg.parallelism.stage, 'file': zerocfg.__file__,\n"
        "        'launcher': hydra_cfg.launcher._target_, 'choice': hydra_cfg.runtime.choices['hydra/launcher']}))\n"
        "main()\n"
    )
    return folder


def sources() -> set[str]:
    listed = run("git", "ls-files", "--cached", "--others", "--exclude-standard", cwd=ROOT).splitlines()
    return {name for name in listed if (ROOT / name).is_file()}


def test_the_sdist_is_the_tree(tmp_path: Path) -> None:
    """The pages that the README leads to, the Makefile and the container files with it."""
    run(sys.executable, "-m", "hatchling", "build", "--target", "sdist", "--directory", tmp_path, cwd=ROOT)
    (built,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(built) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert names - {"PKG-INFO"} == sources()


def test_the_wheel_holds_the_library_the_groups_and_the_plugins_alone(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = {name for name in archive.namelist() if not name.endswith("/")}
    tracked = sources()
    expected = {name.removeprefix("src/") for name in tracked if name.startswith("src/zerocfg/")}
    expected |= {name for name in tracked if name.startswith("hydra_plugins/")}
    expected |= {f"zerocfg/{name}" for name in tracked if name.startswith("conf/")}
    expected |= {"zerocfg/_starter/train.py"}
    metadata = {name for name in names if name.startswith("zerocfg-")}
    assert names - metadata == expected
    assert {Path(name).name for name in metadata} == {"METADATA", "RECORD", "WHEEL", "LICENSE", "entry_points.txt"}
    assert "zerocfg/conf/zerocfg.yaml" in names
    assert "hydra_plugins/__init__.py" not in names, "hydra_plugins is a namespace that other distributions share"


def test_an_empty_project_gets_all_groups_and_the_launcher(python: Path, project: Path) -> None:
    told = json.loads(run(python, "app.py", "hydra.mode=RUN", "parallelism=zero2", cwd=project).splitlines()[-1])
    assert told.pop("file").startswith(str(python.parents[1]))
    assert told == {
        "mine": 7,
        "stage": 2,
        "launcher": told["launcher"],
        "choice": "zerocfg_local",
        "keys": told["keys"],
    }
    assert told["launcher"].startswith("hydra_plugins.zerocfg_launcher.")
    folders = {path.name for path in (ROOT / "conf").iterdir() if path.is_dir()}
    assert folders <= set(told["keys"])


def test_a_single_run_is_a_multirun_there(python: Path, project: Path) -> None:
    composed = run(python, "app.py", "--cfg", "hydra", "-p", "hydra.mode", cwd=project)
    assert "MULTIRUN" in composed


def test_the_search_path_names_the_package(python: Path, project: Path) -> None:
    table = run(python, "app.py", "--info", "searchpath", cwd=project)
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines() if line.startswith("|")]
    assert rows[1:] == [
        ["hydra", "pkg://hydra.conf"],
        ["main", f"file://{project}/conf"],
        ["zerocfg", "pkg://zerocfg.conf"],
        ["schema", "structured://"],
    ]


def test_the_command_works_from_the_wheel(python: Path, tmp_path: Path) -> None:
    text = run(python, "-m", "zerocfg", "compile", "hardware=a100x4", "model=llama2_7b", "precision=bf16", "--json", cwd=tmp_path)
    assert json.loads(text)["deepspeed"]["zero_optimization"]["stage"] == 3


def test_values_of_the_wheels_groups_name_their_file_and_line(python: Path, project: Path) -> None:
    command = (python, "-m", "zerocfg", "explain", "config.parallelism.stage", "--config-path", "conf", "hardware=a100x4")
    assert run(*command, cwd=project) == "config.parallelism.stage = 3  # zerocfg/parallelism/zero3.yaml:3\n"


def test_init_writes_a_project_that_composes(python: Path, tmp_path: Path) -> None:
    run(python, "-m", "zerocfg", "init", "mine", cwd=tmp_path)
    run(python, "-m", "zerocfg", "check", "--config-path", "conf", "hardware=a100x4", cwd=tmp_path / "mine")
    assert "optimizer" in run(python, "train.py", "--cfg", "job", "hardware=a100x4", cwd=tmp_path / "mine")
