"""hydra.launcher as it was composed -> the options of one of zerocfg's launchers, and all that is wrong with them."""

from __future__ import annotations

import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import fields, replace
from typing import Any, TypeVar, get_type_hints

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException, ValidationError

from zerocfg.compose import hydra_origins
from zerocfg.compose.kinds import kind_of
from zerocfg.compose.messages import wrong_type
from zerocfg.compose.nearest import nearest
from zerocfg.compose.origins import shown
from zerocfg.diagnostics import Diagnostic
from zerocfg.launch.options import LocalOptions
from zerocfg.launch.slurm_options import SlurmOptions
from zerocfg.provenance import Origins
from zerocfg.schema.describe import describe

GROUP, PATH = "hydra/launcher", "hydra.launcher"
CODE = "ZC715"
LAUNCHERS: dict[str, type[LocalOptions | SlurmOptions]] = {"zerocfg_local": LocalOptions, "zerocfg_slurm": SlurmOptions}
_OTHER_NAMES = {("zerocfg_local", "array_parallelism"): "max_parallel", ("zerocfg_slurm", "max_parallel"): "array_parallelism"}
"""(launcher, the other one's name of an option): its own name."""
_OF_SBATCH = frozenset(
    ("begin", "comment", "contiguous", "deadline", "dependency", "exclude", "hint", "licenses", "mail_type", "mail_user", "nodelist")
)
"""Options of sbatch's that have no field; the nearest field of exclude would be exclusive."""
_LONGEST_POLL_SECONDS = 3600.0
Options = TypeVar("Options", bound="LocalOptions | SlurmOptions")


def read_options(
    kind: type[Options], given: Mapping[str, Any], cfg: DictConfig | None = None, *, start: bool = True
) -> tuple[Options, list[Diagnostic]]:
    """ZC715 for each option that does not exist or whose value it does not take; that one keeps its default, so that the rest can
    still be checked. Ranges of what SLURM itself is asked for are `lower_slurm`'s to check.

    given: option -> value, interpolations resolved; names that begin with _ are Hydra's own. cfg: that it is from, to
    tell who decided. start: False leaves out what only a start on this machine needs.
    """
    typed, problems = OmegaConf.structured(kind), []
    hints = get_type_hints(kind)
    for name, value in given.items():
        if name.startswith("_"):
            continue
        if name not in hints:
            problems.append(_unknown(kind, name))
            continue
        plain = OmegaConf.to_container(value, resolve=True) if OmegaConf.is_config(value) else value
        wanted = kind_of(hints[name])
        if wanted.name == "count" and isinstance(plain, float) and plain.is_integer():
            plain = int(plain)
        try:
            if wanted.name == "truth" and isinstance(plain, (int, float)) and plain not in (0, 1):
                raise ValidationError("any number but 0 would be true")
            typed[name] = plain
        except OmegaConfBaseException as error:
            found = wrong_type(f"{PATH}.{name}", plain, error, decided_by="", kind=wanted)
            problems.append(replace(found, code=CODE, detail=_meaning(kind, name)))
    options: Any = OmegaConf.to_object(typed)
    for found in _out_of_range(options, start and not options.dry_run):
        problems.append(found)
        name = found.path.rpartition(".")[2]
        setattr(options, name, getattr(kind(), name))
    return options, problems if cfg is None else decided(problems, cfg)


def decided(problems: Iterable[Diagnostic], cfg: DictConfig) -> list[Diagnostic]:
    """The problems; those of hydra's own keys with the override, or the file and line, that set them. cfg: as Hydra composed it."""
    found = list(problems)
    if not any(_is_undecided(problem) for problem in found):
        return found
    origins = hydra_origins(cfg)
    return [replace(problem, decided_by=_origin(problem.path, origins)) if _is_undecided(problem) else problem for problem in found]


def _is_undecided(problem: Diagnostic) -> bool:
    return problem.path.startswith("hydra") and not problem.decided_by


def _origin(path: str, origins: Origins) -> str:
    """Empty: nobody has set it."""
    while path and path not in origins.by_path:
        path = path.rpartition(".")[0]
    return origins.by_path[path].source if path else ""


def _name(kind: type) -> str:
    return next(name for name, known in LAUNCHERS.items() if known is kind)


def _unknown(kind: type, name: str) -> Diagnostic:
    mine = [field.name for field in fields(kind)]
    others = [other for other, known in LAUNCHERS.items() if known is not kind and name in {field.name for field in fields(known)}]
    close = [alias] if (alias := _OTHER_NAMES.get((_name(kind), name))) else nearest(name, mine, n=1)
    detail = () if close or others else (f"its options: {', '.join(mine)}",)
    if kind is SlurmOptions and (name in _OF_SBATCH or not close + others):
        close = [f"sbatch.{name}"]
    hints = [f"{PATH}.{near}=VALUE" for near in close] + [f"{GROUP}={other}" for other in others]
    message = f"{PATH}.{name}: {GROUP}={_name(kind)} has no such option"
    return Diagnostic(
        code=CODE,
        path=f"{PATH}.{name}",
        message=message + (f", {' and '.join(others)} has" if others else ""),
        detail=detail,
        hint=", or ".join(hints) or f"without {PATH}.{name}",
    )


def _meaning(kind: type, name: str) -> tuple[str, ...]:
    """An option's docstring, which tells its unit; it stands in the class that defines the option."""
    docs = (field.doc for base in kind.__mro__[:-1] for field in describe(base) if field.name == name and field.doc)
    return tuple(" ".join(doc.split()) for doc in docs)[:1]


def _out_of_range(options: LocalOptions | SlurmOptions, start: bool) -> Iterator[Diagnostic]:
    if not 0 < options.poll_seconds <= _LONGEST_POLL_SECONDS:
        yield _range(options, "poll_seconds", f"above 0 and at most {_LONGEST_POLL_SECONDS:g}")
    if isinstance(options, SlurmOptions):
        if options.python is not None and not (options.python and options.python.isprintable()):
            yield _range(options, "python", "a program on the nodes")
        return
    if options.timeout_min is not None and not 0 < options.timeout_min < math.inf:
        yield _range(options, "timeout_min", "above 0")
    if options.max_parallel is not None and options.max_parallel < 1:
        yield _range(options, "max_parallel", "1 or more")
    if start and options.python is not None and shutil.which(options.python) is None:
        yield _range(options, "python", "a program on this machine")


def _range(options: LocalOptions | SlurmOptions, name: str, wanted: str) -> Diagnostic:
    default = getattr(type(options)(), name)
    return Diagnostic(
        code=CODE,
        path=f"{PATH}.{name}",
        message=f"{shown(f'{PATH}.{name}={getattr(options, name)}')} is not {wanted}",
        detail=_meaning(type(options), name),
        hint=f"{PATH}.{name}={'null' if default is None else default}",
    )
