"""zerocfg init: a starter project."""

from __future__ import annotations

import shlex
from pathlib import Path

from zerocfg.cli import output
from zerocfg.diagnostics import Diagnostic

CONFIG = """\
# Everything of zerocfg, then what is yours. A group's option or any key can be set here or on the command line:
#   python train.py parallelism=zero2 optimizer.lr=1e-4
#   zerocfg explain optimizer
defaults:
  - zerocfg
  - _self_
  # - override parallelism: zero3
  # - override precision: bf16

train:
  steps: 100

optimizer:
  lr: 3e-4
"""

_REPO = {'config_name="zerocfg"': 'config_name="config"'}
"""train.py of the repository composes the packaged primary config; a project has its own."""


def init_command(directory: str = ".", *, force: bool = False) -> int:
    """Write train.py and conf/config.yaml; existing files stay unless `force`."""
    folder = Path(directory)
    files = {folder / "train.py": starter(), folder / "conf" / "config.yaml": CONFIG}
    there = [str(path) for path, text in files.items() if _differs(path, text)]
    if there and not force:
        output.report([_exists(there)])
        return 1
    try:
        for path, text in files.items():
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text, encoding="utf-8")
    except OSError as error:
        output.report([Diagnostic(code="ZC182", message=f"{folder} cannot be written: {error.strerror or error}", hint="another folder")])
        return 1
    for path in files:
        output.product(str(path))
    into = "" if folder.resolve() == Path.cwd() else f"cd {shlex.quote(directory)}, then "
    output.say(f"next: {into}python train.py, or zerocfg check")
    return 0


def _differs(path: Path, text: str) -> bool:
    return path.exists() and (not path.is_file() or path.read_text(encoding="utf-8", errors="replace") != text)


def starter() -> str:
    """The example training script: from the wheel, or the repository's own in a source checkout."""
    package = Path(__file__).resolve().parent.parent
    for path in (package / "_starter" / "train.py", package.parent.parent / "train.py"):
        if path.is_file():
            text = path.read_text(encoding="utf-8")
            for repo, project in _REPO.items():
                text = text.replace(repo, project)
            return text
    raise FileNotFoundError("zerocfg's starter script is missing from this installation")


def _exists(there: list[str]) -> Diagnostic:
    return Diagnostic(code="ZC182", message=f"{' and '.join(there)} would be overwritten", hint="zerocfg init another-folder, or --force")
