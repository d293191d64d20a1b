"""Config files that do not compose (ZC117) and a primary config that is not there (ZC114)."""

from __future__ import annotations

import re
from pathlib import Path

import yaml
from hydra.errors import MissingConfigException

from zerocfg.compose.hydra_api import Loader
from zerocfg.compose.marks import read_marks
from zerocfg.compose.nearest import nearest
from zerocfg.compose.origins import short
from zerocfg.diagnostics import Diagnostic

_NAMED = re.compile(r"^In '?([^':]+)'?: ")
_OVERRIDDEN = re.compile(r"Could not override '([^']+)'|Override '([^ ']+) :")


def missing_primary(config_name: str | None, error: BaseException) -> Diagnostic | None:
    """ZC114, when that is what the error says."""
    if not isinstance(error, MissingConfigException) or (error.missing_cfg_file or config_name) != config_name:
        return None
    lines = [line.strip() for line in str(error).splitlines()]
    return Diagnostic(
        code="ZC114",
        message=" ".join(line for line in lines if "search path:" not in line.lower() and "provider=" not in line),
        detail=tuple(line for line in lines if "provider=main" in line),
        hint="--config-path FOLDER --config-name NAME (without .yaml)",
    )


def file_problem(error: BaseException, loader: Loader, path: str = "") -> Diagnostic:
    """ZC117: the file, the line where it can be told, Hydra's or YAML's reason."""
    if isinstance(error, yaml.YAMLError):
        return _bad_yaml(error, path)
    if isinstance(error, UnicodeDecodeError):
        files = ", ".join(short(file) for file in _not_text(loader)) or "a config file"
        return Diagnostic(code="ZC117", path=path, message=f"{files} is not UTF-8: {error.reason}", hint="save it as UTF-8")
    if isinstance(error, RecursionError):
        return Diagnostic(code="ZC117", path=path, message="a defaults list includes its own config", hint="take that entry out")
    if isinstance(error, MissingConfigException) and error.options and error.missing_cfg_file:
        return _unknown_option(error, loader)
    lines = [line.strip() for line in str(error).splitlines() if line.strip() and "provider=" not in line]
    lines = [line for line in lines if not line.lower().endswith("search path:")] or [type(error).__name__]
    message, where = lines[0], ""
    named, group = _NAMED.match(message), _OVERRIDDEN.search(message)
    overridden = next((name for name in group.groups() if name), "") if group else ""
    if named and (file := loader.file(named[1])) is not None:
        line = next((f":{c.line}" for c in read_marks(file).defaults if c.override and c.group == overridden), "")
        where = short(file) + line
        message = f"{where}: {message[named.end() :]}"
    hint = "mend the config file or the defaults list that it names"
    if "must be at the end" in str(error):
        hint = "move the lines with `override` to the end of its defaults list"
    elif overridden and (near := nearest(overridden, [*loader.groups(), *(f"hydra/{g}" for g in loader.groups("hydra"))], n=1)):
        hint = f"override {near[0]}"
    return Diagnostic(code="ZC117", path=path, message=message, detail=tuple(lines[1:]), hint=hint, decided_by=where)


def _bad_yaml(error: yaml.YAMLError, path: str = "") -> Diagnostic:
    mark = getattr(error, "problem_mark", None) or getattr(error, "context_mark", None)
    where = f"{short(Path(mark.name))}:{mark.line + 1}" if mark is not None else "a config file"
    problem = getattr(error, "problem", None) or str(error).splitlines()[0]
    return Diagnostic(
        code="ZC117", path=path, message=f"{where} is not YAML: {problem}", hint=f"mend line {mark.line + 1}" if mark else "mend the file"
    )


def _unknown_option(error: MissingConfigException, loader: Loader) -> Diagnostic:
    """ZC110: a defaults list names an option that a group does not have."""
    group, _, option = str(error.missing_cfg_file).rpartition("/")
    near = nearest(option, error.options, n=1)
    return Diagnostic(
        code="ZC110",
        path=group,
        message=f"{group} has no option {option}",
        detail=(f"options: {', '.join(error.options)}",),
        hint=f"{group}: {near[0] if near else 'OPTION'}",
        decided_by=_who_chose(group, option, loader),
    )


def _who_chose(group: str, option: str, loader: Loader) -> str:
    """file:line of the entry of a defaults list, an `override` before a plain one."""
    folder = loader.main_folder()
    entries = [
        (not choice.override, f"{short(file)}:{choice.line}")
        for file in (sorted(folder.rglob("*.yaml")) if folder is not None else [])
        for choice in read_marks(file).defaults
        if choice.group.partition("@")[0] == group and choice.option == option
    ]
    return min(entries)[1] if entries else ""


def _not_text(loader: Loader) -> list[Path]:
    folder = loader.main_folder()
    found = []
    for file in sorted(folder.rglob("*.yaml")) if folder is not None else []:
        try:
            file.read_text(encoding="utf-8")
        except UnicodeDecodeError:
            found.append(file)
        except OSError:
            continue
    return found
