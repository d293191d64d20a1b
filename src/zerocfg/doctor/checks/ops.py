"""What DeepSpeed compiles on first use, and whether it can."""

from __future__ import annotations

import ast
import re
import sysconfig
from collections.abc import Iterator

from zerocfg.doctor.checks.software import built_for
from zerocfg.doctor.compat import dotted, version
from zerocfg.doctor.finding import Finding, bad, ok, warn
from zerocfg.doctor.machine import Machine
from zerocfg.doctor.needs import Needs

CPU_OPS = {"Adam": "cpu_adam", "AdamW": "cpu_adam", "Lion": "cpu_lion", "Adagrad": "cpu_adagrad"}
CUDA_OPS = {"Adam": "fused_adam", "AdamW": "fused_adam", "Lion": "fused_lion", "Lamb": "fused_lamb"}

_HOST_SOURCE = """\
#include <Python.h>
#include <omp.h>
#include <vector>
extern "C" double total(int n) {
    std::vector<double> values(n, 1.0);
    double sum = 0;
#pragma omp parallel for reduction(+ : sum)
    for (int i = 0; i < n; ++i) sum += values[i];
    return sum;
}
"""
_CUDA_SOURCE = """\
#include <cuda_fp16.h>
__global__ void scale(__half* x, float by, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) x[i] = __float2half(__half2float(x[i]) * by);
}
extern "C" void run(__half* x, float by, int n) {
    scale<<<(n + 255) / 256, 256>>>(x, by, n);
}
"""
_AIO_SOURCE = """\
#include <libaio.h>
extern "C" int setup(io_context_t* context) { return io_setup(1, context); }
"""


def ops_needed(needs: Needs) -> tuple[str, ...]:
    """DeepSpeed's names of the ops that the run loads; what it does not need is not compiled."""
    plan = needs.plan
    if plan is None:
        return ()
    names: list[str] = []
    offloaded = plan.offload.optimizer != "none"
    kind = plan.optimizer.type
    if kind and "torch_adam" not in plan.optimizer.params:
        table = CPU_OPS if offloaded else CUDA_OPS if needs.cuda else {}
        names += [table[kind]] if kind in table else []
    if needs.nvme:
        names.append("async_io")
    if plan.zero.zero_quantized_weights or plan.zero.zero_quantized_gradients:
        names.append("quantizer")
    return tuple(names)


def _installed_ops(machine: Machine) -> dict[str, bool]:
    """Ops that were compiled when DeepSpeed was installed."""
    found = re.search(r"^installed_ops\s*=\s*(\{.*?\})", machine.package_text("deepspeed/git_version_info_installed.py"), re.MULTILINE)
    try:
        read = ast.literal_eval(found[1]) if found else {}
    except (ValueError, SyntaxError):
        return {}
    return read if isinstance(read, dict) else {}


def cuda_home(machine: Machine) -> str:
    """Where torch's extension builder looks for nvcc; empty: nowhere."""
    for name in ("CUDA_HOME", "CUDA_PATH"):
        if machine.environ.get(name):
            return machine.environ[name]
    if nvcc := machine.which("nvcc"):
        return nvcc.removesuffix("/bin/nvcc")
    return "/usr/local/cuda" if machine.exists("/usr/local/cuda/bin/nvcc") else ""


