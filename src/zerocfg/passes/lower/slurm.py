"""Resources + hydra.launcher -> what jobs of one shape ask SLURM for: #SBATCH directives and the arguments of srun.

Pure. Two jobs with equal `SlurmShape` can share an array.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from zerocfg.artifact import Resources
from zerocfg.diagnostics import Diagnostic
from zerocfg.hidden import HIDDEN, assigned_secrets, is_secret
from zerocfg.schema.slurm import GpuRequest, SlurmConfig

PATH = "hydra.launcher"
STEP_LOG = ".zerocfg/torchrun.log"
"""Output of the step, relative to the job's folder: `launch.paths.JobPaths.starter_log`."""
_MEMORY = {"mem_gb": "mem", "mem_per_cpu_gb": "mem-per-cpu", "mem_per_gpu_gb": "mem-per-gpu"}
# Written for every job, or made of more than one field: no second word on these.
_DECIDED = frozenset(
    {"array", "output", "error", "input", "chdir", "open-mode", "ntasks", "ntasks-per-node", "wrap", "parsable", "test-only", "wait"}
)
_OF_A_FIELD = {
    **{name: name.replace("-", "_") for name in ("partition", "account", "qos", "constraint", "reservation", "nodes", "job-name")},
    **{flag: name for name, flag in _MEMORY.items()},
    "time": "timeout_min",
    "cpus-per-task": "cpus_per_task",
    "gpus-per-node": "gpus_per_node",
    "signal": "signal",
    "requeue": "requeue",
    "no-requeue": "requeue",
}
_GPUS = frozenset({"gpus", "gpus-per-node", "gpus-per-task", "gpus-per-socket"})
_NEVER_LEFT_OUT = frozenset({"nodes", "chdir", "output", "open-mode", "array"})
# What the ranks' start, logs and failure handling stand on.
_FIXED_IN_SRUN = frozenset({"nodes", "ntasks", "output", "error", "input", "open-mode", "chdir", "kill-on-bad-exit", "multi-prog"})
_OURS = re.compile(
    r"(SLURM|SLURMD|SBATCH|SRUN|SALLOC|PET|TORCHELASTIC)_|(RANK|WORLD_SIZE|LOCAL_RANK|MASTER_(ADDR|PORT)|CUDA_VISIBLE_DEVICES)$"
)
# Those that a process can handle and that nothing of ours means something else by; sbatch's man page for the longest delay.
_SIGNALS = ("USR2", "USR1", "TERM", "INT", "HUP", "QUIT", "ALRM", "CONT", "URG")
_LONGEST_SIGNAL_DELAY_S = 65535
_OPTION = re.compile(r"[a-z][a-z0-9]*(-[a-z0-9]+)*")


@dataclass(frozen=True, kw_only=True, slots=True)
class SlurmShape:
    """What all jobs of one array have in common."""

    nodes: int
    directives: tuple[tuple[str, str], ...]
    """sbatch option -> value, without `--`; an empty value: a bare flag. Array, folder and log are the script's."""
    srun: tuple[tuple[str, str], ...]
    """The same for srun, of which each job runs one: one task a node."""
    environment: tuple[tuple[str, str], ...] = ()
    """Exported in the script."""
    secrets: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    """Handed to sbatch in its environment, never written."""
    setup: tuple[str, ...] = ()
    array_parallelism: int = 0
    """0: no limit."""
    rdzv_port: int = 0
    """0: from the job id."""
    container: tuple[str, ...] = ()
    """Further words for srun, shell text, in which $here is the folder of the start and $ZEROCFG_RUN_DIR the job's."""
    container_python: str = ""
    """Interpreter in the container; empty: none is entered by srun."""


