"""Bad overrides: each is found, all in one report, and what is left is composed."""

from __future__ import annotations

import shlex

import pytest

from zerocfg.compose import Composed, compose
from zerocfg.diagnostics import Severity, render_report

BAD = [
    ("parallelism=zero33", "ZC110", "parallelism", "parallelism has no option zero33", "parallelism=zero3 or"),
    ("parallelism=3", "ZC110", "parallelism", "parallelism has no option 3", "parallelism=OPTION"),
    ("hardware=A100x4", "ZC110", "hardware", "hardware has no option A100x4", "hardware=a100x4"),
    ("model=llama2_7b.yml", "ZC110", "model", "model has no option llama2_7b.yml", "model=llama2_7b"),
    ("optimizer=[adam,adamx]", "ZC110", "optimizer", "optimizer has no option adamx", "optimizer=adam"),
    ("paralelism=zero1", "ZC111", "paralelism", "paralelism does not exist", "parallelism=zero1"),
    ("optimizer.lrr=1", "ZC111", "optimizer.lrr", "optimizer.lrr does not exist", "optimizer.lr=1"),
    ("optimizer.learning_rate=1", "ZC111", "optimizer.learning_rate", "does not exist", "optimizer.lr=1"),
    ("train.lr=1", "ZC111", "train.lr", "lr is a key of optimizer", "optimizer.lr=1"),
    ("parallelism.dtype=bf16", "ZC111", "parallelism.dtype", "dtype is a key of precision", "precision.dtype=bf16"),
    ("train_batch_size=8", "ZC111", "train_batch_size", "does not exist", "batch.global_batch_size=8"),
    ("batch.zzz=8", "ZC111", "batch.zzz", "batch.zzz does not exist", "one of the keys of batch"),
    ("zzz=8", "ZC111", "zzz", "zzz does not exist", "+zzz=8"),
    ("hardware={num_node: 2}", "ZC111", "hardware", "hardware.num_node does not exist", "hardware.num_nodes"),
    ("hardware={zzz: 2}", "ZC111", "hardware", "hardware.zzz does not exist", "one of name, "),
    (
        "hardware={num_nodes: x}",
        "ZC112",
        "hardware.num_nodes",
        "hardware.num_nodes=x is text, not a whole number",
        "hardware.num_nodes=NUMBER",
    ),
    ("parallelism/stage=3", "ZC111", "parallelism/stage", "a key is written with dots", "parallelism.stage=3"),
    ("hydra.launcher=basic", "ZC111", "hydra.launcher", "its name has a slash", "hydra/launcher=basic"),
    ("deepspeed.wall_clock_breakdown=true", "ZC111", "deepspeed.wall_clock_breakdown", "needs a +", "+deepspeed.wall_clock_breakdown=true"),
    ("env.NCCL_DEBUG=INFO", "ZC111", "env.NCCL_DEBUG", "needs a +", "+env.NCCL_DEBUG=INFO"),
    ("+train.steps=3", "ZC111", "train.steps", "is there already", "train.steps=3"),
    ("~train.stepz", "ZC111", "train.stepz", "no train.stepz to delete", "~train.steps"),
    ("~nothing", "ZC111", "nothing", "no nothing to delete", "leave it out"),
    ("optimizer.lr=abc", "ZC112", "optimizer.lr", "optimizer.lr=abc is text, not a number", "optimizer.lr=NUMBER"),
    ("optimizer.lr=true", "ZC112", "optimizer.lr", "optimizer.lr=true is true or false, not a number", "NUMBER"),
    ('train.steps="8"', "ZC112", "train.steps", "train.steps=8 is text, not a whole number", "train.steps=8"),
    ("train.steps=null", "ZC112", "train.steps", "it cannot be left open", "NUMBER"),
    ("offload.param=gpu", "ZC112", "offload.param", "not one of none, cpu, nvme", "offload.param="),
    ("offload.param=CPU", "ZC112", "offload.param", "not one of none, cpu, nvme", "offload.param=cpu"),
    ("offload.param=off", "ZC112", "offload.param", "not one of none, cpu, nvme", "offload.param=none"),
    ("optimizer.betas=3", "ZC112", "optimizer.betas", "is a number, not a list of numbers", "optimizer.betas=[3]"),
    ("train.pin_memory=maybe", "ZC112", "train.pin_memory", "is text, not true or false", "true"),
    ("optimizer.type=[a]", "ZC112", "optimizer.type", "is a list, not text", "TEXT"),
    ("train.steps", "ZC113", "", "train.steps is not an override: missing EQUAL", "train.steps=VALUE, or ~train.steps"),
    ("zero3", "ZC113", "", "zero3 is not an override", "parallelism=zero3"),
    ("-x=3", "ZC113", "-x", "it has a character that must be quoted", "x=3; options of zerocfg stand before --"),
    ("model.name=$(rm -rf x)", "ZC113", "model.name", "$(rm -rf x) is not an override", "'model.name=\"$(rm -rf x)\"'"),
    ("model.name=it's", "ZC113", "model.name", "it's is not an override", "'model.name=\"it'\"'\"'s\"'"),
    ("model.name=^x", "ZC113", "model.name", "^x is not an override", "'model.name=\"^x\"'"),
    ("model.name=a=b", "ZC113", "model.name", "a=b is not an override", "'model.name=\"a=b\"'"),
    ("model.hf_config=~/m", "ZC113", "model.hf_config", "~/m is not an override", "'model.hf_config=\"~/m\"'"),
    ("model.name=a\nb", "ZC113", "model.name", r"'model.name=a\nb' is not an override", "'model.name=\"a\nb\"'"),
    ("optimizer.lr=1e-4,2e-4", "ZC116", "optimizer.lr", "asks for several runs", "one value"),
    ("model.hf_config=a,b", "ZC116", "model.hf_config", "asks for several runs", "'model.hf_config=\"a,b\"' for a text with a comma"),
    ("optimizer.betas=0.9,0.99", "ZC116", "optimizer.betas", "asks for several runs", "optimizer.betas=[0.9,0.99] for a list"),
    ("train.steps=range(1,4)", "ZC116", "train.steps", "asks for several runs", "one value"),
    ("model=glob(*)", "ZC116", "model", "asks for several runs", "one value"),
]
"""override, code, path, words of the message, words of the hint"""


