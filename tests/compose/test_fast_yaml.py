"""libyaml with OmegaConf's tables reads what OmegaConf reads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml
from hydra._internal.core_plugins.file_config_source import FileConfigSource
from omegaconf import OmegaConf

from zerocfg.compose.fast_yaml import FastFileSource, faster, load_text
from zerocfg.confsource import conf_dir

FILES = sorted(conf_dir().rglob("*.yaml"))


def by_omegaconf(text: str, folder: Path) -> Any:
    (folder / "x.yaml").write_text(text, encoding="utf-8")
    return OmegaConf.to_container(OmegaConf.load(folder / "x.yaml"), resolve=False)


@pytest.mark.parametrize("file", FILES, ids=[f"{file.parent.name}/{file.stem}" for file in FILES])
def test_every_file_that_ships(file: Path) -> None:
    assert load_text(file.read_text(encoding="utf-8")) == OmegaConf.to_container(OmegaConf.load(file), resolve=False)


@pytest.mark.parametrize(
    "text",
    [
        "a: 5e8\nb: 2e-5\nc: 1e5\nd: 1.5e3\ne: .5\nf: 1_000\n",
        "a: on\nb: off\nc: yes\nd: y\ne: 012\nf: 089\ng: 1:30\nh: 0x10\n",
        "a: 2020-01-01\nb: 2020-01-01 10:00:00\n",
        "a: .inf\nb: -.inf\n",
        "a: ~\nb: null\nc:\nd: ''\n",
        "a: &x {k: 1}\nb: *x\nc: {<<: *x, l: 2}\n",
        "a: |\n  two\n  lines\nb: >\n  one\n  line\n",
        "a: ${b}\nb: ???\nc: '${oc.env:X}'\n",
        "a: !!str 012\nb: !!float 1\n",
        "1: one\ntrue: two\n2.5: three\n",
        "a: [1, {b: 2}, [3]]\n",
        "ü: ö\n'a b': \"c\\td\"\n",
        "a: 'it''s'\nb: a-\nc: a:b\n",
    ],
)
def test_the_same_values_and_types(text: str, tmp_path: Path) -> None:
    mine = load_text(text)
    theirs = by_omegaconf(text, tmp_path)
    assert mine == theirs
    assert repr(OmegaConf.to_container(OmegaConf.create(mine), resolve=False)) == repr(theirs)


@pytest.mark.parametrize("text", ["", "- 1\n", "word\n", "a: 1\na: 2\n", "a: {b: 1, b: 2}\n", "a: [\n", "a: !nothing x\n", "a: \t- x\n"])
def test_what_is_no_plain_mapping_is_left_to_omegaconf(text: str) -> None:
    assert load_text(text) is None


def test_a_source_with_mistakes_fails_as_hydras_does(tmp_path: Path) -> None:
    (tmp_path / "twice.yaml").write_text("a: 1\na: 2\n")
    source = faster(FileConfigSource("main", f"file://{tmp_path}"))
    assert type(source) is FastFileSource
    with pytest.raises(yaml.constructor.ConstructorError, match="found duplicate key a"):
        source.load_config("twice")


def test_the_package_header_is_read(tmp_path: Path) -> None:
    (tmp_path / "x.yaml").write_text("# a comment\n\n# @package _global_\na: 1\n")
    (tmp_path / "y.yaml").write_text("# @package here.there\na: 1\n")
    for name in ("x", "y"):
        theirs = FileConfigSource("main", f"file://{tmp_path}").load_config(name)
        assert faster(FileConfigSource("main", f"file://{tmp_path}")).load_config(name) == theirs


def test_another_kind_of_source_stays() -> None:
    marker = object()
    assert faster(marker) is marker
