"""A value is what it looks, in a file and on the command line, or it is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from zerocfg.compose import Composed, compose
from zerocfg.compose.surprises import in_file, on_command_line
from zerocfg.schema.load import load

TEXT, NUMBER, COUNT, TRUTH, CHOICE = "model.name", "optimizer.eps", "train.seed", "precision.tf32", "offload.param"
ENV, FREE = "env.X", "deepspeed.steps_per_print"


@pytest.mark.parametrize(
    ("path", "text", "became", "write"),
    [
        (TEXT, "on", "the truth value true", 'name: "on"'),
        (TEXT, "No", "the truth value false", 'name: "No"'),
        (TEXT, "y", "the truth value true", 'name: "y"'),
        (TEXT, "true", "a truth value", 'name: "true"'),
        (TEXT, "012", "the octal number 10", 'name: "012"'),
        (TEXT, "1:30", "the number 90 (base 60)", 'name: "1:30"'),
        (TEXT, "0x1F", "the number 31", 'name: "0x1F"'),
        (TEXT, "1e3", "the number 1000.0", 'name: "1e3"'),
        (TEXT, "1_000", "the number 1000", 'name: "1_000"'),
        (TEXT, "8.90", "the number 8.9", 'name: "8.90"'),
        ("model.hf_config", "None", "the text None, not null", "hf_config: null"),
        (COUNT, "off", "the truth value false", "seed: a whole number"),
        (COUNT, "012", "the octal number 10", "seed: 12"),
        (COUNT, "-017", "the octal number -15", "seed: -17"),
        (COUNT, "089", "text, because of its leading zero", "seed: 89"),
        (COUNT, "1:30", "the number 90 (base 60)", "seed: 90"),
        (NUMBER, "012", "the octal number 10", "eps: 12"),
        (NUMBER, "1:30.5", "the number 90.5 (base 60)", "eps: 90.5"),
        (CHOICE, "off", "the truth value false", "param: none"),
        ("precision.dtype", "yes", "the truth value true", 'dtype: "yes"'),
        (ENV, "yes", "the truth value true", 'X: "yes"'),
        (ENV, "007", "the octal number 7", 'X: "007"'),
        (ENV, "12:34:56", "the number 45296 (base 60)", 'X: "12:34:56"'),
        (ENV, "1.10", "the number 1.1", 'X: "1.10"'),
        (FREE, "off", "the truth value false", 'steps_per_print: false, or "off" for the word'),
        (FREE, "012", "the octal number 10", "steps_per_print: 12"),
        ("optimizer.betas[0]", "012", "the octal number 10", "12"),
        ("parallelism.leaf_module_classes[1]", "no", "the truth value false", '"no"'),
    ],
)
def test_surprises_of_yaml(path: str, text: str, became: str, write: str) -> None:
    found = in_file(path, text, "conf/x.yaml:3")
    assert found is not None
    assert (found.code, found.path, found.decided_by, found.hint) == ("ZC115", path, "conf/x.yaml:3", write)
    assert found.message == f"{path}: {text} is {became} to YAML"


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (TRUTH, "on"),
        (TRUTH, "no"),
        (TRUTH, "1"),
        (TRUTH, "true"),
        (COUNT, "1_000"),
        (COUNT, "5e8"),
        (COUNT, "0"),
        (COUNT, "0x10"),
        (COUNT, "-3"),
        (NUMBER, "2e-5"),
        (NUMBER, "1e-8"),
        (NUMBER, ".5"),
        (NUMBER, "0.10"),
        (TEXT, "8.0"),
        (TEXT, "12"),
        (TEXT, "089"),
        (TEXT, "1e"),
        (TEXT, "~"),
        (TEXT, "AdamW"),
        (ENV, "true"),
        (ENV, "8"),
        (ENV, "INFO"),
        (ENV, "eth0:1"),
        (FREE, "1_000"),
        (FREE, "5e8"),
        (FREE, "true"),
        ("mine.key", "on"),
        ("model", "on"),
    ],
)
def test_what_is_no_surprise_in_a_file(path: str, text: str) -> None:
    assert in_file(path, text, "x") is None


@pytest.mark.parametrize(
    ("override", "became", "write"),
    [
        (f"{COUNT}=012", "text on the command line, because of its leading zero, and octal in YAML", f"{COUNT}=12"),
        (f"{NUMBER}=-012", "text on the command line, because of its leading zero, and octal in YAML", f"{NUMBER}=-12"),
        (f"{COUNT}=1:30", "text on the command line, and the base-60 number 90 in YAML", f"{COUNT}=90"),
        (f"{TEXT}=1e3", "the number 1000.0, not text", f"{TEXT}='\"1e3\"'"),
        (f"{TEXT}=1_000", "the number 1000, not text", f"{TEXT}='\"1_000\"'"),
        (f"{TEXT}=true", "a truth value, not text", f"{TEXT}='\"true\"'"),
        ("model.hf_config=None", "the text None, not null", "model.hf_config=null"),
        (f"+{ENV}=1.10", "the number 1.1, not text", f"+{ENV}='\"1.10\"'"),
        (f"+{FREE}=off", "text on the command line, but false in YAML", f"+{FREE}=false, or 'off' in quotes for the word"),
        (f"++{FREE}=012", "text on the command line, because of its leading zero, and octal in YAML", f"++{FREE}=12"),
        (f"{TRUTH}=2", "a number, and any number but 0 would be true", f"{TRUTH}=true or false"),
        ("optimizer.betas=[0.9,012]", "text on the command line, because of its leading zero, and octal in YAML", "12 in the list"),
    ],
)
def test_surprises_of_the_command_line(override: str, became: str, write: str) -> None:
    found = on_command_line(override)
    assert found is not None
    key, _, value = override.partition("=")
    assert (found.code, found.path) == ("ZC115", key.lstrip("+"))
    assert found.message == f"{key.lstrip('+')}={value} is {became}"
    assert found.hint == write
    assert found.decided_by == f"command line: {override}"


LITERALS = [
    "on",
    "off",
    "yes",
    "no",
    "y",
    "n",
    "On",
    "OFF",
    "true",
    "false",
    "012",
    "-012",
    "0",
    "00",
    "089",
    "1:30",
    "1:30.5",
    "1_000",
    "5e8",
    "2e-5",
    "1e3",
    "8.0",
    "8.90",
    "0x10",
    "0b1",
    "None",
    "null",
    "nan",
    "3",
]


def looks(text: str, kind: str) -> Any:
    """What somebody who reads a config takes the text for, in a field of this kind; None: nothing that fits."""
    if kind == "text":
        return text
    if kind == "truth":
        return {
            "on": True,
            "yes": True,
            "y": True,
            "true": True,
            "off": False,
            "no": False,
            "n": False,
            "false": False,
            "1": True,
            "0": False,
        }.get(text.lower())
    try:
        number = float(text) if not text.startswith("0b") else float(int(text, 2))
    except ValueError:
        try:
            number = float(int(text, 0))
        except ValueError:
            return None
    return number if number == number else None


@pytest.fixture(scope="module")
def in_one_file(tmp_path_factory: pytest.TempPathFactory) -> dict[tuple[str, str], Composed]:
    """Each literal, written plainly for a field of each kind."""
    folder = tmp_path_factory.mktemp("conf")
    read = {}
    for i, text in enumerate(LITERALS):
        lines = ["defaults:", "  - zerocfg", "  - _self_"]
        for path in (TEXT, NUMBER, COUNT, TRUTH, ENV):
            section, _, key = path.partition(".")
            lines += [f"{section}:", f"  {key}: {text}"]
        (folder / f"c{i}.yaml").write_text("\n".join(lines) + "\n")
        read["file", text] = compose([], config_path=str(folder), config_name=f"c{i}")
        read["line", text] = compose([f"{path}={text}" for path in (TEXT, NUMBER, COUNT, TRUTH)] + [f"+{ENV}={text}"])
    return read


@pytest.mark.parametrize("where", ["file", "line"])
@pytest.mark.parametrize("text", LITERALS)
def test_no_literal_ever_becomes_something_else_in_silence(in_one_file: dict[tuple[str, str], Composed], where: str, text: str) -> None:
    composed = in_one_file[where, text]
    config, problems = load(composed.container)
    refused = {d.path for d in [*composed.diagnostics, *problems]}
    fields = {
        TEXT: ("text", config.model.name),
        NUMBER: ("number", config.optimizer.eps),
        COUNT: ("number", config.train.seed),
        TRUTH: ("truth", config.precision.tf32),
        ENV: ("text", config.env.get("X")),
    }
    for path, (kind, value) in fields.items():
        if path in refused:
            continue
        if text == "null":
            assert value is None, path
            continue
        if path == ENV and text in ("true", "false"):
            continue  # 1 and 0 in an environment; the compiler says so
        shown = str(value) if kind == "text" else value
        assert shown == looks(text, kind), (path, value)


def test_a_quoted_or_tagged_scalar_is_taken_at_its_word(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults:\n  - zerocfg\n  - _self_\nmodel:\n  name: \"on\"\nenv:\n  A: !!str 012\n  B: '1:30'\n")
    composed = compose(["optimizer.type='\"1e3\"'".replace("'", "")], config_path=str(tmp_path))
    assert composed.diagnostics == []
    assert composed.container["model"]["name"] == "on"
    assert composed.container["env"] == {"A": "012", "B": "1:30"}
    assert composed.container["optimizer"]["type"] == "1e3"
