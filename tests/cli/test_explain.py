from __future__ import annotations

import re
from typing import Any

import pytest

from zerocfg.cli.explain import split_key

LINE = re.compile(r"^[^\s=]+ = .*  # .+$")


def test_the_pass_and_the_rule_of_one_value(cli: Any) -> None:
    status, out, err = cli("explain", "zero_optimization.reduce_bucket_size", "parallelism=zero3", "hardware=a100x4", "model=llama2_7b")
    assert (status, err) == (0, "")
    assert out == ("zero_optimization.reduce_bucket_size = 100000000  # resolve.zero: 1e8 at most: a block has 202383360 parameters\n")


def test_every_leaf_is_one_greppable_line(cli: Any) -> None:
    status, out, _ = cli("explain", "hardware=a100x4", "+env.NOTE='two\nlines'")
    assert status == 0
    lines = out.splitlines()
    assert all(LINE.match(line) for line in lines), [line for line in lines if not LINE.match(line)]
    paths = [line.split(" = ")[0] for line in lines]
    assert len(set(paths)) == len(paths)
    assert {"train_batch_size", "optimizer.params.lr", "torchrun.nproc-per-node", "environment.OMP_NUM_THREADS"} <= set(paths)
    assert r'environment.NOTE = "two\nlines"' in out


def test_a_key_stands_for_all_below_it(cli: Any) -> None:
    _, out, _ = cli("explain", "optimizer", "hardware=a100x4", "optimizer.lr=2e-5")
    assert [line.split(" = ")[0] for line in out.splitlines()] == [
        "optimizer.type",
        "optimizer.params.lr",
        "optimizer.params.betas",
        "optimizer.params.eps",
        "optimizer.params.weight_decay",
    ]
    assert "optimizer.params.lr = 2e-05  # command line: optimizer.lr=2e-5" in out


def test_the_start_of_a_word_is_not_a_key(cli: Any) -> None:
    assert cli("explain", "optim", "hardware=a100x4")[0] == 1


def test_a_key_of_the_config(cli: Any) -> None:
    status, out, _ = cli("explain", "batch.global_batch_size", "hardware=a100x4", "batch.global_batch_size=64")
    assert status == 0
    assert out == "config.batch.global_batch_size = 64  # command line: batch.global_batch_size=64\n"
    _, out, _ = cli("explain", "config.optimizer.lr", "hardware=a100x4")
    assert re.fullmatch(r"config\.optimizer\.lr = [0-9.e-]+  # zerocfg/optimizer/adamw\.yaml:\d+\n", out)


@pytest.mark.parametrize(
    ("key", "hint"),
    [
        ("zero_optimization.reduce_bucket_sise", "zero_optimization.reduce_bucket_size"),
        ("reduce_bucket_size", "zero_optimization.reduce_bucket_size"),
        ("optimizer.params.learning", "optimizer.params.lr"),
        ("config.qqqq", "try: one of config.activation_checkpointing, config.batch, config.checkpoint, "),
        ("qqqq", "one of "),
    ],
)
def test_an_unknown_key_is_told_with_the_nearest(cli: Any, key: str, hint: str) -> None:
    status, out, err = cli("explain", key, "hardware=a100x4")
    assert (status, out) == (1, "")
    assert err.startswith(f"error[ZC180] {key} is neither emitted nor a key of the config\n")
    assert hint in err
    assert len(err) < 800


def test_a_key_of_the_projects_own(cli: Any, tmp_path: Any) -> None:
    (tmp_path / "conf").mkdir()
    (tmp_path / "conf/config.yaml").write_text("defaults:\n  - zerocfg\nwidth: 64\ndata: {root: '${oc.env:SECRET_FOLDER}'}\n")
    assert cli("explain", "width", "hardware=a100x4")[1] == "config.width = 64  # conf/config.yaml:3\n"
    assert cli("explain", "data", "hardware=a100x4")[1] == "config.data.root = ${oc.env:SECRET_FOLDER}  # conf/config.yaml:4\n"


def test_a_config_with_errors_explains_nothing(cli: Any) -> None:
    status, out, err = cli("explain", "optimizer", "hardware=a100x44")
    assert (status, out) == (1, "")
    assert err.startswith("error[ZC110]")


@pytest.mark.parametrize(
    ("words", "key", "overrides"),
    [
        (["a.b", "c=d"], "a.b", ["c=d"]),
        (["c=d", "a.b", "e=f"], "a.b", ["c=d", "e=f"]),
        (["c=d"], None, ["c=d"]),
        (["~x", "a.b"], "a.b", ["~x"]),
        ([], None, []),
    ],
)
def test_the_key_is_the_first_word_without_an_equals_sign(words: list[str], key: str | None, overrides: list[str]) -> None:
    assert split_key(words) == (key, overrides)
