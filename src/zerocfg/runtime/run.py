"""One rank's view of a run."""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from zerocfg.diagnostics import Diagnostic
from zerocfg.emit import StoredRun
from zerocfg.plan import Plan
from zerocfg.runtime.stored_plan import plan_from

if TYPE_CHECKING:
    from zerocfg.runtime.checkpoint_load import Resumed

T = TypeVar("T")


class Run:
    """What was compiled, and the few calls that turn it into training.

    `rank`, `local_rank`, `world_size` as torchrun numbers them. `output_dir`: the job's folder, the same for all ranks.
    """

    def __init__(self, stored: StoredRun, *, output_dir: Path, rank: int, local_rank: int, world_size: int) -> None:
        self._stored = stored
        self.plan: Plan = plan_from(stored.plan)
        self.output_dir = output_dir
        self.rank = rank
        self.local_rank = local_rank
        self.world_size = world_size
        self.engine: Any = None
        """DeepSpeed's engine, after `initialize`."""
        self.last_loss = float("nan")
        """Of the last logged step, mean over the ranks."""
        self.leaf_module_classes: tuple[str, ...] = ()
        """Classes that `initialize` found and marked as leaf modules of stage 3."""
        self.unsaved: Diagnostic | None = None
        """Why the checkpoint after the last step could not be written (checkpoint.on_error=continue): the process ends as failed."""
        self._resumed: tuple[Any, Resumed] | None = None
        """Engine that the state was loaded into, and what it was."""

    @property
    def deepspeed_config(self) -> dict[str, Any]:
        """The compiled JSON, a fresh copy: `deepspeed.initialize(config=run.deepspeed_config)` works as well."""
        if "deepspeed" in sys.modules:
            from zerocfg.runtime.engine import tame

            tame(cuda=self.plan.hardware.is_cuda)
        return copy.deepcopy(self._stored.deepspeed)

    @property
    def device(self) -> Any:
        """torch.device of this rank."""
        import torch

        return torch.device("cuda", self.local_rank) if self.plan.hardware.is_cuda else torch.device("cpu")

    @property
    def dtype(self) -> Any:
        """torch.dtype of the weights."""
        import torch

        return {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[self.plan.precision.dtype]

    @property
    def start_step(self) -> int:
        """Optimizer steps that were done before this start: 0, or the step of the checkpoint that `initialize` loaded."""
        return self._resumed[1].step if self._resumed is not None else 0

    @property
    def data_parallel_size(self) -> int:
        """Ranks that see different samples."""
        return self.plan.topology.data_parallel_size

    @property
    def data_parallel_rank(self) -> int:
        """Which share of each global batch this rank sees; ranks that share a model or a sequence are neighbours."""
        return self.rank // (self.plan.topology.tensor_parallel_degree * self.plan.topology.sequence_parallel_degree)

    def start(self) -> None:
        """Join the process group. `build` and `initialize` do it themselves; raw DeepSpeed code may too."""
        from zerocfg.runtime.engine import start

        start(self)

    def build(self, function: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """Call `function` so that the model it returns has the plan's dtype and device; at stage 3 it is sharded as it is made.

        The seed is set first: with the same train.seed, weights are the same at each stage and on each number of ranks, as
        long as modules initialize their own parameters, or by `Module.apply`.
        """
        from zerocfg.runtime.engine import build

        return build(self, lambda: function(*args, **kwargs))

    def initialize(self, model: Any, **kwargs: Any) -> Any:
        """deepspeed.initialize with the compiled JSON. Returns the engine (its `optimizer` and `lr_scheduler` are attributes).

        Where checkpoint.resume leads to a checkpoint, its state is loaded. kwargs: for deepspeed.initialize (optimizer,
        model_parameters, ...). Raises ConfigProblems: ZC781 when what the engine does differs from the plan, ZC770 to ZC776 when a
        checkpoint cannot be resumed.
        """
        from zerocfg.runtime.engine import initialize

        self.engine = initialize(self, model, kwargs)
        return self.engine

    def resume(self, engine: Any) -> Resumed:
        """Load the checkpoint that this run begins with into a fresh engine, once; `initialize` and `steps` do it themselves."""
        if self._resumed is None or self._resumed[0] is not engine:
            from zerocfg.runtime.checkpoint_load import resume

            self._resumed = (engine, resume(self, engine))
        return self._resumed[1]

    def checkpoint(self, function: Callable[..., Any], *args: Any) -> Any:
        """function(*args), its activations recomputed in the backward pass when activation_checkpointing is enabled."""
        if not self.plan.activation_checkpointing.enabled:
            return function(*args)
        from zerocfg.runtime.engine import checkpoint

        return checkpoint(function, args)

    def steps(self, batches: Iterable[Any], *, engine: Any = None) -> Iterator[Any]:
        """Optimizer steps (`Step`) until train.steps, each of gradient_accumulation_steps micro batches out of `batches`.

        batches: a DataLoader or any iterable of micro batches, started again when it ends. A resumed run goes on with the micro
        batch that comes next; a sampler or dataset that can jump there has `set_start_step(step)`. engine: the default is what
        `initialize` returned. Rank 0 writes metrics.jsonl, TensorBoard scalars and summary.json in `output_dir`. With the group
        `checkpoint` on, it raises Preempted, a SystemExit, when the run was asked to stop and has saved.
        """
        from zerocfg.runtime.steps import steps

        return steps(self, batches, engine if engine is not None else self.engine)
