"""Who wrote each value: the last writer in Hydra's merge order, with file and line."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerocfg.compose import compose
from zerocfg.confsource import conf_dir
from zerocfg.schema import GROUPS, SECTIONS
from zerocfg.schema.load import field_names


def line_of(file: Path, start: str) -> int:
    return next(i for i, line in enumerate(file.read_text().splitlines(), 1) if line.startswith(start))


def test_packaged_options_have_a_short_form_and_their_line() -> None:
    origins = compose(["parallelism=zero3", "model=llama2_7b"]).origins
    conf = conf_dir()
    assert origins.of("parallelism.stage") == f"zerocfg/parallelism/zero3.yaml:{line_of(conf / 'parallelism/zero3.yaml', 'stage:')}"
    assert origins.of("model.hidden_size") == f"zerocfg/model/llama2_7b.yaml:{line_of(conf / 'model/llama2_7b.yaml', 'hidden_size:')}"
    # who chose the option
    assert origins.of("parallelism") == "command line: parallelism=zero3"
    assert origins.of("optimizer") == f"zerocfg/zerocfg.yaml:{line_of(conf / 'zerocfg.yaml', '  - optimizer: adamw')}"


def test_every_key_of_the_schema_has_an_origin_of_its_own() -> None:
    composed = compose([])
    for section, cls in {**GROUPS, **SECTIONS}.items():
        for name in field_names(cls):
            written = composed.origins.of_exactly(f"{section}.{name}")
            assert written == "schema default" or written.startswith("zerocfg/"), (section, name)
    assert composed.origins.of("torchrun.rdzv_timeout") == "schema default"
    assert composed.origins.of("optimizer.betas[1]") == composed.origins.of("optimizer.betas")


def test_the_last_writer_wins_as_in_hydra(project: Any) -> None:
    project.write(
        "config.yaml",
        """\
        defaults:
          - zerocfg
          - optimizer@backup: mine
          - extra
          - _self_
          - override optimizer: mine
        optimizer:
          eps: 1e-6
        train: {steps: 5}
        env:
          A: "1"
        """,
    )
    project.write("optimizer/mine.yaml", "lr: 1e-3\neps: 1e-7\nbetas: [0.5, 0.5]\n")
    project.write("extra.yaml", "# @package _global_\ntrain:\n  seed: 5\n  steps: 6\nenv: {A: x, B: y}\n")
    origins = project.compose("optimizer.lr=2", "optimizer.lr=3", "train={log_every: 4}", "+env.C=z").origins
    assert {
        path: origins.of(path) for path in ("optimizer.lr", "optimizer.eps", "optimizer.betas", "optimizer.betas[0]", "optimizer.name")
    } == {
        "optimizer.lr": "command line: optimizer.lr=3",
        "optimizer.eps": "conf/config.yaml:8",
        "optimizer.betas": "conf/optimizer/mine.yaml:3",
        "optimizer.betas[0]": "conf/optimizer/mine.yaml:3",
        "optimizer.name": "schema default",
    }
    assert {path: origins.of(path) for path in ("train.steps", "train.seed", "train.log_every", "train.num_workers")} == {
        "train.steps": "conf/config.yaml:9",
        "train.seed": "conf/extra.yaml:3",
        "train.log_every": "command line: train={log_every: 4}",
        "train.num_workers": "schema default",
    }
    assert {path: origins.of(path) for path in ("env.A", "env.B", "env.C", "backup.lr", "optimizer")} == {
        "env.A": "conf/config.yaml:11",
        "env.B": "conf/extra.yaml:5",
        "env.C": "command line: +env.C=z",
        "backup.lr": "conf/optimizer/mine.yaml:1",
        "optimizer": "conf/config.yaml:6",
    }


def test_self_before_a_group_loses_to_it(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n  - extra\ntrain: {steps: 5}\n")
    project.write("extra.yaml", "train: {steps: 6}\n")
    composed = project.compose()
    assert composed.container["train"]["steps"] == 6
    assert composed.origins.of("train.steps") == "conf/extra.yaml:1"


def test_a_list_on_the_command_line_replaces_the_items_of_a_file() -> None:
    composed = compose(["optimizer.betas=[0.8]"])
    assert composed.container["optimizer"]["betas"] == [0.8]
    assert composed.origins.of("optimizer.betas[1]") == "command line: optimizer.betas=[0.8]"


def test_a_deleted_value_is_nobodys(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\nenv: {A: x, B: y}\n")
    origins = project.compose("~env.A").origins
    assert origins.of_exactly("env.A") == "schema default"
    assert origins.of_exactly("env.B") == "conf/config.yaml:4"


def test_a_stored_config_is_named(project: Any) -> None:
    from hydra.core.config_store import ConfigStore

    ConfigStore.instance().store(name="stored_by_a_test", group="scheduler", node={"type": "WarmupLR", "warmup_num_steps": 5})
    composed = project.compose("scheduler=stored_by_a_test")
    assert composed.container["scheduler"]["warmup_num_steps"] == 5
    assert composed.origins.of("scheduler.warmup_num_steps") == "structured config scheduler/stored_by_a_test"


def test_files_outside_of_the_folder_are_named_in_full(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\ntrain: {steps: 5}\n")
    elsewhere = project.folder / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    composed = compose([], config_path="../conf")
    assert composed.origins.of("train.steps") == f"{project.folder}/conf/config.yaml:4"


def test_an_override_with_a_line_break_stays_on_one_line() -> None:
    composed = compose(["model.name='a\nb'"])
    assert composed.container["model"]["name"] == "a\nb"
    assert composed.origins.of("model.name") == r"""command line: "model.name='a\nb'" """.strip()


def test_a_merge_key_points_at_the_line_of_its_anchor(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\nbase: &b\n  steps: 9\ntrain:\n  <<: *b\n  seed: 3\n")
    composed = project.compose()
    assert composed.container["train"]["steps"] == 9
    assert composed.origins.of("train.steps") == "conf/config.yaml:5"


def test_a_shorter_list_or_a_scalar_of_a_later_file_leaves_nothing_of_the_earlier(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - first\n  - _self_\ndeepspeed:\n  a: [1]\n  b: 2\n")
    project.write("first.yaml", "deepspeed:\n  a: [1, 2, 3]\n  b:\n    c: 1\n")
    composed = project.compose()
    assert composed.container["deepspeed"] == {"a": [1], "b": 2}
    written = {path for path in composed.origins.by_path if path.startswith("deepspeed")}
    assert written == {"deepspeed.a", "deepspeed.a[0]", "deepspeed.b"}
    assert composed.origins.of("deepspeed.a") == "conf/config.yaml:6"


def test_an_override_entry_is_named_before_a_plain_one_of_the_same_option(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n  - override optimizer: adamw\n")
    assert project.compose().origins.of("optimizer") == "conf/config.yaml:4"


@pytest.mark.parametrize(
    ("name", "text", "own"),
    [
        ("config", "defaults:\n  - zerocfg\n  - _self_\nmine: 7\n", True),
        ("config", "# mine\ndefaults: [zerocfg, _self_]\nmine: 7\n", True),
        ("config", "defaults:\n- 'zerocfg'  # groups\n- _self_\nmine: 7\n", True),
        ("train", "defaults:\n  - zerocfg\n  - _self_\nmine: 7\n", True),
        ("config", "defaults:\n  - zerocfg_schema\n  - _self_\nmine: 7\n", False),
        ("config", "model: zerocfg\n", False),
    ],
)
def test_a_projects_own_config_is_found(project: Any, name: str, text: str, own: bool) -> None:
    """Without a folder's name conf/config.yaml is composed, as its script does, where it has zerocfg's groups; not another app's."""
    (project.folder / "conf/config.yaml").unlink()
    project.write(f"{name}.yaml", text)
    composed = compose([], config_name=name if name == "train" else None)
    assert composed.diagnostics == []
    assert composed.cfg.get("mine") == (7 if own else None)
    if own:
        assert composed.origins.of("mine").startswith(f"conf/{name}.yaml:")
