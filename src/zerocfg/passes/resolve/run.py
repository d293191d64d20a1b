"""torchrun and the training loop."""

from __future__ import annotations

import signal
from difflib import get_close_matches

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.plan import TorchrunPlan, TrainPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.load import field_names
from zerocfg.schema.run import TorchrunConfig, TrainConfig

_PASS = "resolve.run"
DEFAULT_RDZV_PORT = 29500
TESTED_TORCH = (2, 13)
NUMA_TORCH = (2, 9)
"""First release whose torchrun has --numa-binding."""
TRACKERS = ("tensorboard", "wandb")
SHUTDOWN, SAVING_SHUTDOWN = 30, 600
_UNCATCHABLE = ("SIGKILL", "SIGSTOP")


def resolve_torchrun(
    config: TorchrunConfig, hardware: HardwareFacts, torch: tuple[int, int] = TESTED_TORCH, *, saves: bool = False
) -> Resolved[TorchrunPlan]:
    """torch: (major, minor) of the release that will run. saves: ranks write a checkpoint before they end.

    Codes: ZC221 a value out of range, ZC222 a signal that cannot be handled, ZC223 NUMA binding where torchrun has none.
    """
    reasons: dict[str, Reason] = {name: asked(f"torchrun.{name}") for name in field_names(TorchrunConfig)}
    problems = []
    for name, least in (("max_restarts", 0), ("rdzv_timeout", 1), ("shutdown_timeout", 0)):
        value = getattr(config, name)
        if value is not None and int(value) < least:
            problems.append(_below(f"torchrun.{name}", int(value), least))
    if config.rdzv_port is not None and not 0 < int(config.rdzv_port) < 65536:
        problems.append(
            Diagnostic(
                code="ZC221",
                path="torchrun.rdzv_port",
                message=f"torchrun.rdzv_port={int(config.rdzv_port)} is not a port",
                hint="torchrun.rdzv_port=29500",
            )
        )
    for name in config.signals_to_handle:
        if name not in signal.Signals.__members__ or name in _UNCATCHABLE:
            what = "cannot be caught by any process" if name in _UNCATCHABLE else "is not a signal here"
            problems.append(
                Diagnostic(
                    code="ZC222",
                    path="torchrun.signals_to_handle",
                    message=f"torchrun.signals_to_handle: {name} {what}",
                    hint="torchrun.signals_to_handle=[SIGTERM,SIGINT]",
                )
            )
    if config.monitor_interval is not None and config.monitor_interval <= 0:
        path = "torchrun.monitor_interval"
        problems.append(
            Diagnostic(code="ZC221", path=path, message=f"{path}={config.monitor_interval} must be above 0 seconds", hint=f"{path}=0.1")
        )
    if config.rdzv_port is not None:
        port = int(config.rdzv_port)
    elif hardware.num_nodes == 1:
        port, reasons["rdzv_port"] = 0, rule(_PASS, "one node: torchrun takes a free port")
    else:
        port, reasons["rdzv_port"] = DEFAULT_RDZV_PORT, rule(_PASS, "torch's default; under SLURM the job id decides")
    if config.numa_binding is not None:
        binding = config.numa_binding.value
        if binding != "none" and torch < NUMA_TORCH:
            problems.append(
                Diagnostic(
                    code="ZC223",
                    path="torchrun.numa_binding",
                    message=f"torchrun.numa_binding={binding} needs torch 2.9; torch {torch[0]}.{torch[1]} is installed",
                    hint="torchrun.numa_binding=none, or a newer torch",
                )
            )
        elif binding != "none" and not hardware.is_cuda:
            problems.append(
                Diagnostic(
                    code="ZC223",
                    path="torchrun.numa_binding",
                    message=f"torchrun.numa_binding={binding} binds each rank to its GPU's node; on cpu torchrun fails",
                    hint="torchrun.numa_binding=none",
                )
            )
    elif hardware.is_cuda and hardware.numa_nodes > 1 and torch < NUMA_TORCH:
        binding, reasons["numa_binding"] = "none", rule(_PASS, f"torchrun {torch[0]}.{torch[1]} cannot bind ranks, 2.9 can")
    elif hardware.is_cuda and hardware.numa_nodes > 1:
        binding, reasons["numa_binding"] = (
            "node",
            rule(_PASS, f"{hardware.numa_nodes} NUMA nodes: each rank stays on its GPU's", "hardware.numa_nodes"),
        )
    else:
        binding, reasons["numa_binding"] = "none", rule(_PASS, "one NUMA node, or no GPU to bind to", "hardware.numa_nodes")
    if config.shutdown_timeout is not None:
        shutdown = int(config.shutdown_timeout)
    elif saves:
        shutdown, reasons["shutdown_timeout"] = SAVING_SHUTDOWN, rule(_PASS, "time for a step and a checkpoint", "checkpoint.enabled")
    else:
        shutdown, reasons["shutdown_timeout"] = SHUTDOWN, rule(_PASS, "torchrun's default")
    plan = TorchrunPlan(
        max_restarts=int(config.max_restarts),
        monitor_interval=config.monitor_interval or 0.0,
        rdzv_port=port,
        rdzv_timeout=int(config.rdzv_timeout),
        signals_to_handle=tuple(config.signals_to_handle),
        shutdown_timeout=shutdown,
        numa_binding=binding,
    )
    return Resolved(plan, reasons, problems)


def resolve_train(config: TrainConfig, hardware: HardwareFacts) -> Resolved[TrainPlan]:
    """Codes: ZC221 a value out of range, ZC225 an unknown tracker."""
    reasons: dict[str, Reason] = {name: asked(f"train.{name}") for name in field_names(TrainConfig)}
    problems = [
        _below(f"train.{name}", int(getattr(config, name)), least)
        for name, least in (("steps", 1), ("log_every", 1), ("num_workers", 0), ("seed", 0))
        if int(getattr(config, name)) < least
    ]
    problems += [
        Diagnostic(
            code="ZC225",
            path="train.trackers",
            message=f"train.trackers: {name} is not one of {', '.join(TRACKERS)}",
            hint=f"train.trackers=[{','.join(get_close_matches(name, TRACKERS, 1) or TRACKERS[:1])}]",
        )
        for name in config.trackers
        if name not in TRACKERS
    ]
    pin = config.pin_memory
    if pin is None:
        pin = hardware.is_cuda
        reasons["pin_memory"] = rule(_PASS, "on with cuda", "hardware.accelerator")
    plan = TrainPlan(
        steps=int(config.steps),
        seed=int(config.seed),
        log_every=int(config.log_every),
        num_workers=int(config.num_workers),
        pin_memory=pin,
        data=config.data or "",
        profile=config.profile.value,
        trackers=tuple(dict.fromkeys(config.trackers)),
    )
    return Resolved(plan, reasons, problems)


def _below(path: str, value: int, least: int) -> Diagnostic:
    return Diagnostic(code="ZC221", path=path, message=f"{path}={value} must be at least {least}", hint=f"{path}={least}")
