"""The machine as the checks see it: files, programs, limits, GPUs. Tests give them another one."""

from __future__ import annotations

import ctypes
import os
import resource
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from zerocfg.facts import Detected
from zerocfg.probe.health import Health

NOT_FOUND, TIMED_OUT = 127, 124


@dataclass(frozen=True, slots=True)
class Ran:
    returncode: int
    """127: there is no such program; 124: it did not end in time."""
    stdout: str = ""
    stderr: str = ""

    @property
    def ok(self) -> bool:
        return self.returncode == 0

    @property
    def said(self) -> str:
        """The first line that says something, errors first."""
        lines = [line.strip() for line in (self.stderr + "\n" + self.stdout).splitlines() if line.strip()]
        return next((line for line in lines if "error" in line.lower()), lines[0] if lines else f"exit status {self.returncode}")


@dataclass(frozen=True, kw_only=True, slots=True)
class Space:
    """Of the file system that a path is on."""

    total: int
    free: int
    """Bytes that this user may write."""
    kind: str
    """As in /proc/mounts: ext4, xfs, nfs4, tmpfs, overlay, ..."""


class Machine(Protocol):
    """Nothing here raises: what cannot be read is empty, 0 or None."""

    @property
    def environ(self) -> Mapping[str, str]: ...
    @property
    def python(self) -> tuple[int, int, int]: ...
    def installed(self, package: str) -> str:
        """Version of an installed distribution; empty: not installed."""

    def package_text(self, path: str) -> str:
        """Text of a file below site-packages: torch/version.py."""

    def read(self, path: str) -> str: ...
    def names(self, folder: str) -> tuple[str, ...]: ...
    def exists(self, path: str) -> bool: ...
    def is_open(self, path: str) -> bool:
        """Whether a process on this machine has the file open; those of other users are not seen."""

    def writable(self, path: str) -> bool:
        """Whether files can be made in the folder, or in its nearest parent that exists."""

    def which(self, program: str) -> str: ...
    def run(self, *command: str, timeout: float = 2.0) -> Ran: ...
    def compile(self, *command: str, suffix: str, source: str, timeout: float = 20.0) -> Ran:
        """Run `command SOURCE_FILE -o OUTPUT` in a temporary folder."""

    def space(self, path: str) -> Space | None: ...
    def write_speed(self, path: str, size: int, *, direct: bool = False) -> float:
        """Bytes a second of one file written and flushed; direct: past the page cache. 0: it could not be written."""

    def limit(self, name: str) -> int:
        """Soft limit RLIMIT_name of this process; -1: none."""

    def hostname(self) -> str: ...
    def addresses(self, host: str) -> tuple[str, ...]: ...
    def interfaces(self) -> tuple[str, ...]:
        """Network interfaces that are up, in the kernel's order."""

    def clock_synchronized(self) -> bool | None: ...
    def detected(self) -> Detected: ...
    def health(self) -> Health: ...


