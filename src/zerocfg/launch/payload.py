"""What a rank needs in order to run the task function, as one file.

The outer layer is plain data, read first: import path, environment. The inner one may need it to be unpickled at all.
"""

from __future__ import annotations

import inspect
import io
import os
import pickle
import re
import sys
import types
from collections import ChainMap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf

from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.nodes import children, clone, is_interpolated, value_of

# Resolvers whose answer is the same in every rank, or is meant to differ (oc.env:LOCAL_RANK).
_LEFT_OPEN = re.compile(r"\$\{\s*(?!oc\.|hydra\s*:|python_version\s*:)[\w.]+\s*:")


@dataclass(frozen=True, slots=True)
class Task:
    """The inner layer: what runs."""

    function: Callable[[DictConfig], Any]
    config: DictConfig
    """With the hydra node and its output_dir."""
    singletons: Any
    """Hydra's Singleton.get_state(): resolvers, version base, names."""
    callbacks: Any
    """Hydra's callbacks; rank 0 calls them."""


@dataclass(frozen=True, slots=True)
class Envelope:
    """The outer layer."""

    sys_path: list[str]
    script: str
    """sys.argv[0] of the script, all that ranks see of the command line."""
    env_set: dict[str, str]
    """hydra.job.env_set."""
    shared: bytes
    """What all jobs of a launch have in common: function, singletons, callbacks."""
    config: bytes

    def open(self) -> Task:
        function, singletons, callbacks = pickle.loads(self.shared)
        return Task(function=function, config=pickle.loads(self.config), singletons=singletons, callbacks=callbacks)


class Sealer:
    """Pickles the tasks of a launch by value; what they share once."""

    def __init__(self, function: Callable[[DictConfig], Any], *, singletons: Any, callbacks: Any) -> None:
        self._common = (function, singletons, callbacks)
        self._shared = b""

    def seal(self, config: DictConfig, *, env_set: dict[str, str]) -> bytes:
        """One job's payload. Raises ConfigProblems (ZC707) that names what cannot be pickled."""
        try:
            self._shared = self._shared or _dumps(self._common)
            body = _dumps(config)
        except Exception as problem:
            function, singletons, callbacks = self._common
            task = Task(function=function, config=config, singletons=singletons, callbacks=callbacks)
            raise ConfigProblems([_unpicklable(task, problem)]) from None
        envelope = Envelope(
            sys_path=[os.path.abspath(entry) for entry in sys.path],
            script=os.path.abspath(sys.argv[0]) if sys.argv and sys.argv[0] else "",
            env_set=env_set,
            shared=self._shared,
            config=body,
        )
        return pickle.dumps(envelope)


def _dumps(value: object) -> bytes:
    """cloudpickle, but code keeps the name of its file: tracebacks show lines, inspect.getsource (triton, torch.jit) works."""
    import cloudpickle

    plain = cloudpickle.Pickler.dispatch_table

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        dispatch_table: ClassVar[Any] = ChainMap(
            {types.CodeType: lambda code: (_code, (code.co_filename, plain[types.CodeType](code)[1]))}, plain
        )

    out = io.BytesIO()
    Pickler(out).dump(value)
    return out.getvalue()


def _code(filename: str, arguments: tuple[Any, ...]) -> types.CodeType:
    return types.CodeType(*arguments).replace(co_filename=filename)


def read_envelope(path: Path) -> Envelope:
    envelope = pickle.loads(path.read_bytes())
    assert isinstance(envelope, Envelope)
    return envelope


def frozen(config: DictConfig) -> DictConfig:
    """A copy in which values of custom resolvers (`${now:...}`, a random name) are literals, so that all ranks have the same.

    Plain references (`${model.hidden_size}`) and oc.* stay as they are. What cannot be resolved here stays open too.
    """
    config = clone(config)
    if "hydra" in config:
        OmegaConf.set_readonly(config.hydra, None)
    _freeze(config)
    return config


def _freeze(node: Any) -> None:
    for key, child in children(node).items():
        if not is_interpolated(child):
            _freeze(child)
            continue
        if not _LEFT_OPEN.search(value_of(child)):
            continue
        try:
            value = node[key]
        except Exception:
            continue
        flags = node._metadata.flags
        node._metadata.flags = {**(flags or {}), "readonly": False, "struct": False}
        try:
            node[key] = value
        finally:
            node._metadata.flags = flags


def _unpicklable(task: Task, problem: Exception) -> Diagnostic:
    """Name the part that fails."""

    def fails(value: object) -> str:
        try:
            _dumps(value)
        except Exception as reason:
            return f"{type(reason).__name__}: {reason}"
        return ""

    named = [(name, why) for name, value in _parts(task) if (why := fails(value))]
    detail = tuple(f"{name} ({why})" for name, why in named) or (f"{type(problem).__name__}: {problem}",)
    function = getattr(task.function, "__qualname__", type(task.function).__name__)
    return Diagnostic(
        code="ZC707",
        message=f"the task function {function} cannot be sent to the ranks: {named[0][0] if named else 'a part'} cannot be pickled",
        detail=detail,
        hint="create it inside the function (locks, open files, connections), or move it to a module of its own that the script imports",
    )


def _parts(task: Task) -> Iterator[tuple[str, object]]:
    """Named pieces of a task, the innermost first."""
    seen: set[int] = set()

    def of(function: object, depth: int) -> Iterator[tuple[str, object]]:
        function = inspect.unwrap(function) if inspect.isfunction(function) else function
        if not inspect.isfunction(function) or id(function) in seen or depth > 8:
            return
        seen.add(id(function))
        names = inspect.getclosurevars(function)
        where = function.__name__
        for kind, found in (("global", names.globals), ("closure variable", names.nonlocals)):
            for name, value in found.items():
                if inspect.ismodule(value) or inspect.isclass(value):
                    continue
                if inspect.isfunction(value):
                    yield from of(value, depth + 1)
                else:
                    yield f"{kind} {name} of {where} ({type(value).__name__})", value

    yield from of(task.function, 0)
    if not inspect.isfunction(task.function):
        for name, value in getattr(task.function, "__dict__", {}).items():
            yield f"attribute {name} of {type(task.function).__name__}", value
    resolvers = task.singletons.get("omegaconf_resolvers", {}) if isinstance(task.singletons, dict) else {}
    for name, resolver in resolvers.items():
        yield f"OmegaConf resolver {name}", resolver
    yield "the config", task.config
    for callback in getattr(task.callbacks, "callbacks", []):
        yield f"callback {type(callback).__name__}", callback
