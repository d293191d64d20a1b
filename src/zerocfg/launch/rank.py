"""One rank. It composes nothing, parses no command line, makes no folder."""

from __future__ import annotations

import os
import signal
import sys
from pathlib import Path
from types import TracebackType
from typing import Any

from zerocfg.errors import PREEMPTED_STATUS
from zerocfg.launch.cause import find_hang
from zerocfg.launch.hydra_state import changes_directory, hydra_part, task_config
from zerocfg.launch.paths import JobPaths
from zerocfg.launch.payload import Envelope, Task, read_envelope
from zerocfg.launch.results import failed, succeeded, write_result
from zerocfg.launch.streams import begin, configure_rank_log
from zerocfg.runtime.current import check_saved
from zerocfg.runtime.heartbeat import Heartbeat


def main(arguments: list[str]) -> int:
    """Run the task function of one rank. Exit status 0 when it returned (or called sys.exit(0))."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # the launcher shields its helpers from Ctrl-C; the task function gets Python's own behaviour back
        signal.signal(signal.SIGINT, signal.default_int_handler)
    begun = begin()
    try:
        return _run(begun.paths.root / arguments[0], begun.rank, begun.paths)
    finally:
        begun.finish()


def _run(payload: Path, rank: int, paths: JobPaths) -> int:
    import faulthandler

    faulthandler.enable()
    world_size = int(os.environ.get("WORLD_SIZE", "1"))
    heartbeat = Heartbeat(paths.results, rank, world_size)
    heartbeat.start()
    try:
        value = _value(payload, rank)
        check_saved()
        result = succeeded(rank, value)
    except BaseException as error:
        error.__traceback__ = _from_task(error.__traceback__)
        result = failed(rank, error)
        sys.stdout.flush()
        print(result.traceback, end="", file=sys.stderr, flush=True)
    heartbeat.finish(well=result.ok)
    if hang := find_hang(paths, [result], world_size, logs=False):
        print("\n  ".join([hang.title, *hang.lines]), file=sys.stderr, flush=True)
    write_result(paths.result(rank), result)
    return 0 if result.ok else PREEMPTED_STATUS if result.preempted else 1


def _value(payload: Path, rank: int) -> Any:
    try:
        return _task(read_envelope(payload), rank)
    except SystemExit as end:
        if end.code in (None, 0):
            return None
        raise


def _task(envelope: Envelope, rank: int) -> Any:
    os.environ.update(envelope.env_set)
    sys.argv = [envelope.script]
    sys.path[:] = [*envelope.sys_path, *(entry for entry in sys.path if entry not in envelope.sys_path)]
    task = envelope.open()
    _lend_main(task, envelope.script)
    return _call(task, rank)


def _call(task: Task, rank: int) -> Any:
    """What Hydra's run_job does around the function, less what the launcher has done: folders and .hydra/."""
    from hydra.core.hydra_config import HydraConfig
    from hydra.core.singleton import Singleton
    from hydra.core.utils import JobReturn, JobRuntime, JobStatus, _flush_loggers

    Singleton.set_state(task.singletons)
    HydraConfig.instance().set_config(task.config)
    config = task_config(task.config)
    if changes_directory(task.config):
        os.chdir(task.config.hydra.runtime.output_dir)
    configure_rank_log(task.config, rank)
    if rank != 0:
        return task.function(config)
    ret = JobReturn(
        overrides=list(task.config.hydra.overrides.task),
        cfg=config,
        hydra_cfg=hydra_part(task.config),
        working_dir=os.getcwd(),
        task_name=JobRuntime.instance().get("name"),
    )
    task.callbacks.on_job_start(config=task.config, task_function=task.function)
    try:
        ret.return_value = task.function(config)
        ret.status = JobStatus.COMPLETED
    except Exception as error:
        ret.return_value, ret.status = error, JobStatus.FAILED
        raise
    finally:
        _flush_loggers()
        if ret.status is not JobStatus.UNKNOWN:
            task.callbacks.on_job_end(config=task.config, job_return=ret)
    return ret.return_value


def _lend_main(task: Task, script: str) -> None:
    """Names of the user's script belong to `__main__`, here the worker's: let pickle and inspect find them (torch.save, triton)."""
    function = task.function
    if getattr(function, "__module__", None) == "__main__":
        here = sys.modules["__main__"]
        if os.path.isfile(script):
            here.__file__ = script
        for name, value in getattr(function, "__globals__", {}).items():
            if not name.startswith("__"):
                setattr(here, name, value)


def _from_task(trace: TracebackType | None) -> TracebackType | None:
    """Leave out the frames between here and the task function."""
    start = trace
    while start is not None and start.tb_frame.f_code.co_filename == __file__:
        start = start.tb_next
    return start if start is not None else trace
