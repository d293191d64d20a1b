"""Stands in for docker and apptainer: reads their command line as they do, keeps what it was asked for, and runs the command.

An option that it does not know, a mount without a source, a working directory that is not mounted: refused, as they would. docker gives
the command nothing but the variables that were named; apptainer all, those of APPTAINERENV_ last.
"""

from __future__ import annotations

import csv
import json
import os
import sys
from typing import NoReturn

DOCKER_FLAGS = {"--rm", "--init"}
DOCKER_VALUES = {
    *("--gpus", "--ipc", "--shm-size", "--ulimit", "--network", "--device", "--cap-add"),
    *("--user", "--mount", "--workdir", "--env", "--group-add"),
}
APPTAINER_FLAGS = {"--nv"}
APPTAINER_VALUES = {"--mount", "--pwd", "--overlay"}


def fail(why: str) -> NoReturn:
    print(f"stand-in: {why}", file=sys.stderr)
    sys.exit(125)


def one_row(text: str) -> list[str]:
    rows = list(csv.reader([text], strict=True)) if "\n" not in text else list(csv.reader(text.splitlines(keepends=True), strict=True))
    if len(rows) != 1:
        fail(f"{text!r} is not one line of CSV")
    return rows[0]


def mount(text: str) -> dict[str, str]:
    fields = dict(field.partition("=")[::2] for field in one_row(text))
    if set(fields) - {"type", "source", "target", "ro"} or fields.get("type") != "bind":
        fail(f"mount {text!r}")
    if not os.path.exists(fields["source"]):
        fail(f"bind source path does not exist: {fields['source']}")
    return fields


def main() -> None:
    _, program, *words = sys.argv
    subcommand = "run" if program == "docker" else "exec"
    flags, values = (DOCKER_FLAGS, DOCKER_VALUES) if program == "docker" else (APPTAINER_FLAGS, APPTAINER_VALUES)
    if words[:1] != [subcommand]:
        fail(f"{program} {words[:1]}")
    options: dict[str, list[str]] = {}
    rest = words[1:]
    while rest and rest[0].startswith("-"):
        name, equals, value = rest.pop(0).partition("=")
        if name in flags and not equals:
            options[name] = []
        elif name in values and equals:
            options.setdefault(name, []).append(value)
        else:
            fail(f"unknown option {name}")
    image, *command = rest
    mounts = [mount(text) for text in options.get("--mount", [])]
    folder = options["--workdir" if program == "docker" else "--pwd"][-1]
    if not any(folder == m["target"] or folder.startswith(m["target"].rstrip("/") + "/") for m in mounts):
        fail(f"the working directory {folder} is not in the container")
    if program == "docker":
        given = [entry.partition("=") for entry in options["--env"]]
        inside = {name: value if equals else os.environ[name] for name, equals, value in given if equals or name in os.environ}
        inside["PATH"] = os.environ["PATH"]
    else:
        forced = {k.removeprefix("APPTAINERENV_"): v for k, v in os.environ.items() if k.startswith("APPTAINERENV_")}
        inside = {k: v for k, v in os.environ.items() if not k.startswith("APPTAINER")} | forced
    if "--gpus" in options:
        options["--gpus"] = one_row(options["--gpus"][-1])
    with open(os.environ["STANDIN_LOG"], "w", encoding="utf-8") as log:
        json.dump({"program": program, "options": options, "mounts": mounts, "image": image, "command": command, "env": inside}, log)
    os.chdir(folder)
    os.execvpe(command[0], command, inside)


main()
