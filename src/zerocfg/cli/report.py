"""zerocfg report: a page about a run or a sweep."""

from __future__ import annotations

import webbrowser
from pathlib import Path

from zerocfg.cli import output
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.emit import replace_text
from zerocfg.report.data import RunData
from zerocfg.report.read import read_folder
from zerocfg.report.run_page import run_page
from zerocfg.report.sweep_page import sweep_page

PAGE = "report.html"


def report_command(folder: str, *, out: str | None = None, opened: bool = False) -> int:
    """Write the page to `out`, a file or a folder (default: FOLDER/report.html), and print its path. opened: show it in the browser."""
    try:
        found = read_folder(Path(folder))
        text = run_page(found) if isinstance(found, RunData) else sweep_page(found)
        file = Path(out) if out is not None else Path(folder)
        file = file / PAGE if file.is_dir() else file
        try:
            replace_text(file, text)
        except OSError as error:
            message = f"{file} cannot be written: {error.strerror or error}"
            raise ConfigProblems([Diagnostic(code="ZC185", message=message, hint="--out FILE in a folder that can be written")]) from error
    except ConfigProblems as problems:
        output.report(problems.diagnostics)
        return 1
    output.product(str(file))
    if opened:
        webbrowser.open(file.resolve().as_uri())
    return 0
