from __future__ import annotations

from dataclasses import dataclass
from typing import List, Optional

from zerocfg.schema.types import Count


@dataclass
class OptimizerConfig:
    """Group `optimizer`: DeepSpeed builds it. A parameter left null is not emitted and keeps the optimizer's own default.

    `optimizer=none` emits none: the training script hands its own to deepspeed.initialize.
    """

    name: str = ""
    """The option's name, for reports."""
    type: Optional[str] = "AdamW"
    """DeepSpeed's name: AdamW, Adam, Lion, Adagrad, Lamb, Muon. Null: the script's own."""
    lr: float = 1e-4
    """Peak learning rate."""
    betas: Optional[List[float]] = None
    """Decay rates of the moments, two numbers."""
    eps: Optional[float] = None
    """Added to the denominator."""
    weight_decay: Optional[float] = None
    """Decoupled decay a step (AdamW, Lion, Muon), L2 elsewhere."""
    bias_correction: Optional[bool] = None
    """Adam and Lamb: correct the moments of the first steps."""
    adam_w_mode: Optional[bool] = None
    """Adam: DeepSpeed's Adam decays like AdamW unless this is false."""
    momentum: Optional[float] = None
    """Muon: momentum of the orthogonalized update."""
    muon_lr: Optional[float] = None
    """Muon: rate of the two-dimensional weights. Null: lr."""
    adam_lr: Optional[float] = None
    """Muon: rate of all other parameters. Null: lr."""
    max_coeff: Optional[float] = None
    """Lamb: upper bound of the trust ratio."""
    min_coeff: Optional[float] = None
    """Lamb: lower bound of the trust ratio."""
    gradient_clipping: float = 1.0
    """Largest global gradient norm; 0 is off. Always emitted: DeepSpeed 0.19.8 changed its default from 0 to 1."""


@dataclass
class SchedulerConfig:
    """Group `scheduler`: learning rate over optimizer steps. All counts are optimizer steps, not micro batches."""

    name: str = ""
    """The option's name, for reports."""
    type: Optional[str] = None
    """DeepSpeed's name: WarmupLR, WarmupDecayLR, WarmupCosineLR, OneCycle. Null: constant."""
    warmup_num_steps: Optional[Count] = None
    """Steps from warmup_min_lr to the peak. Null: 1 % of total_num_steps, at least 2, at most 2000."""
    warmup_min_lr: float = 0.0
    """First rate (WarmupLR, WarmupDecayLR)."""
    warmup_max_lr: Optional[float] = None
    """Peak rate (WarmupLR, WarmupDecayLR). Null: optimizer.lr, always emitted (DeepSpeed's default is 0.001)."""
    warmup_type: str = "linear"
    """linear or log."""
    total_num_steps: Optional[Count] = None
    """Length of the schedule. Null: train.steps."""
    warmup_min_ratio: float = 0.0
    """WarmupCosineLR: first rate over the peak."""
    cos_min_ratio: float = 0.1
    """WarmupCosineLR: last rate over the peak."""
    cycle_min_lr: Optional[float] = None
    """OneCycle: lowest rate. Null: optimizer.lr / 10."""
    cycle_max_lr: Optional[float] = None
    """OneCycle: highest rate. Null: optimizer.lr."""
    cycle_first_step_size: Optional[Count] = None
    """OneCycle: steps of the rise. Null: half of total_num_steps."""
    cycle_second_step_size: Optional[Count] = None
    """OneCycle: steps of the fall. Null: the same as the rise."""
    decay_lr_rate: float = 0.0
    """OneCycle: decay after the cycle."""
