"""Mistakes in a user's config files: file and line, all in one report."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from zerocfg.cli.outcome import examine_overrides
from zerocfg.compose import Composed, compose
from zerocfg.diagnostics import in_order, render_report

Told = Callable[[Composed], list[tuple[str, str, str, str]]]


def test_whole_report_of_a_file_full_of_mistakes(project: Any) -> None:
    project.write(
        "config.yaml",
        """\
        defaults:
          - zerocfg
          - _self_
          - override optimizer: mine
        train:
          steps: 012
          lr: 3
          seed: 1:30
        model:
          name: off
        env:
          NCCL_DEBUG: yes
          RELEASE: 1.50
          PLAIN: 8
        deepspeed:
          wall_clock_breakdown: off
          steps_per_print: 1_000
        offload:
          param: off
          ratio: abc
        precision:
          tf32: yes
        batch:
          global_batch_size: "32"
        """,
    )
    project.write("optimizer/mine.yaml", "name: mine\nlr: 5e-4\nlrr: 3\nbetas: [a, 0.9]\n")
    composed = project.compose("optimizer.eps=x")
    assert (
        render_report(composed.diagnostics)
        == """\
error[ZC111] optimizer.lrr does not exist
  decided by: conf/optimizer/mine.yaml:3
  try: optimizer.lr
error[ZC111] train.lr does not exist
  decided by: conf/config.yaml:7
  try: optimizer.lr
error[ZC112] batch.global_batch_size=32 is text, not a whole number
  decided by: conf/config.yaml:24
  try: global_batch_size: 32
error[ZC112] offload.ratio=abc is text, not a number
  decided by: conf/config.yaml:20
  try: ratio: NUMBER
error[ZC112] optimizer.betas=['a', 0.9] is a list, not a list of numbers
  decided by: conf/optimizer/mine.yaml:4
  try: betas: [NUMBER,NUMBER]
error[ZC112] optimizer.eps=x is text, not a number
  decided by: command line: optimizer.eps=x
  try: optimizer.eps=NUMBER
error[ZC115] deepspeed.wall_clock_breakdown: off is the truth value false to YAML
  decided by: conf/config.yaml:16
  try: wall_clock_breakdown: false, or "off" for the word
error[ZC115] env.NCCL_DEBUG: yes is the truth value true to YAML
  decided by: conf/config.yaml:12
  try: NCCL_DEBUG: "yes"
error[ZC115] env.RELEASE: 1.50 is the number 1.5 to YAML
  decided by: conf/config.yaml:13
  try: RELEASE: "1.50"
error[ZC115] model.name: off is the truth value false to YAML
  decided by: conf/config.yaml:10
  try: name: "off"
error[ZC115] offload.param: off is the truth value false to YAML
  decided by: conf/config.yaml:19
  try: param: none
error[ZC115] train.seed: 1:30 is the number 90 (base 60) to YAML
  decided by: conf/config.yaml:8
  try: seed: 90
error[ZC115] train.steps: 012 is the octal number 10 to YAML
  decided by: conf/config.yaml:6
  try: steps: 12

