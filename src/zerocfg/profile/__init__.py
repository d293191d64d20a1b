"""What a model takes, found by running it on tensors without data: no GPU, no weights."""

from __future__ import annotations

from zerocfg.profile.trace import causal_lm_inputs, trace_model

__all__ = ["causal_lm_inputs", "trace_model"]
