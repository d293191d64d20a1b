"""zerocfg: Hydra config groups -> resolved DeepSpeed JSON, torchrun arguments, NCCL environment -> a running job."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

if TYPE_CHECKING:
    from zerocfg.library import compile
    from zerocfg.runtime import current_run

__all__ = ["__version__", "compile", "current_run"]


def __getattr__(name: str) -> Any:
    # Lazy: `zerocfg compile` must not pay for the runtime.
    if name == "current_run":
        from zerocfg.runtime import current_run

        return current_run
    if name == "compile":
        from zerocfg.library import compile

        return compile
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