@pytest.fixture(scope="module")
def all_at_once() -> Composed:
    return compose([*(override for override, *_ in BAD), "train.seed=7"])


@pytest.mark.parametrize(("override", "code", "path", "message", "hint"), BAD, ids=[repr(row[0]) for row in BAD])
def test_each_bad_override(all_at_once: Composed, override: str, code: str, path: str, message: str, hint: str) -> None:
    shown = override if override.isprintable() else repr(override)
    (found,) = [d for d in all_at_once.diagnostics if d.decided_by == f"command line: {shown}"]
    assert (found.code, found.path, found.severity) == (code, path, Severity.ERROR)
    assert message in found.message
    assert hint in found.hint


def test_none_hides_another_and_what_is_left_is_composed(all_at_once: Composed) -> None:
    assert len(all_at_once.diagnostics) == len(BAD)
    assert all_at_once.container["train"] == {**compose([]).container["train"], "seed": 7}


@pytest.mark.parametrize("quoted", ["'model.name=\"$(rm -rf x)\"'", "'model.name=\"a=b\"'", "'model.name=\"it'\"'\"'s\"'"])
def test_the_quoting_that_a_hint_gives_is_accepted(quoted: str) -> None:
    (override,) = shlex.split(quoted)
    composed = compose([override])
    assert composed.diagnostics == []
    assert composed.container["model"]["name"] == override.split("=", 1)[1].strip('"')


