from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import pytest

from zerocfg.compose import compose


@pytest.mark.parametrize(("where", "first"), [(".", ""), ("new project", "cd 'new project', then "), ("deep/er", "cd deep/er, then ")])
def test_a_starter_in_an_empty_folder(cli: Any, tmp_path: Path, where: str, first: str) -> None:
    status, out, err = cli("init", *([] if where == "." else [where]))
    folder = tmp_path / where
    assert status == 0
    assert out.splitlines() == [str(Path(where) / "train.py"), str(Path(where) / "conf" / "config.yaml")]
    assert err == f"next: {first}python train.py, or zerocfg check\n"
    assert sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file()) == ["conf/config.yaml", "train.py"]


def test_the_starter_composes_its_own_config(cli: Any, tmp_path: Path) -> None:
    cli("init")
    (main,) = [n for n in ast.parse((tmp_path / "train.py").read_text()).body if isinstance(n, ast.FunctionDef) and n.decorator_list]
    (decorator,) = main.decorator_list
    assert isinstance(decorator, ast.Call)
    assert ast.unparse(decorator.func) == "hydra.main"
    given = {k.arg: ast.literal_eval(k.value) for k in decorator.keywords}
    assert (given["config_path"], given["config_name"]) == ("conf", "config")
    composed = compose([], config_path="conf")
    assert composed.diagnostics == []
    assert composed.origins.of("optimizer.lr").startswith("conf/config.yaml:")
    for words in ((), ("--config-path", "conf")):  # the commands find it themselves
        assert cli("explain", "optimizer.params.lr", "hardware=a100x4", *words)[1].endswith("  # conf/config.yaml:14: optimizer.lr\n")


def test_the_starter_is_the_example_of_the_repository(cli: Any, tmp_path: Path) -> None:
    cli("init")
    example = (Path(__file__).resolve().parents[2] / "train.py").read_text()
    changed = [(a, b) for a, b in zip(example.splitlines(), (tmp_path / "train.py").read_text().splitlines(), strict=True) if a != b]
    assert len(changed) == 1
    assert changed[0][0].replace("zerocfg", "config") == changed[0][1]


def test_nothing_is_overwritten_without_force(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("mine\n")
    status, out, err = cli("init")
    assert (status, out) == (1, "")
    assert err.startswith("error[ZC182] train.py would be overwritten\n")
    assert (tmp_path / "train.py").read_text() == "mine\n"
    assert not (tmp_path / "conf").exists()
    assert cli("init", "--force")[0] == 0
    assert (tmp_path / "train.py").read_text() != "mine\n"
    # the same again is no loss
    assert cli("init")[0] == 0


def test_a_folder_that_cannot_be_written(cli: Any, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("x")
    status, _, err = cli("init", "file")
    assert status == 1
    assert err.startswith("error[ZC182] file cannot be written: ")
