"""model.hf_config=PATH: read the file and lay its dims over the model group. model.profile=PATH: read what was traced."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

from zerocfg.compose.origins import Written, short
from zerocfg.diagnostics import Diagnostic, Severity
from zerocfg.hf import NAMES, read_model
from zerocfg.schema import PROFILE
from zerocfg.schema.load import field_names
from zerocfg.schema.model import ModelConfig
from zerocfg.traced import NotAProfile, read_profile


def apply_hf_config(container: dict[str, Any], written: Written) -> list[Diagnostic]:
    """Change container["model"] and its origins. What the user wrote together with hf_config, or after it, stays.

    Codes: ZC171 the file cannot be read, ZC172 the architecture is not one that the group describes, ZC173 (note) guesses.
    """
    model = container.get("model")
    if not isinstance(model, dict) or not model.get("hf_config"):
        return []
    asked = str(model["hf_config"])
    where = f"model.hf_config={asked}"
    file = Path(asked).expanduser()
    file = file / "config.json" if file.is_dir() else file
    try:
        text = file.read_text(encoding="utf-8")
        parsed = json.loads(text)
    except OSError as error:
        looks_like_hub = asked.count("/") == 1 and not asked.startswith((".", "/", "~")) and not file.parent.is_dir()
        hint = "the path of a config.json, or of its folder"
        if looks_like_hub:
            hint += "; a name on the Hub is not one: download its config.json first"
        return [_bad(f"{where} cannot be read: {error.strerror or error} ({file.absolute()})", hint)]
    except ValueError as error:
        return [_bad(f"{where} is not JSON: {error}", "the config.json of the model, as from_pretrained reads it")]
    found = read_model(parsed)
    if found.problem:
        code = "ZC172" if found.unsupported else "ZC171"
        hint = "model=none: DeepSpeed's own sizes" if found.unsupported else "the config.json of a decoder-only model"
        return [_bad(f"{where}: {found.problem}", hint, code)]

    label, since = short(file), written.order("model.hf_config")
    name = file.parent.name if file.name == "config.json" else file.stem
    fields = {**dict.fromkeys(NAMES), **found.fields, "name": name}
    for key in field_names(ModelConfig):
        # written together with hf_config or after it: the user's own word on this dim
        if key not in fields or written.order(f"model.{key}") >= max(since, 0):
            continue
        model[key] = fields[key]
        source = found.keys.get(key, "the file's name" if key == "name" else "not given")
        line = _line_of(text, source)
        written.put(f"model.{key}", since, f"{label}:{line}" if line else f"{label} ({source})", replaces=True)
    return [_guessed(f"{where}: {note}") for note in found.notes]


def read_model_profile(container: dict[str, Any]) -> list[Diagnostic]:
    """Put the trace that model.profile names into the container, for schema.load. Code: ZC175 the file cannot be read or is none."""
    asked = str(container["model"]["profile"])
    where, how = (
        f"model.profile={asked}",
        f"zerocfg profile train.py --out {shlex.quote(asked)}, or module:function of what builds the model",
    )
    try:
        container[PROFILE] = read_profile(json.loads(Path(asked).expanduser().read_text(encoding="utf-8")))
    except OSError as error:
        problem = f"{where} cannot be read: {error.strerror or error} ({Path(asked).expanduser().absolute()})"
    except NotAProfile as error:
        problem = f"{where} is no profile: {error}"
    except ValueError as error:
        problem = f"{where} is not JSON: {error}"
    else:
        return []
    return [Diagnostic(code="ZC175", path="model.profile", message=problem, hint=how)]


def _guessed(message: str) -> Diagnostic:
    fix = "model.KEY=VALUE where it is wrong"
    return Diagnostic(code="ZC173", severity=Severity.NOTE, path="model.hf_config", message=message, hint=fix)


def _line_of(text: str, key: str) -> int:
    """Line of a key in pretty-printed JSON; 0 when it has none of its own."""
    lines = text.splitlines()
    if len(lines) < 3:
        return 0
    return next((i for i, line in enumerate(lines, 1) if line.lstrip().startswith(f'"{key}"')), 0)


def _bad(message: str, hint: str, code: str = "ZC171") -> Diagnostic:
    return Diagnostic(code=code, path="model.hf_config", message=message, hint=hint)
