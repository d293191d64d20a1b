from __future__ import annotations

import pytest

from zerocfg.passes.resolve.batch import resolve_batch
from zerocfg.plan import BatchPlan, TopologyPlan
from zerocfg.schema.batch import BatchConfig


def topology(world: int = 8, tp: int = 1, sp: int = 1) -> TopologyPlan:
    return TopologyPlan(
        num_nodes=1, nproc_per_node=world, tensor_parallel_degree=tp, sequence_parallel_degree=sp, backend="nccl", cpus_per_rank=1
    )


DP8 = "resolve.batch: world / (tensor x sequence parallel) = 8 / (1 x 1)"


def written(reason: object) -> str:
    by, text, path = reason.by, reason.text, reason.config_path  # type: ignore[attr-defined]
    return f"{by}: {text}" + (f" <- {path}" if path else "") if by else f"as written: {path}"


@pytest.mark.parametrize(
    ("given", "plan", "reasons"),
    [
        (
            {},
            (8, 1, 1, 8),
            {
                "micro_batch_size": "resolve.batch: nothing asked for: 1",
                "gradient_accumulation_steps": "resolve.batch: nothing asked for: 1",
                "global_batch_size": "resolve.batch: micro x accumulation x data parallel = 1 x 1 x 8",
            },
        ),
        (
            {"micro_batch_size": 4},
            (32, 4, 1, 8),
            {
                "micro_batch_size": "as written: batch.micro_batch_size",
                "gradient_accumulation_steps": "resolve.batch: nothing asked for: 1",
                "global_batch_size": "resolve.batch: micro x accumulation x data parallel = 4 x 1 x 8",
            },
        ),
        (
            {"gradient_accumulation_steps": 3},
            (24, 1, 3, 8),
            {
                "gradient_accumulation_steps": "as written: batch.gradient_accumulation_steps",
                "micro_batch_size": "resolve.batch: nothing asked for: 1",
                "global_batch_size": "resolve.batch: micro x accumulation x data parallel = 1 x 3 x 8",
            },
        ),
        (
            {"micro_batch_size": 4, "gradient_accumulation_steps": 3},
            (96, 4, 3, 8),
            {
                "micro_batch_size": "as written: batch.micro_batch_size",
                "gradient_accumulation_steps": "as written: batch.gradient_accumulation_steps",
                "global_batch_size": "resolve.batch: micro x accumulation x data parallel = 4 x 3 x 8",
            },
        ),
        (
            {"global_batch_size": 96},
            (96, 1, 12, 8),
            {
                "global_batch_size": "as written: batch.global_batch_size",
                "micro_batch_size": "resolve.batch: nothing asked for: 1",
                "gradient_accumulation_steps": "resolve.batch: global / (micro x data parallel) = 96 / (1 x 8) <- batch.global_batch_size",
            },
        ),
        (
            {"global_batch_size": 96, "micro_batch_size": 4},
            (96, 4, 3, 8),
            {
                "global_batch_size": "as written: batch.global_batch_size",
                "micro_batch_size": "as written: batch.micro_batch_size",
                "gradient_accumulation_steps": "resolve.batch: global / (micro x data parallel) = 96 / (4 x 8) <- batch.global_batch_size",
            },
        ),
        (
            {"global_batch_size": 96, "gradient_accumulation_steps": 3},
            (96, 4, 3, 8),
            {
                "global_batch_size": "as written: batch.global_batch_size",
                "gradient_accumulation_steps": "as written: batch.gradient_accumulation_steps",
                "micro_batch_size": "resolve.batch: global / (accumulation x data parallel) = 96 / (3 x 8) <- batch.global_batch_size",
            },
        ),
        (
            {"global_batch_size": 96, "micro_batch_size": 4, "gradient_accumulation_steps": 3},
            (96, 4, 3, 8),
            {
                "global_batch_size": "as written: batch.global_batch_size",
                "micro_batch_size": "as written: batch.micro_batch_size",
                "gradient_accumulation_steps": "as written: batch.gradient_accumulation_steps",
            },
        ),
    ],
)
def test_the_rest_is_solved(given: dict[str, int], plan: tuple[int, int, int, int], reasons: dict[str, str]) -> None:
    resolved = resolve_batch(BatchConfig(**given), topology())
    total, micro, steps, ranks = plan
    assert resolved.value == BatchPlan(
        global_batch_size=total, micro_batch_size=micro, gradient_accumulation_steps=steps, data_parallel_size=ranks
    )
    assert {name: written(reason) for name, reason in resolved.reasons.items()} == {**reasons, "data_parallel_size": DP8}
    assert list(resolved.problems) == []


