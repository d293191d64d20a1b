"""What went wrong in Hydra's words -> a Diagnostic in ours."""

from __future__ import annotations

import math
import re
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

from omegaconf import DictConfig
from omegaconf.errors import ConfigAttributeError, ConfigKeyError, OmegaConfBaseException

from zerocfg.compiler import OPEN
from zerocfg.compose.file_problems import file_problem
from zerocfg.compose.hydra_api import BadLeaf, Loader, parse
from zerocfg.compose.kinds import Kind, describe, kind_at, typed_keys
from zerocfg.compose.nearest import nearest, nearest_key
from zerocfg.compose.origins import command_line, shown
from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import hide_override
from zerocfg.schema import FREE, GROUPS


def known_keys(cfg: DictConfig | None) -> list[str]:
    """Every leaf of the composed config and of the schema."""
    found = dict.fromkeys(key for key in typed_keys() if cfg is None or key.partition(".")[0] in cfg)
    if cfg is not None:
        for key in map(str, cfg):
            if key != "hydra":
                found |= dict.fromkeys(_leaf_paths(key, cfg._get_node(key)))
    return list(found)


def _leaf_paths(path: str, node: Any) -> Iterable[str]:
    if isinstance(node, DictConfig) and not (node._is_none() or node._is_missing() or node._is_interpolation()):
        yield path
        for key in map(str, node):
            yield from _leaf_paths(f"{path}.{key}", node._get_node(key))
    else:
        yield path


def bad_syntax(text: str, error: BaseException, homes: Sequence[str] = ()) -> Diagnostic:
    """ZC113: what is wrong, and the same override in quotes when that is what was meant. homes: groups with an option `text`."""
    key, equals, value = text.partition("=")
    lines = [line for line in str(error).splitlines() if "hydra.cc" not in line and not line.startswith("Error parsing override")]
    reason = " ".join(line.strip() for line in lines if line.strip(" ^"))
    if reason.startswith("LexerNoViableAltException"):
        reason = "it has a character that must be quoted"
    if text.startswith("-"):
        hint = f"{key.lstrip('-')}={value or 'VALUE'}; options of zerocfg stand before --"
    elif homes:
        hint = " or ".join(f"{group}={text}" for group in homes)
    elif not equals:
        hint = f"{shlex.quote(text)}=VALUE, or ~{text} to delete it" if text.replace(".", "").isidentifier() else "KEY=VALUE"
    else:
        hint = quoted(key, value) or "KEY=VALUE, with the value in quotes inside quotes for the shell: 'key=\"value\"'"
    return Diagnostic(
        code="ZC113",
        path=key.lstrip("+~") if equals else "",
        message=f"{shown(text)} is not an override: {reason}",
        detail=("an override is KEY=VALUE, +KEY=VALUE or ~KEY; values with , = ( ) [ ] { } # ~ ^ or quotes in them are quoted",),
        hint=hint,
        decided_by=f"command line: {shown(text)}",
    )


def quoted(key: str, value: str) -> str:
    """KEY='VALUE' quoted for Hydra and again for the shell; empty when Hydra would not read VALUE back from it."""
    for quote in ('"', "'"):
        override = f"{key}={quote}{value}{quote}" if quote not in value else ""
        if not override:
            continue
        try:
            if parse(override).value() == value:
                return shlex.quote(override)
        except Exception:  # any failure to read it back means the same: no suggestion
            continue
    return ""


def sweep(override: Any) -> Diagnostic:
    """ZC116."""
    line = hide_override(str(override.input_line))
    key, _, value = line.partition("=")
    kind = kind_at(str(override.key_or_group))
    hint = "one value"
    if (kind is None or kind.name in ("text", "env", "free")) and "(" not in value and (text := quoted(key, value)):
        hint += f", or {text} for a text with a comma"
    if (kind is None and str(override.key_or_group) not in GROUPS) or (kind is not None and kind.name in ("list", "free")):
        hint += f", or {key}=[{value}] for a list"
    return Diagnostic(
        code="ZC116",
        path=str(override.key_or_group),
        message=f"{shown(override.input_line)} asks for several runs; this command takes one",
        detail=("the training script runs sweeps: python train.py -m " + shlex.quote(line),),
        hint=hint,
        decided_by=command_line(override),
    )


