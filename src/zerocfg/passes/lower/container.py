"""Plan -> the command that puts torchrun into a container, as words of a POSIX shell.

Words are shell text: what the user wrote is quoted, and $PWD (the folder of the start), $ZEROCFG_RUN_DIR (the job's folder) and the job's
GPUs are filled in where the job starts. No value of an environment is in them, only names.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator, Mapping

from zerocfg.lowered import Leaf
from zerocfg.plan import ContainerPlan, Mount
from zerocfg.provenance import Reason, rule

_PASS = "lower.container"
PASSED = (
    *("ZEROCFG_RUN_DIR", "ZEROCFG_JOB_TOKEN", "PET_LOCAL_ADDR", "GLOO_SOCKET_IFNAME"),
    *("SLURM_JOB_ID", "SLURM_NODEID", "SLURM_RESTART_COUNT"),
)
"""What the launchers set and ranks or torchrun read."""
_CSV = 'zerocfg_csv() { printf "%s" "$1" | sed \'s/"/""/g\'; }'
_GPUS = 'zerocfg_gpus=all; [ -z "${CUDA_VISIBLE_DEVICES+x}" ] || zerocfg_gpus="\\"device=$CUDA_VISIBLE_DEVICES\\""'
_FOLDERS = ("$PWD", "$ZEROCFG_RUN_DIR")


def lower_container(plan: ContainerPlan, reasons: Mapping[str, Reason], environment: Iterable[str]) -> list[Leaf]:
    """Leaves `option` -> shell words; empty without a container. environment: names that the run sets.

    The leaf `setup` holds lines that run before the words.
    """
    names = list(dict.fromkeys([*environment, *PASSED]))
    if plan.kind == "docker":
        return [*_docker(plan, reasons, [*names, *(n for n in plan.environment if n not in names)])]
    if plan.kind == "apptainer":
        return [*_apptainer(plan, reasons, names)]
    if plan.kind == "pyxis":
        return [Leaf("python", (_q(plan.python),), reasons["container.python"])]
    return []


def words(leaves: Iterable[Leaf]) -> list[Leaf]:
    """The command before torchrun's arguments, the interpreter last."""
    return [leaf for leaf in leaves if leaf.path != "setup"]


def setup(leaves: Iterable[Leaf]) -> tuple[str, ...]:
    return tuple(line for leaf in leaves if leaf.path == "setup" for line in leaf.value)


def _docker(plan: ContainerPlan, reasons: Mapping[str, Reason], names: list[str]) -> Iterator[Leaf]:
    ours = rule(_PASS, "removed when it ends; signals reach torchrun")
    yield Leaf("setup", (_CSV, *((_GPUS,) if plan.gpus else ())), rule(_PASS, "paths and GPUs as docker reads them"))
    yield Leaf("run", ("docker", "run", "--rm", "--init"), ours)
    if plan.gpus:
        yield Leaf("gpus", ('--gpus="$zerocfg_gpus"',), reasons["container.gpus"])
    shm = f"--shm-size={plan.shm_size}" if plan.shm_size else "--ipc=host"
    yield Leaf("shm_size", (shm,), reasons["container.shm_size"])
    limits = rule(_PASS, "NCCL and pinned memory lock pages; PyTorch's threads want 64 MiB stacks")
    yield Leaf("ulimit", ("--ulimit=memlock=-1", "--ulimit=stack=67108864"), limits)
    if plan.host_network:
        yield Leaf("network", ("--network=host",), reasons["container.host_network"])
    if plan.rdma:
        yield Leaf("device", ("--device=/dev/infiniband", "--cap-add=IPC_LOCK"), reasons["container.rdma"])
    yield Leaf("user", ('--user="$(id -u):$(id -g)"',), rule(_PASS, "files belong to you, not to root"))
    yield Leaf("mounts", tuple(_mounts(plan.mounts)), reasons["container.mounts"])
    yield Leaf("workdir", ('--workdir="$PWD"',), rule(_PASS, "the folder of the start"))
    # an image knows no such user, and torch asks for its name and home
    own = ("--env=HOME=/tmp", "--env=LOGNAME=zerocfg")
    yield Leaf("environment", (*own, *(f"--env={name}" for name in names)), reasons["container.environment"])
    yield from _rest(plan, reasons)


def _apptainer(plan: ContainerPlan, reasons: Mapping[str, Reason], names: list[str]) -> Iterator[Leaf]:
    forced = (f'[ -z "${{{name}+x}}" ] || export APPTAINERENV_{name}="${name}"' for name in names)
    yield Leaf("setup", (_CSV, *forced), rule(_PASS, "the run's environment wins over the image's"))
    yield Leaf("run", ("apptainer", "exec"), rule(_PASS, "the environment and /dev/shm are the machine's"))
    if plan.gpus:
        yield Leaf("gpus", ("--nv",), reasons["container.gpus"])
    yield Leaf("mounts", tuple(_mounts(plan.mounts)), reasons["container.mounts"])
    yield Leaf("workdir", ('--pwd="$PWD"',), rule(_PASS, "the folder of the start"))
    yield from _rest(plan, reasons)


def _rest(plan: ContainerPlan, reasons: Mapping[str, Reason]) -> Iterator[Leaf]:
    if plan.arguments:
        yield Leaf("arguments", tuple(map(_q, plan.arguments)), reasons["container.arguments"])
    yield Leaf("image", (_q(plan.image),), reasons["container.image"])
    yield Leaf("python", (_q(plan.python),), reasons["container.python"])


def _mounts(mounts: Iterable[Mount]) -> Iterator[str]:
    """--mount is a line of CSV: in quotes, a path may hold commas and colons."""
    for folder in _FOLDERS:
        text = f'$(zerocfg_csv "{folder}")'
        yield f'--mount=type=bind,\\"source="{text}"\\",\\"target="{text}"\\"'
    for mount in mounts:
        fields = ["type=bind", _csv("source", mount.source), _csv("target", mount.target), *(["ro"] if mount.read_only else [])]
        yield _q(f"--mount={','.join(fields)}")


def _csv(name: str, path: str) -> str:
    text = f"{name}={path}"
    return '"' + text.replace('"', '""') + '"' if set(text) & set('",\n\r') else text


def pyxis_words(plan: ContainerPlan, environment: Iterable[str]) -> tuple[str, ...]:
    """Words for srun, as shell text: $PWD is the folder of the start and $ZEROCFG_RUN_DIR the job's folder where srun is called.

    environment: names that the run sets, which win over the image's.
    """
    mounts = [f"{folder}:{folder}" for folder in _FOLDERS]
    shell = [f'"{mount}"' for mount in mounts]
    shell += [_q(f"{mount.source}:{mount.target}" + (":ro" if mount.read_only else "")) for mount in plan.mounts]
    names = dict.fromkeys([*environment, *PASSED])
    return (
        f"--container-image={_q(plan.image)}",
        f"--container-mounts={','.join(shell)}",
        '--container-workdir="$PWD"',
        "--no-container-mount-home",
        f"--container-env={','.join(names)}",
        *map(_q, plan.arguments),
    )


def _q(text: str) -> str:
    return shlex.quote(text)