def test_whole_report_of_many_mistakes() -> None:
    composed = compose(
        [
            "parallelism=zero9x",
            "hardware=a100x44",
            "optimizer.lrr=1",
            "optimizer.lr=fast",
            "train.steps=012",
            "foo",
            "batch.micro_batch_size=1,2",
        ]
    )
    assert (
        render_report(composed.diagnostics)
        == """\
error[ZC110] hardware=a100x44: hardware has no option a100x44
  options: a100_40gb_x8, a100x4, a100x8, a10_x4, auto, b200x8, cpu, h100x8, h200x2, h200x4, h200x8, l40s_x4, rtx4090_x2, v100x4
  decided by: command line: hardware=a100x44
  try: hardware=a100x4 or hardware=v100x4 or hardware=a10_x4
error[ZC110] parallelism=zero9x: parallelism has no option zero9x
  options: auto, ddp, zero1, zero2, zero3, zeropp
  decided by: command line: parallelism=zero9x
  try: parallelism=zero3 or parallelism=zero2 or parallelism=zero1
error[ZC111] optimizer.lrr does not exist
  decided by: command line: optimizer.lrr=1
  try: optimizer.lr=1
error[ZC112] optimizer.lr=fast is text, not a number
  decided by: command line: optimizer.lr=fast
  try: optimizer.lr=NUMBER
error[ZC113] foo is not an override: missing EQUAL at '<EOF>'
  an override is KEY=VALUE, +KEY=VALUE or ~KEY; values with , = ( ) [ ] { } # ~ ^ or quotes in them are quoted
  decided by: command line: foo
  try: foo=VALUE, or ~foo to delete it
error[ZC115] train.steps=012 is text on the command line, because of its leading zero, and octal in YAML
  decided by: command line: train.steps=012
  try: train.steps=12
error[ZC116] batch.micro_batch_size=1,2 asks for several runs; this command takes one
  the training script runs sweeps: python train.py -m batch.micro_batch_size=1,2
  decided by: command line: batch.micro_batch_size=1,2
  try: one value

7 errors"""
    )
    # the option that was nearest stands in, so that later passes judge what was meant
    assert composed.container["hardware"]["name"] == "a100x4"


def test_overrides_that_hold_stay_in_the_users_order() -> None:
    composed = compose(["optimizer.lr=1", "optimizer=lion", "nope=1", "optimizer.lr=2"])
    assert [d.path for d in composed.diagnostics] == ["nope"]
    assert composed.container["optimizer"]["name"] == "lion"
    assert composed.container["optimizer"]["lr"] == 2.0


def test_hydra_overrides_work_as_usual() -> None:
    composed = compose(["hydra.job.name=other", "hydra/launcher=basic"])
    assert composed.diagnostics == []
    assert composed.cfg.hydra.job.name == "other"
    assert composed.cfg.hydra.runtime.choices["hydra/launcher"] == "basic"


def test_a_clean_config_has_no_problem_and_typed_numbers() -> None:
    composed = compose(["optimizer.lr=2e-5", "parallelism.reduce_bucket_size=5e8", "optimizer.eps=1e-8", "+env.X=a b"])
    assert composed.diagnostics == []
    assert composed.container["optimizer"]["lr"] == 2e-5
    assert composed.container["parallelism"]["reduce_bucket_size"] == 500000000
    assert composed.container["optimizer"]["eps"] == 1e-8
    assert composed.container["env"] == {"X": "a b"}


def test_hydras_global_state_is_put_back() -> None:
    from hydra.core.global_hydra import GlobalHydra
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.utils import JobRuntime
    from hydra.version import getbase

    before = (GlobalHydra.instance().is_initialized(), HydraConfig.instance().cfg, JobRuntime.instance().get("name"), getbase())
    compose(["+env.X=${hydra:runtime.cwd}", "nope=1"])
    assert (GlobalHydra.instance().is_initialized(), HydraConfig.instance().cfg, JobRuntime.instance().get("name"), getbase()) == before
