"""Each code has a failing case, and each silently accepted mistake of the catalogue has a code."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from zerocfg.deepspeed.check import CODES, check_deepspeed
from zerocfg.deepspeed.rules import RULES, rule
from zerocfg.diagnostics import Severity

HERE = Path(__file__).parent
CPU = {"device": "cpu", "pin_memory": True}


def test_every_code_fails_in_a_case() -> None:
    cases = [case for file in HERE.glob("test_check_*.py") for case in runpy.run_path(str(file))["CASES"]]
    assert {case["code"] for case in cases} == set(CODES)


def test_codes_are_ours_and_have_one_line() -> None:
    assert len(CODES) == len(RULES)
    assert all("ZC601" <= code <= "ZC689" and line and "\n" not in line and not line.endswith(".") for code, line in CODES.items())


def test_a_code_is_taken_once() -> None:
    with pytest.raises(ValueError, match="ZC601 is taken"):
        rule("ZC601", "again")


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    return {"zero_optimization": {"stage": stage, **settings}}


# entry of the list "silently accepted, but wrong" -> config on top of a clean one, code
SILENT: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("1 offload_param below stage 3", zero(2, offload_param=CPU), "ZC632", {}),
    ("2 nvme optimizer at stage 1", zero(1, offload_optimizer={"device": "nvme", "nvme_path": "/n", "pin_memory": True}), "ZC633", {}),
    ("2 nvme optimizer at stage 2", zero(2, offload_optimizer={"device": "nvme", "nvme_path": "/n", "pin_memory": True}), "ZC633", {}),
    ("3 offload_optimizer at stage 0", zero(0, offload_optimizer=CPU), "ZC634", {}),
    ("4 nvme without a path", zero(3, offload_optimizer={"device": "nvme", "pin_memory": True}), "ZC635", {}),
    ("5 bf16 flag with bf16 off", {**zero(1), "bf16": {"enabled": False, "bf16_master_weights_and_grads": True}}, "ZC636", {}),
    ("5 fp16 flag with fp16 off", {**zero(1), "fp16": {"enabled": False, "fp16_master_weights_and_grads": True}}, "ZC636", {}),
    ("5 autocast without a type", {"torch_autocast": {"enabled": True}}, "ZC668", {}),
    ("5 autocast besides bf16", {"bf16": {"enabled": True}, "torch_autocast": {"enabled": True, "dtype": "bf16"}}, "ZC669", {}),
    ("6 zenflow at stage 3 without offload", zero(3, zenflow={"update_interval": 1}), "ZC637", {}),
    ("6 zenflow at stage 0", zero(0, zenflow={"update_interval": 1}), "ZC637", {}),
    (
        "6 zenflow with another accumulation",
        {"gradient_accumulation_steps": 2, **zero(2, offload_optimizer=CPU, zenflow={"update_interval": 4})},
        "ZC637",
        {},
    ),
    ("7 super_offload below stage 3", zero(2, offload_optimizer={**CPU, "super_offload": True}), "ZC638", {}),
    ("7 super_offload with nvme", zero(3, offload_optimizer={"device": "nvme", "nvme_path": "/n", "super_offload": True}), "ZC638", {}),
    ("8 quantized weights below stage 3", zero(2, zero_quantized_weights=True), "ZC630", {}),
    ("8 quantized gradients below stage 3", zero(1, zero_quantized_gradients=True), "ZC630", {}),
    ("8 hpZ below stage 3", zero(2, zero_hpz_partition_size=8), "ZC630", {}),
    ("8 stage3_ key below stage 3", zero(2, stage3_param_persistence_threshold=1), "ZC630", {}),
    ("8 round_robin_gradients at stage 3", zero(3, round_robin_gradients=True), "ZC630", {}),
    ("9 pipeline.stages", {"pipeline": {"stages": 4}}, "ZC607", {}),
    ("9 pipeline.partition", {"pipeline": {"partition": "uniform"}}, "ZC607", {}),
    ("9 pipeline.seed_layers", {"pipeline": {"seed_layers": True}}, "ZC607", {}),
    ("9 disable_allgather", {"disable_allgather": True}, "ZC607", {}),
    ("9 allgather_partitions", zero(1, allgather_partitions=False), "ZC607", {}),
    ("10 wall_clock_breakdown in a pipeline", {"pipeline": {"grad_partitioned": False}, "wall_clock_breakdown": True}, "ZC683", {}),
    ("10 flops_profiler in a pipeline", {"pipeline": {"grad_partitioned": False}, "flops_profiler": {"enabled": True}}, "ZC683", {}),
    ("10 steps_per_print 0", {"steps_per_print": 0}, "ZC625", {}),
    ("11 hysteresis 0", {"fp16": {"enabled": True, "hysteresis": 0}}, "ZC625", {}),
    ("11 negative clipping", {"gradient_clipping": -1.0}, "ZC625", {}),
    ("11 clipping as text", {"gradient_clipping": "1.0"}, "ZC622", {}),
    ("11 unknown data type", {"data_types": {"buffer_dtype": "fp64"}}, "ZC626", {}),
    ("11 prescale at stage 2", {**zero(2), "prescale_gradients": True}, "ZC673", {}),
    ("11 predivide at stage 3", {**zero(3), "gradient_predivide_factor": 2.0}, "ZC673", {}),
    ("12 typo in a raw section", {"activation_checkpointing": {"partition_activation": True}}, "ZC601", {}),
    ("12 typo at the top level", {"gradient_cliping": 1.0}, "ZC601", {}),
    ("13 clipping left to its default", {"gradient_clipping": ...}, "ZC671", {}),
    (
        "14 AutoTP with a whole triple",
        {"train_batch_size": 4, "gradient_accumulation_steps": 1, "tensor_parallel": {"autotp_size": 2}},
        "ZC643",
        {"world_size": 4},
    ),
    ("14 sequence_parallel_size alone", {"sequence_parallel_size": 2}, "ZC644", {"world_size": 4}),
    ("15 DeepCompile at stage 0", {"compile": {"deepcompile": True}}, "ZC686", {}),
    ("15 DeepCompile on the CPU", {**zero(1), "compile": {"deepcompile": True}}, "ZC686", {"accelerator": "cpu"}),
    ("16 unknown preset", {"tensor_parallel": {"autotp_size": 2, "preset_model": "lama"}}, "ZC626", {"world_size": 2}),
]


@pytest.mark.parametrize(("config", "code", "options"), [entry[1:] for entry in SILENT], ids=[entry[0] for entry in SILENT])
def test_what_deepspeed_accepts_in_silence_is_reported(
    config: dict[str, Any], code: str, options: dict[str, Any], parse: Callable[..., str | None]
) -> None:
    whole = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, **config}
    whole = {name: value for name, value in whole.items() if value is not ...}
    settings = {"world_size": 1, **options}
    assert parse(whole, settings["world_size"]) is None
    assert code in {d.code for d in check_deepspeed(whole, **settings) if d.severity is not Severity.NOTE}
