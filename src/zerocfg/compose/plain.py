"""The composed config -> plain containers of our groups, with every interpolation that fails reported by its full path."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from omegaconf import DictConfig, ListConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from zerocfg.diagnostics import Diagnostic
from zerocfg.nodes import NOT_PLAIN, plain
from zerocfg.provenance import Origins
from zerocfg.schema import FREE, GROUPS, SECTIONS

OURS = (*GROUPS, *SECTIONS, *FREE)


def to_plain(cfg: DictConfig) -> tuple[dict[str, Any], dict[str, Exception]]:
    """Our groups and sections that `cfg` has, resolved; and what failed, by path. A value that failed is left out."""
    container: dict[str, Any] = {}
    failed: dict[str, Exception] = {}
    for name in OURS:
        node = cfg._get_node(name, validate_access=False)
        if node is None:
            continue
        value = plain(node)
        if value is NOT_PLAIN:
            value = _plain(name, node, partial(cfg.__getitem__, name), failed)
        if name not in failed:
            container[name] = value
    return container, failed


def _plain(path: str, node: Any, read: Any, failed: dict[str, Exception]) -> Any:
    if node._is_missing():
        return "???"
    try:
        value = read()
        if not isinstance(value, (DictConfig, ListConfig)):
            return value
        return OmegaConf.to_container(value, resolve=True, throw_on_missing=False)
    except Exception as error:  # a resolver may raise anything: oc.env a KeyError, a user's own its own
        if node._is_interpolation() or not isinstance(node, (DictConfig, ListConfig)):
            failed[path] = error
            return None
    if isinstance(node, DictConfig):
        items = {}
        for key in map(str, node):
            at = f"{path}.{key}"
            value = _plain(at, node._get_node(key), partial(node.__getitem__, key), failed)
            if at not in failed:
                items[key] = value
        return items
    return [_plain(f"{path}[{i}]", node._get_node(i), partial(node.__getitem__, i), failed) for i in range(len(node))]


def leave_open(container: dict[str, Any], paths: Iterable[str]) -> None:
    """Put ??? where it was written last: loading lists it then, with every other value left open."""
    for path in paths:
        *above, last = path.split(".")
        node: Any = container
        for key in above:
            node = node.get(key) if isinstance(node, dict) else None
        if isinstance(node, dict) and last in node and (above or last in OURS):
            node[last] = "???"


def unresolved(cfg: DictConfig, failed: dict[str, Exception], origins: Origins) -> Iterator[Diagnostic]:
    """ZC102 for each."""
    for path, error in failed.items():
        node = _node_at(cfg, path)
        written = str(node._value()) if node is not None else "${...}"
        reason = _reason(error)
        yield Diagnostic(
            code="ZC102",
            path=path,
            message=f"{path}={written} cannot be resolved: {reason}",
            hint=_hint(written, reason),
            decided_by=origins.of(path),
        )


def _node_at(cfg: DictConfig, path: str) -> Any:
    node: Any = cfg
    for step in path.replace("[", ".[").split("."):
        if node is None or not hasattr(node, "_get_node"):
            return None
        node = node._get_node(int(step[1:-1]) if step.startswith("[") else step)
    return node


def _reason(error: BaseException) -> str:
    text = next((line.strip() for line in str(error).splitlines() if line.strip()), type(error).__name__)
    if isinstance(error, OmegaConfBaseException) and "raised while resolving interpolation:" in text:
        text = text.split("raised while resolving interpolation:", 1)[1].strip()
    return text


def _hint(written: str, reason: str) -> str:
    if "${oc.env:" in written:
        name = written.split("${oc.env:", 1)[1].split("}")[0].split(",")[0]
        if "not found" in reason:
            return f"export {name}=..., or ${{oc.env:{name},DEFAULT}}"
        return f"${{oc.decode:${{oc.env:{name}}}}}: an environment variable is text until it is decoded"
    return "a key that the composed config has (python train.py --cfg job shows it), or a plain value"
