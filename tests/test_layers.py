"""Who may import whom (docs/explanation/architecture.md), read off the source."""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import zerocfg

SRC = Path(zerocfg.__file__).parent
PLUGINS = SRC.parent.parent / "hydra_plugins"

LAYERS: tuple[tuple[str, ...], ...] = (
    ("errors", "units", "nodes", "misfit"),
    ("facts", "diagnostics", "provenance", "gpus", "confsource", "codes", "schema", "hf", "topology", "hidden", "traced"),
    ("plan", "artifact", "resolved", "lowered", "sizes"),
    ("passes", "memory", "deepspeed"),
    ("overlay", "compiler", "planner", "deepspeed/importer"),
    ("emit", "probe", "compose", "progress"),
    ("launch", "runtime", "doctor", "bench", "profile", "calibrate", "report", "library"),
    ("cli", "__main__"),
)
"""From the bottom up. A package imports from its own layer's other packages only where PEERS says so, and never from above."""

PEERS: dict[str, set[str]] = {
    "units": {"errors"},
    "diagnostics": {"provenance"},
    "schema": {"diagnostics", "facts", "traced"},
    "hf": {"schema", "diagnostics", "facts"},
    "gpus": {"facts"},
    "artifact": {"plan"},
    "resolved": {"plan"},
    "overlay": {"compiler"},
    "compiler": {"overlay"},
    "planner": {"compiler"},
    "compose": {"probe"},
    "emit": {"probe"},
    "launch": {"runtime"},
    "doctor": {"launch", "runtime"},
    "bench": {"launch", "runtime"},
    "profile": {"runtime"},
    "report": {"launch", "runtime"},
    "__main__": {"cli"},
}
HEAVY = {"torch", "deepspeed", "submitit", "matplotlib"}
MAY_IMPORT_HEAVY = {"launch", "runtime", "bench", "doctor", "profile", "calibrate", "deepspeed/introspect"}
IO = {
    "probe",
    "launch",
    "runtime",
    "bench",
    "doctor",
    "profile",
    "calibrate",
    "report",
    "library",
    "cli",
    "compose",
    "emit",
    "confsource",
    "deepspeed/introspect",
    "__main__",
}
"""Packages that may look at the environment, start processes and touch files."""
MOST_LINES = 330


def sources() -> list[Path]:
    return sorted(SRC.rglob("*.py"))


def where(path: Path) -> str:
    return path.relative_to(SRC).as_posix()


def package(path: Path) -> str:
    """passes/resolve/zero.py -> passes; plan.py -> plan; the package's own __init__.py -> empty."""
    return _home(where(path).removesuffix(".py").removesuffix("__init__").split("/"))


def _home(parts: list[str]) -> str:
    """The importer writes groups, so it stands above the passes although it lies in deepspeed/."""
    return "deepspeed/importer" if parts[:2] == ["deepspeed", "importer"] else parts[0]


def below(path: Path, names: set[str]) -> bool:
    return any(where(path) == f"{name}.py" or where(path).startswith(f"{name}/") for name in names)


def imports(tree: ast.AST, *, module_level: bool = False) -> Iterator[tuple[int, str]]:
    """(line, dotted module) of every import; `from a import b` gives a and a.b. At module level: what importing the module runs."""
    for node in _run_on_import(tree) if module_level else ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide the layer"
            yield node.lineno, str(node.module)
            yield from ((node.lineno, f"{node.module}.{alias.name}") for alias in node.names)


def _run_on_import(node: ast.AST) -> Iterator[ast.AST]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda)) or (
            isinstance(child, ast.If) and _is_type_checking(child.test)
        ):
            continue
        yield child
        yield from _run_on_import(child)