def lower_slurm(
    config: SlurmConfig, resources: Resources | None, *, job_name: str, threads_per_core: int = 1, rdzv_port: int = 0
) -> tuple[SlurmShape, list[Diagnostic]]:
    """resources: None for an app without zerocfg's groups, one plain process a job. threads_per_core: of the partition's nodes.

    Codes: ZC720 memory asked for twice, ZC721 an option that zerocfg decides, ZC722 nodes or GPUs other than the plan's, ZC723 a value
    that is out of range or no text for a script.
    """
    problems = [*_disagreements(config, resources), *_ranges(config), *_memory_problems(config, resources)]
    nodes = resources.num_nodes if resources is not None else 1
    gpus = resources.gpus_per_node if resources is not None else config.gpus_per_node or 0
    cpus = config.cpus_per_task
    if cpus is None and resources is not None:
        cpus = resources.cpus_per_node * threads_per_core
    written = dict(_directives(config, job_name, nodes, gpus, cpus))
    problems += _extra_problems(config, written)
    for name, value in config.sbatch.items():
        flag = _flag(name)
        if value is None or value is False:
            written.pop(flag, None)
        else:
            written[flag] = "" if value is True else str(value)
    step = {"nodes": str(nodes), "ntasks": str(nodes)}
    if "cpus-per-task" in written:
        # srun has stopped to take it over from sbatch (22.05)
        step["cpus-per-task"] = written["cpus-per-task"]
    # without kill-on-bad-exit a failing node leaves the others waiting; torchrun binds ranks itself where that helps
    step |= {"kill-on-bad-exit": "1", "cpu-bind": "none", "output": STEP_LOG, "open-mode": "append"}
    if nodes > 1:
        step["label"] = ""
    for name, value in config.srun.items():
        flag = _flag(name)
        if value is None or value is False:
            step.pop(flag, None)
        else:
            step[flag] = "" if value is True else str(value)
    shape = SlurmShape(
        nodes=nodes,
        directives=tuple(written.items()),
        srun=tuple(step.items()),
        environment=tuple((str(k), str(v)) for k, v in config.environment.items()),
        setup=tuple(config.setup),
        array_parallelism=config.array_parallelism or 0,
        rdzv_port=rdzv_port,
    )
    return shape, problems


def _directives(config: SlurmConfig, job_name: str, nodes: int, gpus: int, cpus: int | None) -> Iterator[tuple[str, str]]:
    yield "job-name", config.job_name or job_name
    for name in ("partition", "account", "qos", "constraint", "reservation"):
        if (value := getattr(config, name)) is not None:
            yield name, value
    if config.timeout_min is not None and math.isfinite(config.timeout_min):
        yield "time", str(max(1, math.ceil(config.timeout_min)))
    yield "nodes", str(nodes)
    yield "ntasks-per-node", "1"
    if cpus is not None:
        yield "cpus-per-task", str(cpus)
    if gpus:
        of_type = f"{config.gpu_type}:{gpus}" if config.gpu_type else str(gpus)
        yield ("gres", f"gpu:{of_type}") if config.gpu_request is GpuRequest.gres else ("gpus-per-node", of_type)
    for name, flag in _MEMORY.items():
        if (value := getattr(config, name)) is not None and math.isfinite(value):
            yield flag, _memory(value)
    if config.exclusive:
        yield "exclusive", ""
    if config.signal is not None:
        yield "signal", f"{config.signal.upper().removeprefix('SIG')}@{config.signal_delay_s}"
    if config.requeue is not None:
        yield ("requeue" if config.requeue else "no-requeue"), ""
    # a requeued job goes on in the same log
    yield "open-mode", "append"


def _memory(gib: float) -> str:
    if gib == 0:
        return "0"
    return f"{gib:.0f}G" if gib == int(gib) else f"{math.ceil(gib * 1024)}M"


def _flag(name: object) -> str:
    return str(name).replace("_", "-")


