"""Folders for swap files: each job's own below offload.nvme_path, on each node, as long as the job runs there.

The folder's name is in compiled/ds_config.json already (artifact.placed). Whoever starts a node's ranks holds a lock in the folder and
removes the folder at the end. What a job has left that was killed with -9 is removed by the next start on the same disk: the kernel drops
the lock with the process. On a disk that nodes share, which it should not be, DeepSpeed tells ranks apart, each node has a lock of its
own in the folder, and the last node removes it.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

from zerocfg.artifact import NVME_PREFIX, nvme_sections
from zerocfg.diagnostics import ConfigProblems, Diagnostic
from zerocfg.memory import ModelNotDescribed, estimate
from zerocfg.plan import Plan
from zerocfg.units import counted, human_bytes

PATH = "offload.nvme_path"
_LOCK = ".lock."
"""Start of the name of a node's lock in a job's folder; the host's name follows."""
_QUEUE = ".zerocfg.lock"
"""In the shared folder: one start at a time makes and removes there."""


def folders_of(deepspeed: Mapping[str, Any]) -> list[Path]:
    """The job's folders, as the compiled JSON has them."""
    return list(dict.fromkeys(Path(section["nvme_path"]) for section in nvme_sections(deepspeed).values()))


@contextmanager
def claimed(folder: Path) -> Iterator[None]:
    """Have the folder, empty, as long as this process lives; and then no longer. Raises ConfigProblems (ZC712)."""
    mine = folder / f"{_LOCK}{os.uname().nodename}"
    with _alone(folder.parent):
        remove_dead(folder.parent)
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            lock = mine.open("ab")
        except OSError as problem:
            raise ConfigProblems([_unusable(folder.parent, f"a folder cannot be made in it: {problem.strerror or problem}")]) from None
        if not _locks(lock):
            lock.close()
            raise ConfigProblems([_unusable(folder.parent, f"{folder} is in use by another run of this job")])
    try:
        yield
    finally:
        with suppress(ConfigProblems), _alone(folder.parent):
            mine.unlink(missing_ok=True)
            if not _nodes(folder):
                shutil.rmtree(folder, ignore_errors=True)
        lock.close()


def remove_dead(base: Path) -> list[Path]:
    """Remove what this user's jobs have left that were killed on this host. Returns the folders. Call it `_alone`."""
    removed = []
    for folder in dead(base):
        shutil.rmtree(folder, ignore_errors=True)
        removed.append(folder)
    return removed


def dead(base: Path) -> list[Path]:
    """Folders of jobs of this user below `base` that no process on this host holds, and no other host has a lock in."""
    here = f"{_LOCK}{os.uname().nodename}"
    found = []
    for folder in sorted(base.glob(f"{NVME_PREFIX}*")):
        with suppress(OSError):
            if folder.is_symlink() or not folder.is_dir() or folder.stat().st_uid != os.getuid():
                continue
            locks = _nodes(folder)
            if all(path.name == here for path in locks) and not any(_is_held(path) for path in locks):
                found.append(folder)
    return found


def check_space(deepspeed: Mapping[str, Any], plan: Plan, *, reclaimed: int = 0) -> Iterator[Diagnostic]:
    """ZC712 a folder that cannot be used, ZC713 too little space for what the memory model predicts.

    deepspeed: as it was compiled, with or without the job's own folder. reclaimed: bytes that a start would free first.
    """
    bases = dict.fromkeys(_base(Path(section["nvme_path"])) for section in nvme_sections(deepspeed).values())
    for base in bases:
        if not base.is_dir() or not os.access(base, os.W_OK | os.X_OK):
            yield _unusable(base, "it may not be written by this user" if base.is_dir() else "it does not exist")
            return
    if len(bases) != 1:
        return  # nothing swaps; or states go to one disk, parameters to another
    try:
        needed = estimate(plan).nvme_bytes_per_node
    except ModelNotDescribed:
        return
    base = next(iter(bases))
    free = shutil.disk_usage(base).free + reclaimed
    if needed > free:
        offload = plan.offload
        what = " and ".join(name for name in ("optimizer", "param") if getattr(offload, name) == "nvme")
        yield Diagnostic(
            code="ZC713",
            path=PATH,
            message=f"{PATH}={base} has {human_bytes(free)} free, and the run swaps {human_bytes(needed)} there on each node",
            detail=(f"{what} of {counted(plan.topology.nproc_per_node, 'rank')} a node at stage {plan.zero.stage}",),
            hint=f"{PATH}=FOLDER on a larger disk, or offload=optimizer, which takes host memory",
        )


def check_here(deepspeed: Mapping[str, Any], plan: Plan) -> list[Diagnostic]:
    """`check_space` before a job is started on this machine: what dead jobs have left counts as free."""
    bases = {_base(Path(section["nvme_path"])) for section in nvme_sections(deepspeed).values()}
    left = sum(_size(folder) for base in bases if base.is_dir() for folder in dead(base))
    return [*check_space(deepspeed, plan, reclaimed=left)]


def _base(path: Path) -> Path:
    """The shared folder."""
    return path.parent if path.name.startswith(NVME_PREFIX) else path


def _size(folder: Path) -> int:
    total = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            total += path.stat().st_blocks * 512
    return total


def _unusable(base: Path, why: str) -> Diagnostic:
    return Diagnostic(
        code="ZC712",
        path=PATH,
        message=f"{PATH}={base}: {why}",
        hint=f"mkdir -p {base} on each node, or {PATH}=FOLDER on a local NVMe disk; in a container it must be mounted",
    )


def _nodes(folder: Path) -> list[Path]:
    """Locks of the nodes that use it."""
    return sorted(folder.glob(f"{_LOCK}*"))


def _is_held(path: Path) -> bool:
    with path.open("rb") as file:
        return not _locks(file)


def _locks(file: IO[bytes]) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextmanager
def _alone(base: Path) -> Iterator[None]:
    """One process at a time, of all users. Raises ConfigProblems (ZC712)."""
    path = base / _QUEUE
    try:
        # not made anew where another user's is there: the kernel may forbid that in a folder like /tmp
        descriptor = os.open(path, os.O_RDONLY) if path.exists() else os.open(path, os.O_RDONLY | os.O_CREAT, 0o644)
    except OSError as problem:
        raise ConfigProblems([_unusable(base, f"{problem.strerror or problem}")]) from None
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
        yield
    finally:
        os.close(descriptor)
