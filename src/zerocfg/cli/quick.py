"""Plain command lines without typer.

Importing typer and letting it build its commands takes half as long as composing a config (benchmarks/compile_latency.py), so a
line that is nothing but a known command, known options and overrides goes straight to the command. Everything else (help,
completion, a mistake) is typer's; a test keeps both in step.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

FLAGS = {"--json": "as_json", "--force": "force"}
VALUES = {"--out": "out", "--target": "target", "--config-path": "config_path", "--config-name": "config_name"}

OPTIONS: dict[str, tuple[str, ...]] = {
    "compile": ("--out", "--target", "--force", "--json", "--config-path", "--config-name"),
    "check": ("--json", "--config-path", "--config-name"),
    "explain": ("--config-path", "--config-name"),
}


def quick(words: Sequence[str]) -> int | None:
    """Run the command and give its exit status, or None for typer."""
    if not words or words[0] not in OPTIONS or "_ZEROCFG_COMPLETE" in os.environ:
        return None
    parsed = parse(words[0], words[1:])
    return None if parsed is None else command(words[0])(parsed[0], **parsed[1])


def parse(name: str, words: Sequence[str]) -> tuple[list[str], dict[str, Any]] | None:
    """(overrides, options); None for a line that is not plain."""
    overrides: list[str] = []
    options: dict[str, Any] = {}
    rest = iter(words)
    for word in rest:
        if not word.startswith("-"):
            overrides.append(word)
            continue
        option, equals, value = word.partition("=")
        if option not in OPTIONS[name] or (option in FLAGS and equals):
            return None
        if option in FLAGS:
            options[FLAGS[option]] = True
            continue
        if not equals:
            following = next(rest, None)
            if following is None or following.startswith("-"):
                return None
            value = following
        options[VALUES[option]] = value
    return overrides, options


def command(name: str) -> Callable[..., int]:
    """The function of a command: takes the list of overrides, options by keyword, gives the exit status."""
    if name == "compile":
        from zerocfg.cli.compile import compile_command

        return compile_command
    if name == "check":
        from zerocfg.cli.check import check_command

        return check_command
    from zerocfg.cli.explain import explain_command

    return explain_command