def ops(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC832: each tool that an op of this run is compiled with, tried out on ten lines."""
    wanted = ops_needed(needs)
    built = _installed_ops(machine)
    missing = [name for name in wanted if not built.get(name)]
    if needs.plan is not None and not missing:
        yield ok("none to compile" if not wanted else f"{', '.join(wanted)}: compiled already")
        return
    must, what = bool(missing), ", ".join(missing) or "DeepSpeed's ops"
    kind, cuda = built_for(machine)
    # with a CUDA build of torch even the CPU ops link against the toolkit (op_builder/builder.py)
    with_cuda = kind == "cuda" and (must or bool(machine.detected().gpus))
    tools = []
    if not machine.which("ninja"):
        yield bad(must, "ZC832", f"{what} cannot be compiled: no ninja", "pip install ninja")
    else:
        tools.append("ninja")
    compiler = machine.environ.get("CXX") or machine.which("g++") or machine.which("c++")
    if not compiler:
        yield bad(must, "ZC832", f"{what} cannot be compiled: no g++", "apt-get install g++, or conda install gxx")
    else:
        include = sysconfig.get_paths()["include"]
        tried = machine.compile(compiler, "-std=c++17", "-shared", "-fPIC", "-fopenmp", f"-I{include}", suffix=".cpp", source=_HOST_SOURCE)
        if tried.ok:
            tools.append(compiler.rpartition("/")[2])
        else:
            fix = "apt-get install python3-dev" if "Python.h" in tried.stderr else f"a working compiler: CXX={compiler} fails on ten lines"
            yield bad(must, "ZC832", f"{what} cannot be compiled: {tried.said}", fix)
        if "async_io" in missing:
            tried = machine.compile(compiler, "-shared", "-fPIC", suffix=".cpp", source=_AIO_SOURCE)
            if not tried.ok:
                yield bad(True, "ZC832", f"async_io cannot be compiled: {tried.said}", "apt-get install libaio-dev")
    if with_cuda:
        yield from _toolkit(machine, needs, what, must, cuda, tools)
    if tools:
        yield ok(f"{', '.join(tools)} work" + (f", for {what}" if must else ""))


def _toolkit(machine: Machine, needs: Needs, what: str, must: bool, cuda: tuple[int, ...], tools: list[str]) -> Iterator[Finding]:
    home = cuda_home(machine)
    if not home or not machine.exists(f"{home}/bin/nvcc"):
        where = f"CUDA_HOME={home} has no bin/nvcc" if home else "no nvcc, and CUDA_HOME is not set"
        yield bad(must, "ZC832", f"{what} cannot be compiled: {where}", f"the CUDA {cuda[0]} toolkit, and export CUDA_HOME=/usr/local/cuda")
        return
    found = re.search(r"release (\d+)\.(\d+)", machine.run(f"{home}/bin/nvcc", "--version").stdout)
    toolkit = (int(found[1]), int(found[2])) if found else ()
    if toolkit and toolkit[0] != cuda[0]:
        # op_builder's assert_no_cuda_mismatch: other minor versions pass
        text = f"{what} cannot be compiled: {home} is CUDA {dotted(toolkit)}, torch was built with {dotted(cuda)}"
        yield bad(must, "ZC832", text, f"the CUDA {cuda[0]} toolkit, and CUDA_HOME on it")
        return
    capability = next((gpu.compute_capability for gpu in machine.detected().gpus), None)
    # seconds of work: only where the answer counts
    if capability is None or not (must or needs.start):
        tools.append(f"nvcc {dotted(toolkit)} (not tried)")
        return
    arch = f"-arch=sm_{capability[0]}{capability[1]}"
    tried = machine.compile(f"{home}/bin/nvcc", arch, "-shared", "-Xcompiler=-fPIC", suffix=".cu", source=_CUDA_SOURCE)
    if tried.ok:
        tools.append(f"nvcc {dotted(toolkit)}")
    else:
        fix = (
            "a g++ that this CUDA supports: CXX=g++-12 and NVCC_PREPEND_FLAGS='-ccbin g++-12'"
            if "gcc" in tried.stderr.lower()
            else f"the CUDA {cuda[0]} toolkit for this GPU"
        )
        yield bad(must, "ZC832", f"{what} cannot be compiled: {tried.said}", fix)


def build_cache(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC833: where compiled ops are kept."""
    folder = machine.environ.get("TORCH_EXTENSIONS_DIR") or "~/.cache/torch_extensions"
    yield from _locks_left(machine, folder, ops_needed(needs))
    if needs.plan is not None and not ops_needed(needs):
        return
    if not machine.writable(folder):
        yield bad(
            bool(ops_needed(needs)), "ZC833", f"{folder} cannot be written: ops are compiled there", "export TORCH_EXTENSIONS_DIR=/tmp/ops"
        )
        return
    space = machine.space(folder)
    if space is not None and space.kind.startswith(("nfs", "lustre", "gpfs", "beegfs")):
        fix = "export TORCH_EXTENSIONS_DIR=/tmp/torch_extensions, local to each node"
        yield warn("ZC833", f"{folder} is on {space.kind}: nodes that compile at the same time wait for each other's locks", fix)


def _locks_left(machine: Machine, folder: str, wanted: tuple[str, ...]) -> Iterator[Finding]:
    """A process that is killed while it compiles or loads an op leaves the op's lock, and torch waits for its end without an end
    (torch/utils/file_baton.py)."""
    for place in (folder, *(f"{folder}/{name}" for name in machine.names(folder))):  # one a Python and CUDA, in the default folder
        for op in machine.names(place):
            lock = f"{place}/{op}/lock"
            if machine.exists(lock) and not machine.is_open(lock):
                fix = f"rm {lock}, if no other machine compiles {op} there now"
                yield bad(op in wanted, "ZC833", f"{lock} was left by a process that is gone: what loads {op} waits for it forever", fix)


def architectures(machine: Machine, needs: Needs) -> Iterator[Finding]:
    """ZC833: TORCH_CUDA_ARCH_LIST of the environment, which DeepSpeed's builder reads too."""
    text = needs.environment.get("TORCH_CUDA_ARCH_LIST") or machine.environ.get("TORCH_CUDA_ARCH_LIST", "")
    if not text or not needs.gpus_matter:
        return
    entries = [entry for entry in re.split(r"[;, ]+", text) if entry]
    unreadable = [entry for entry in entries if not re.fullmatch(r"\d+\.\d+(\+PTX)?", entry)]
    present = sorted({gpu.compute_capability for gpu in machine.detected().gpus})
    clear = ";".join(f"{major}.{minor}" for major, minor in present) or ";".join(
        dict.fromkeys(entry.partition("+")[0].rstrip("af") for entry in entries if version(entry))
    )
    if unreadable:
        # op_builder/builder.py:710 splits MAJOR.MINOR and takes int() of both
        text = f"TORCH_CUDA_ARCH_LIST={text}: DeepSpeed cannot read {', '.join(unreadable)} and fails when it compiles an op"
        yield bad(bool(ops_needed(needs)), "ZC833", text, f"export TORCH_CUDA_ARCH_LIST='{clear}'")
        return
    listed = [version(entry) for entry in entries]
    ptx = [version(entry) for entry in entries if "+PTX" in entry]
    for capability in present:
        # code for 8.0 runs on 8.6, not on 9.0; PTX runs on all later ones
        runs = any(one[0] == capability[0] and one <= capability for one in listed) or any(one <= capability for one in ptx)
        if not runs:
            text = f"TORCH_CUDA_ARCH_LIST={text}: compiled ops would not run on compute capability {capability[0]}.{capability[1]}"
            yield bad(bool(ops_needed(needs)), "ZC833", text, f"export TORCH_CUDA_ARCH_LIST='{clear}'")
