"""Public configs: a file that the checker finds no error in is accepted by DeepSpeed, and each key is known or reported."""

from __future__ import annotations

import csv
import json
import runpy
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import hjson
import pytest

from zerocfg.deepspeed import keys
from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import has_errors

CORPUS: Path = runpy.run_path(str(Path(__file__).with_name("conftest.py")))["corpus"]()

pytestmark = pytest.mark.skipif(not CORPUS.is_dir(), reason="the public configs do not lie beside this checkout")


def read() -> Iterator[tuple[dict[str, str], dict[str, Any]]]:
    """(row of the index, config) of each file that is a config in JSON or hjson."""
    with (CORPUS / "index.tsv").open(encoding="utf-8") as file:
        for row in csv.DictReader(file, delimiter="\t"):
            try:
                parsed = hjson.loads((CORPUS / "files" / row["file"]).read_text(encoding="utf-8"))
            except hjson.HjsonDecodeError:
                continue  # broken files; the importer's tests speak of them
            yield row, json.loads(json.dumps(parsed))


def paths(section: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, value in section.items():
        yield (*above, name)
        if isinstance(value, dict):
            yield from paths(value, (*above, name))


def test_no_error_means_deepspeed_accepts(parse: Callable[..., str | None]) -> None:
    missed, clean = [], 0
    for row, config in read():
        world = int(row["world_size_needed"]) if row["world_size_needed"].isdigit() else 1
        if not has_errors(check_deepspeed(config, world_size=world)):
            clean += 1
            said = parse(config, world)
            if said is not None:
                missed.append((row["file"], said))
    assert missed == []
    assert clean > 80


def test_what_deepspeed_refuses_is_an_error() -> None:
    refused = [(row, config) for row, config in read() if not row["ds_0_19_8_as_written"].startswith("accept")]
    assert len(refused) > 200
    silent = [row["file"] for row, config in refused if not has_errors(check_deepspeed(config, world_size=None))]
    assert silent == []


def test_each_key_is_known_or_reported() -> None:
    lost = []
    for row, config in read():
        reported = {d.path for d in check_deepspeed(config, world_size=None, prefix="")}
        for parts in paths(config):
            prefixes = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
            if not prefixes & reported and (keys.lookup(".".join(parts)) is None or any("." in part for part in parts)):
                lost.append((row["file"], ".".join(parts)))
    assert lost == []


def test_every_report_renders() -> None:
    for _, config in read():
        for diagnostic in check_deepspeed(config, world_size=8, accelerator="cpu", trainable_params=1000):
            assert diagnostic.render().startswith(("error[ZC6", "warning[ZC6", "note[ZC6"))
            assert diagnostic.path.startswith("deepspeed.")
