"""Lowering passes: Plan -> what DeepSpeed, torchrun and the environment read, each value with its reason."""