def unknown_option(override: Any, wrong: Sequence[str], options: Sequence[str], meant: Sequence[str], *, loaded: bool) -> Diagnostic:
    """ZC110. loaded: the defaults list names the group already, so that no + goes before it."""
    typed = override.get_key_element()
    group = typed.lstrip("+")
    key = group if loaded else typed
    return Diagnostic(
        code="ZC110",
        path=group,
        message=f"{shown(override.input_line)}: {group} has no option {', '.join(wrong)}",
        detail=(f"options: {', '.join(options)}",),
        hint=" or ".join(f"{key}={name}" for name in meant) or f"{key}=OPTION",
        decided_by=command_line(override),
    )


def failed_override(override: Any, error: BaseException, loader: Loader, cfg: DictConfig | None) -> Diagnostic:
    """An override that parses, alone or after the good ones, but that Hydra refuses."""
    path = str(override.key_or_group)
    cause = _omegaconf_cause(error)
    text = _first_line(error)
    if isinstance(cause, (ConfigAttributeError, ConfigKeyError)) or "does not exist" in text or "No match in the defaults list" in text:
        return unknown_key(override, loader, cfg)
    if "An item is already at" in text:
        return _plain(
            "ZC111",
            path,
            f"{shown(override.input_line)}: {path} is there already",
            override,
            hint=hide_override(str(override.input_line)).lstrip("+"),
        )
    if cause is not None:
        value, full = override.value(), str(cause.full_key or "")
        for name in full.removeprefix(f"{path}.").split(".") if full.startswith(f"{path}.") else ():
            if isinstance(value, dict) and name in value:  # {num_nodes: x}: told of the key in the braces
                path, value = f"{path}.{name}", value[name]
        return wrong_type(path, value, cause, decided_by=command_line(override))
    return file_problem(error, loader, path)


def dotted_group(override: Any) -> Diagnostic:
    """ZC111: dots where a group has slashes."""
    path = str(override.key_or_group)
    meant = f"{path.replace('.', '/')}={override.input_line.partition('=')[2]}"
    return _plain("ZC111", path, f"{path} is a config group: its name has a slash", override, hint=meant)


def unknown_key(override: Any, loader: Loader, cfg: DictConfig | None) -> Diagnostic:
    """ZC111, with the key that was meant: a near spelling, the other of slash and dot, the section it lives in, a missing +."""
    path, line = str(override.key_or_group), hide_override(str(override.input_line))
    value = line.partition("=")[2]
    known = known_keys(cfg)
    detail: tuple[str, ...] = ()
    section = path.partition(".")[0]
    dotted = path.replace("/", ".")
    given = override.value()
    strange = [f"{path}.{name}" for name in given if f"{path}.{name}" not in known] if isinstance(given, dict) and path in known else []
    if strange:
        message = f"{strange[0]} does not exist"
        siblings = [key.removeprefix(f"{path}.") for key in known if key.startswith(f"{path}.")]
        near = nearest(strange[0].removeprefix(f"{path}."), siblings)
        meant = [f"{path}.{name}" for name in near] or [f"one of {', '.join(siblings)}"]
    elif not override.is_delete() and "." not in path and loader.is_group(path):
        message = f"{path} is a group, but the defaults list of the config does not name it"
        meant = [f"+{line.lstrip('+')}"]
    elif override.is_delete():
        message, meant = f"{line}: there is no {path} to delete", [f"~{name}" for name in nearest_key(path, known)] or ["leave it out"]
    elif dotted != path and dotted in known:
        message, meant = f"{path} is not a config group: a key is written with dots", [f"{dotted}={value}"]
    elif section in FREE and "." in path:
        message, meant = f"{path} is not set yet; a new key of {section} needs a +", [f"+{line.lstrip('+')}"]
    else:
        groups = loader.groups()
        message = f"{path} does not exist"
        near = nearest_key(path, known)
        home, _, last = path.rpartition(".")
        homes = [name.rpartition(".")[0] for name in near if name.rpartition(".")[2] == last and name.rpartition(".")[0] != home]
        if homes:
            message += f"; {last} is a key of {' and of '.join(homes)}"
        if "." not in path and (group := nearest(path, groups, n=1)) and (not near or "/" in path or value in loader.options(group[0])):
            near = group
        meant = [f"{name}={value}" for name in near]
        if not near:
            siblings = [key.partition(".")[2] for key in known if key.startswith(f"{section}.")] if section in typed_sections() else []
            detail = (f"keys of {section}: {', '.join(siblings)}",) if siblings else (f"groups: {', '.join(groups)}",)
            meant = [f"one of the keys of {section}" if siblings else f"+{line.lstrip('+')} to add a key of your own"]
    return Diagnostic(code="ZC111", path=path, message=message, detail=detail, hint=" or ".join(meant), decided_by=command_line(override))


