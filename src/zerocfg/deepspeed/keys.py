"""Every key that DeepSpeed reads, and what it is called elsewhere.

The table is generated (`make deepspeed-keys`) from the installed release and from what is written in
`zerocfg.deepspeed.catalogue`; this module only looks things up and imports nothing heavy. Paths are dotted JSON paths
without a prefix: "zero_optimization.stage". A `*` in the path of a key stands for a free name or a list index.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Literal

from zerocfg.deepspeed import _classes

Status = Literal["live", "dead", "deprecated", "removed", "needs_call"]


@dataclass(frozen=True, kw_only=True, slots=True)
class Key:
    """One key of the DeepSpeed JSON."""

    path: str
    """Dotted path in the spelling DeepSpeed documents (stage3_prefetch_bucket_size, not prefetch_bucket_size)."""
    type: str
    """Kinds joined by "|": bool, int, float, str, path, list, list[str], list[int], object (a dict with free keys), section
    (a dict with the keys of this table), null, and a quoted word that is allowed besides, such as "auto"."""
    default: object = None
    """What DeepSpeed uses when the key is absent. None for sections."""
    choices: tuple[object, ...] = ()
    """The only values allowed; empty means any value of the type."""
    casefold: bool = False
    """Upper and lower case of a choice are the same to DeepSpeed."""
    rejects_bool: bool = False
    """A number that may not be true or false (pydantic takes them for 1 and 0 elsewhere)."""
    gt: float | None = None
    ge: float | None = None
    lt: float | None = None
    le: float | None = None
    stages: tuple[int, ...] = ()
    """ZeRO stages at which the key has an effect; empty means at all."""
    needs: tuple[str, ...] = ()
    """What else must hold for an effect; words as in `zerocfg.deepspeed.catalogue.entry`."""
    status: Status = "live"
    """dead: parsed, never consumed. needs_call: the training script has to call something. removed: DeepSpeed refuses it
    (`loud`) or no longer looks for it."""
    replacement: str = ""
    """What to write instead of a dead, deprecated or removed key."""
    aliases: tuple[str, ...] = ()
    """Other spellings DeepSpeed reads, as dotted paths."""
    since: str = ""
    """First release that has the key, as far as `zerocfg.deepspeed.catalogue.history` looked; empty for the oldest."""
    removed_in: str = ""
    """First release without the key."""
    changed: tuple[str, object, object] | None = None
    """(release, old default, new default) where the default moved."""
    loud: bool = False
    """A removed key that makes DeepSpeed raise."""
    required: bool = False
    """A parameter without a default."""
    reader: Literal["model", "raw"] = "raw"
    """model: a pydantic model checks name and type and refuses unknown neighbours. raw: looked up in the dict, so a wrong
    name or type passes in silence."""
    doc: str = ""
    """One line."""

    @property
    def name(self) -> str:
        return self.path.rpartition(".")[2]

    @property
    def section(self) -> str:
        """Path of the section the key is in; empty at the top level."""
        return self.path.rpartition(".")[0]

    @property
    def kinds(self) -> tuple[str, ...]:
        return tuple(self.type.split("|"))

    @property
    def is_section(self) -> bool:
        return "section" in self.kinds


@dataclass(slots=True)
class _Node:
    key: Key | None = None
    children: dict[str, _Node] = field(default_factory=dict)
    aliases: dict[str, str] = field(default_factory=dict)


def _union(kind: str, classes: Mapping[str, Mapping[str, Mapping[str, tuple[str, object]]]]) -> Iterator[Key]:
    """The parameters of all of DeepSpeed's own optimizers (or schedules), one key a name."""
    owners: dict[str, list[str]] = {}
    first: dict[str, tuple[str, object]] = {}
    for owner, variants in classes.items():
        for parameters in variants.values():
            for name, fact in parameters.items():
                first.setdefault(name, fact)
                if owner not in owners.setdefault(name, []):
                    owners[name].append(owner)
    for name, (type_, default) in first.items():
        yield Key(
            path=f"{kind}.params.{name}",
            type=type_,
            default=None if default == _classes.REQUIRED else default,
            required=default == _classes.REQUIRED,
            needs=(f"{kind}.type={'|'.join(owners[name])}",),
            doc=_classes.DOCS.get(name, ""),
        )


def release() -> str:
    """The DeepSpeed release the table was made from, such as "0.19.8"."""
    from zerocfg.deepspeed import _table

    return _table.DEEPSPEED


@cache
def all_keys() -> tuple[Key, ...]:
    """Every key: live, dead, deprecated and removed, and each parameter of DeepSpeed's own optimizers and schedules."""
    from zerocfg.deepspeed import _table  # large; not needed by who only asks for parameters

    keys = [Key(**row) for row in _table.KEYS]
    return (*keys, *_union("optimizer", _classes.OPTIMIZERS), *_union("scheduler", _classes.SCHEDULERS))


@cache
def _root() -> _Node:
    root = _Node()
    for key in all_keys():
        node = root
        for part in key.path.split("."):
            node = node.children.setdefault(part, _Node())
        node.key = key
    for key in all_keys():
        for alias in key.aliases:
            section, _, name = alias.rpartition(".")
            node = root
            for part in section.split(".") if section else ():
                node = node.children[part]
            node.aliases[name] = key.name
    return root


