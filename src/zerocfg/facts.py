"""What is known about the machine and the model: plain frozen data that passes take as arguments."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True, slots=True)
class HardwareFacts:
    """One homogeneous set of machines. Zero means: this machine has none of it (no network, no bf16 unit)."""

    name: str
    accelerator: str
    """cuda or cpu."""
    gpu: str
    num_nodes: int
    gpus_per_node: int
    """Ranks a machine."""
    memory_bytes: int
    """Of one accelerator; on cpu the machine's memory divided by its ranks."""
    compute_capability: tuple[int, int]
    """(8, 0); (0, 0) on cpu."""
    fp32_tflops: float
    tf32_tflops: float
    fp16_tflops: float
    bf16_tflops: float
    memory_bandwidth_gbps: float
    link: str
    link_gbps: float
    p2p: bool
    pcie_gbps: float
    network: str
    network_gbps: float
    network_interface: str
    """Empty: left to NCCL."""
    cpus_per_node: int
    host_memory_bytes: int
    numa_nodes: int
    memory_target: float

    @property
    def is_cuda(self) -> bool:
        return self.accelerator == "cuda"


@dataclass(frozen=True, kw_only=True, slots=True)
class Detected:
    """What a probe of this machine, or of a partition, found. Fields that it could not read hold their zero."""

    cpus: int
    host_memory_bytes: int
    numa_nodes: int
    gpus: tuple[DetectedGpu, ...] = ()
    link: str = "none"
    p2p: bool = False
    reason: str = ""
    """Why there are no GPUs, in the probe's words: no driver, NVML not found, CUDA_VISIBLE_DEVICES is empty."""
    host: str = ""
    place: str = "this machine"
    """What was looked at, as a reason names it: under SLURM a partition, with the gres that it was read from."""


@dataclass(frozen=True, kw_only=True, slots=True)
class DetectedGpu:
    index: int
    uuid: str
    name: str
    memory_bytes: int
    compute_capability: tuple[int, int]
    numa_node: int = -1


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelFacts:
    """Dims of a decoder-only transformer and what follows from them. Counts are elements, not bytes."""

    name: str
    num_hidden_layers: int
    hidden_size: int
    num_attention_heads: int
    num_key_value_heads: int
    head_dim: int
    intermediate_size: int
    vocab_size: int
    tie_word_embeddings: bool
    sequence_length: int
    mlp: str
    norm: str
    positions: str
    bias: bool

    @property
    def attention_parameters(self) -> int:
        """q, k, v and output projections of one block."""
        q = self.num_attention_heads * self.head_dim
        kv = self.num_key_value_heads * self.head_dim
        weights = self.hidden_size * (q + 2 * kv) + q * self.hidden_size
        return weights + (q + 2 * kv + self.hidden_size if self.bias else 0)

    @property
    def mlp_parameters(self) -> int:
        matrices = 3 if self.mlp == "swiglu" else 2
        biases = (matrices - 1) * self.intermediate_size + self.hidden_size if self.bias else 0
        return matrices * self.hidden_size * self.intermediate_size + biases

    @property
    def norm_parameters(self) -> int:
        """One normalization layer."""
        return self.hidden_size * (2 if self.norm == "layernorm" else 1)

    @property
    def block_parameters(self) -> int:
        return self.attention_parameters + self.mlp_parameters + 2 * self.norm_parameters

    @property
    def embedding_parameters(self) -> int:
        return self.vocab_size * self.hidden_size

    @property
    def num_parameters(self) -> int:
        """All parameters, a tied embedding counted once."""
        positions = self.sequence_length * self.hidden_size if self.positions == "learned" else 0
        head = 0 if self.tie_word_embeddings else self.embedding_parameters
        return self.embedding_parameters + positions + self.num_hidden_layers * self.block_parameters + self.norm_parameters + head

    @property
    def largest_parameter(self) -> int:
        """Elements of the largest single weight."""
        return max(self.embedding_parameters, self.hidden_size * self.intermediate_size)

    def largest_shard(self, shards: int) -> int:
        """Elements of the largest weight's part when each is cut in `shards`, the last part padded."""
        return -(-self.largest_parameter // shards)
