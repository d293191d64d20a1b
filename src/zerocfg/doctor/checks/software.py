"""Python, torch, DeepSpeed and the libraries that they bring. Nothing is imported: a broken package must not break its check."""

from __future__ import annotations

import re
from collections.abc import Iterator

from zerocfg.doctor.compat import LEAST_TORCH, dotted, version
from zerocfg.doctor.finding import Finding, bad, fail, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs

_LEAST_PYTHON = (3, 10)
_TESTED_TORCH = "2.13.0"
_LEAST_DEEPSPEED = (0, 19)


def python(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC820."""
    text = dotted(machine.python)
    if machine.python[:2] < _LEAST_PYTHON:
        yield fail("ZC820", f"Python {text}; zerocfg needs {dotted(_LEAST_PYTHON)} or later", "python3.12 -m venv .venv, and install there")
    else:
        yield ok(text)


def built_for(machine: Machine) -> tuple[str, tuple[int, ...]]:
    """("cuda", (13, 0)), ("rocm", (6, 2)), ("cpu", ()) of the installed torch; ("", ()) where it cannot be told."""
    text = machine.package_text("torch/version.py")
    for kind, name in (("cuda", "cuda"), ("rocm", "hip")):
        found = re.search(rf"^{name}\b[^=\n]*=\s*['\"]([\d.]+)", text, re.MULTILINE)
        if found:
            return kind, version(found[1])
    return ("cpu", ()) if text else ("", ())


def torch(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC821."""
    installed = machine.installed("torch")
    if not installed:
        yield bad(needs.plan is not None, "ZC821", "torch is not installed", f"pip install torch=={_TESTED_TORCH}")
        return
    kind, built = built_for(machine)
    if version(installed)[:2] < LEAST_TORCH:
        yield bad(
            needs.plan is not None,
            "ZC821",
            f"torch {installed} is older than {dotted(LEAST_TORCH)}",
            f"pip install torch=={_TESTED_TORCH}, or another release from {dotted(LEAST_TORCH)} on",
        )
    elif needs.cuda and kind != "cuda":
        wanted = needs.plan.hardware.name or "the hardware" if needs.plan is not None else ""
        yield fail(
            "ZC821",
            f"torch {installed} is a build for {'the CPU' if kind == 'cpu' else kind or 'something unknown'}, {wanted} needs one for CUDA",
            f"pip install --force-reinstall torch=={installed.partition('+')[0]}: PyPI's build for Linux has CUDA",
        )
    elif needs.plan is None and kind == "cpu" and machine.detected().gpus:
        release = installed.partition("+")[0]
        fix = f"pip install --force-reinstall torch=={release}: PyPI's build for Linux has CUDA"
        yield warn("ZC821", f"torch {installed} is a build for the CPU, but there are GPUs", fix)
    else:
        yield ok(f"{installed}, built for {kind if kind == 'cpu' else f'{kind} {dotted(built)}'.replace('cuda', 'CUDA')}")


def deepspeed(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC831."""
    installed = machine.installed("deepspeed")
    if installed and version(installed)[:2] >= _LEAST_DEEPSPEED:
        yield ok(installed)
        return
    text = f"DeepSpeed {installed} is older than {dotted(_LEAST_DEEPSPEED)}" if installed else "DeepSpeed is not installed"
    yield bad(needs.plan is not None, "ZC831", text, "DS_BUILD_OPS=0 pip install 'deepspeed>=0.19'")


def libraries(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC830: NCCL and cuDNN that torch's wheel brings, and others of the library path, which would be loaded in their place."""
    kind, built = built_for(machine)
    if kind != "cuda":
        return
    searched = [folder for folder in machine.environ.get("LD_LIBRARY_PATH", "").split(":") if folder]
    preloaded = machine.environ.get("LD_PRELOAD", "").replace(" ", ":").split(":")
    for name, library in (("nccl", "libnccl.so"), ("cudnn", "libcudnn.so")):
        bundled = machine.installed(f"nvidia-{name}-cu{built[0]}")
        others = [f"{folder}/{file}" for folder in searched for file in machine.names(folder) if file.startswith(library)]
        others += [path for path in preloaded if path.rpartition("/")[2].startswith(library)]
        # torch's wheels put their own folders into the library path of some launchers
        others = [path for path in others if "/nvidia/" not in path]
        title = "NCCL" if name == "nccl" else "cuDNN"
        if others and bundled:
            shown = max(others, key=len)
            yield warn(
                "ZC830",
                f"{shown} would be loaded in place of {title} {bundled}, which torch was built with",
                f"take {shown.rpartition('/')[0]} out of LD_LIBRARY_PATH" if shown not in preloaded else "unset LD_PRELOAD",
            )
        else:
            yield ok(f"{title} {bundled or 'not as a wheel: part of torch or of the system'}")
