"""The real machine: whatever it is, nothing raises, and what it says is so."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from zerocfg.doctor import Needs, diagnose
from zerocfg.doctor.machine import NOT_FOUND, TIMED_OUT, LocalMachine

here = LocalMachine()


def test_files(tmp_path: Path) -> None:
    (tmp_path / "a").write_text("text")
    assert here.read(str(tmp_path / "a")) == "text"
    assert here.read(str(tmp_path / "b")) == here.read(str(tmp_path)) == ""
    assert here.names(str(tmp_path)) == ("a",)
    assert here.names(str(tmp_path / "b")) == ()
    assert here.writable(str(tmp_path / "deep" / "er"))
    assert not here.writable("/proc/1/x")
    # below a file no folder can be made
    (tmp_path / "file").touch()
    assert not here.writable(str(tmp_path / "file" / "x"))
    assert here.exists(str(tmp_path / "a"))
    with (tmp_path / "a").open():
        assert here.is_open(str(tmp_path / "a"))
    assert not here.is_open(str(tmp_path / "a"))


def test_space_and_speed(tmp_path: Path) -> None:
    space = here.space(str(tmp_path / "deep" / "er"))
    assert space is not None
    assert 0 < space.free <= space.total
    assert space.kind
    assert here.write_speed(str(tmp_path), 2**20) > 0
    assert here.write_speed("/proc", 2**20) == 0.0
    assert list(tmp_path.iterdir()) == []
    shm = here.space("/dev/shm")
    assert shm is not None
    assert shm.kind == "tmpfs"


def test_programs() -> None:
    assert here.run(sys.executable, "-c", "print('hi')").stdout == "hi\n"
    assert here.run("zerocfg-no-such-program").returncode == NOT_FOUND
    assert here.run(sys.executable, "-c", "import time; time.sleep(60)", timeout=0.2).returncode == TIMED_OUT
    assert here.run("/").returncode == 126
    failed = here.run(sys.executable, "-c", "import sys; print('warning: x'); print('y.cpp:1: error: z', file=sys.stderr); sys.exit(3)")
    assert (failed.returncode, failed.said) == (3, "y.cpp:1: error: z")
    # programs of a venv whose folder is not on the PATH
    assert here.which("python")


def test_compile() -> None:
    compiler = here.which("g++") or here.which("c++")
    if compiler:
        assert here.compile(compiler, "-shared", "-fPIC", suffix=".cpp", source="int one() { return 1; }\n").ok
        assert not here.compile(compiler, "-shared", "-fPIC", suffix=".cpp", source="int one( {\n").ok
    assert here.compile("zerocfg-no-such-compiler", suffix=".cpp", source="").returncode == NOT_FOUND


def test_the_rest() -> None:
    assert here.python == sys.version_info[:3]
    assert here.installed("zerocfg")
    assert "__version__" in here.package_text("torch/version.py")
    assert here.package_text("no/such/file.py") == ""
    assert here.limit("NOFILE") != 0
    assert "lo" in here.interfaces()
    assert here.addresses("localhost")
    assert here.addresses("no-such-host.invalid") == ()
    assert here.clock_synchronized() in (True, False, None)
    assert here.environ is os.environ
    assert here.hostname()


@pytest.mark.parametrize("needs", [Needs(), Needs(slurm=True), Needs(output="/proc/none")])
def test_a_diagnosis_of_it(needs: Needs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    findings = diagnose(here, needs)
    assert [f for f in findings if f.code == "ZC890"] == []
    assert {"python", "torch"} <= {f.check for f in findings}
    assert list(tmp_path.iterdir()) == []