def _is_type_checking(test: ast.expr) -> bool:
    return ast.unparse(test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


@cache
def parsed(path: Path) -> ast.Module:
    return ast.parse(path.read_text(encoding="utf-8"), str(path))


def test_every_package_has_a_layer() -> None:
    known = {name for layer in LAYERS for name in layer}
    assert {package(path) for path in sources()} - {""} == known


def test_the_architecture_names_every_package() -> None:
    page = (SRC.parent.parent / "docs/explanation/architecture.md").read_text(encoding="utf-8")
    names = {where(path).partition("/")[0] for path in sources()} - {"__init__.py", "__main__.py"}
    assert {name for name in names if f"`{name}" not in page} == set()


def test_imports_point_down() -> None:
    height = {name: level for level, layer in enumerate(LAYERS) for name in layer}
    wrong = []
    for path in sources():
        mine = package(path)
        if not mine:
            continue  # zerocfg/__init__.py only offers current_run, when it is asked for
        for line, module in imports(parsed(path)):
            if not module.startswith("zerocfg."):
                continue
            theirs = _home(module.split(".")[1:])
            if theirs not in height or theirs == mine:
                continue
            if height[theirs] > height[mine] or (height[theirs] == height[mine] and theirs not in PEERS.get(mine, ())):
                wrong.append(f"{where(path)}:{line} imports {module}")
    assert wrong == []


def test_the_library_never_imports_its_plugins() -> None:
    assert [f"{where(p)}:{n}" for p in sources() for n, module in imports(parsed(p)) if module.split(".")[0] == "hydra_plugins"] == []


def test_passes_of_one_kind_never_import_each_other() -> None:
    wrong = []
    for kind in ("resolve", "check", "lower"):
        for path in sorted((SRC / "passes" / kind).glob("*.py")):
            if path.name == "__init__.py":
                continue
            found = (module for _, module in imports(parsed(path)) if module.startswith("zerocfg.passes"))
            wrong += [f"{where(path)} imports {module}" for module in found]
    assert wrong == []


def test_heavy_packages_are_imported_late_and_only_where_they_run() -> None:
    early, elsewhere = [], []
    for path in [*sources(), *sorted(PLUGINS.rglob("*.py"))]:
        tree, name = parsed(path), path.relative_to(SRC.parent.parent).as_posix()
        early += [f"{name}:{line} {module}" for line, module in imports(tree, module_level=True) if module.split(".")[0] in HEAVY]
        if path.is_relative_to(SRC) and not below(path, MAY_IMPORT_HEAVY):
            elsewhere += [f"{name}:{line} {module}" for line, module in imports(tree) if module.split(".")[0] in HEAVY]
    assert early == []
    assert elsewhere == []


def test_only_the_edges_touch_the_world() -> None:
    """os.environ, subprocess and files are for the IO packages: all others are functions of their arguments."""
    wrong = []
    for path in sources():
        if below(path, IO) or not package(path):
            continue
        for node in ast.walk(parsed(path)):
            text = ast.unparse(node) if isinstance(node, (ast.Attribute, ast.Call)) else ""
            if text in ("os.environ", "os.getenv") or (isinstance(node, ast.Call) and _touches(node)):
                wrong.append(f"{where(path)}:{getattr(node, 'lineno', 0)} {text[:60]}")
        wrong += [
            f"{where(path)}:{n} {m}" for n, m in imports(parsed(path)) if m.split(".")[0] in ("subprocess", "socket", "shutil", "tempfile")
        ]
    assert wrong == []


def _touches(call: ast.Call) -> bool:
    if isinstance(call.func, ast.Name):
        return call.func.id in ("open", "print", "input")
    return isinstance(call.func, ast.Attribute) and call.func.attr in (
        "read_text",
        "read_bytes",
        "write_text",
        "write_bytes",
        "mkdir",
        "unlink",
        "iterdir",
        "glob",
        "rglob",
        "is_file",
        "is_dir",
        "exists",
    )


def test_only_the_command_line_prints() -> None:
    wrong = []
    for path in sources():
        if below(path, {"cli", "bench", "deepspeed/introspect", "runtime", "launch", "doctor", "__main__"}):
            continue
        for node in ast.walk(parsed(path)):
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                wrong.append(f"{where(path)}:{node.lineno}")
    assert wrong == []


def test_a_file_is_read_in_one_sitting() -> None:
    lengths = {where(path): _lines_to_read(path) for path in sources()}
    assert {name: lines for name, lines in lengths.items() if lines > MOST_LINES} == {}


def _lines_to_read(path: Path) -> int:
    # tables are looked up, not read
    tables = sum((node.end_lineno or 0) - node.lineno for node in parsed(path).body if isinstance(node, (ast.Assign, ast.AnnAssign)))
    return len(path.read_text(encoding="utf-8").splitlines()) - tables


def test_compiling_loads_nothing_heavy() -> None:
    code = "import sys, zerocfg.cli, zerocfg.compiler, zerocfg.compose, zerocfg.emit, zerocfg.probe; print(*sorted(sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert HEAVY & set(done.stdout.split()) == set()
