"""What is printed for the command line and written as YAML is read back by Hydra and OmegaConf as it was."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from omegaconf import OmegaConf

from zerocfg.compose import surprises
from zerocfg.deepspeed.importer.text import hydra_text, is_name, kept_leaves, override, sayable, yaml_text

TRICKY = [
    *("", "null", "NULL", "true", "False", "on", "off", "yes", "No", "y", "n", "None", "nan", "inf", "-inf", "~", "1", "1.5", "1e5", ".5"),
    *("+1", "012", "0x1f", "1_000", "1:30", "a b", " a", "a ", "a,b", "a=b", "a: b", "- a", "#x", "a#b", "x # y", "'", '"', "a'b", 'a"b'),
    *(
        "\\",
        "a\\",
        "\\\\",
        '\\"',
        "a\\'b",
        "${a}",
        "\\${a}",
        "\\\\${a}",
        "$",
        "a${b}c",
        "[a]",
        "{a:1}",
        "(a)",
        "f(x)",
        "a\nb",
        "a\tb",
        "\x07",
    ),
    *(
        "ü",
        "😀",
        "/a/b",
        "../x",
        "a.b.c",
        "?",
        "!x",
        "&x",
        "*x",
        "|",
        ">",
        "%x",
        "@x",
        "`",
        "\u2028",
        "nan.x",
        "inf/x",
        "=",
        "==",
        "2024-01-01",
    ),
]
texts = st.sampled_from(TRICKY) | st.text(max_size=10) | st.text("\\\"'${}a:, []=#-1eE.nulofy?%&/", max_size=8)
free_names = st.text("abcXYZ_-.1/*einfulNTrs$ :", min_size=1, max_size=6).filter(is_name) | st.sampled_from(
    ["a.b", "nullx", "e5", "inf.x", "t/*"]
)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**63 - 1) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(free_names, inner, max_size=3),
    max_leaves=6,
)
parser = OverridesParser.create()


def through_hydra(value: Any) -> Any:
    parsed = parser.parse_override(f"+deepspeed.a={hydra_text(value)}")
    assert not parsed.is_sweep_override()
    return OmegaConf.to_container(OmegaConf.create({"x": parsed.value()}), resolve=True)["x"]  # type: ignore[index,call-overload]


@pytest.mark.parametrize("text", TRICKY)
def test_a_tricky_text_stays_that_text(text: str, tmp_path: Path) -> None:
    assert through_hydra(text) == text
    assert through_hydra([text, {"a": text}]) == [text, {"a": text}]
    path = tmp_path / "x.yaml"
    path.write_text(yaml_text({"a": text, "b": [text]}), encoding="utf-8")
    assert OmegaConf.to_container(OmegaConf.load(path), resolve=True) == {"a": text, "b": [text]}
    assert surprises.on_command_line(override("deepspeed.a", text)) is None


@settings(max_examples=800, deadline=None)
@given(values)
def test_any_value_survives_the_command_line(value: Any) -> None:
    back = through_hydra(value)
    assert back == value
    assert type(back) is type(value)


@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(free_names, values, min_size=1, max_size=3))
def test_any_value_survives_yaml(tmp_path: Path, tree: dict[str, Any]) -> None:
    path = tmp_path / "x.yaml"
    path.write_text(yaml_text(tree), encoding="utf-8")
    assert OmegaConf.to_container(OmegaConf.load(path), resolve=True) == tree


def test_kept_leaves_are_overrides_of_their_own() -> None:
    kept = {"aio": {"block_size": 1, "free": {"a.b": 1, "c": 2}}, "wandb": {}, "list": [{"a": 1}]}
    assert [override(path, value) for path, value in kept_leaves(kept)] == [
        "deepspeed.aio.block_size=1",
        "deepspeed.aio.free={a.b:1,c:2}",
        "deepspeed.wandb={}",
        "deepspeed.list=[{a:1}]",
    ]


@pytest.mark.parametrize("name", ["1", "a b", "true", "", "a:b", "'a'", "nan", "on", "ü"])
def test_names_that_no_override_can_spell(name: str) -> None:
    assert not sayable({"x": [{name: 1}]})
