"""The help pages: commands in the README's order, arguments without Python's names of their types."""

from __future__ import annotations

from typing import Any

from typer.core import TyperGroup

ORDER = (
    *("compile", "check", "explain", "init", "import", "diff", "schema", "launch", "jobs", "consolidate"),
    *("memory", "plan", "profile", "calibrate", "doctor", "topo", "bench", "report"),
)


class Commands(TyperGroup):
    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        self.commands = dict(sorted(self.commands.items(), key=lambda item: ORDER.index(item[0]) if item[0] in ORDER else len(ORDER)))
        for command in self.commands.values():
            for parameter in command.params:
                if parameter.param_type_name == "argument":
                    # else `OVERRIDES <list[str]>`
                    setattr(parameter, "display_type_rich", _nothing)  # noqa: B010 - no typer declares it for assignment


def _nothing(ctx: object) -> None:
    return None
