"""Dims of published models, which tests vary with dataclasses.replace."""

from __future__ import annotations

from zerocfg.facts import ModelFacts

GPT2 = ModelFacts(
    name="gpt2",
    num_hidden_layers=12,
    hidden_size=768,
    num_attention_heads=12,
    num_key_value_heads=12,
    head_dim=64,
    intermediate_size=3072,
    vocab_size=50257,
    tie_word_embeddings=True,
    sequence_length=1024,
    mlp="gelu",
    norm="layernorm",
    positions="learned",
    bias=True,
)
LLAMA3_8B = ModelFacts(
    name="llama3_8b",
    num_hidden_layers=32,
    hidden_size=4096,
    num_attention_heads=32,
    num_key_value_heads=8,
    head_dim=128,
    intermediate_size=14336,
    vocab_size=128256,
    tie_word_embeddings=False,
    sequence_length=8192,
    mlp="swiglu",
    norm="rmsnorm",
    positions="rotary",
    bias=False,
)
