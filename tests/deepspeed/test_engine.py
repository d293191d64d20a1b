"""What the checks say of the engine ("makes the engine raise") is what deepspeed.initialize() does, on one CPU rank."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from zerocfg.deepspeed.check import check_deepspeed
from zerocfg.diagnostics import Severity

ADAM: dict[str, Any] = {"torch_adam": True, "lr": 1e-3}  # torch's class: DeepSpeed's would be compiled first


def adam(**params: Any) -> dict[str, Any]:
    return {"optimizer": {"type": "AdamW", "params": {**ADAM, **params}}}


def zero(stage: int, **settings: Any) -> dict[str, Any]:
    buckets = {"reduce_bucket_size": 1000}  # the default allocates 2 GB
    return {"zero_optimization": {"stage": stage, **buckets, **settings}}


def schedule(type: str, **params: Any) -> dict[str, Any]:
    return {"scheduler": {"type": type, "params": params}}


BF16 = {"bf16": {"enabled": True}}
FP32_SUM = {"data_types": {"grad_accum_dtype": "fp32"}}
SGD = {"optimizer": {"type": "SGD", "params": {"lr": 0.1}}}
COSINE = {"total_num_steps": 10, "warmup_num_steps": 2}

# name -> (config, the code that must be an error, or "" where neither we nor the engine object)
CLAIMS: dict[str, tuple[dict[str, Any], str]] = {
    "prescale": ({**zero(2), "prescale_gradients": True}, "ZC673"),
    "prescale without reduce_scatter": ({**zero(2, reduce_scatter=False), "prescale_gradients": True}, ""),
    "predivide": ({**zero(3), "gradient_predivide_factor": 2.0}, "ZC673"),
    "odd bucket": (zero(2, allgather_bucket_size=3), "ZC675"),
    "untested": ({**zero(1), **SGD}, "ZC650"),
    "untested, allowed": ({**zero(1), **SGD, "zero_allow_untested_optimizer": True}, ""),
    "torch's name in lower case": ({"optimizer": {"type": "sgd", "params": {"lr": 0.1}}}, "ZC645"),
    "accumulation type at stage 0": ({**BF16, **FP32_SUM}, "ZC666"),
    "parameter type": ({**BF16, "data_types": {"param_dtype": "fp16"}}, "ZC667"),
    "norm and clipping": (zero(1, compute_grad_norm=False), "ZC674"),
    "no norm, no clipping": ({**zero(1, compute_grad_norm=False), "gradient_clipping": 0.0}, ""),
    "no norm in BF16_Optimizer": ({**zero(1, compute_grad_norm=False), **BF16, **FP32_SUM, "gradient_clipping": 0.0}, "ZC674"),
    "bf16 master weights": ({**zero(2), "bf16": {"enabled": True, "bf16_master_weights_and_grads": True}}, "ZC663"),
    "bf16 states": (
        {**zero(2), "bf16": {"enabled": True, "bf16_master_weights_and_grads": True, "bf16_optimizer_states": True}},
        "",
    ),
    "own accumulation": ({**zero(1, overlap_comm=True), "managed_gradient_accumulation": False}, "ZC676"),
    "unknown argument": (adam(betaz=1), "ZC646"),
    "argument of the other class": (adam(bias_correction=True), "ZC646"),
    "max_grad_norm": (adam(max_grad_norm=1.0), "ZC647"),
    "rate as text": (adam(lr="1e-4"), "ZC622"),
    "one beta": (adam(betas=[0.9]), "ZC648"),
    "legacy stage 1": (zero(1, legacy_stage1=True), "ZC607"),
    "unknown schedule": (schedule("Warmup"), "ZC655"),
    "schedule without params": ({"scheduler": {"type": "WarmupLR"}}, "ZC657"),
    "schedule lacks an argument": (schedule("WarmupDecayLR"), "ZC657"),
    "foreign argument of a schedule": (schedule("WarmupCosineLR", **COSINE, warmup_max_lr=1.0), "ZC656"),
    "warmup as a fraction": (schedule("WarmupLR", warmup_num_steps=100.0), "ZC657"),
    "schedule": (schedule("WarmupCosineLR", **COSINE), ""),
    "zenflow": (zero(1, zenflow={"select_strategy": "step", "select_interval": 1, "update_interval": 1}), "ZC637"),
    "no steps between prints": ({"steps_per_print": 0}, "ZC625"),
    "clipping as text": ({**zero(1), "gradient_clipping": "1.0"}, "ZC622"),
    "log level": ({"log_level": "loud"}, "ZC626"),
}

SCRIPT = """
import json, sys, warnings
warnings.simplefilter("ignore")
import torch, deepspeed, logging
from zerocfg.launch.ending import leave
logging.getLogger("DeepSpeed").setLevel(logging.CRITICAL)
deepspeed.init_distributed("gloo")
said = {}
for name, config in json.load(open(sys.argv[1])).items():
    model = torch.nn.Linear(4, 2)
    try:
        engine = deepspeed.initialize(model=model, model_parameters=model.parameters(), config=config)[0]
        x = torch.ones(1, 4, dtype=next(engine.module.parameters()).dtype)
        engine.backward(engine(x).sum())
        engine.step()
        said[name] = None
    except Exception as error:
        said[name] = f"{type(error).__name__}: {error}"
with open(sys.argv[2], "w") as file:
    json.dump(said, file)
leave(0)
"""


@pytest.mark.integration
def test_the_engine_raises_where_we_say_so(tmp_path: Path) -> None:
    base = {"train_micro_batch_size_per_gpu": 1, "gradient_clipping": 1.0, **adam()}
    configs = {name: {**base, **config} for name, (config, _) in CLAIMS.items()}
    asked, answered = tmp_path / "configs.json", tmp_path / "said.json"
    asked.write_text(json.dumps(configs))
    alone = {"RANK": "0", "WORLD_SIZE": "1", "LOCAL_RANK": "0", "LOCAL_SIZE": "1", "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": "0"}
    environment = {**os.environ, **alone, "DS_ACCELERATOR": "cpu", "OMP_NUM_THREADS": "1"}
    # PATH: DeepSpeed calls ninja by name when it builds its communication op
    environment["PATH"] = os.pathsep.join((str(Path(sys.executable).parent), environment.get("PATH", "")))
    ran = subprocess.run(
        [sys.executable, "-c", SCRIPT, str(asked), str(answered)], env=environment, capture_output=True, text=True, timeout=900
    )
    assert ran.returncode == 0, ran.stderr[-3000:]
    said: dict[str, str | None] = json.loads(answered.read_text())

    for name, (_, code) in CLAIMS.items():
        errors = {d.code for d in check_deepspeed(configs[name], world_size=1, accelerator="cpu") if d.severity is Severity.ERROR}
        assert errors == ({code} if code else set()), name
        assert (said[name] is not None) == bool(code), (name, said[name])
