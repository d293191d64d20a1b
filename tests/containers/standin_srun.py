"""Stands in for an srun with pyxis: takes pyxis's options off, keeps what was asked for, and has the real srun run the command.

    standin_srun.py REAL_SRUN [OPTION...] COMMAND...

A mount without a source, a working directory that is not mounted: refused, as pyxis would. The command starts in that directory.
"""

from __future__ import annotations

import json
import os
import sys
from typing import NoReturn

OURS = {"image", "mounts", "workdir", "env"}
FLAGS = {"--no-container-mount-home"}


def fail(why: str) -> NoReturn:
    print(f"stand-in: pyxis: {why}", file=sys.stderr)
    sys.exit(1)


def mount(text: str) -> dict[str, str]:
    """SOURCE:TARGET[:FLAGS], as pyxis cuts it: a path can hold neither a colon nor a comma."""
    parts = text.split(":")
    if not 2 <= len(parts) <= 3:
        fail(f"invalid mount {text!r}")
    if not os.path.exists(parts[0]):
        fail(f"mount source does not exist: {parts[0]}")
    return {"source": parts[0], "target": parts[1], "flags": "".join(parts[2:])}


def main() -> None:
    _, real, *words = sys.argv
    asked: dict[str, str] = {}
    kept = []
    while words and words[0].startswith("-"):
        word = words.pop(0)
        name, equals, value = word.removeprefix("--container-").partition("=")
        if word.startswith("--container-"):
            if name not in OURS or not equals:
                fail(f"unknown option {word}")
            asked[name] = value
        elif word not in FLAGS:
            kept.append(word)
    if not asked:
        os.execv(real, [real, *kept, *words])
    mounts = [mount(text) for text in asked["mounts"].split(",")]
    folder = asked["workdir"]
    if not any(folder == m["target"] or folder.startswith(m["target"].rstrip("/") + "/") for m in mounts):
        fail(f"the working directory {folder} is not in the container")
    with open(os.environ["STANDIN_LOG"], "w", encoding="utf-8") as log:
        json.dump({"image": asked["image"], "options": asked, "mounts": mounts, "command": words}, log)
    os.execv(real, [real, *kept, "/bin/sh", "-c", 'cd -- "$1" && shift && exec "$@"', "inside", folder, *words])


main()
