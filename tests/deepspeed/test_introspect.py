"""The committed table against the installed release: a new release fails here with a list of what to describe."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from zerocfg.deepspeed.introspect import __main__ as command
from zerocfg.deepspeed.introspect import raw, rows, table
from zerocfg.deepspeed.introspect.release import quiet_deepspeed


@pytest.fixture(autouse=True)
def release() -> Iterator[None]:
    with quiet_deepspeed():
        yield


def test_the_table_fits_the_installed_release() -> None:
    lines = table.difference()
    assert lines == [], "run `make deepspeed-keys`, describe what is new in catalogue/:\n" + "\n".join(lines)


def test_a_new_release_shows_as_a_list(monkeypatch: pytest.MonkeyPatch) -> None:
    models = rows.model_rows()
    models["fp16.new_knob"] = {"type": "bool", "default": False}
    del models["fp16.hysteresis"]
    models["fp16.loss_scale_window"] = {**models["fp16.loss_scale_window"], "default": 2000}
    models["zero_optimization.reduce_bucket_size"] = {**models["zero_optimization.reduce_bucket_size"], "gt": 9}
    monkeypatch.setattr(rows, "model_rows", lambda: models)
    assert table.difference() == [
        "added: fp16.new_knob (bool) is new in the release; describe it in catalogue/",
        "removed: fp16.hysteresis is gone from the release; move it to catalogue/removed.py",
        "removed: fp16.hysteresis is in the table and not in the release",
        "changed: fp16.loss_scale_window: default 1000 -> 2000",
        "changed: zero_optimization.reduce_bucket_size: gt 0 -> 9",
    ]


def test_newly_refused_keys_show(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(rows, "removed_keys", lambda: ("nebula", "pipeline"))
    lines = table.difference()
    assert "added: the release now refuses pipeline; add it to catalogue/removed.py" in lines
    assert "changed: the release no longer refuses elasticity" in lines


def test_raw_defaults_and_names_show(monkeypatch: pytest.MonkeyPatch) -> None:
    defaults = {**raw.raw_defaults(), "gradient_clipping": 2.0, "aio.new_depth": 4}
    observed = raw.observed_names

    def more(module: ModuleType) -> set[str]:
        return observed(module) | ({"brand_new_section"} if module.__name__ == "deepspeed.runtime.config" else set())

    monkeypatch.setattr(raw, "raw_defaults", lambda: defaults)
    monkeypatch.setattr(raw, "observed_names", more)
    assert raw.raw_complaints() == [
        "changed: default of gradient_clipping: 1.0 in the catalogue, 2.0 in the release",
        "added: aio.new_depth (default 4) is new in the release; describe it in catalogue/",
        "added: deepspeed.runtime.config reads 'brand_new_section'; describe it in catalogue/ or add it to IGNORED",
    ]


def test_a_raw_key_that_nothing_reads_shows(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = rows.ENTRIES[0].__class__(path="aio.never_heard_of", doc="x", reader="raw", type="int", default=1)
    monkeypatch.setattr(raw, "ENTRIES", (*raw.ENTRIES, gone))
    assert raw.raw_complaints() == ["removed: nothing in the release reads aio.never_heard_of"]


def test_names_are_found_however_they_are_looked_up(tmp_path: Path) -> None:
    source = tmp_path / "reader.py"
    source.write_text(
        'SECTION = "section"\n'
        "def read(d):\n"
        '    if SECTION in d and "flag" not in d.keys():\n'
        '        get_scalar_param(d[SECTION], "number", 1)\n'
        "        get_dict_param(d, NAME, None)\n"
        '    d.pop("left", None)\n'
        '    return d.get("right", "not a key")\n'
        'NAME = "dict"\n'
    )
    spec = importlib.util.spec_from_file_location("reader", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert raw.observed_names(module) == {"section", "flag", "number", "dict", "left", "right"}


def test_write_makes_the_files_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    committed = {name: (table.HERE / name).read_text(encoding="utf-8") for name in ("_table.py", "_classes.py")}
    monkeypatch.setattr(table, "HERE", tmp_path)
    assert command.main([]) == 1
    assert capsys.readouterr().out.startswith("added: DEEPSPEED is in the release and not in the table: ")
    assert command.main(["--write"]) == 0
    assert capsys.readouterr().out == ""
    assert {name: (tmp_path / name).read_text(encoding="utf-8") for name in committed} == committed


def test_signatures_are_those_of_the_classes() -> None:
    from deepspeed.ops.adam import FusedAdam

    from zerocfg.deepspeed.introspect.classes import REQUIRED, parameters

    found = parameters(FusedAdam)
    assert found["betas"] == ("list", [0.9, 0.999])
    assert "params" not in found

    class Some:
        def __init__(self, optimizer: Any, needed: int, total_num_steps: int = 5, flag: bool = True, **rest: Any) -> None: ...

    assert parameters(Some) == {"needed": ("any", REQUIRED), "total_num_steps": ("int", 5), "flag": ("bool", True)}
