"""Optimizers and schedules: which class serves which type, and what the engine takes out of the arguments first."""

from __future__ import annotations

OPTIMIZER_CLASSES: dict[str, dict[str, str]] = {
    "adam": {"gpu": "deepspeed.ops.adam:FusedAdam", "cpu": "deepspeed.ops.adam:DeepSpeedCPUAdam", "torch": "torch.optim:Adam"},
    "adamw": {"gpu": "deepspeed.ops.adam:FusedAdam", "cpu": "deepspeed.ops.adam:DeepSpeedCPUAdam", "torch": "torch.optim:AdamW"},
    "adagrad": {"gpu": "torch.optim:Adagrad", "cpu": "deepspeed.ops.adagrad:DeepSpeedCPUAdagrad"},
    "lamb": {"gpu": "deepspeed.ops.lamb:FusedLamb"},
    "lion": {"gpu": "deepspeed.ops.lion:FusedLion", "cpu": "deepspeed.ops.lion:DeepSpeedCPULion"},
    "muon": {},
    "muadam": {},
    "muadamw": {},
    "musgd": {},
}
"""Type -> variant -> module:class. muon's parameters are the engine's own lists; the mu* classes come from the package mup,
which DeepSpeed does not install, so nothing is known of their arguments."""

TAKEN_OUT: dict[str, dict[str, tuple[str, object]]] = {
    "adam": {"adam_w_mode": ("bool", True), "torch_adam": ("bool", False), "fp32_optimizer_states": ("bool|null", None)},
    "adamw": {"adam_w_mode": ("bool", True), "torch_adam": ("bool", False), "fp32_optimizer_states": ("bool|null", None)},
    "muon": {
        "muon_lr": ("float", None),
        "adam_lr": ("float", None),
        "adam_w_mode": ("bool", True),
        "torch_adam": ("bool", False),
        "fp32_optimizer_states": ("bool|null", None),
        "foreach": ("bool|null", None),
        "per_head_muon": ("bool", False),
    },
}
"""Arguments the engine pops (or reads) before it calls the class: known for the type, whatever the class says."""

REFUSED: dict[str, tuple[str, ...]] = {"lamb": ("max_grad_norm",), "adam": ("adamw_mode",), "adamw": ("adamw_mode",)}
"""Arguments in the signature that the JSON cannot set: the engine raises for max_grad_norm and passes adamw_mode itself."""

MUON_DEFAULTS: dict[str, object] = {
    "lr": 0.02,
    "momentum": 0.95,
    "weight_decay": 0.0,
    "ns_method": "gram",
    "betas": [0.9, 0.95],
    "eps": 1e-10,
}
"""Of MuonWithAuxAdam; lr is the Muon half's, the Adam half starts at 3e-4."""

WHOLE_NUMBERS = frozenset(
    {
        "total_num_steps",
        "warmup_num_steps",
        "lr_range_test_step_size",
        "cycle_first_step_size",
        "cycle_second_step_size",
        "cycle_first_stair_count",
        "cycle_second_stair_count",
        "decay_step_size",
        "last_batch_iteration",
        "last_epoch",
    }
)

DOCS: dict[str, str] = {
    "lr": "Learning rate.",
    "betas": "Decay of the running means of gradient and squared gradient.",
    "eps": "Added to the denominator.",
    "weight_decay": "Weight decay.",
    "bias_correction": "Correct the running means for their start at zero.",
    "amsgrad": "Must be false: DeepSpeed's classes raise for AMSGrad.",
    "set_grad_none": "zero_grad() drops gradients instead of zeroing them.",
    "adam_w_mode": "Decoupled weight decay. True unless written, for Adam too; AdamW is decoupled whatever is written.",
    "torch_adam": "Use torch's class instead of DeepSpeed's.",
    "fp32_optimizer_states": "CPU classes: moments in float32 (true unless bf16_optimizer_states).",
    "foreach": "torch's multi-tensor step.",
    "max_coeff": "Upper bound of the trust ratio.",
    "min_coeff": "Lower bound of the trust ratio.",
    "eps_inside_sqrt": "Add eps before the square root.",
    "momentum": "Momentum of the Muon half.",
    "ns_method": "Newton-Schulz variant of Muon: gram or standard.",
    "muon_lr": "Learning rate of the Muon half; overrides lr.",
    "adam_lr": "Learning rate of the Adam half; overrides lr.",
    "per_head_muon": "Orthogonalize attention projections head by head.",
    "lr_decay": "Decay of the learning rate.",
    "initial_accumulator_value": "Start of the sum of squares.",
    "lr_range_test_min_lr": "Learning rate at the start.",
    "lr_range_test_step_size": "Steps between two rises.",
    "lr_range_test_step_rate": "Rise a step size.",
    "lr_range_test_staircase": "Rise in stairs.",
    "cycle_min_lr": "Learning rate at both ends of the cycle.",
    "cycle_max_lr": "Learning rate in its middle.",
    "decay_lr_rate": "Decay after the cycle.",
    "cycle_first_step_size": "Steps of the rise.",
    "cycle_second_step_size": "Steps of the fall; null means as the rise.",
    "cycle_first_stair_count": "Stairs of the rise; 0 is smooth.",
    "cycle_second_stair_count": "Stairs of the fall; null means as the rise.",
    "decay_step_size": "Steps between two decays; 0 never decays.",
    "cycle_momentum": "Cycle the momentum against the learning rate.",
    "cycle_min_mom": "Momentum in the middle of the cycle.",
    "cycle_max_mom": "Momentum at its ends.",
    "decay_mom_rate": "Decay of the momentum after the cycle.",
    "warmup_min_lr": "Learning rate at the start.",
    "warmup_max_lr": "Learning rate after warmup. WarmupLR: null means the optimizer's; WarmupDecayLR: 0.001 unless written.",
    "warmup_num_steps": "Steps of warmup.",
    "warmup_type": "log or linear; anything else is log.",
    "warmup_min_ratio": "Start as a share of the optimizer's learning rate.",
    "cos_min_ratio": "End as a share of the optimizer's learning rate.",
    "total_num_steps": "Steps (not micro batches) of the whole run.",
    "last_batch_iteration": "Step to go on from; -1 starts.",
}
