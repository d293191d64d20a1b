"""zerocfg doctor: one screen, its exit status, its JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.doctor.fake_machine import NO_GPUS, TORCH_CPU, FakeMachine
from zerocfg.cli.doctor import doctor_command
from zerocfg.probe.health import Health

LAPTOP: dict[str, Any] = {
    "machine": NO_GPUS,
    "state": Health(reason="no NVIDIA driver is installed"),
    "packages": {"torch": "2.13.0+cpu", "deepspeed": "0.19.8"},
    "texts": {"torch/version.py": TORCH_CPU},
    "host": "laptop",
    "names_known": {"laptop": ("127.0.1.1",)},
    "nets": ("lo", "wlan0"),
}


def doctor(capsys: pytest.CaptureFixture[str], *overrides: str, as_json: bool = False, **machine: Any) -> tuple[int, str, str]:
    status = doctor_command(overrides, as_json=as_json, machine=FakeMachine(**(LAPTOP | machine)))
    out, err = capsys.readouterr()
    return status, out, err


def test_a_machine_without_gpus(capsys: pytest.CaptureFixture[str]) -> None:
    assert doctor(capsys) == (
        0,
        """\
laptop
ok    python       3.12.3
ok    torch        2.13.0+cpu, built for cpu
ok    deepspeed    0.19.8
warn  driver       no NVIDIA driver is installed [ZC822]
                   try: install NVIDIA's driver, or hardware=cpu
warn  gpus         no GPU: no NVIDIA driver is installed [ZC823]
                   try: nothing, for hardware=cpu
ok    ops          ninja, g++ work
ok    host         8 cores, 16 GiB, 1 NUMA node
ok    /dev/shm     /dev/shm has 64 GiB
ok    limits       65536 open files, unlimited locked memory
ok    interfaces   NCCL would choose wlan0 of lo, wlan0
ok    host name    laptop is 127.0.1.1
ok    output       outputs: 800 GiB free on xfs, 2000 MB/s
ok    environment  nothing that slows a run down

11 ok, 2 warnings, 0 failed
""",
        "",
    )


def test_a_run_on_the_cpu_is_fit(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = doctor(capsys, "hardware=cpu")
    assert status == 0
    assert out.startswith("laptop, for hardware=cpu\n")
    assert out.endswith("11 ok, 0 warnings, 0 failed\n")


def test_a_run_on_gpus_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = doctor(capsys, "hardware=a100x4")
    assert status == 1
    failed = [line.split()[1] for line in out.splitlines() if line.startswith("fail")]
    assert failed == ["torch", "driver", "gpus"]
    assert out.endswith("3 failed: not fit for hardware=a100x4\n")


def test_json(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = doctor(capsys, "hardware=a100x4", as_json=True)
    made = json.loads(out)
    assert (status, err) == (1, "")
    assert {key: made[key] for key in ("status", "host", "run", "problems")} == {
        "status": "fail",
        "host": "laptop",
        "run": "hardware=a100x4",
        "problems": [],
    }
    assert {frozenset(line) for line in made["checks"]} == {frozenset({"check", "status", "code", "text", "fix"})}
    assert {"check": "python", "status": "ok", "code": "", "text": "3.12.3", "fix": ""} in made["checks"]


def test_a_config_with_errors(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = doctor(capsys, "hardware=cpu", "batch.micro_batch_size=0")
    assert status == 1
    assert "error[ZC202]" in err
    assert "11 ok, 2 warnings, 0 failed" in out
    status, out, _ = doctor(capsys, "hardware=nothing", as_json=True)
    assert status == 1
    assert [problem["code"] for problem in json.loads(out)["problems"]] == ["ZC110"]


def test_where_the_run_writes(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, _ = doctor(capsys, "hardware=cpu", "hydra.sweep.dir='/read only'", read_only=frozenset({"/read only"}))
    assert status == 1
    assert "fail  output       /read only cannot be written [ZC860]" in out


@pytest.mark.parametrize(("overrides", "status"), [([], 0), (["hardware=cpu"], 0), (["hardware=a100x4"], 1)])
def test_this_machine(process: Any, overrides: list[str], status: int, tmp_path: Path) -> None:
    """For real, in a process of its own: no traceback, nothing left behind."""
    done = process("doctor", *overrides, "--json")
    assert done.stderr == ""
    assert json.loads(done.stdout)["host"]
    gpus = next((line for line in json.loads(done.stdout)["checks"] if line["check"] == "gpus"), {"status": "ok"})
    if gpus["status"] != "ok":  # on a machine of GPUs the answer is another
        assert done.returncode == status
    assert list(tmp_path.iterdir()) == []


def test_without_torch(process: Any, tmp_path: Path) -> None:
    """Nothing imports it: versions come from the metadata."""
    (tmp_path / "torch.py").write_text("raise ImportError('broken')\n")
    (tmp_path / "deepspeed.py").write_text("raise ImportError('broken')\n")
    done = process("doctor", PYTHONPATH=str(tmp_path))
    assert (done.returncode, done.stderr) == (0, "")
