from __future__ import annotations

import pytest

from tests.planner.conftest import Configure
from zerocfg.compiler import Outcome, compile_run, examine, open_fields
from zerocfg.compose import compose
from zerocfg.facts import HardwareFacts
from zerocfg.planner import decide
from zerocfg.planner.rule import rule_of_size

AUTO = ("parallelism=auto", "offload=auto", "activation_checkpointing=auto", "batch.micro_batch_size=auto")


def run(*overrides: str) -> Outcome:
    composed = compose(list(overrides))
    assert composed.diagnostics == []
    return examine(composed.container, origins=composed.origins, decide=decide)


def test_auto_takes_what_plan_offers_first(configure: Configure) -> None:
    base = ("model=llama2_7b", "hardware=a100x4", "batch.global_batch_size=64")
    outcome = run(*base, *AUTO)
    assert outcome.run is not None
    from zerocfg.planner.rank import search
    from zerocfg.planner.space import Axes

    best = search(configure(*base), None, Axes()).ranked[0]
    assert compile_run(compose([*base, *best.overrides]).container).deepspeed == outcome.run.deepspeed
    entry = outcome.run.provenance["zero_optimization.stage"]
    assert entry.source == "resolve.planner"
    assert entry.reason.startswith("the fastest of ")
    assert "tokens/s a GPU predicted from the data sheet" in entry.reason
    assert "auto" not in str(outcome.run.deepspeed)


def test_only_what_is_open_is_decided() -> None:
    outcome = run("model=gpt_1b3", "hardware=h200x2", "parallelism=zero2", "offload=auto")
    assert outcome.run is not None
    assert outcome.run.deepspeed["zero_optimization"]["stage"] == 2
    assert "offload_optimizer" not in outcome.run.deepspeed["zero_optimization"]
    assert outcome.run.provenance["zero_optimization.stage"].source != "resolve.planner"


@pytest.mark.parametrize(("stage", "optimizer", "code"), [("zero3", "cpu", ""), ("zero1", "", "ZC302")])
def test_of_offload_what_is_asked_for_stays(stage: str, optimizer: str, code: str) -> None:
    outcome = run("model=llama2_7b", "hardware=a100x4", f"parallelism={stage}", "offload.optimizer=null", "offload.param=cpu")
    assert [d.code for d in outcome.diagnostics] == ([code] if code else [])
    assert outcome.plan is not None
    assert outcome.plan.offload.param == "cpu"
    if outcome.run is not None:
        assert outcome.plan.offload.optimizer == optimizer
        assert outcome.run.provenance["zero_optimization.offload_param.device"].source != "resolve.planner"


@pytest.mark.parametrize("field", ["parallelism.stage", "offload.optimizer", "offload.param", "activation_checkpointing.enabled"])
def test_auto_is_an_option_of_the_group(field: str) -> None:
    (found,) = compose(["hardware=a100x4", f"{field}=auto"]).diagnostics
    assert (found.code, found.hint) == ("ZC112", f"{field.partition('.')[0]}=auto")


def test_offload_is_chosen_where_nothing_else_fits() -> None:
    base = ("model=llama2_13b", "hardware=v100x4", "precision=fp16", "batch.global_batch_size=64")
    outcome = run(*base, *AUTO)
    assert outcome.run is not None
    assert outcome.run.deepspeed["zero_optimization"]["offload_optimizer"]["device"] == "cpu"


def test_nothing_fits_is_an_error_with_the_numbers() -> None:
    outcome = run("model=llama3_70b", "hardware=rtx4090_x2", *AUTO)
    assert outcome.run is None
    assert "ZC501" in {d.code for d in outcome.diagnostics} or "ZC502" in {d.code for d in outcome.diagnostics}


def test_the_rest_of_the_config_is_checked_as_ever() -> None:
    outcome = run("model=gpt_1b3", "hardware=v100x4", "parallelism=auto", "batch.global_batch_size=7")
    assert {d.code for d in outcome.diagnostics if d.severity == 0} >= {"ZC201", "ZC401"}


def test_a_closed_config_asks_nobody() -> None:
    composed = compose(["model=gpt_1b3", "hardware=h200x2"])

    def never(*_: object) -> None:
        raise AssertionError("nothing is open")

    assert examine(composed.container, decide=never).run is not None  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("overrides", "left"),
    [
        ((), []),
        (("parallelism=auto",), ["parallelism.stage"]),
        (("offload=auto",), ["offload.optimizer", "offload.param"]),
        (("batch.micro_batch_size=auto",), ["batch.micro_batch_size"]),
        (("batch.micro_batch_size=null",), []),
    ],
)
def test_what_is_open(configure: Configure, overrides: tuple[str, ...], left: list[str]) -> None:
    assert open_fields(configure("hardware=a100x4", *overrides)) == left


def test_without_dims_the_rule_is_named() -> None:
    outcome = run("model=none", "hardware=a100x4", "parallelism=auto", "model.num_parameters=2e9")
    assert outcome.run is not None
    assert outcome.run.deepspeed["zero_optimization"]["stage"] == 2
    (said,) = [d for d in outcome.diagnostics if d.code == "ZC511"]
    assert "rule by size: 2B parameters, below 3B" in said.message


@pytest.mark.parametrize(
    ("parameters", "gpus", "stage", "offload"),
    [(124e6, 4, 1, False), (124e6, 1, 0, False), (2e9, 4, 2, False), (7e9, 4, 3, False), (70e9, 4, 3, True), (0, 4, 3, False)],
)
def test_the_rule_by_size(make_hardware: HardwareFacts, parameters: float, gpus: int, stage: int, offload: bool) -> None:
    from dataclasses import replace

    rule = rule_of_size(int(parameters), replace(make_hardware, gpus_per_node=gpus))
    assert rule.changes["parallelism.stage"] == stage
    assert (rule.changes["offload.optimizer"].value == "cpu") is offload
    assert ("offload" in rule.why) is offload


@pytest.fixture
def make_hardware(make_plan) -> HardwareFacts:  # type: ignore[no-untyped-def]
    hardware: HardwareFacts = make_plan("hardware=a100x4", "model=gpt_1b3").hardware
    return hardware
