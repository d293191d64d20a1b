from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from zerocfg.memory import PARTS, ModelNotDescribed, closed_form, estimate, parameters_of
from zerocfg.memory.constants import GIB
from zerocfg.plan import Plan
from zerocfg.traced import ModelParameters

PlanOf = Callable[..., Plan]
SMALL_BATCH = ("model=gpt_1b3", "hardware=h200x2", "model.sequence_length=256")


def part(plan: Plan, name: str) -> int:
    """Of the forward pass: what is held when nothing is under way."""
    forward = next(m for m in estimate(plan).moments if m.phase == "forward")
    return forward.parts.get(name, 0)


def per_parameter(plan: Plan, *names: str) -> float:
    assert plan.model is not None
    return sum(part(plan, name) for name in names) / plan.model.num_parameters


STATES = ("parameters", "fp32_master", "optimizer_states", "gradients")


@pytest.mark.parametrize(
    ("overrides", "expected"),
    [
        # weights whole, states halved on two ranks
        (("parallelism=ddp",), 14),
        (("parallelism=ddp", "precision=fp32"), 12),
        (("parallelism=zero1",), 2 + 6),
        (("parallelism=zero1", "precision.grad_accum_dtype=fp32"), 2 + 4 + 6),
        (("parallelism=zero2", "precision=fp32"), 4 + 6),
        (("parallelism=zero2", "precision=bf16_lowmem"), 2 + 3),
        (("parallelism=zero3",), 8),
        (("parallelism=zero3", "precision.grad_accum_dtype=fp32"), 9),
        (("parallelism=zero3", "precision=fp32"), 10),
        (("parallelism=zero3", "precision=bf16_lowmem"), 5),
        (("parallelism=zero3", "optimizer=lion"), 6),
        (("parallelism=zero3", "offload=optimizer"), 1),
        (("parallelism=zero3", "offload=all"), 0),
    ],
)
def test_bytes_a_parameter_between_steps(plan_of: PlanOf, overrides: tuple[str, ...], expected: float) -> None:
    assert per_parameter(plan_of(*SMALL_BATCH, *overrides), *STATES) == pytest.approx(expected, rel=1e-3, abs=1e-3)


def test_accumulated_gradients_are_held_between_micro_batches(plan_of: PlanOf) -> None:
    accumulate = "batch.gradient_accumulation_steps=2"
    whole = {stage: per_parameter(plan_of(*SMALL_BATCH, f"parallelism=zero{stage}", accumulate), "gradients") for stage in (1, 2, 3)}
    # stage 1 reduces with the last micro batch only; stage 2 keeps the parameters that its part touches
    assert whole[1] == pytest.approx(2)
    assert 1 <= whole[2] < 1.2
    assert whole[3] == pytest.approx(1, rel=1e-3)


def test_the_peak_is_its_parts(plan_of: PlanOf) -> None:
    found = estimate(plan_of(*SMALL_BATCH))
    assert sum(found.parts.values()) == found.peak_allocated_bytes == max(found.phases.values()) == found.phases[found.phase]
    assert list(found.phases) == ["init", "forward", "backward", "step"]
    assert found.fits is (found.headroom_bytes >= 0)


def test_json(plan_of: PlanOf) -> None:
    found = estimate(plan_of(*SMALL_BATCH)).as_dict()
    assert {"peak_allocated_bytes", "peak_reserved_bytes", "parts", "phase", "host_bytes_per_node", "fits"} <= found.keys()
    assert set(found["parts"]) <= PARTS.keys()


def test_many_tokens_peak_in_the_loss_and_few_in_the_step(plan_of: PlanOf) -> None:
    long = estimate(plan_of("model=gpt_1b3", "hardware=h200x2", "batch.micro_batch_size=16"))
    short = estimate(plan_of(*SMALL_BATCH, "activation_checkpointing=full", "model.sequence_length=16"))
    assert (long.phase, long.moment) == ("backward", "loss")
    assert short.phase == "step"


def test_checkpointing_keeps_one_input_a_block(plan_of: PlanOf) -> None:
    base = ("model=gpt_1b3", "hardware=h200x2", "batch.micro_batch_size=4")
    plan = plan_of(*base, "activation_checkpointing=full")
    assert plan.model is not None
    one = 2 * plan.model.sequence_length * plan.model.hidden_size
    # 24 inputs and the embedding's output, with some bytes a token
    assert part(plan, "activations") == pytest.approx(4 * one * (plan.model.num_hidden_layers + 1), rel=0.01)
    assert part(plan_of(*base), "activations") > 10 * part(plan, "activations")


def test_checkpoints_on_the_host(plan_of: PlanOf) -> None:
    base = ("model=gpt_1b3", "hardware=h200x2", "batch.micro_batch_size=4", "activation_checkpointing=full")
    there, here = (estimate(plan_of(*base, f"activation_checkpointing.cpu_checkpointing={on}")) for on in ("true", "false"))
    assert here.phases["step"] == there.phases["step"]
    assert part(plan_of(*base, "activation_checkpointing.cpu_checkpointing=true"), "activations") < part(plan_of(*base), "activations") / 8
    assert there.host_parts["activations"] == 2 * 24 * 4 * 2 * 2048 * 2048


def test_a_tied_embedding_is_counted_once_and_its_gradient_waits(plan_of: PlanOf) -> None:
    tied, untied = (plan_of(*SMALL_BATCH, f"model.tie_word_embeddings={on}", "parallelism=zero2") for on in ("true", "false"))
    assert untied.model is not None
    embedding = untied.model.embedding_parameters
    assert part(untied, "parameters") - part(tied, "parameters") == pytest.approx(2 * embedding, rel=1e-4)
    waiting = [next(m for m in estimate(plan).moments if m.name == "last block").parts["gradients"] for plan in (tied, untied)]
    assert waiting[0] - waiting[1] == 2 * embedding


