"""A hint holds where it is pasted: an option of a group does not change what was written over it."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerocfg.compose import compose
from zerocfg.compose.paste import DECISIVE, to_paste
from zerocfg.diagnostics import Diagnostic
from zerocfg.schema import GROUPS
from zerocfg.schema.load import field_names


@pytest.mark.parametrize(
    ("overrides", "hint", "pasted"),
    [
        # nothing is written over the option
        (["parallelism=zero2"], "parallelism=zero3, or offload=none", "parallelism=zero3, or offload=none"),
        (["parallelism.stage=2"], "parallelism=zero3, or offload=none", "parallelism.stage=3, or offload=none"),
        (["offload.optimizer=cpu"], "offload=none", "offload=none offload.optimizer=none"),
        (["offload.optimizer=cpu", "offload.param=cpu"], "offload=none", "offload.optimizer=none offload.param=none"),
        (["activation_checkpointing={enabled: false}"], "activation_checkpointing=full", "activation_checkpointing.enabled=true"),
        # what the option leaves to the schema
        (
            ["precision.tf32=true"],
            "precision=fp32 or precision=bf16",
            "precision=fp32 precision.tf32=false or precision=bf16 precision.tf32=false",
        ),
        (["optimizer.type=null"], "optimizer=adamw", "optimizer=adamw optimizer.type=AdamW"),
        # the user's other values stay, and options of the user's own are not known here
        (["parallelism.reduce_bucket_size=1000"], "parallelism=zero3", "parallelism=zero3"),
        (["parallelism.stage=2"], "parallelism=mine", "parallelism=mine"),
        (["parallelism.stage=2"], "deepspeed.x.parallelism=zero3", "deepspeed.x.parallelism=zero3"),
    ],
)
def test_fields_written_over_an_option_are_named(overrides: list[str], hint: str, pasted: str) -> None:
    problem = Diagnostic(code="ZC302", message="", hint=hint)
    assert [found.hint for found in to_paste([problem], compose(overrides).origins)] == [pasted]


def test_a_config_of_the_users_own_is_written_over_the_option(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("defaults:\n  - zerocfg\n  - _self_\nparallelism:\n  stage: 2\n")
    problem = Diagnostic(code="ZC302", message="", hint="parallelism=zero3")
    composed = compose(["parallelism=zero1"], config_path=str(tmp_path))
    assert [found.hint for found in to_paste([problem], composed.origins)] == ["parallelism.stage=3"]


def test_the_fields_that_decide_are_fields() -> None:
    for group, names in DECISIVE.items():
        assert set(names) <= set(field_names(GROUPS[group])), group
