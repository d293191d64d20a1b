"""Which GPUs (on cpu: cores) a job gets on this machine, under one lock a device that all launchers of a user share.

A device is held by two locks. The launcher holds the first from the moment it chooses the device. The second is inherited by
the job's own process (torchrun), so that a device stays taken while anything of the job is alive, also when the launcher was
killed with -9; and the kernel drops both with the last process that has them open.

A job that needs several devices takes them as they come free. Of the launchers that share devices only one may do that at a time
(turns.py), so that two sweeps never wait for each other's half; and it is the oldest job of its launcher, so a wide one is not
starved.
"""

from __future__ import annotations

import fcntl
import os
import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from zerocfg.artifact import Resources
from zerocfg.facts import Detected
from zerocfg.launch.turns import Line, lock

MASK = "CUDA_VISIBLE_DEVICES"


@dataclass(frozen=True, slots=True)
class Device:
    """One GPU or core."""

    entry: str
    """As CUDA_VISIBLE_DEVICES names it: index, UUID, MIG UUID; for a core its number."""
    identity: str
    """The same for all launchers, however their masks name it."""


@dataclass(slots=True)
class Lease:
    """Devices that a job has. Close it when nothing of the job is left."""

    devices: tuple[Device, ...]
    files: list[IO[bytes]] = field(default_factory=list)
    inherited: tuple[Path, ...] = ()
    """Lock files that the job's process must hold, too."""

    @property
    def environment(self) -> dict[str, str]:
        return {MASK: ",".join(d.entry for d in self.devices)} if self.devices else {}

    def close(self) -> None:
        for file in self.files:
            file.close()
        self.files.clear()


def visible_gpus(detected: Detected, environ: Mapping[str, str]) -> tuple[Device, ...]:
    """The GPUs of the inherited mask, named as the mask names them."""
    mask = environ.get(MASK)
    if mask is None:
        return tuple(Device(str(gpu.index), gpu.uuid or f"gpu{gpu.index}") for gpu in detected.gpus)
    entries = [entry.strip() for entry in mask.split(",") if entry.strip()]
    return tuple(Device(entry, gpu.uuid or f"gpu{entry}") for entry, gpu in zip(entries, detected.gpus, strict=False))


def cores(count: int) -> tuple[Device, ...]:
    return tuple(Device(str(i), f"core{i}") for i in range(max(1, count)))


def needed(resources: Resources | None, available_cores: int) -> tuple[int, int]:
    """(GPUs, cores) that a job waits for. An app without groups takes one core; a job wider than the machine takes all of it."""
    if resources is None:
        return 0, 1
    if resources.gpus_per_node:
        return resources.gpus_per_node, 0
    return 0, min(max(1, resources.cpus_per_node), max(1, available_cores))


def lock_folder(environ: Mapping[str, str]) -> Path:
    """Per user, on a local disk: ZEROCFG_LOCK_DIR, XDG_RUNTIME_DIR, else /tmp."""
    if given := environ.get("ZEROCFG_LOCK_DIR"):
        return Path(given)
    if runtime := environ.get("XDG_RUNTIME_DIR"):
        return Path(runtime) / "zerocfg"
    return Path("/tmp") / f"zerocfg-{os.getuid()}"


Closest = Callable[[Sequence[int], int], Sequence[int]]


def first_ones(free: Sequence[int], count: int) -> Sequence[int]:
    return free[:count]


class Pool:
    """Devices of one kind."""

    def __init__(self, kind: str, devices: Sequence[Device], folder: Path, closest: Closest = first_ones) -> None:
        """kind: gpu or core, part of the lock's name. closest: which of the free ones (by index) a job should have."""
        self.devices = tuple(devices)
        self._closest = closest
        self._folder = folder
        self._kind = kind
        self._held: dict[int, list[IO[bytes]]] = {}
        """Taken for the job at the head, not yet enough."""
        self._line = Line(folder, kind, frozenset(device.identity for device in self.devices))
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)

    def take(self, count: int, *, head: bool = True) -> Lease | None:
        """`count` devices, or None: try again later.

        head: of the launcher's jobs the one that waits longest; what was free stays held for it until there is enough, and it keeps
        its place in the line. A younger job takes what is free or held, and leaves the head's place and the rest as they are.
        """
        if count > len(self.devices):
            raise ValueError(f"{count} of {len(self.devices)} {self._kind}s")
        head_waits = self._line.waits
        chosen: Sequence[int] = ()
        if self._line.my_turn():
            for index, device in enumerate(self.devices):
                if index not in self._held and (files := self._lock_device(device)) is not None:
                    self._held[index] = files
            if len(self._held) >= count:
                chosen = self._closest(sorted(self._held), count)
        lease = Lease(
            devices=tuple(self.devices[i] for i in chosen),
            files=[file for i in chosen for file in self._held.pop(i)],
            inherited=tuple(self._path(self.devices[i], "job") for i in chosen),
        )
        if (head and chosen) or not (head or head_waits):
            self.give_up()
        return lease if chosen else None

    def give_up(self) -> None:
        """Let go of what is held for a job that is not started, and of its place in the line."""
        for files in self._held.values():
            for file in files:
                file.close()
        self._held.clear()
        self._line.leave()

    def _path(self, device: Device, what: str) -> Path:
        return self._folder / f"{self._kind}-{re.sub(r'[^A-Za-z0-9.-]', '_', device.identity)}.{what}.lock"

    def _lock_device(self, device: Device) -> list[IO[bytes]] | None:
        launcher = lock(self._path(device, "launcher"))
        if launcher is None:
            return None
        job = lock(self._path(device, "job"))  # a job whose launcher is gone may still be ending
        if job is None:
            launcher.close()
            return None
        job.close()
        return [launcher]


def hold(paths: Sequence[Path]) -> list[IO[bytes]]:
    """In the job's process: take the locks that keep its devices taken while it lives. Hand their descriptors to children."""
    files: list[IO[bytes]] = []
    for path in paths:
        file = path.open("ab")
        with suppress(OSError):
            fcntl.flock(file, fcntl.LOCK_EX)
        os.set_inheritable(file.fileno(), True)
        files.append(file)
    return files
