"""zerocfg schema: a list for people, JSON Schema for editors."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest

VALIDATOR = jsonschema.Draft202012Validator


@pytest.mark.parametrize("part", [[], ["config"], ["deepspeed"]])
def test_each_part_is_a_schema(cli: Any, part: list[str]) -> None:
    status, out, err = cli("schema", *part, "--json")
    assert (status, err) == (0, "")
    VALIDATOR.check_schema(json.loads(out))


def test_the_whole_schema_checks_a_yaml_config_and_the_json_in_it(cli: Any) -> None:
    check = VALIDATOR(json.loads(cli("schema", "--json")[1]))
    good = {
        "defaults": ["zerocfg"],
        "optimizer": {"lr": 1e-4, "betas": [0.9, 0.95]},
        "parallelism": {"reduce_bucket_size": 5e8, "overlap_comm": None},
        "offload": {"optimizer": "cpu", "nvme_path": "???"},
        "batch": {"global_batch_size": "${mine.batch}", "micro_batch_size": "auto"},
        "deepspeed": {"steps_per_print": 10, "comms_logger": {"enabled": True}},
        "mine": {"batch": 3},
    }
    assert [error.message for error in check.iter_errors(good)] == []
    for path, bad in {
        "optimizer.lr": "fast",
        "parallelism.reduce_bucket_size": 0.5,
        "offload.optimizer": "disk",
        "precision.dtype": "fp8",
        "optimizer.learning_rate": 1e-3,
        "batch.global_batch_size": "8",
        "batch.micro_batch_size": "8",
        "deepspeed.steps_per_print": "10",
        "deepspeed.zero_optimization": {"stage3": 3},
        "deepspeed.bf16": {"enabled": "auto"},
    }.items():
        section, _, name = path.partition(".")
        found = list(check.iter_errors({section: {name: bad}}))
        assert len(found) == 1, path
        assert section in found[0].absolute_path or section == found[0].absolute_path[0]


def test_the_list_is_greppable(cli: Any) -> None:
    status, out, _ = cli("schema")
    lines = out.splitlines()
    assert status == 0
    assert (
        "batch.global_batch_size  whole number  null  Sequences an optimizer step, over all ranks (DeepSpeed: train_batch_size)." in lines
    )
    found = [line for line in lines if line.startswith("deepspeed.zero_optimization.stage  ")]
    assert len(found) == 1
    assert found[0].startswith("deepspeed.zero_optimization.stage  int  0  ")
    assert not [line for line in lines if line != line.strip() or line.count("  ") < 2]


def test_one_part(cli: Any) -> None:
    assert all(not line.startswith("deepspeed.") for line in cli("schema", "config")[1].splitlines())
    assert "steps_per_print  int|null  null  " in cli("schema", "deepspeed")[1]
    status, _, err = cli("schema", "groups")
    assert status == 2
    assert "groups is neither config nor deepspeed" in err
