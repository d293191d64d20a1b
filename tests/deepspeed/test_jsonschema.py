"""The schema of the DeepSpeed JSON: public files without a mistake validate; what the checks call a wrong type does not."""

from __future__ import annotations

import runpy
from pathlib import Path
from typing import Any

import jsonschema
import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.deepspeed.importer.read import parse
from zerocfg.deepspeed.jsonschema import deepspeed_schema
from zerocfg.deepspeed.keys import lookup
from zerocfg.diagnostics import ConfigProblems, Severity

CORPUS: Path = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["corpus"]()
BY_NAME_OR_TYPE = {f"ZC6{number:02}" for number in (1, 2, 3, 8, 9, 10, 20, 21, 22, 25, 26, 27)}
"""Checks that a schema can make: names, types, limits, choices."""


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = deepspeed_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


def test_every_clean_public_config_validates(validator: Any) -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"no public configs at {CORPUS}")
    clean = 0
    for path in sorted((CORPUS / "files").iterdir()):
        try:
            config = parse(path.read_bytes(), path.name)
        except ConfigProblems:
            continue
        if not any(d.severity is Severity.ERROR and d.code != "ZC640" for d in check_deepspeed(config, world_size=None)):
            clean += 1
            assert [error.message for error in validator.iter_errors(config)] == [], path.name
    assert clean > 80


BAD: list[dict[str, Any]] = [
    {"train_batch_size": "8"},
    {"train_batch_size": 0},
    {"train_batch_size": 1.5},
    {"gradient_cliping": 1.0},
    {"zero_optimization": {"stage": 4}},
    {"zero_optimization": {"stage": 2, "offload": {}}},
    {"zero_optimization": {"offload_optimizer": {"device": "disk"}}},
    {"zero_optimization": {"offload_optimizer": {"ratio": 1.5}}},
    {"fp16": True},
    {"fp16": {"enabled": 1}},
    {"bf16": {"loss_scale": 1}},
    {"aio": {"thread_count": 1}},
    {"optimizer": {"type": "AdamW", "lr": 1}},
    {"optimizer": {"type": "AdamW", "params": {"lr": "fast"}}},
    {"scheduler": {"type": "WarmupLR", "params": {"warmup_num_steps": "many"}}},
    {"curriculum_learning": {"enabled": False}},
    {"data_efficiency": {"data_sampling": {"curriculum_learning": {"curriculum_metrics": {"seqlen": {"min_difficulty": "x"}}}}}},
]


@pytest.mark.parametrize("config", BAD, ids=str)
def test_a_wrong_name_or_type_does_not(validator: Any, config: dict[str, Any]) -> None:
    assert list(validator.iter_errors(config))
    found = {d.code for d in check_deepspeed({"train_micro_batch_size_per_gpu": 1, **config}, world_size=None)}
    assert found & BY_NAME_OR_TYPE


GOOD: list[dict[str, Any]] = [
    {},
    {"zero_optimization": True},
    {"bfloat16": {"enabled": True}, "zero_optimization": {"prefetch_bucket_size": 5e7}},
    {"bf16": None, "zero_optimization": {"offload_param": None}},
    {"optimizer": {"type": "SGD", "params": {"lr": 0.1, "nesterov": True}}},
    {"data_efficiency": {"data_sampling": {"curriculum_learning": {"curriculum_metrics": {"seqlen": {"min_difficulty": 8}}}}}},
    {"data_types": {"keep_in_fp32_modules": "auto"}},
]


@pytest.mark.parametrize("config", GOOD, ids=str)
def test_every_form_that_deepspeed_reads_does(validator: Any, config: dict[str, Any]) -> None:
    assert [error.message for error in validator.iter_errors(config)] == []


def test_every_key_has_a_description() -> None:
    def walk(node: dict[str, Any], path: str) -> None:
        for name, schema in node.get("properties", {}).items():
            here = f"{path}.{name}" if path else name
            key = lookup(here)
            assert key is None or not key.doc or schema["description"] == key.doc, here
            walk(schema, here)

    walk(deepspeed_schema(), "")
