"""Environment of the ranks: only what was decided. Names are NCCL's, torch's and DeepSpeed's."""

from __future__ import annotations

import math
from collections.abc import Iterator

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts
from zerocfg.plan import CommunicationPlan, PrecisionPlan, TopologyPlan, TorchrunPlan
from zerocfg.provenance import Reason, asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.run import CommunicationConfig

_PASS = "resolve.communication"
_BUFFER, _DUMP = ("TORCH_FR_BUFFER_SIZE", "TORCH_NCCL_TRACE_BUFFER_SIZE"), ("TORCH_FR_DUMP_TEMP_FILE", "TORCH_NCCL_DEBUG_INFO_TEMP_FILE")
"""Flight recorder: names since torch 2.11, which warns of the ones before."""
_FR_NAMES = (2, 11)
_LEAST_MINUTES = 0.05
_NCCL_DEBUG = ("VERSION", "WARN", "INFO", "TRACE")


def resolve_communication(
    config: CommunicationConfig,
    hardware: HardwareFacts,
    topology: TopologyPlan,
    precision: PrecisionPlan,
    torchrun: TorchrunPlan,
    torch: tuple[int, int] = _FR_NAMES,
) -> Resolved[CommunicationPlan]:
    """torch: (major, minor) of the release that will run.

    Codes: ZC221 a timeout that a start would not meet, ZC224 an NCCL_DEBUG without effect."""
    chosen: dict[str, tuple[str, Reason]] = {}

    def put(name: str, value: object, why: str, config_path: str = "") -> None:
        chosen[name] = (str(value), rule(_PASS, why, config_path))

    put("OMP_NUM_THREADS", topology.cpus_per_rank, "cores a rank; torchrun would set 1 and CPU Adam would crawl", "hardware.cpus_per_node")
    minutes = config.timeout_minutes if math.isfinite(config.timeout_minutes) else 0.0
    # DeepSpeed reads whole minutes, and is no importable module with anything else (constants.py:20)
    put("DEEPSPEED_TIMEOUT", max(1, math.ceil(minutes)), "minutes that a collective may take", "communication.timeout_minutes")
    # the option --shutdown-timeout is younger than the torch releases that zerocfg runs on
    put("TORCH_ELASTIC_SHUTDOWN_TIMEOUT", torchrun.shutdown_timeout, "seconds from SIGTERM to SIGKILL", "torchrun.shutdown_timeout")
    if torchrun.max_restarts:
        # torch 2.13 keeps one store over all restarts (dynamic_rendezvous.py:1207), with the addresses of ranks that are gone
        put("TORCH_DISABLE_SHARE_RDZV_TCP_STORE", 1, "a restart gets a store of its own", "torchrun.max_restarts")
    if hardware.is_cuda:
        # the rank's number follows the file's name
        for name, value in _flight_recorder(torch).items():
            put(name, value, "after a timeout each rank leaves its last collectives in the job's folder", "communication.timeout_minutes")
        if precision.tf32:
            put("TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", 1, "fp32 products on TF32 tensor cores", "precision.tf32")
        if not hardware.p2p and hardware.gpus_per_node > 1:
            put("NCCL_P2P_DISABLE", 1, "these boards have no peer-to-peer access", "hardware.p2p")
        if hardware.num_nodes > 1 and hardware.network == "tcp":
            put("NCCL_IB_DISABLE", 1, "plain TCP between the nodes", "hardware.network")
        if config.nccl_debug:
            put("NCCL_DEBUG", config.nccl_debug, "asked for", "communication.nccl_debug")
    else:
        put("DS_ACCELERATOR", "cpu", "DeepSpeed would look for other accelerators first", "hardware.accelerator")
    if hardware.network_interface:
        put(
            "NCCL_SOCKET_IFNAME" if hardware.is_cuda else "GLOO_SOCKET_IFNAME",
            hardware.network_interface,
            "asked for",
            "hardware.network_interface",
        )
        if hardware.is_cuda:
            put("GLOO_SOCKET_IFNAME", hardware.network_interface, "the same interface for gloo's groups", "hardware.network_interface")
    environment = {name: value for name, (value, _) in chosen.items()}
    reasons = {f"environment.{name}": reason for name, (_, reason) in chosen.items()}
    reasons["timeout_seconds"] = asked("communication.timeout_minutes")
    plan = CommunicationPlan(environment=environment, timeout_seconds=60 * minutes)
    return Resolved(plan, reasons, [*_problems(config, hardware)])


def _flight_recorder(torch: tuple[int, int]) -> dict[str, object]:
    old = torch < _FR_NAMES
    return {_BUFFER[old]: 2000, "TORCH_NCCL_DUMP_ON_TIMEOUT": 1, _DUMP[old]: "$ZEROCFG_RUN_DIR/nccl_trace_rank_"}


def _problems(config: CommunicationConfig, hardware: HardwareFacts) -> Iterator[Diagnostic]:
    path, minutes = "communication.timeout_minutes", config.timeout_minutes
    if not _LEAST_MINUTES <= minutes < math.inf:
        text = f"{path}={minutes:g} must be at least {_LEAST_MINUTES:g}: the ranks' start alone takes seconds"
        yield Diagnostic(code="ZC221", path=path, message=text, hint=f"{path}=10")
    path, level = "communication.nccl_debug", config.nccl_debug
    if level and not hardware.is_cuda:
        yield Diagnostic(code="ZC224", path=path, message=f"{path}={level} has no effect on cpu: NCCL is not used", hint=f"{path}=null")
    elif level and level.upper() not in _NCCL_DEBUG:
        options = ", ".join(_NCCL_DEBUG)
        yield Diagnostic(
            code="ZC224", path=path, message=f"{path}={level} is not one of {options}: NCCL ignores it in silence", hint=f"{path}=INFO"
        )
