from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tests.probe.fake_nvml import FakeNvml, Gpu
from zerocfg.facts import Detected
from zerocfg.probe import detect


def test_host_and_gpus_together(tmp_path: Path) -> None:
    (tmp_path / "proc").mkdir()
    (tmp_path / "proc/meminfo").write_text("MemTotal: 1048576 kB\n")
    nvml = FakeNvml([Gpu("GPU-a", links={0: "switch"}), Gpu("GPU-b", links={0: "switch"})])
    found = detect(nvml=nvml, environ={}, root=tmp_path, affinity=frozenset(range(6)))  # type: ignore[arg-type]
    assert (found.cpus, found.host_memory_bytes, found.numa_nodes) == (6, 2**30, 1)
    assert [g.uuid for g in found.gpus] == ["GPU-a", "GPU-b"]
    assert (found.link, found.p2p, found.reason) == ("nvswitch", True, "")
    assert found.host


def test_a_machine_without_gpus_says_why(tmp_path: Path) -> None:
    found = detect(nvml=FakeNvml(init_error=12), environ={}, root=tmp_path, affinity=frozenset({0}))  # type: ignore[arg-type]
    assert found == Detected(
        cpus=1,
        host_memory_bytes=0,
        numa_nodes=1,
        reason="no NVIDIA driver is installed (libnvidia-ml.so.1 was not found)",
        host=found.host,
    )


def test_torch_is_not_imported() -> None:
    code = "import sys; from zerocfg.probe import detect; detect(); print('torch' in sys.modules, 'deepspeed' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True).stdout == "False False\n"
