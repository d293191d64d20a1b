from __future__ import annotations

from dataclasses import dataclass
from typing import Optional

from zerocfg.schema.types import Count, Mlp, Norm, Positions


@dataclass
class ModelConfig:
    """Group `model`: dims of a decoder-only transformer, under the names of Hugging Face's config.json.

    Sizes of ZeRO buckets, batch advice and memory follow from them. `model=none` describes nothing: DeepSpeed's own sizes are used.
    """

    name: str = ""
    """The option's name, for reports."""
    hf_config: Optional[str] = None
    """Path of a Hugging Face config.json, or of the folder that holds it; its dims replace those below."""
    profile: Optional[str] = None
    """Path of what `zerocfg profile --out` wrote of your own model: memory and speed are predicted from it instead of the dims."""
    num_parameters: Optional[Count] = None
    """Parameters of a model without dims: the rule by size goes by it (parallelism=auto). With dims it follows from them."""
    num_hidden_layers: Optional[Count] = None
    """Transformer blocks."""
    hidden_size: Optional[Count] = None
    """Width of the residual stream."""
    num_attention_heads: Optional[Count] = None
    """Query heads; divides hidden_size."""
    num_key_value_heads: Optional[Count] = None
    """Key and value heads (grouped-query attention). Null: num_attention_heads."""
    head_dim: Optional[Count] = None
    """Width of one head. Null: hidden_size / num_attention_heads."""
    intermediate_size: Optional[Count] = None
    """Width of the MLP. Null: 4 x hidden_size."""
    vocab_size: Optional[Count] = None
    """Entries of the embedding."""
    tie_word_embeddings: bool = True
    """Whether the output projection is the embedding's weight."""
    sequence_length: Optional[Count] = None
    """Tokens a sequence."""
    mlp: Mlp = Mlp.gelu
    """gelu: two matrices; swiglu: three."""
    norm: Norm = Norm.layernorm
    """layernorm: weight and bias; rmsnorm: weight."""
    positions: Positions = Positions.learned
    """learned: an embedding of sequence_length rows; rotary: no parameters."""
    bias: bool = True
    """Whether linear layers have a bias."""
