"""Why a model cannot be traced, in words: what was being done, the line of the user's code, the reason."""

from __future__ import annotations

import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from zerocfg.errors import ZerocfgError

_NO_DATA = ("DataDependentOutputException", "DynamicOutputShapeException", "GuardOnDataDependentSymNode")
_NO_CUDA = ("not linked with support for cuda", "not compiled with CUDA", "no NVIDIA driver", "No CUDA GPUs")
_OURS = str(Path(__file__).parent.parent)


class CannotTrace(ZerocfgError):
    """The model does not run on fake tensors, or gives no loss."""


@contextmanager
def told_as(doing: str) -> Iterator[None]:
    """Whatever the user's code raises inside becomes CannotTrace."""
    try:
        yield
    except ZerocfgError:
        raise
    except Exception as error:
        raise CannotTrace(f"{doing} failed{_place(error)}: {_reason(error)}") from error


def _reason(error: Exception) -> str:
    name, text = type(error).__name__, " ".join(str(error).split())
    if name in _NO_DATA:
        return "it asks for the values of a tensor (.item(), an if, a mask as index), and a trace has shapes only"
    if any(words in text for words in _NO_CUDA):
        return "it asks for CUDA by itself: leave the device to torch's default"
    return f"{name}: {text if len(text) <= 200 else text[:200] + ' ...'}"


def _place(error: Exception) -> str:
    """The innermost line that is neither a library's nor ours."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [f for f in frames if "-packages" not in f.filename and not f.filename.startswith(("<", _OURS))]
    return f" at {Path(own[-1].filename).name}:{own[-1].lineno}" if own else ""