def typed_sections() -> set[str]:
    return {key.partition(".")[0] for key in typed_keys()}


def wrong_type(path: str, value: Any, error: BaseException, *, decided_by: str, kind: Kind | None = None) -> Diagnostic:
    """ZC112: value, what it is, what is wanted. kind: None: what the schema says of the path."""
    kind = kind or kind_at(path)
    if value is None and "not Optional" in str(error):
        wanted = f"{kind.wanted}, it cannot be left open" if kind else "a value"
    else:
        wanted = kind.wanted if kind else _first_line(error)
    text = "null" if value is None else str(value).lower() if isinstance(value, bool) else str(value)
    line = shown(f"{path}={text}")
    message = f"{line} is {describe(value)}, not {wanted}" if kind else f"{line}: {wanted}"
    group = path.partition(".")[0]
    # the planner's fields are left to it by their group's option
    hint = f"{group}=auto" if text == "auto" and path in OPEN else f"{path}={_example(kind, text)}"
    return Diagnostic(code="ZC112", path=path, message=message, hint=hint, decided_by=decided_by)


def _example(kind: Kind | None, text: str) -> str:
    if kind is None:
        return "VALUE"
    if kind.name == "choice":
        if text.lower() in ("off", "no", "false", "null") and "none" in kind.words:
            return "none"
        return (nearest(text, kind.words, n=1) or [" or ".join(kind.words)])[0]
    bare = text.strip("'\" ")
    if kind.name in ("number", "count"):
        try:
            number = float(bare.replace("_", ""))
        except ValueError:
            return "NUMBER"
        if not math.isfinite(number):
            return "NUMBER"
        return bare if kind.name == "number" or number.is_integer() else f"{math.floor(number)}"
    if kind.name == "list" and kind.item == "number":
        return f"[{bare}]" if bare.replace(".", "").isdigit() else "[NUMBER,NUMBER]"
    return {"truth": "true or false", "list": f"[{bare}]", "mapping": "{NAME: VALUE}"}.get(kind.name, "TEXT")


def bad_leaf(leaf: BadLeaf, where: str, cfg: DictConfig | None) -> Diagnostic:
    """A value of a config file that the schema refuses: ZC111 unknown key, ZC112 wrong type."""
    name = leaf.path.rpartition(".")[2]
    if isinstance(leaf.error, (ConfigAttributeError, ConfigKeyError)):
        near = nearest_key(leaf.path, known_keys(cfg))
        home = leaf.path.rpartition(".")[0]
        return Diagnostic(
            code="ZC111",
            path=leaf.path,
            message=f"{leaf.path} does not exist",
            hint=" or ".join(near) or f"one of {', '.join(k.rpartition('.')[2] for k in typed_keys() if k.startswith(home + '.'))}",
            decided_by=where,
        )
    found = wrong_type(leaf.path, leaf.value, leaf.error, decided_by=where)
    return Diagnostic(
        code=found.code, path=found.path, message=found.message, hint=f"{name}: {found.hint.partition('=')[2]}", decided_by=where
    )


def _plain(code: str, path: str, message: str, override: Any, *, hint: str) -> Diagnostic:
    return Diagnostic(code=code, path=path, message=message, hint=hint, decided_by=command_line(override))


def _omegaconf_cause(error: BaseException | None) -> OmegaConfBaseException | None:
    while error is not None:
        if isinstance(error, OmegaConfBaseException):
            return error
        error = error.__cause__
    return None


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return re.sub(r"\s+", " ", lines[0]) if lines else type(error).__name__