def _walk(path: str) -> tuple[list[str], Key | None]:
    """The canonical parts of `path` and the key it names (or the free, or removed, section it lies in)."""
    node: _Node | None = _root()
    parts: list[str] = []
    for part in path.split("."):
        if node is None:
            parts.append(part)
            continue
        part = node.aliases.get(part, part)
        child = node.children.get(part) or node.children.get("*")
        if child is None:
            key = node.key
            if key is not None and (key.status == "removed" or "object" in key.kinds):
                return [*parts, *path.split(".")[len(parts) :]], key
        parts.append(part)
        node = child
    return parts, None if node is None else node.key


def lookup(path: str) -> Key | None:
    """The key at `path`, in any spelling; None when DeepSpeed reads no such key.

    Below a section with free names (autotuning.arg_mappings.x) and below a removed section (elasticity.enabled) the
    answer is the key of that section.
    """
    return _walk(path)[1]


def canonical(path: str) -> str:
    """`path` in DeepSpeed's documented spelling; what is unknown stays as it is."""
    return ".".join(_walk(path)[0])


def sections() -> tuple[str, ...]:
    """Paths of all sections."""
    return tuple(key.path for key in all_keys() if key.is_section)


def children(section: str) -> tuple[Key, ...]:
    """The keys directly in `section` ("" for the top level)."""
    node = _root()
    for part in section.split(".") if section else ():
        part = node.aliases.get(part, part)
        following = node.children.get(part) or node.children.get("*")
        if following is None:
            return ()
        node = following
    return tuple(child.key for child in node.children.values() if child.key is not None)


def optimizer_type(name: str) -> str:
    """`name` as DeepSpeed keeps it: lower case for its own optimizers, unchanged for a class of torch.optim."""
    return name.lower() if name.lower() in _classes.OPTIMIZERS else name


def optimizer_types() -> tuple[str, ...]:
    """DeepSpeed's own optimizers and then the classes of torch.optim."""
    return (*_classes.OPTIMIZERS, *_classes.TORCH_OPTIMIZERS)


def scheduler_types() -> tuple[str, ...]:
    """DeepSpeed's own schedules and then the classes of torch.optim.lr_scheduler."""
    return (*_classes.SCHEDULERS, *_classes.TORCH_SCHEDULERS)


def optimizer_params(type: str, offloaded: bool, *, torch_adam: bool = False) -> dict[str, Key] | None:
    """What `optimizer.params` may hold for `type`; None when the type is unknown or its class is not installed with
    DeepSpeed (muadam, muadamw, musgd).

    offloaded: optimizer states live on CPU or NVMe, so DeepSpeed builds its CPU class, which takes other arguments.
    torch_adam: `optimizer.params.torch_adam` is true, so the class is torch's.
    """
    name = optimizer_type(type)
    if name in _classes.OPTIMIZERS:
        variants = _classes.OPTIMIZERS[name]
        if not variants:
            return None
        chosen = "torch" if torch_adam and "torch" in variants else "cpu" if offloaded and "cpu" in variants else "gpu"
        return _parameters("optimizer", variants[chosen])
    return _parameters("optimizer", _classes.TORCH_OPTIMIZERS[name]) if name in _classes.TORCH_OPTIMIZERS else None


def scheduler_params(type: str) -> dict[str, Key] | None:
    """What `scheduler.params` may hold for `type`; None when the type is unknown."""
    if type in _classes.SCHEDULERS:
        return _parameters("scheduler", _classes.SCHEDULERS[type]["params"])
    return _parameters("scheduler", _classes.TORCH_SCHEDULERS[type]) if type in _classes.TORCH_SCHEDULERS else None


def _parameters(kind: str, facts: Mapping[str, tuple[str, object]]) -> dict[str, Key]:
    return {
        name: Key(
            path=f"{kind}.params.{name}",
            type=type_,
            default=None if default == _classes.REQUIRED else default,
            required=default == _classes.REQUIRED,
            doc=_classes.DOCS.get(name, ""),
        )
        for name, (type_, default) in facts.items()
    }


def nearest(path: str) -> list[str]:
    """Paths that may be meant by the unknown `path`, best first: near names in the same section, then the same name in
    other sections, then near names there. At most five."""
    from difflib import get_close_matches

    section, _, name = canonical(path).rpartition(".")
    siblings = {key.name: key.path for key in children(section) if key.name != "*" and key.status != "removed"}
    found = [siblings[match] for match in get_close_matches(name, siblings, n=2, cutoff=0.7)]
    elsewhere: dict[str, list[str]] = {}
    for key in all_keys():
        if key.section != section and key.name != "*" and key.status != "removed":
            for spelling in (key.name, *(alias.rpartition(".")[2] for alias in key.aliases)):
                elsewhere.setdefault(spelling, []).append(key.path)
    if name not in COMMON_NAMES:
        found += elsewhere.get(name, [])
        for match in get_close_matches(name, elsewhere.keys() - COMMON_NAMES, n=2, cutoff=0.85):
            found += elsewhere[match]
    return list(dict.fromkeys(found))[:5]


COMMON_NAMES = frozenset({"enabled", "type", "params", "device", "dtype", "project", "output_path", "job_name", "verbose", "profile"})
"""Names that many sections have: the same name elsewhere says nothing about what was meant."""