def test_hpz_keeps_a_second_shard_on_the_node(plan_of: PlanOf) -> None:
    plan = plan_of("model=llama3_8b", "hardware=a100x8", "hardware.num_nodes=2", "parallelism.zero_hpz_partition_size=8")
    assert plan.model is not None
    assert part(plan, "secondary_parameters") == pytest.approx(2 * plan.model.num_parameters / 8, rel=1e-6)


def test_gathered_parameters_stop_at_the_limit(plan_of: PlanOf) -> None:
    plan = plan_of("model=llama3_8b", "hardware=a100x8", "parallelism.stage3_max_live_parameters=1e9")
    assert plan.model is not None
    live = part(plan, "live_parameters") / 2
    assert 1e9 < live < 1e9 + 1.1 * plan.model.largest_parameter
    one = plan_of("model=gpt_1b3", "hardware=h200x2", "hardware.gpus_per_node=1")
    assert part(one, "live_parameters") == 0


def test_sequence_parallel_ranks_share_tokens_and_states(plan_of: PlanOf) -> None:
    base = ("model=llama3_8b", "hardware=a100x8", "parallelism=zero3")
    one, four = plan_of(*base), plan_of(*base, "parallelism.sequence_parallel_degree=4")
    assert part(four, "fp32_master") == part(one, "fp32_master")
    assert part(four, "logits_and_loss") == part(one, "logits_and_loss") // 4
    # gradients are reduced in fp32
    assert part(four, "reduce_buffers") == 2 * part(one, "reduce_buffers")


def test_tensor_parallel_ranks_share_heads_and_width(plan_of: PlanOf) -> None:
    base = ("model=llama3_8b", "hardware=a100x8", "parallelism=zero1", "batch.micro_batch_size=1")
    one, two = plan_of(*base), plan_of(*base, "parallelism.tensor_parallel_degree=2")
    assert 0.5 < part(two, "parameters") / part(one, "parameters") < 0.6
    assert 0.5 < part(two, "activations") / part(one, "activations") < 0.7


def test_frozen_parameters_have_no_gradient_and_no_states(plan_of: PlanOf) -> None:
    plan = plan_of("model=gpt_1b3", "hardware=h200x2", "parallelism=zero3", "model.sequence_length=256")
    assert plan.model is not None
    whole = parameters_of(plan.model)
    frozen = ModelParameters(tuple(replace(p, trainable=p.block == 0) for p in whole.entries), whole.num_blocks)
    found = estimate(plan, parameters=frozen)
    forward = next(m for m in found.moments if m.phase == "forward")
    assert forward.parts["parameters"] == pytest.approx(plan.model.num_parameters, rel=1e-3)
    assert forward.parts["fp32_master"] == pytest.approx(2 * plan.model.block_parameters, rel=1e-3)
    assert forward.parts["optimizer_states"] == pytest.approx(4 * plan.model.block_parameters, rel=1e-3)


def test_a_model_that_is_not_described_needs_a_trace(plan_of: PlanOf) -> None:
    described = plan_of("model=gpt_1b3", "hardware=h200x2")
    assert described.model is not None
    plan = replace(described, model=None)
    with pytest.raises(ModelNotDescribed, match="model=none"):
        estimate(plan)
    trace = replace(closed_form(described.model, "bf16"), parameters=parameters_of(described.model))
    assert estimate(plan, trace) == estimate(described)
    with pytest.raises(ModelNotDescribed, match="fp32"):
        estimate(plan, replace(trace, dtype="fp32"))


def test_on_cpu_there_is_no_cuda(plan_of: PlanOf) -> None:
    found = estimate(plan_of("hardware=cpu", "hardware.memory_bytes=8e9", "model=gpt_tiny"))
    assert (found.context_bytes, found.peak_reserved_bytes) == (0, found.peak_allocated_bytes)
    assert "workspace" not in found.parts


STAGES = st.sampled_from(["ddp", "zero1", "zero2", "zero3"])


@settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(STAGES, st.integers(1, 4), st.sampled_from(["bf16", "fp32", "fp16"]), st.booleans(), st.integers(0, 3))
def test_more_samples_take_more_and_more_ranks_never_do(
    plan_of: PlanOf, stage: str, steps: int, precision: str, checkpointing: bool, doublings: int
) -> None:
    plan = plan_of(
        "model=gpt2_124m",
        "hardware=a100x8",
        f"parallelism={stage}",
        f"precision={precision}",
        f"activation_checkpointing={'full' if checkpointing else 'none'}",
        f"batch.gradient_accumulation_steps={steps}",
    )
    peaks = []
    for micro in (1, 2, 4):
        batch = replace(plan.batch, micro_batch_size=micro, global_batch_size=micro * steps * 8)
        peaks.append(estimate(replace(plan, batch=batch)).peak_allocated_bytes)
    assert peaks == sorted(peaks)
    nodes = 2**doublings
    wider = replace(plan, topology=replace(plan.topology, num_nodes=nodes), batch=replace(plan.batch, data_parallel_size=8 * nodes))
    found = estimate(wider)
    # a rank's part may touch a larger parameter than before, and parts are padded
    assert plan.model is not None
    assert found.peak_allocated_bytes <= peaks[0] + 4 * plan.model.largest_parameter
    assert all(size >= 0 for m in found.moments for size in m.parts.values())


def test_memory_target_is_a_share_of_the_card(plan_of: PlanOf) -> None:
    found = replace(estimate(plan_of(*SMALL_BATCH)), peak_allocated_bytes=70 * GIB, memory_bytes=80 * GIB)
    assert found.fits
    assert not found.within(0.8)
    assert found.within(0.95)