@pytest.mark.parametrize(("tp", "sp", "expected"), [(2, 1, (96, 1, 24, 4)), (1, 4, (96, 1, 48, 2)), (8, 1, (96, 1, 96, 1))])
def test_only_data_parallel_ranks_divide_the_batch(tp: int, sp: int, expected: tuple[int, ...]) -> None:
    plan = resolve_batch(BatchConfig(global_batch_size=96), topology(tp=tp, sp=sp)).value
    assert (plan.global_batch_size, plan.micro_batch_size, plan.gradient_accumulation_steps, plan.data_parallel_size) == expected


@pytest.mark.parametrize(
    ("given", "world", "report"),
    [
        (
            {"global_batch_size": 100},
            topology(8),
            """\
error[ZC201] batch.global_batch_size=100 cannot be reached on 8 ranks
  100 = micro_batch (?) x gradient_accumulation (?) x data_parallel (8) has no whole solution: 100 / 8 = 12.5
  data_parallel = world 8 / (tensor 1 x sequence 1)
  try: batch.global_batch_size=96 or 104""",
        ),
        (
            {"global_batch_size": 102, "micro_batch_size": 4},
            topology(8, tp=2),
            """\
error[ZC201] batch.global_batch_size=102 cannot be reached on 8 ranks
  102 = micro_batch (4) x gradient_accumulation (?) x data_parallel (4) has no whole solution: 102 / 16 = 6.375
  data_parallel = world 8 / (tensor 2 x sequence 1)
  try: batch.global_batch_size=96 or 112""",
        ),
        (
            {"global_batch_size": 5, "gradient_accumulation_steps": 3},
            topology(8),
            """\
error[ZC201] batch.global_batch_size=5 cannot be reached on 8 ranks
  5 = micro_batch (?) x gradient_accumulation (3) x data_parallel (8) has no whole solution: 5 / 24 = 0.208333
  data_parallel = world 8 / (tensor 1 x sequence 1)
  try: batch.global_batch_size=24""",
        ),
        (
            {"global_batch_size": 64, "micro_batch_size": 2, "gradient_accumulation_steps": 2},
            topology(8),
            """\
error[ZC201] batch.global_batch_size=64 cannot be reached on 8 ranks
  micro_batch (2) x gradient_accumulation (2) x data_parallel (8) = 32, not 64
  data_parallel = world 8 / (tensor 1 x sequence 1)
  try: batch.global_batch_size=32, or batch.gradient_accumulation_steps=4""",
        ),
        (
            {"global_batch_size": -8, "micro_batch_size": 0},
            topology(8),
            """\
error[ZC202] batch.global_batch_size=-8 must be at least 1
  try: batch.global_batch_size=8
error[ZC202] batch.micro_batch_size=0 must be at least 1
  try: batch.micro_batch_size=1""",
        ),
    ],
)
def test_no_whole_solution(given: dict[str, int], world: TopologyPlan, report: str) -> None:
    resolved = resolve_batch(BatchConfig(**given), world)
    assert "\n".join(problem.render() for problem in resolved.problems) == report
    plan = resolved.value
    assert plan.global_batch_size == plan.micro_batch_size * plan.gradient_accumulation_steps * plan.data_parallel_size