def _disagreements(config: SlurmConfig, resources: Resources | None) -> Iterator[Diagnostic]:
    if resources is None:
        if (config.nodes or 1) != 1:
            yield Diagnostic(
                code="ZC722",
                path=f"{PATH}.nodes",
                message=f"{PATH}.nodes={config.nodes}, but this app has none of zerocfg's groups: a job is one process on one node",
                hint=f"{PATH}.nodes=1; or `- zerocfg` in the app's defaults list and hardware.num_nodes={config.nodes}",
            )
        return
    for mine, asked, theirs, planned in (
        ("nodes", config.nodes, "hardware.num_nodes", resources.num_nodes),
        ("gpus_per_node", config.gpus_per_node, "hardware.gpus_per_node", resources.gpus_per_node),
    ):
        if asked is not None and asked != planned:
            on_cpu = mine == "gpus_per_node" and not planned
            yield Diagnostic(
                code="ZC722",
                path=f"{PATH}.{mine}",
                message=f"{PATH}.{mine}={asked}, but the run is {'on cpu, without GPUs' if on_cpu else f'for {theirs}={planned}'}",
                detail=("torchrun starts the ranks that the plan has, on the nodes that SLURM gives",),
                hint=f"{PATH}.{mine}=null" + (", or a hardware with GPUs" if on_cpu else f" and {theirs}={asked}"),
            )


def _memory_problems(config: SlurmConfig, resources: Resources | None) -> Iterator[Diagnostic]:
    given = {name: value for name in _MEMORY if (value := getattr(config, name)) is not None}
    if len(given) > 1:
        yield Diagnostic(
            code="ZC720",
            path=f"{PATH}.{next(iter(given))}",
            message=f"{' and '.join(f'{PATH}.{name}={value:g}' for name, value in given.items())}: memory is asked for twice",
            detail=("sbatch takes one of --mem, --mem-per-cpu and --mem-per-gpu",),
            hint=" ".join(f"{PATH}.{name}=null" for name in list(given)[1:]),
        )
    gpus = resources.gpus_per_node if resources is not None else config.gpus_per_node
    if "mem_per_gpu_gb" in given and not gpus:
        yield Diagnostic(
            code="ZC720",
            path=f"{PATH}.mem_per_gpu_gb",
            message=f"{PATH}.mem_per_gpu_gb={config.mem_per_gpu_gb:g}, but the job has no GPU",
            hint=f"{PATH}.mem_gb=...",
        )


def _ranges(config: SlurmConfig) -> Iterator[Diagnostic]:
    least: dict[str, float] = {"nodes": 1, "gpus_per_node": 0, "cpus_per_task": 1, "mem_gb": 0, "array_parallelism": 1, "signal_delay_s": 0}
    for name, low in least.items():
        value = getattr(config, name)
        if value is not None and not low <= value < math.inf:
            yield _out_of_range(name, value, f"{low:g} or more", f"{low:g}")
    if config.signal_delay_s > _LONGEST_SIGNAL_DELAY_S:
        yield _out_of_range("signal_delay_s", config.signal_delay_s, f"{_LONGEST_SIGNAL_DELAY_S} or less", f"{_LONGEST_SIGNAL_DELAY_S}")
    for name in ("timeout_min", "mem_per_cpu_gb", "mem_per_gpu_gb"):
        value = getattr(config, name)
        if value is not None and not 0 < value < math.inf:
            yield _out_of_range(name, value, "above 0", "null")
    if config.signal is not None and config.signal.upper().removeprefix("SIG") not in _SIGNALS:
        yield _out_of_range("signal", repr(config.signal), f"one of {', '.join(_SIGNALS)}", "USR2")
    for name in ("partition", "account", "qos", "constraint", "reservation", "gpu_type", "job_name"):
        value = getattr(config, name)
        if value is not None and not _is_text(value):
            yield _out_of_range(name, repr(value), "a text on one line", "null")
    if config.gpu_type is not None and not re.fullmatch(r"[\w.-]+", config.gpu_type):
        yield _out_of_range("gpu_type", repr(config.gpu_type), "a type as in the cluster's gres", "a100")
    for line in config.setup:
        if "\0" in line:
            yield _out_of_range("setup", repr(line), "a shell line", "[]")
        yield from _would_be_written("setup", line)
    for key, value in config.environment.items():
        yield from _environment_problems(str(key), value)


