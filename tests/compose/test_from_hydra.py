"""What a launcher hands over: a config that Hydra composed, and the overrides that made it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hydra import compose as hydra_compose
from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from omegaconf import DictConfig, OmegaConf

from zerocfg.compose import compose, compose_job, from_hydra, hydra_api, uses_groups
from zerocfg.compose.origins import read_sources
from zerocfg.confsource import conf_dir


def by_hydra(folder: str, name: str, overrides: Sequence[str]) -> DictConfig:
    GlobalHydra.instance().clear()
    with initialize_config_dir(folder, version_base=None, job_name="train"):
        return hydra_compose(name, list(overrides), return_hydra_config=True)


def test_the_same_as_the_command_line_gives(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n  - override optimizer: lion\ntrain: {steps: 7}\nenv: {A: x}\n")
    overrides = ["parallelism=zero2", "optimizer.lr=2e-5", "+env.B=y", "hydra.job.name=other"]
    mine = project.compose(*overrides)
    cfg = by_hydra(f"{project.folder}/conf", "config", overrides)
    theirs = from_hydra(cfg, [o for o in overrides if not o.startswith("hydra.")])
    assert theirs.cfg is cfg
    assert theirs.diagnostics == mine.diagnostics == []
    assert theirs.container == mine.container
    assert {p: o.source for p, o in theirs.origins.by_path.items()} == {p: o.source for p, o in mine.origins.by_path.items()}
    assert theirs.origins.of("train.steps") == "conf/config.yaml:5"
    assert theirs.origins.of("optimizer.lr") == "command line: optimizer.lr=2e-5"
    assert theirs.origins.of("optimizer") == "conf/config.yaml:4"


def test_what_a_caller_has_kept_saves_hydras_work_and_changes_nothing(project: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    overrides = ["parallelism=zero2", "optimizer.lr=2e-5"]
    cfg = by_hydra(f"{project.folder}/conf", "config", overrides)
    plain = from_hydra(cfg, overrides)
    loader = hydra_api.loader_like(cfg)
    defaults = loader.compute_defaults_list("config", overrides, hydra_api.RunMode.RUN).defaults
    parsed = [hydra_api.parse(text) for text in overrides]
    sources = read_sources(hydra_api.parts_of(defaults, loader.get_sources()), packaged_main=False)
    monkeypatch.setattr(hydra_api, "create_defaults_list", None)
    kept = from_hydra(cfg, overrides, parsed=parsed, sources=sources)
    assert kept.container == plain.container
    assert kept.origins == plain.origins


def test_our_own_folder_as_an_apps_primary_folder_gets_real_paths(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(conf_dir().parent)
    cfg = by_hydra(str(conf_dir()), "zerocfg", [])
    assert from_hydra(cfg, []).origins.of("parallelism.stage").startswith(f"{conf_dir().name}/parallelism/zero3.yaml:")


def test_surprises_are_found_in_what_hydra_took_without_a_word(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\ntrain: {steps: 012}\n")
    overrides = ["optimizer.lr=012"]
    cfg = by_hydra(f"{project.folder}/conf", "config", overrides)
    assert cfg.optimizer.lr == 12.0
    assert cfg.train.steps == 10
    found = from_hydra(cfg, overrides).diagnostics
    assert [(d.code, d.path, d.decided_by) for d in found] == [
        ("ZC115", "optimizer.lr", "command line: optimizer.lr=012"),
        ("ZC115", "train.steps", "conf/config.yaml:4"),
    ]


def test_an_app_without_our_groups(project: Any) -> None:
    project.write("app.yaml", "model: {depth: 3}\nlr: 1\n")
    cfg = by_hydra(f"{project.folder}/conf", "app", [])
    assert not uses_groups(cfg)
    assert uses_groups(by_hydra(f"{project.folder}/conf", "config", []))


def test_a_job_of_an_app_with_its_mistakes_collected(project: Any) -> None:
    app = by_hydra(f"{project.folder}/conf", "config", ["hydra.job.name=mine"])
    job = compose_job(app, ["optimizer=lion", "train.stepz=3", "model=zero"])
    assert [(d.code, d.path) for d in job.diagnostics] == [("ZC110", "model"), ("ZC111", "train.stepz")]
    assert job.container["optimizer"]["name"] == "lion"
    assert job.cfg.hydra.job.name == "mine"


def test_the_composition_is_hydras_own() -> None:
    overrides = ["parallelism=zero2", "optimizer.lr=2e-5", "+mine=3", "~env", "precision=fp16"]
    mine = compose(overrides).cfg
    theirs = by_hydra(str(conf_dir()), "zerocfg", overrides)
    for cfg in (mine, theirs):
        # where and when, not what
        cfg.hydra.run.dir = cfg.hydra.sweep.dir = "x"
    assert OmegaConf.to_container(mine, resolve=False) == OmegaConf.to_container(theirs, resolve=False)
