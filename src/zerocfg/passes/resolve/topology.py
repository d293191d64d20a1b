"""World size, degrees, backend and cores a rank."""

from __future__ import annotations

import math

from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import HardwareFacts, ModelFacts
from zerocfg.plan import TopologyPlan
from zerocfg.provenance import asked, rule
from zerocfg.resolved import Resolved
from zerocfg.schema.parallelism import ParallelismConfig
from zerocfg.units import counted

_PASS = "resolve.topology"


def resolve_topology(config: ParallelismConfig, hardware: HardwareFacts, model: ModelFacts | None) -> Resolved[TopologyPlan]:
    """Codes: ZC210 a degree does not divide the world (or is below 1), ZC211 heads not divisible by a degree, ZC212 the sequence
    length not divisible by sequence_parallel_degree, ZC216 both degrees above 1."""
    degrees = {
        "tensor_parallel_degree": int(config.tensor_parallel_degree),
        "sequence_parallel_degree": int(config.sequence_parallel_degree),
    }
    world = hardware.num_nodes * hardware.gpus_per_node
    problems: list[Diagnostic] = []
    for name, degree in degrees.items():
        if degree < 1 or world % degree:
            problems.append(_does_not_divide(f"parallelism.{name}", degree, world, model))
            degrees[name] = 1
    if model is not None:
        problems += _model_limits(degrees, model)
    if all(degree > 1 for degree in degrees.values()):
        problems.append(_not_both(degrees))
        degrees = dict.fromkeys(degrees, 1)
    nccl = hardware.is_cuda
    plan = TopologyPlan(
        num_nodes=hardware.num_nodes,
        nproc_per_node=hardware.gpus_per_node,
        backend="nccl" if nccl else "gloo",
        cpus_per_rank=max(1, hardware.cpus_per_node // hardware.gpus_per_node),
        **degrees,
    )
    return Resolved(
        plan,
        {
            "num_nodes": asked("hardware.num_nodes"),
            "nproc_per_node": rule(_PASS, "one rank a GPU" if nccl else "one rank a process", "hardware.gpus_per_node"),
            "backend": rule(_PASS, "nccl on cuda" if nccl else "gloo on cpu", "hardware.accelerator"),
            "cpus_per_rank": rule(
                _PASS,
                f"cpus_per_node / ranks a node = {hardware.cpus_per_node} / {hardware.gpus_per_node}, at least 1",
                "hardware.cpus_per_node",
            ),
            **{name: asked(f"parallelism.{name}") for name in degrees},
        },
        problems,
    )


def _divisors(n: int) -> list[int]:
    low = [d for d in range(1, math.isqrt(n) + 1) if n % d == 0]
    return low + [n // d for d in reversed(low) if d * d != n]


def _does_not_divide(path: str, degree: int, world: int, model: ModelFacts | None) -> Diagnostic:
    options = _divisors(world)
    usable = [d for d in options if model is None or _fits(d, model, split=path.endswith("sequence_parallel_degree"))]
    nearest = min(usable, key=lambda d: (abs(d - degree), d))
    return Diagnostic(
        code="ZC210",
        path=path,
        message=f"{path}={degree} does not divide the world of {counted(world, 'rank')}",
        detail=(f"world = num_nodes x gpus_per_node = {world}; its divisors: {', '.join(map(str, options))}",),
        hint=f"{path}={nearest}",
    )


def _fits(degree: int, model: ModelFacts, *, split: bool) -> bool:
    """Whether the model's heads, and where sequences are split their length, go with a degree."""
    return model.num_attention_heads % degree == 0 and not (split and model.sequence_length % degree)


def _not_both(degrees: dict[str, int]) -> Diagnostic:
    tp, sp = degrees["tensor_parallel_degree"], degrees["sequence_parallel_degree"]
    return Diagnostic(
        code="ZC216",
        path="parallelism.sequence_parallel_degree",
        message=f"parallelism.tensor_parallel_degree={tp} and parallelism.sequence_parallel_degree={sp} cannot be used together",
        detail=("DeepSpeed lays each of the two over the whole world, so the same ranks would be in both groups (__init__.py:543)",),
        hint="parallelism.tensor_parallel_degree=1 or parallelism.sequence_parallel_degree=1",
    )


def _model_limits(degrees: dict[str, int], model: ModelFacts) -> list[Diagnostic]:
    problems = []
    for name, degree in degrees.items():
        path = f"parallelism.{name}"
        heads = model.num_attention_heads
        if heads % degree:
            problems.append(
                Diagnostic(
                    code="ZC211",
                    path=path,
                    message=f"{path}={degree} does not divide model.num_attention_heads={heads}",
                    detail=(f"{heads} / {degree} = {heads / degree:.4g} heads a rank",),
                    hint=f"{path}={math.gcd(heads, degree)}",
                )
            )
    sp, length = degrees["sequence_parallel_degree"], model.sequence_length
    if length % sp:
        problems.append(
            Diagnostic(
                code="ZC212",
                path="model.sequence_length",
                message=f"model.sequence_length={length} is not a multiple of parallelism.sequence_parallel_degree={sp}",
                detail=(f"{length} / {sp} = {length / sp:.4g} tokens a rank",),
                hint=f"model.sequence_length={length // sp * sp or sp}",
            )
        )
    return problems