def _environment_problems(name: str, value: object) -> Iterator[Diagnostic]:
    path, shown = f"environment.{name}", HIDDEN if is_secret(name) else repr(value)
    if _OURS.match(name):
        yield Diagnostic(
            code="ZC721",
            path=f"{PATH}.{path}",
            message=f"{PATH}.{path} is set by SLURM, torchrun or the launcher",
            hint=f"~{PATH}.{path}",
        )
    elif not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII) or isinstance(value, bool) or not isinstance(value, (str, int, float)):
        yield _out_of_range(path, shown, "a name and a text for an environment", "text")
    elif "\0" in str(value):
        yield _out_of_range(path, shown, "a text without NUL", "text")


def _extra_problems(config: SlurmConfig, written: Mapping[str, str]) -> Iterator[Diagnostic]:
    for section in ("sbatch", "srun"):
        for name, value in getattr(config, section).items():
            flag, path = _flag(name), f"{section}.{name}"
            yield from _would_be_written(path, f"{flag}={value}")
            if not _OPTION.fullmatch(flag):
                yield _out_of_range(path, value, "an option by its long name without dashes", "null")
            elif value is not None and not (isinstance(value, (bool, int, float)) or (isinstance(value, str) and _is_text(value))):
                yield _out_of_range(path, repr(value), "true, null, a number or a text on one line", "null")
            elif section == "sbatch":
                yield from _sbatch_problem(path, flag, value, config, written)
            elif flag in _FIXED_IN_SRUN:
                yield _decided(path, flag, "the ranks' start and logs stand on it", f"~{PATH}.{path}")


def _sbatch_problem(path: str, flag: str, value: object, config: SlurmConfig, written: Mapping[str, str]) -> Iterator[Diagnostic]:
    left_out = {_flag(name) for name, other in config.sbatch.items() if other is None}
    if value is None or value is False:
        if flag in _NEVER_LEFT_OUT:
            yield _decided(path, flag, "a job needs it", f"~{PATH}.{path}")
    elif flag in _OF_A_FIELD:
        yield _decided(path, flag, f"{PATH}.{_OF_A_FIELD[flag]} is its field", f"{PATH}.{_OF_A_FIELD[flag]}=...")
    elif flag in _DECIDED:
        yield _decided(path, flag, "zerocfg writes it for each array", f"~{PATH}.{path}")
    elif flag in _GPUS or (flag == "gres" and re.search(r"\bgpu\b", str(value))):
        ours = next((name for name in ("gpus-per-node", "gres") if name in written and name not in left_out), None)
        if ours is not None:
            yield _decided(
                path,
                flag,
                f"hardware.gpus_per_node has written --{ours}={written[ours]}",
                f"~{PATH}.{path}, or {PATH}.gpu_request=gres, or +{PATH}.sbatch.{ours.replace('-', '_')}=null",
            )


def _decided(path: str, flag: str, why: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC721", path=f"{PATH}.{path}", message=f"{PATH}.{path}: --{flag} is decided elsewhere: {why}", hint=hint)


def _out_of_range(name: str, value: object, wanted: str, hint: str) -> Diagnostic:
    return Diagnostic(code="ZC723", path=f"{PATH}.{name}", message=f"{PATH}.{name}={value} is not {wanted}", hint=f"{PATH}.{name}={hint}")


def _would_be_written(path: str, text: str) -> Iterator[Diagnostic]:
    for name in assigned_secrets(text):
        yield Diagnostic(
            code="ZC814",
            path=f"{PATH}.{path}",
            message=f"{PATH}.{path} gives {name} a value, which would be written to the batch script",
            hint=f"+{PATH}.environment.{name}=VALUE, which is handed over without being written; or export {name} before the launch",
        )


def _is_text(text: str) -> bool:
    """On one line of a script: no newline, no control character."""
    return text != "" and text.isprintable()