class LocalMachine:
    """The machine that this process runs on."""

    def __init__(self) -> None:
        self._detected: Detected | None = None
        self._health: Health | None = None

    @property
    def environ(self) -> Mapping[str, str]:
        return os.environ

    @property
    def python(self) -> tuple[int, int, int]:
        return sys.version_info[0], sys.version_info[1], sys.version_info[2]

    def installed(self, package: str) -> str:
        from zerocfg.probe.installed import installed

        return installed(package)

    def package_text(self, path: str) -> str:
        for folder in sys.path:
            if text := self.read(os.path.join(folder or ".", path)):
                return text
        return ""

    def read(self, path: str) -> str:
        try:
            return Path(path).read_text(encoding="utf-8", errors="replace")
        except OSError:
            return ""

    def names(self, folder: str) -> tuple[str, ...]:
        try:
            return tuple(sorted(os.listdir(os.path.expanduser(folder))))
        except OSError:
            return ()

    def exists(self, path: str) -> bool:
        return os.path.exists(os.path.expanduser(path))

    def is_open(self, path: str) -> bool:
        wanted = os.path.realpath(os.path.expanduser(path))
        for descriptor in Path("/proc").glob("[0-9]*/fd/*"):
            with suppress(OSError):
                if os.readlink(descriptor) == wanted:
                    return True
        return False

    def writable(self, path: str) -> bool:
        nearest = os.path.abspath(os.path.expanduser(path))
        while not os.path.lexists(nearest) and nearest != os.path.dirname(nearest):
            nearest = os.path.dirname(nearest)
        return os.path.isdir(nearest) and os.access(nearest, os.W_OK | os.X_OK)

    def which(self, program: str) -> str:
        # ninja and others of a venv whose scripts are not on the PATH
        return shutil.which(program) or shutil.which(program, path=str(Path(sys.executable).parent)) or ""

    def run(self, *command: str, timeout: float = 2.0) -> Ran:
        try:
            done = subprocess.run(
                command, capture_output=True, text=True, errors="replace", timeout=timeout, stdin=subprocess.DEVNULL, check=False
            )
        except FileNotFoundError:
            return Ran(NOT_FOUND, "", f"{command[0]}: not found")
        except subprocess.TimeoutExpired:
            return Ran(TIMED_OUT, "", f"no answer in {timeout:g} s")
        except OSError as problem:
            return Ran(126, "", str(problem))
        return Ran(done.returncode, done.stdout, done.stderr)

    def compile(self, *command: str, suffix: str, source: str, timeout: float = 20.0) -> Ran:
        with tempfile.TemporaryDirectory(prefix="zerocfg-doctor-") as folder:
            file = Path(folder) / f"op{suffix}"
            file.write_text(source, encoding="utf-8")
            return self.run(*command, str(file), "-o", str(Path(folder) / "op.so"), timeout=timeout)

    def space(self, path: str) -> Space | None:
        nearest = _nearest(path)
        try:
            found = os.statvfs(nearest)
        except OSError:
            return None
        return Space(total=found.f_blocks * found.f_frsize, free=found.f_bavail * found.f_frsize, kind=self._kind(nearest))

    def _kind(self, path: str) -> str:
        path, best = os.path.realpath(path), ("", "")
        for line in self.read("/proc/mounts").splitlines():
            words = line.split()
            if len(words) > 2:
                where = words[1].encode().decode("unicode_escape", errors="replace")
                inside = path == where or path.startswith(where.rstrip("/") + "/")
                if inside and len(where) >= len(best[0]):
                    best = (where, words[2])
        return best[1]

    def write_speed(self, path: str, size: int, *, direct: bool = False) -> float:
        import mmap

        block = mmap.mmap(-1, size)  # page-aligned, as O_DIRECT wants it
        flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | (getattr(os, "O_DIRECT", 0) if direct else 0)
        name = os.path.join(_nearest(path), f".zerocfg-doctor-{os.getpid()}-{time.monotonic_ns()}")
        try:
            file = os.open(name, flags, 0o600)
            try:
                started = time.perf_counter()
                written = os.write(file, block)
                os.fsync(file)
                seconds = time.perf_counter() - started
            finally:
                os.close(file)
                os.unlink(name)
        except OSError:
            return 0.0
        return written / max(seconds, 1e-6)

    def limit(self, name: str) -> int:
        soft, _ = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))
        return -1 if soft == resource.RLIM_INFINITY else soft

    def hostname(self) -> str:
        return socket.gethostname()

    def addresses(self, host: str) -> tuple[str, ...]:
        from zerocfg.launch.slurm_node import resolve

        return tuple(resolve(host))

    def interfaces(self) -> tuple[str, ...]:
        try:
            names = [name for _, name in socket.if_nameindex()]
        except OSError:
            return ()
        return tuple(name for name in names if self._is_up(name))

    def _is_up(self, name: str) -> bool:
        flags = self.read(f"/sys/class/net/{name}/flags").strip()
        return not flags or bool(int(flags, 16) & 1)

    def clock_synchronized(self) -> bool | None:
        """As the kernel says: adjtimex(2) with nothing to adjust."""
        try:
            buffer = ctypes.create_string_buffer(512)  # struct timex, 208 bytes on 64 bit
            state = ctypes.CDLL(None).adjtimex(buffer)
        except (OSError, AttributeError):
            return None
        return None if state < 0 else state != 5  # TIME_ERROR

    def detected(self) -> Detected:
        from zerocfg.probe import detect

        if self._detected is None:
            self._detected = detect()
        return self._detected

    def health(self) -> Health:
        from zerocfg.probe.health import read_health

        if self._health is None:
            self._health = read_health()
        return self._health


def _nearest(path: str) -> str:
    """The path, or its nearest parent that exists."""
    path = os.path.abspath(os.path.expanduser(path))
    while not os.path.isdir(path) and path != os.path.dirname(path):
        path = os.path.dirname(path)
    return path
