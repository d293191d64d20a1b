"""The model of a training script, found without training: the script runs until it calls run.build."""

from __future__ import annotations

import os
import runpy
import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn

from zerocfg.compiler import open_fields, resolve
from zerocfg.deepspeed.importer.text import override
from zerocfg.diagnostics import ConfigProblems, has_errors
from zerocfg.emit import StoredRun
from zerocfg.errors import ZerocfgError
from zerocfg.plan import Plan
from zerocfg.profile.failure import CannotTrace
from zerocfg.profile.trace import Inputs, causal_lm_inputs, trace_model
from zerocfg.runtime.run import Run
from zerocfg.schema.load import load
from zerocfg.traced import ActivationTrace


class _Ended(BaseException):
    """Ends the script, past its own handlers of errors and Hydra's, which would print a traceback."""

    def __init__(self, found: ActivationTrace | ZerocfgError) -> None:
        self.found = found


class _TracingRun(Run):
    """A run of one rank whose build traces the model and ends the script."""

    def __init__(self, plan: Plan, folder: Path, inputs: Inputs | None) -> None:
        stored = StoredRun(deepspeed={}, torchrun=(), environment={}, resources={}, plan={})
        self._stored, self.plan, self.output_dir, self._inputs = stored, plan, folder, inputs
        self.rank = self.local_rank = 0
        self.world_size = 1
        self.engine, self.leaf_module_classes, self._resumed = None, (), None

    def start(self) -> None:
        """No process group: nothing trains."""

    def checkpoint(self, function: Callable[..., Any], *args: Any) -> Any:
        return function(*args)  # the trace is without recomputation; the memory model adds it

    def build(self, function: Callable[..., Any], *args: Any, **kwargs: Any) -> NoReturn:
        model, inputs = self.plan.model, self._inputs
        if inputs is None:
            if model is None:
                raise _Ended(CannotTrace("model=none says nothing of its inputs: --input LENGTHxVOCABULARY or module:function"))
            inputs = causal_lm_inputs(model.sequence_length, model.vocab_size)
        try:
            raise _Ended(trace_model(lambda: function(*args, **kwargs), inputs, dtype=self.plan.precision.dtype))
        except CannotTrace as why:
            if model is not None and self._inputs is None:
                why = CannotTrace(f"{why}\n  it was given token ids of {model.name}: --input module:function gives what it takes")
            raise _Ended(why) from None


def trace_script(script: Path, overrides: Sequence[str], inputs: Inputs | None = None) -> ActivationTrace:
    """The trace of what `script`, a @hydra.main app with zerocfg's groups, hands to run.build under these overrides.

    inputs: None for token ids and targets of the model's dims. Raises CannotTrace, ConfigProblems, and what the script raises itself.
    """
    from zerocfg.runtime import current

    before = sys.argv, list(sys.path), current._of_hydra_job, list(current._current)
    with tempfile.TemporaryDirectory(prefix="zerocfg-profile-") as folder:
        quiet = [
            "hydra.mode=RUN",
            override("hydra.run.dir", folder),
            "hydra.output_subdir=null",
            "hydra/job_logging=none",
            "hydra/hydra_logging=none",
        ]
        sys.argv = [str(script), *overrides, *quiet]
        sys.path.insert(0, os.fspath(script.resolve().parent))
        current._current.clear()
        current._of_hydra_job = lambda: _tracing_run(Path(folder), inputs)
        try:
            runpy.run_path(str(script), run_name="__main__")
        except _Ended as done:
            if isinstance(done.found, ZerocfgError):
                raise done.found from None
            return done.found
        finally:
            sys.argv, sys.path[:], current._of_hydra_job, current._current[:] = before
    raise CannotTrace(f"{script} ended without calling run.build: name what builds its model, module:function")


def _tracing_run(folder: Path, inputs: Inputs | None) -> Run:
    try:
        return _TracingRun(_plan(), folder, inputs)
    except ConfigProblems as problems:
        raise _Ended(problems) from None


def _plan() -> Plan:
    """Of the Hydra job that is running, whatever fits or not; what is left to the planner does not matter to a trace."""
    from hydra.core.hydra_config import HydraConfig

    from zerocfg.compose import compose_job

    job: Any = HydraConfig.instance().cfg
    composed = compose_job(job, [*job.hydra.overrides.task, "model.profile=null"])
    config, found = load(composed.container)
    problems = [*composed.diagnostics, *found]
    if not composed.container or has_errors(problems):
        raise ConfigProblems(problems)
    for path in open_fields(config):
        group, _, name = path.partition(".")
        section = getattr(config, group)
        setattr(section, name, getattr(type(section)(), name))
    return resolve(config, None)[0]
