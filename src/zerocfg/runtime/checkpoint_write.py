"""The files of one rank's part of a checkpoint: written through to the disk, no problem raised in between, in the background if asked."""

from __future__ import annotations

import io
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

_BUFFER_BYTES = 2**20


class Writer:
    """Stands in for DeepSpeed's checkpoint engine during one save_checkpoint.

    It raises nothing: save_checkpoint has barriers on its way, and a rank that leaves it early would have the others wait for the
    collective timeout. The first problem is kept, and nothing is written after it.
    """

    def __init__(self, engine: Any, *, in_memory: bool) -> None:
        self._engine = engine
        self._in_memory = in_memory
        self.kept: list[tuple[str, io.BytesIO]] = []
        """Files that are not written yet."""
        self.problem = ""
        self.name = "zerocfg"

    def save(self, state_dict: Any, path: str) -> None:
        if self.problem:
            return
        if self._in_memory:
            buffer = io.BytesIO()
            self.problem = tried(lambda: _serialize(state_dict, buffer))
            self.kept.append((path, buffer))
        else:
            self.problem = tried(lambda: _write_file(path, lambda file: _serialize(state_dict, file)))

    def write_kept(self) -> None:
        while self.kept:
            path, buffer = self.kept.pop(0)
            data = buffer.getbuffer()
            _write_file(path, partial(_fill, data))

    def makedirs(self, path: str, exist_ok: bool = False) -> None:
        self.problem = self.problem or tried(lambda: os.makedirs(path, exist_ok=exist_ok))

    def create(self, info: Any) -> None:
        return

    def commit(self, info: Any) -> bool:
        return True

    def is_data_parallel_writer(self, dp_rank: int) -> bool:
        return bool(self._engine.is_data_parallel_writer(dp_rank))

    def is_decoupled(self) -> bool:
        return False

    def preserves_storage_sharing(self) -> bool:
        return True

    def set_commit_info(self, info: Any) -> None:
        return

    def get_commit_info(self) -> None:
        return None

    def cleanup(self) -> None:
        return


@contextmanager
def written_by(engine: Any, writer: Writer) -> Iterator[None]:
    """Within it, nothing that save_checkpoint does on one rank alone can fail there."""
    before = engine.checkpoint_engine
    engine.checkpoint_engine = writer
    # a copy of zero_to_fp32.py beside the checkpoints, made by rank 0 at the very end
    engine._copy_recovery_script = lambda path: None
    # the copy of NVMe files is made after it, by `copy_nvme`
    engine.zero_nvme_offload_optimizer = lambda: False
    try:
        yield
    finally:
        engine.checkpoint_engine = before
        del engine._copy_recovery_script, engine.zero_nvme_offload_optimizer


def copy_nvme(engine: Any, draft: Path, rank: int) -> None:
    """What DeepSpeed's save_checkpoint does (engine.py:4935), and its load_checkpoint reads: the swapped states, without gradients."""
    shutil.copytree(
        engine.optimizer.optimizer_swapper.swap_folder,
        draft / "offloaded_tensors" / f"rank{rank:0>2d}",
        ignore=lambda _, names: [name for name in names if "gradient" in name],
    )


class _File:
    """A file for torch.save, which closes its archive after a failure too and then says something else of it."""

    def __init__(self, file: Any) -> None:
        self._file = file
        self.problem: OSError | None = None
        """The first; what is written after it goes nowhere."""

    def write(self, data: Any) -> int:
        if self.problem is None:
            try:
                return int(self._file.write(data))
            except OSError as problem:
                self.problem = problem
                raise
        return len(data)

    def flush(self) -> None:
        if self.problem is None:
            self._file.flush()


def _serialize(state_dict: Any, file: Any) -> None:
    import torch

    torch.save(state_dict, file)


def _fill(data: memoryview, file: Any) -> None:
    file.write(data)


def _write_file(path: str, fill: Callable[[Any], Any]) -> None:
    with open(path, "wb", buffering=_BUFFER_BYTES) as file:
        target = _File(file)
        try:
            fill(target)
            target.flush()
        except Exception:
            if target.problem is not None:
                raise target.problem from None
            raise
        os.fsync(file.fileno())


def tried(call: Callable[[], Any]) -> str:
    """Empty, or what went wrong, in a line."""
    try:
        call()
    except OSError as problem:
        return f"{problem.strerror or problem}" + (f" ({problem.filename})" if problem.filename else "")
    except Exception as problem:
        return f"{type(problem).__name__}: {problem}".splitlines()[0]
    return ""
