"""The schema of the groups: every option that ships validates, and a wrong value of each field does not."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jsonschema
import pytest
from omegaconf import OmegaConf

from zerocfg.confsource import conf_dir
from zerocfg.schema import GROUPS, SECTIONS
from zerocfg.schema.describe import describe
from zerocfg.schema.jsonschema import groups_schema, section_schema

OPTIONS = sorted(path for group in GROUPS for path in (conf_dir() / group).glob("*.yaml"))


@pytest.fixture(scope="module")
def validator() -> Any:
    schema = groups_schema()
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize("path", OPTIONS, ids=lambda path: f"{path.parent.name}-{path.stem}")
def test_each_option_validates(validator: Any, path: Path) -> None:
    content = OmegaConf.to_container(OmegaConf.load(path), resolve=False)
    assert isinstance(content, dict)
    content.pop("defaults", None)
    assert [error.message for error in validator.iter_errors({path.parent.name: content})] == []


@pytest.mark.parametrize(("name", "cls"), {**GROUPS, **SECTIONS}.items())
def test_each_field_takes_its_default_and_refuses_a_mapping(validator: Any, name: str, cls: type) -> None:
    assert set(section_schema(cls)["properties"]) == {field.name for field in describe(cls)}
    for field in describe(cls):
        default = getattr(field.default, "value", field.default)
        assert [error.message for error in validator.iter_errors({name: {field.name: default}})] == []
        assert list(validator.iter_errors({name: {field.name: {"a": 1}}})), field.name
    assert list(validator.iter_errors({name: {"no_such_field": 1}}))


def test_an_app_may_have_keys_of_its_own(validator: Any) -> None:
    assert [*validator.iter_errors({"mine": {"anything": [1]}, "defaults": ["zerocfg", "_self_"]})] == []
