"""The driver, the GPUs, their health and the links between them."""

from __future__ import annotations

import dataclasses

from tests.doctor.fake_machine import GIB, NO_GPUS, FakeMachine, gpu, state
from tests.doctor.fault import FAIL, IB, WARN, Case, detected, health
from zerocfg.doctor.machine import Ran
from zerocfg.probe.health import Health

CASES = [
    Case(
        "old driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(driver="535.104.05", cuda=(12, 2), gpus=(state(0),))},
        {},
        ("535.104.05", "CUDA 13.0", "580", "torch==2.10.*"),
    ),
    Case(
        "very old driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(driver="418.87.00", cuda=(10, 1), gpus=(state(0),))},
        {},
        ("a newer driver",),
    ),
    Case(
        "no driver",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="no NVIDIA driver is installed"), "machine": detected(gpus=())},
        {},
        ("no NVIDIA driver",),
    ),
    Case(
        "no driver in a container",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="no NVIDIA driver is installed"), "files": {"/.dockerenv": ""}},
        {},
        ("--gpus all",),
    ),
    Case(
        "driver updated, not rebooted",
        "ZC822",
        FAIL,
        "driver",
        {"state": Health(reason="the driver's library and kernel module have different versions")},
        {},
        ("reboot",),
    ),
    Case(
        "no GPU",
        "ZC823",
        FAIL,
        "gpus",
        {"machine": dataclasses.replace(NO_GPUS, cpus=64, host_memory_bytes=1000 * GIB)},
        {},
        ("needs 8 GPUs", "has none", "no NVIDIA driver"),
    ),
    Case("no GPU, no run", "ZC823", WARN, "gpus", {"machine": NO_GPUS}, None, ("no GPU",)),
    Case("too few", "ZC823", FAIL, "gpus", {"machine": detected(gpus=tuple(gpu(i) for i in range(4)))}, {}, ("8 GPUs", "4 x NVIDIA H200")),
    Case("a mask", "ZC823", WARN, "gpus", {"machine": detected(reason="CUDA_VISIBLE_DEVICES=0,1,9: '9' names no GPU")}, None, ("'9'",)),
    Case(
        "mixed",
        "ZC823",
        WARN,
        "gpus",
        {"machine": detected(gpus=(*(gpu(i) for i in range(7)), gpu(7, "NVIDIA L4")))},
        {},
        ("different", "1 x NVIDIA L4"),
    ),
    Case(
        "V100 and CUDA 13",
        "ZC824",
        FAIL,
        "gpus",
        {"machine": detected(gpus=tuple(gpu(i, "Tesla V100-SXM2-32GB", (7, 0)) for i in range(8)))},
        {},
        ("7.0", "CUDA 13.0", "torch==2.10.*"),
    ),
    Case(
        "Blackwell and an old CUDA",
        "ZC824",
        FAIL,
        "gpus",
        {
            "machine": detected(gpus=tuple(gpu(i, "NVIDIA B200", (10, 0)) for i in range(8))),
            "texts": {"torch/version.py": "cuda: Optional[str] = '12.6'\n"},
            "packages": {"torch": "2.7.1", "deepspeed": "0.19.8"},
        },
        {},
        ("10.0", "12.6"),
    ),
    Case("ECC", "ZC825", FAIL, "gpu health", {"state": health(ecc_uncorrected=3)}, {}, ("GPU 0", "3 uncorrectable", "--gpu-reset -i 0")),
    Case("ECC, no run", "ZC825", WARN, "gpu health", {"state": health(ecc_uncorrected=3)}, None, ("GPU 0",)),
    Case("row pending", "ZC825", WARN, "gpu health", {"state": health(remap_pending=True)}, {}, ("next reset",)),
    Case("row failed", "ZC825", FAIL, "gpu health", {"state": health(remap_failed=True)}, {}, ("replace the GPU",)),
    Case("lost", "ZC825", FAIL, "gpu health", {"state": health(lost=True)}, {}, ("fallen off",)),
    Case(
        "Xid",
        "ZC825",
        WARN,
        "gpu health",
        {
            "answers": {
                **FakeMachine().answers,
                "dmesg": Ran(0, "[1.0] NVRM: Xid (PCI:0000:1b:00): 79, pid=1\n[2.0] NVRM: Xid (PCI:0000:1b:00): 31, pid=2\n"),
            }
        },
        {},
        ("Xid 79", "fallen off the bus"),
    ),
    Case("MIG", "ZC826", FAIL, "gpu health", {"state": health(mig=True)}, {}, ("GPU 0: in MIG mode", "-i 0 -mig 0")),
    Case("prohibited", "ZC826", FAIL, "gpu health", {"state": health(compute_prohibited=True)}, {}, ("-c DEFAULT",)),
    Case("throttled", "ZC826", WARN, "gpu health", {"state": health(throttled=("power brake",))}, {}, ("power brake",)),
    Case("busy", "ZC826", WARN, "gpu health", {"state": health(memory_used=100 * GIB)}, {}, ("100.0 of 141 GiB",)),
    Case("persistence", "ZC826", WARN, "gpu health", {"state": health(persistence=False)}, {}, ("nvidia-smi -pm 1",)),
    Case(
        "fabric manager", "ZC827", FAIL, "gpu links", {"state": health(fabric="in progress")}, {}, ("in progress", "nvidia-fabricmanager")
    ),
    Case("NVLink down", "ZC827", WARN, "gpu links", {"state": health(nvlinks=16, nvlinks_down=2)}, {}, ("GPUs 0",)),
    Case("SXM on PCIe", "ZC827", WARN, "gpu links", {"machine": detected(link="pcie")}, {}, ("H200-SXM-141GB", "not in use")),
    Case(
        "no P2P",
        "ZC827",
        WARN,
        "gpu links",
        {"machine": detected(link="pcie", p2p=False, gpus=tuple(gpu(i, "NVIDIA GeForce RTX 4090", (8, 9)) for i in range(8)))},
        {},
        ("host memory",),
    ),
    Case(
        "IOMMU",
        "ZC827",
        WARN,
        "gpu links",
        {
            "machine": detected(link="pcie", gpus=tuple(gpu(i, "NVIDIA L40S", (8, 9)) for i in range(8))),
            "files": {**IB, "/sys/class/iommu/dmar0/x": ""},
        },
        {},
        ("IOMMU",),
    ),
    Case("PCIe lanes", "ZC827", WARN, "gpu links", {"state": health(pcie_width=8)}, {}, ("PCIe lanes",)),
]
