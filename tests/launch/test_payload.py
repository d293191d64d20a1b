"""What travels to the ranks."""

from __future__ import annotations

import inspect
import itertools
import json
import pickle
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from zerocfg.diagnostics import ConfigProblems
from zerocfg.launch.payload import Sealer, frozen

LOCK = threading.Lock()


def sealed(function: Callable[..., Any], config: Any = None) -> bytes:
    return Sealer(function, singletons={}, callbacks=None).seal(OmegaConf.create(config or {}), env_set={})


@pytest.fixture
def resolvers() -> Iterator[None]:
    counter = itertools.count()
    OmegaConf.register_new_resolver("test_next", lambda: next(counter), replace=True)
    OmegaConf.register_new_resolver("test_list", lambda: [1, {"a": 2}], replace=True)
    yield
    OmegaConf.clear_resolver("test_next")
    OmegaConf.clear_resolver("test_list")


def test_custom_resolvers_become_literals(resolvers: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each rank would otherwise ask again, and get another answer."""
    monkeypatch.delenv("LOCAL_RANK", raising=False)
    config = OmegaConf.create(
        {
            "id": "run_${test_next:}",
            "nested": [{"id": "${test_next:}"}, "${oc.env:LOCAL_RANK}", "${id}"],
            "whole": "${test_list:}",
            "decoded": "${oc.decode:'[${test_next:}]'}",
            "open": "${test_unknown:}",
            "missing": "???",
        }
    )
    OmegaConf.set_struct(config, True)
    OmegaConf.set_readonly(config, True)
    made = OmegaConf.to_container(frozen(config), resolve=False)
    assert made == {
        "id": "run_0",
        "nested": [{"id": 1}, "${oc.env:LOCAL_RANK}", "${id}"],
        "whole": [1, {"a": 2}],
        "decoded": [2],
        "open": "${test_unknown:}",
        "missing": "???",
    }
    assert OmegaConf.is_struct(frozen(config)) is True
    assert OmegaConf.to_container(config)["id"] == "run_${test_next:}"  # type: ignore[index, call-overload]


def test_a_typed_node_keeps_its_type(resolvers: None) -> None:
    config = OmegaConf.structured(pickle.loads(pickle.dumps(OmegaConf.create({"n": 1}))))
    config.n = "${test_next:}"
    assert frozen(config).n == 0


def uses_lock(cfg: Any) -> None:
    with LOCK:
        pass


def calls_uses_lock(cfg: Any) -> None:
    uses_lock(cfg)


@pytest.mark.parametrize("function", [uses_lock, calls_uses_lock])
def test_what_cannot_be_pickled_is_named(function: Callable[..., Any], monkeypatch: pytest.MonkeyPatch) -> None:
    for each in (uses_lock, calls_uses_lock):
        monkeypatch.setattr(each, "__module__", "__main__")
    with pytest.raises(ConfigProblems) as caught:
        sealed(function)
    (problem,) = caught.value.diagnostics
    assert problem.code == "ZC707"
    assert "global LOCK of uses_lock (lock)" in problem.message


def test_a_closure_variable_is_named() -> None:
    held = threading.Lock()

    def function(cfg: Any) -> None:
        with held:
            pass

    with pytest.raises(ConfigProblems, match="closure variable held of function"):
        sealed(function)


def test_code_that_travels_keeps_its_file(tmp_path: Path) -> None:
    """Tracebacks show lines, inspect.getsource works: in another process, for a function of a script's __main__."""
    script = tmp_path / "script.py"
    script.write_text(
        "from zerocfg.launch.payload import Sealer\n"
        "class Thing:\n    x = 1\n"
        "def main(cfg):\n    return [Thing.x for _ in range(2)]\n"
        "import sys\n"
        "open(sys.argv[1], 'wb').write(Sealer(main, singletons={}, callbacks=None).seal(None, env_set={'A': '1'}))\n"
    )
    payload = tmp_path / "sealed"
    subprocess.run([sys.executable, script, payload], check=True)
    envelope = pickle.loads(payload.read_bytes())
    assert envelope.script == str(script)
    assert envelope.env_set == {"A": "1"}
    assert str(tmp_path) in envelope.sys_path
    function = envelope.open().function
    assert function(None) == [1, 1]
    assert inspect.getsource(function) == "def main(cfg):\n    return [Thing.x for _ in range(2)]\n"
    assert json.dumps(function.__code__.co_filename) == json.dumps(str(script))