13 errors"""
    )
    # what holds stands
    assert composed.container["optimizer"]["lr"] == 5e-4
    assert composed.container["precision"]["tf32"] is True
    assert composed.container["deepspeed"]["steps_per_print"] == 1000
    assert composed.container["env"]["PLAIN"] == 8


@pytest.mark.parametrize(
    ("text", "code", "words", "where"),
    [
        ("defaults:\n  - zerocfg\n  - _self_\ntrain: {steps: 3\nseed: [\n", "ZC117", "conf/app.yaml:5 is not YAML", ""),
        ("train: {}\ntrain: {}\n", "ZC117", "conf/app.yaml:2 is not YAML: found duplicate key train", ""),
        ("defaults: 3\n", "ZC117", "defaults must be a list", ""),
        ("- 1\n", "ZC117", "must be a DictConfig", ""),
        ("defaults:\n  - override hydra/launcher: basic\n  - zerocfg\n", "ZC117", "is defined before", "conf/app.yaml:2"),
        ("defaults:\n  - zerocfg\n  - override optimzer: adam\n", "ZC117", "Could not override 'optimzer'", "conf/app.yaml:3"),
        ("defaults:\n  - zerocfg\n  - missing\n", "ZC117", "Could not load 'missing'", "conf/app.yaml"),
        ("defaults:\n  - zerocfg\n  - app\n", "ZC117", "a defaults list includes its own config", ""),
        ("defaults:\n  - zerocfg\n  - override optimizer: adamm\n", "ZC110", "optimizer has no option adamm", "conf/app.yaml:3"),
        ("mine: 3\n", "ZC174", "app has none of zerocfg's groups", ""),
        ("", "ZC174", "app has none of zerocfg's groups", ""),
        ("model: {hidden_size: 3}\n", "ZC174", "app has none of zerocfg's groups", ""),
    ],
)
def test_a_primary_config_that_does_not_compose(project: Any, text: str, code: str, words: str, where: str) -> None:
    project.write("app.yaml", text)
    composed = project.compose(name="app")
    (found,) = composed.diagnostics
    assert found.code == code
    assert words in found.message
    assert found.decided_by == where
    assert found.hint
    assert composed.container == {}


def test_a_file_that_is_not_utf8_is_named(project: Any) -> None:
    (project.folder / "conf" / "app.yaml").write_bytes(b"\xff\xfe\n")
    (found,) = project.compose(name="app").diagnostics
    assert (found.code, found.message) == ("ZC117", "conf/app.yaml is not UTF-8: invalid start byte")


def test_a_broken_option_costs_only_itself(project: Any) -> None:
    project.write("optimizer/broken.yaml", "lr: [\n")
    composed = project.compose("optimizer=broken", "train.steps=3", "train.seed=x")
    assert [(d.code, d.path) for d in composed.diagnostics] == [("ZC117", "optimizer"), ("ZC112", "train.seed")]
    assert composed.diagnostics[0].message.startswith("conf/optimizer/broken.yaml:2 is not YAML")
    assert composed.container["train"]["steps"] == 3
    assert composed.container["optimizer"]["name"] == "adamw"


def test_the_fixed_order_of_overrides_is_the_hint(project: Any) -> None:
    project.write("app.yaml", "defaults:\n  - override hydra/launcher: basic\n  - zerocfg\n")
    (found,) = project.compose(name="app").diagnostics
    assert found.hint == "move the lines with `override` to the end of its defaults list"


def test_open_choices_and_open_values_are_all_listed(project: Any) -> None:
    project.write(
        "config.yaml",
        """\
        defaults:
          - zerocfg
          - _self_
          - override model: ???
          - override optimizer: ???
        train:
          steps: ???
        batch:
          micro_batch_size: ???
        """,
    )
    composed = project.compose()
    found = in_order(composed.diagnostics)
    assert [(d.code, d.path) for d in found] == [("ZC118", "model"), ("ZC118", "optimizer")]
    assert "gpt_tiny, llama2_13b" in found[0].detail[0]
    # the later passes list these with everything else
    assert composed.container["train"]["steps"] == "???"
    assert composed.container["batch"]["micro_batch_size"] == "???"


def test_a_choice_on_the_command_line_closes_it(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n  - override model: ???\n")
    composed = project.compose("model=gpt_1b3")
    assert composed.diagnostics == []
    assert composed.container["model"]["name"] == "gpt_1b3"


def test_interpolations_that_fail_have_their_full_path(project: Any, told: Told, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NOT_SET", raising=False)
    monkeypatch.setenv("SET", "007")
    project.write(
        "config.yaml",
        """\
        defaults:
          - zerocfg
          - _self_
        train:
          seed: ${oc.env:NOT_SET}
          data: ${nothing.there}
          steps: ${oc.env:SET}
          log_every: ${train.num_workers}
        optimizer:
          betas: ["${train.seedd}", 0.9]
        env:
          DEEP: ${oc.decode:"["}
        """,
    )
    composed = project.compose("train.num_workers=4")
    assert [(d.code, d.path, d.decided_by) for d in composed.diagnostics] == [
        ("ZC102", "optimizer.betas[0]", "conf/config.yaml:10"),
        ("ZC102", "train.seed", "conf/config.yaml:5"),
        ("ZC102", "train.data", "conf/config.yaml:6"),
        ("ZC102", "env.DEEP", "conf/config.yaml:12"),
    ]
    hints = {d.path: d.hint for d in composed.diagnostics}
    assert hints["train.seed"] == "export NOT_SET=..., or ${oc.env:NOT_SET,DEFAULT}"
    # text of the environment stays text: loading says that it is no number
    assert composed.container["train"]["steps"] == "007"
    assert composed.container["train"]["log_every"] == 4
    assert "seed" not in composed.container["train"]


def test_hydras_own_values_resolve_as_in_the_first_job(project: Any) -> None:
    project.write(
        "config.yaml",
        """\
        defaults:
          - zerocfg
          - _self_
        hydra:
          sweep: {dir: out, subdir: "${hydra.job.num}"}
        env:
          OUT: ${hydra:runtime.output_dir}
          APP: ${hydra:job.name}
        """,
    )
    composed = project.compose()
    assert composed.diagnostics == []
    assert composed.container["env"] == {"OUT": str(project.folder / "out" / "0"), "APP": "train"}


def test_an_option_written_where_the_groups_values_go(project: Any) -> None:
    """One problem: nothing is said of what a machine without any facts lacks."""
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\nhardware: cpu\n")
    result = examine_overrides([], "conf", None)
    assert [(d.code, d.decided_by) for d in result.diagnostics] == [("ZC105", "conf/config.yaml:4")]
    assert result.diagnostics[0].hint == "instead, in the defaults list: - override hardware: cpu"


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ("defaults: [_self_, zerocfg]\ntrain: {steps: 3}\nmine: 1\n", "train.steps of conf/config.yaml has no effect"),
        ("defaults: [base, zerocfg, _self_]\ntrain: {seed: 1}\n", "train.steps, optimizer.lr of conf/base.yaml has no effect"),
        ("defaults: [base, zerocfg, _self_]\ntrain: {seed: 1, steps: 4}\noptimizer: {lr: 2.0}\n", None),
        ("defaults: [zerocfg, base, _self_]\ntrain: {seed: 1}\n", None),
        ("defaults: [zerocfg, {override optimizer: own}]\n", None),
        ("defaults: [zerocfg, {override optimizer: early}]\n", "optimizer.lr of conf/optimizer/early.yaml has no effect"),
    ],
)
def test_values_that_zerocfgs_own_are_merged_over(project: Any, config: str, message: str | None) -> None:
    project.write("base.yaml", "train: {steps: 7}\noptimizer:\n  lr: 1.0\n")
    project.write("optimizer/own.yaml", "defaults: [adamw, _self_]\nlr: 1.0\n")
    project.write("optimizer/early.yaml", "defaults: [_self_, adamw]\nlr: 1.0\n")
    project.write("config.yaml", config)
    found = project.compose().diagnostics
    assert [d.message.partition(":")[0] for d in found] == ([] if message is None else [message])
    assert all(
        (d.code, d.severity.label, d.hint) == ("ZC176", "warning", "in the defaults list: zerocfg first, _self_ last") for d in found
    )


@pytest.mark.parametrize(
    ("override", "hint"),
    [("+experiment=smal", "+experiment=small"), ("+experiment=zzz", "+experiment=OPTION"), ("+model=gpt_tinny", "model=gpt_tiny")],
)
def test_an_option_that_is_added_is_told_with_its_plus(project: Any, override: str, hint: str) -> None:
    """A group of the project's own that no defaults list names is added; zerocfg's are in the list."""
    project.write("experiment/small.yaml", "# @package _global_\ntrain: {steps: 7}\n")
    assert [d.hint for d in project.compose(override).diagnostics if d.code == "ZC110"] == [hint]
    assert not hint.endswith("small") or project.compose(hint).diagnostics == []


def test_an_experiment_that_loses_its_override_is_told(project: Any, told: Told) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\n  - override parallelism: zero2\n")
    project.write("experiment/e.yaml", "# @package _global_\ndefaults:\n  - override /parallelism: zero1\ntrain: {steps: 7}\n")
    composed = project.compose("+experiment=e")
    assert composed.container["parallelism"]["name"] == "zero2"
    assert composed.container["train"]["steps"] == 7
    assert told(composed) == [("ZC119", "parallelism", "conf/experiment/e.yaml:3", "parallelism=zero1 on the command line")]
    assert project.compose("+experiment=e", "parallelism=zero3").diagnostics == []


def test_a_search_path_entry_that_is_not_there_is_told(project: Any) -> None:
    project.write("config.yaml", "defaults:\n  - zerocfg\n  - _self_\nhydra:\n  searchpath: [file://nope]\n")
    (found,) = project.compose().diagnostics
    assert found.code == "ZC170"
    assert "path=nope is not available" in found.message


def test_options_of_a_search_path_entry_count_in_a_failure_too(project: Any) -> None:
    extra = project.folder / "more" / "optimizer"
    extra.mkdir(parents=True)
    (extra / "special.yaml").write_text("name: special\nlr: 7.0\n")
    project.write("config.yaml", f"defaults:\n  - zerocfg\n  - _self_\nhydra:\n  searchpath: [file://{project.folder}/more]\n")
    composed = project.compose("optimizer=special", "nope=1")
    assert [d.path for d in composed.diagnostics] == ["nope"]
    assert composed.container["optimizer"]["lr"] == 7.0
    assert composed.origins.of("optimizer.lr") == "more/optimizer/special.yaml:2"


@pytest.mark.parametrize(
    ("path", "name", "words", "hint"),
    [
        ("nowhere", None, "there is no folder", "a folder with a config.yaml"),
        ("conf/config.yaml", None, "is a file, not a folder", "conf --config-name config"),
        ("empty", None, "there is no config.yaml in", "zerocfg init"),
        ("conf", "confg", "there is no confg.yaml in", "--config-name config"),
        ("pkg://no.such.module", None, "Primary config module 'no.such.module' not found", "--config-path"),
    ],
)
def test_a_primary_config_that_is_not_there(project: Any, path: str, name: str | None, words: str, hint: str) -> None:
    (project.folder / "empty").mkdir()
    composed = compose([], config_path=path, config_name=name)
    (found,) = composed.diagnostics
    assert found.code == "ZC114"
    assert words in found.message
    assert hint in found.hint
    assert composed.container == {}


def test_the_packaged_primary_config_composes_from_any_folder_by_name(project: Any) -> None:
    composed = project.compose(name="zerocfg")
    assert composed.diagnostics == []
    assert composed.container["parallelism"]["stage"] == 3
