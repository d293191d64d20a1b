"""The working copy of a config that is imported: its leaves by DeepSpeed's documented path, and what became of each."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from zerocfg.deepspeed.keys import canonical
from zerocfg.deepspeed.view import View


def join(names: tuple[str, ...]) -> str:
    """Dotted path; a name that is no plain word (it holds a dot, a blank, a quote) stands in quotes."""
    return ".".join(name if _plain(name) else json.dumps(name, ensure_ascii=False) for name in names)


def split(path: str) -> tuple[str, ...]:
    """The reverse of `join`."""
    if '"' not in path:
        return tuple(path.split("."))
    names: list[str] = []
    rest = path
    while rest:
        if rest.startswith('"'):
            name, end = json.JSONDecoder().raw_decode(rest)
        else:
            end = rest.find(".") if "." in rest else len(rest)
            name = rest[:end]
        names.append(name)
        rest = rest[end + 1 :]
    return tuple(names)


def _plain(name: str) -> bool:
    return bool(name) and name.isprintable() and not set(name) & set('." \t')


def leaves_of(node: Mapping[str, Any], above: tuple[str, ...] = ()) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Names and value of each leaf; lists and empty mappings are leaves."""
    for name, value in node.items():
        if isinstance(value, Mapping) and value:
            yield from leaves_of(value, (*above, name))
        else:
            yield (*above, name), value


def nested(leaves: Mapping[str, Any]) -> dict[str, Any]:
    """Leaves by path -> nested mappings."""
    root: dict[str, Any] = {}
    for path, value in leaves.items():
        *parents, last = split(path)
        node = root
        for parent in parents:
            node = node.setdefault(parent, {})
        if not (isinstance(value, Mapping) and isinstance(node.get(last), dict)):
            node[last] = dict(value) if isinstance(value, Mapping) else value
    return root


@dataclass
class Draft:
    """Leaves that are still to be expressed, and notes on those of the file."""

    leaves: dict[str, Any] = field(default_factory=dict)
    """Documented path -> value; whole numbers are ints where DeepSpeed counts."""
    sources: dict[str, str] = field(default_factory=dict)
    """Documented path -> path as spelled in the file; a leaf that a migration added has none."""
    migrated: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path as spelled -> (code, what was done)."""
    refused: dict[str, tuple[str, str]] = field(default_factory=dict)
    """Path as spelled -> (code, why it is not carried over)."""

    @classmethod
    def of(cls, config: Mapping[str, Any]) -> Draft:
        draft = cls()
        written = [(join(names), names, value) for names, value in leaves_of(config)]
        direct = {spelled for spelled, _, _ in written}
        for spelled, names, value in written:
            path = canonical(spelled) if '"' not in spelled else spelled
            if path != spelled and (draft._meets(path, direct) or (names[0] == "bfloat16" and "bf16" in config)):
                path = spelled  # DeepSpeed refuses both spellings, or reads only the other: the checks must see both
            draft.leaves[path], draft.sources[path] = value, spelled
        return draft

    def _meets(self, path: str, direct: set[str]) -> bool:
        """Another leaf stands at, above or below `path`."""
        names = path.split(".")
        above = [".".join(names[:n]) for n in range(1, len(names) + 1)]
        taken = direct | self.leaves.keys()
        return any(place in taken for place in above) or any(leaf.startswith(f"{path}.") for leaf in taken)

    def view(self, world_size: int | None = None) -> View:
        return View(nested(self.leaves), world_size=world_size, prefix="")

    def below(self, section: str) -> list[str]:
        """Paths of the leaves at and below `section`."""
        return [path for path in self.leaves if path == section or path.startswith(f"{section}.")]

    def note(self, path: str, code: str, text: str) -> None:
        """Say what was done with the leaf at `path`; later words follow earlier ones."""
        spelled = self.sources.get(path)
        if spelled is not None:
            before = self.migrated.get(spelled)
            self.migrated[spelled] = (before[0], f"{before[1]}; {text}") if before else (code, text)

    def change(self, path: str, value: Any, code: str, text: str) -> None:
        self.leaves[path] = value
        self.note(path, code, text)

    def drop(self, path: str, code: str, text: str) -> None:
        """Leave it out without a change of meaning, or because something else says it."""
        self.note(path, code, text)
        self.leaves.pop(path)

    def refuse(self, path: str, code: str, text: str) -> None:
        """Leave it out: DeepSpeed ignores it, or would fail on it."""
        spelled = self.sources.pop(path, None)
        if spelled is not None:
            self.refused[spelled] = (code, text)
        self.leaves.pop(path)

    def rename(self, old: str, new: str, value: Any, code: str, text: str) -> None:
        """Move a leaf; where the new one stands already, the old one is only dropped."""
        self.note(old, code, text)
        spelled = self.sources.pop(old, None)
        self.leaves.pop(old)
        if new not in self.leaves:
            self.leaves[new] = value
            if spelled is not None:
                self.sources[new] = spelled
