"""The image that the ranks run in, and what of the machine they see there."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.hidden import assigned_secrets
from zerocfg.plan import ContainerPlan, Mount
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.container import ContainerConfig, ContainerKind

_PASS = "resolve.container"
_SIZE = re.compile(r"[1-9]\d*[bkmg]?", re.IGNORECASE)
_NAME = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_NEEDS_KIND = ("image", "mounts", "shm_size", "arguments")


def resolve_container(config: ContainerConfig, hardware: HardwareFacts, folders: Iterable[tuple[str, str]]) -> Resolved[ContainerPlan]:
    """folders: (config path, folder) of what the run reads or writes beside its own folders; relative ones lie below the start folder.

    Codes: ZC740 an image without a container or the reverse, ZC741 a mount that is none, ZC742 a shm_size that is none or has no effect,
    ZC743 a name, an interpreter or an argument that is no such thing.
    """
    reasons: dict[str, Reason] = {name: asked(f"container.{name}") for name in ("kind", "image", "python", "environment", "arguments")}
    problems = [*_problems(config)]
    kind = config.kind
    if kind is ContainerKind.none:
        return Resolved(
            _none(), reasons | dict.fromkeys(("mounts", "shm_size", "gpus", "host_network", "rdma"), asked("container.kind")), problems
        )
    mounts = [mount for text in config.mounts if (mount := _mount(text)) is not None]
    named = {mount.target for mount in mounts}
    for path, folder in folders:
        if folder.startswith("/") and folder not in named:
            named.add(folder)
            mounts.append(Mount(source=folder, target=folder, read_only=path == "train.data"))
    several = hardware.num_nodes > 1
    plan = ContainerPlan(
        kind=kind.value,
        image=config.image or "image",
        python=config.python,
        mounts=tuple(mounts),
        shm_size=(config.shm_size or "").lower() if kind is ContainerKind.docker else "",
        gpus=hardware.is_cuda,
        host_network=several,
        rdma=several and hardware.network in ("infiniband", "roce", "efa"),
        environment=tuple(config.environment),
        arguments=tuple(config.arguments),
    )
    return Resolved(
        plan,
        reasons
        | {
            "mounts": rule(_PASS, "those asked for, and the folders that the run names"),
            "shm_size": asked("container.shm_size")
            if config.shm_size
            else rule(_PASS, "the machine's own /dev/shm: NCCL and data loaders need more than docker's 64 MiB"),
            "gpus": rule(_PASS, "the GPUs of the job on cuda, none on cpu", "hardware.accelerator"),
            "host_network": rule(_PASS, "several nodes meet over the machines' own network", "hardware.num_nodes"),
            "rdma": rule(_PASS, "several nodes and an RDMA network", "hardware.network"),
        },
        problems,
    )


def _none() -> ContainerPlan:
    return ContainerPlan(
        kind="none",
        image="",
        python="",
        mounts=(),
        shm_size="",
        gpus=False,
        host_network=False,
        rdma=False,
        environment=(),
        arguments=(),
    )


def _mount(text: str) -> Mount | None:
    """SOURCE[:TARGET][:ro|rw], absolute; None for anything else."""
    parts = text.split(":")
    read_only = parts[-1] == "ro"
    if parts[-1] in ("ro", "rw"):
        parts = parts[:-1]
    if not 1 <= len(parts) <= 2 or not all(part.startswith("/") and part.isprintable() for part in parts):
        return None
    return Mount(source=parts[0], target=parts[-1], read_only=read_only)


def _problems(config: ContainerConfig) -> Iterator[Diagnostic]:
    kind = config.kind
    if kind is ContainerKind.none:
        for name in _NEEDS_KIND:
            if getattr(config, name):
                path, off = f"container.{name}", "[]" if isinstance(getattr(config, name), list) else "null"
                yield Diagnostic(
                    code="ZC740",
                    path=path,
                    message=f"{path}={getattr(config, name)} has no effect without a container",
                    hint=f"container=docker, or {path}={off}",
                )
        return
    if not config.image or not _is_word(config.image):
        example = {"docker": "zerocfg", "apptainer": "/images/zerocfg.sif", "pyxis": "/images/zerocfg.sqsh"}[kind.value]
        yield Diagnostic(
            code="ZC740",
            path="container.image",
            message=f"container.kind={kind.value} needs an image, container.image={config.image!r} is none",
            hint=f"container.image={example}",
        )
    for text in config.mounts:
        mount = _mount(text)
        if mount is None or (kind is ContainerKind.pyxis and "," in text):
            yield Diagnostic(
                code="ZC741",
                path="container.mounts",
                message=f"container.mounts: {text!r} is not SOURCE[:TARGET][:ro] with absolute paths",
                detail=("pyxis has no way to write a path with a comma",) if mount is not None else (),
                hint="container.mounts=['/data:/data:ro']",
            )
    for text in config.arguments:
        for name in assigned_secrets(text):
            yield Diagnostic(
                code="ZC814",
                path="container.arguments",
                message=f"container.arguments gives {name} a value, which would be written to launch.sh",
                hint=f"container.environment=[{name}], with {name} exported or +env.{name}=VALUE",
            )
    yield from _size_problems(config)
    for name in config.environment:
        if not _NAME.fullmatch(name):
            yield Diagnostic(
                code="ZC743",
                path="container.environment",
                message=f"container.environment: {name.partition('=')[0]!r} is not the name of a variable",
                detail=("names only: values come from your environment, or from env.NAME=value",),
                hint="container.environment=[HF_TOKEN]",
            )
    for path, texts in (("container.python", [config.python]), ("container.arguments", config.arguments)):
        for text in texts:
            if not (_is_word(text) if path == "container.python" else text != "" and text.isprintable()):
                hint = f"{path}=python3" if path == "container.python" else f"{path}=[--group-add=video]"
                yield Diagnostic(code="ZC743", path=path, message=f"{path}: {text!r} is no word of a command", hint=hint)


def _size_problems(config: ContainerConfig) -> Iterator[Diagnostic]:
    size, path = config.shm_size, "container.shm_size"
    if size is None:
        return
    if config.kind is not ContainerKind.docker:
        message = f"{path}={size} has no effect with {config.kind.value}: the container has the machine's /dev/shm"
        yield Diagnostic(code="ZC742", path=path, message=message, hint=f"{path}=null")
    elif not _SIZE.fullmatch(size):
        yield Diagnostic(code="ZC742", path=path, message=f"{path}={size} is not a size", hint=f"{path}=16g")


def _is_word(text: str) -> bool:
    """On one line, not empty, not an option."""
    return text != "" and text.isprintable() and not text.startswith("-") and text.strip() == text
