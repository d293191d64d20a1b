"""Each code fails once, its correction is clean, and the tables of codes are complete and free of duplicates."""

from __future__ import annotations

import ast
import importlib
import pkgutil
import re
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

import zerocfg
from tests.codes import cases_job, cases_precision, cases_resolve, cases_topology, cases_zero
from tests.codes.case import Case
from zerocfg.codes import PLAN_CODES
from zerocfg.compiler import examine
from zerocfg.diagnostics import Diagnostic

SRC = Path(zerocfg.__file__).parent
CODE = re.compile(r"ZC\d{3}")
CASES = [*cases_resolve.CASES, *cases_topology.CASES, *cases_zero.CASES, *cases_precision.CASES, *cases_job.CASES]


@pytest.mark.parametrize("case", CASES, ids=[f"{i}-{case.code}-{case.path}" for i, case in enumerate(CASES)])
def test_a_code_fails_once_and_its_correction_is_clean(case: Case, container: Callable[..., dict[str, Any]]) -> None:
    bad = examine(container(case.bad), environ=case.environ).diagnostics
    found = [d for d in bad if d.code == case.code and d.path == case.path]
    assert len(found) == 1, [(d.code, d.path, d.message) for d in bad]
    assert _is_complete(found[0])
    good = examine(container(case.good), environ=case.environ)
    assert [(d.code, d.path, d.message) for d in good.diagnostics] == []
    assert good.run is not None


def _is_complete(diagnostic: Diagnostic) -> bool:
    """It names the path, says who decided the value and what to write instead, and is one greppable first line."""
    last = diagnostic.path.removeprefix("env.")
    named = last in diagnostic.message or diagnostic.path in diagnostic.message
    return named and diagnostic.decided_by != "" and diagnostic.hint != "" and "\n" not in diagnostic.message


def test_every_code_of_the_passes_has_a_case() -> None:
    assert sorted({case.code for case in CASES}) == sorted(PLAN_CODES)


def _tables() -> Iterator[tuple[str, str, str]]:
    """(module, code, line) of every table named *CODES; a table that a module only imports counts once."""
    seen: set[int] = set()
    for module in pkgutil.walk_packages(zerocfg.__path__, "zerocfg."):
        if module.name.endswith("__main__"):
            continue
        for name, table in vars(importlib.import_module(module.name)).items():
            if name.endswith("CODES") and isinstance(table, dict) and id(table) not in seen:
                seen.add(id(table))
                yield from ((module.name, code, line) for code, line in table.items())


def _raised() -> dict[str, list[str]]:
    """Code -> where the source mentions it as a value of its own, tables of codes apart."""
    found: dict[str, list[str]] = {}
    for path in sorted(SRC.rglob("*.py")):
        tree = ast.parse(path.read_text(encoding="utf-8"))
        in_tables = {id(key) for node in ast.walk(tree) if _is_table(node) for key in ast.walk(node)}
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and CODE.fullmatch(node.value) and id(node) not in in_tables:
                found.setdefault(node.value, []).append(f"{path.relative_to(SRC)}:{node.lineno}")
    return found


def _is_table(node: ast.AST) -> bool:
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return any(isinstance(target, ast.Name) and target.id.endswith("CODES") for target in targets)


def test_every_code_that_is_raised_has_exactly_one_line_and_the_reverse() -> None:
    lines = list(_tables())
    twice = [code for code, count in Counter(code for _, code, _ in lines).items() if count > 1]
    raised = _raised()
    tables = {code for _, code, _ in lines}
    assert twice == []
    assert {code: where for code, where in raised.items() if code not in tables} == {}
    assert sorted(tables - raised.keys()) == []


def test_a_line_is_one_sentence() -> None:
    crooked = [(code, line) for _, code, line in _tables() if not line.strip() or "\n" in line or not CODE.fullmatch(code)]
    assert crooked == []
