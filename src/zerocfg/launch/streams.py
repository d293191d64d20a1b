"""Where a rank's words go: every rank has a file of its own, rank 0's is shown too."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
import termios
import time
from array import array
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from zerocfg.emit import RUN_DIR, set_aside
from zerocfg.launch.paths import JOB_TOKEN, JobPaths
from zerocfg.launch.processes import die_with_parent


@dataclass(frozen=True, slots=True)
class Begun:
    """A rank that may start its work."""

    rank: int
    paths: JobPaths
    finish: Callable[[], None]
    """To be called at the end."""


def begin() -> Begun:
    """What every rank does first, by torchrun's environment: its log is opened, an earlier run's log and result are out of the way."""
    rank = int(os.environ.get("RANK", "0"))
    launched = JOB_TOKEN in os.environ
    if launched:
        die_with_parent()
    paths = JobPaths(Path(os.environ[RUN_DIR]))
    log = paths.rank_log(rank)
    if os.environ.get("TORCHELASTIC_RESTART_COUNT", "0") == "0":
        set_aside(log)
    # a launcher follows rank_0.log itself; by hand, the terminal gets a copy
    finish = capture(log, console=rank == 0 and not launched)
    paths.result(rank).unlink(missing_ok=True)
    if not launched:
        paths.stop_word.unlink(missing_ok=True)  # of a launcher before
    return Begun(rank, paths, finish)


def capture(log: Path, *, console: bool) -> Callable[[], None]:
    """Send this process's stdout and stderr, C libraries' too, to `log`. Returns what to call at the end.

    console: a `tee` copies to the old stdout as well; a process of its own, so that nothing is lost when this one crashes.
    """
    for stream in (sys.stdout, sys.stderr):
        stream.flush()
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(line_buffering=True, encoding="utf-8", errors="backslashreplace")
    tee: subprocess.Popen[bytes] | None = None
    if console:
        # a session of its own: signals that end the rank must not cut off its last words
        tee = subprocess.Popen(["tee", "-a", str(log)], stdin=subprocess.PIPE, start_new_session=True)
        assert tee.stdin is not None
        target = os.dup(tee.stdin.fileno())
        tee.stdin.close()
    else:
        target = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    for descriptor in (1, 2):
        os.dup2(target, descriptor)
    os.close(target)

    def finish() -> None:
        sys.stdout.flush()
        sys.stderr.flush()
        if tee is not None:
            # Not until the pipe's end: other code may hold copies of stdout. torchrun stops reading soon after this process.
            deadline = time.monotonic() + 5
            while _unread(1) and tee.poll() is None and time.monotonic() < deadline:
                time.sleep(0.01)
            time.sleep(0.05)

    return finish


def _unread(pipe: int) -> int:
    """Bytes in a pipe that its reader has not taken yet."""
    count = array("i", [0])
    fcntl.ioctl(pipe, termios.FIONREAD, count)
    return count[0]


def configure_rank_log(config: DictConfig, rank: int) -> None:
    """Python logging as hydra.job_logging says. Only rank 0 writes the job's own log file; the others have rank_<r>.log."""
    from hydra.core.utils import configure_log

    logging_config = config.hydra.job_logging
    if rank != 0 and logging_config is not None:
        logging_config = OmegaConf.create(without_files(OmegaConf.to_container(logging_config, resolve=True)))
    configure_log(logging_config, config.hydra.verbose)


def without_files(logging_config: Any) -> Any:
    """A logging config in which handlers that write to a file write to stdout instead, each destination once."""
    handlers = dict(logging_config.get("handlers") or {})
    files = {name for name, handler in handlers.items() if "filename" in handler}
    shown = {name for name, handler in handlers.items() if str(handler.get("class", "")).endswith("StreamHandler")}
    for name in files:
        kept = {key: value for key, value in handlers[name].items() if key in ("level", "formatter", "filters")}
        handlers[name] = {"class": "logging.StreamHandler", "stream": "ext://sys.stdout", **kept}

    def fewer(logger: dict[str, Any]) -> dict[str, Any]:
        names = list(logger.get("handlers") or [])
        if any(name in shown for name in names):
            names = [name for name in names if name not in files]
        return {**logger, "handlers": names} if "handlers" in logger else logger

    changed = {**logging_config, "handlers": handlers}
    if logging_config.get("root"):
        changed["root"] = fewer(logging_config["root"])
    if logging_config.get("loggers"):
        changed["loggers"] = {name: fewer(logger) for name, logger in logging_config["loggers"].items()}
    return changed
