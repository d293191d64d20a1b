"""Trains a small GPT on bytes of text: `python train.py parallelism=zero3 hardware=auto train.steps=200`.

Copy this file and put your own model and data in. zerocfg starts one process a GPU and calls `main` in each.
"""

import math
import os
import sysconfig
from itertools import count
from pathlib import Path

import filelock
import hydra
import numpy as np
import torch
from omegaconf import DictConfig
from torch import nn
from torch.nn import functional as F
from torch.utils.data import DataLoader, Dataset, Sampler

import zerocfg
from zerocfg.errors import ZerocfgError


class Attention(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.heads, self.kv_heads, self.head_dim = dims.num_attention_heads, dims.num_key_value_heads, dims.head_dim
        self.q = nn.Linear(dims.hidden_size, self.heads * self.head_dim, bias=dims.bias)
        self.k = nn.Linear(dims.hidden_size, self.kv_heads * self.head_dim, bias=dims.bias)
        self.v = nn.Linear(dims.hidden_size, self.kv_heads * self.head_dim, bias=dims.bias)
        self.out = nn.Linear(self.heads * self.head_dim, dims.hidden_size, bias=dims.bias)

    def forward(self, x, turn):
        q, k, v = (
            project(x).unflatten(-1, (heads, self.head_dim)).transpose(1, 2)
            for project, heads in ((self.q, self.heads), (self.k, self.kv_heads), (self.v, self.kv_heads))
        )
        if turn is not None:
            q, k = rotate(q, turn), rotate(k, turn)
        x = F.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=self.heads != self.kv_heads)
        return self.out(x.transpose(1, 2).flatten(2))


class Mlp(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.gate = nn.Linear(dims.hidden_size, dims.intermediate_size, bias=dims.bias) if dims.mlp == "swiglu" else None
        self.up = nn.Linear(dims.hidden_size, dims.intermediate_size, bias=dims.bias)
        self.down = nn.Linear(dims.intermediate_size, dims.hidden_size, bias=dims.bias)

    def forward(self, x):
        return self.down(F.gelu(self.up(x)) if self.gate is None else F.silu(self.gate(x)) * self.up(x))


class Block(nn.Module):
    def __init__(self, dims):
        super().__init__()
        self.norm1, self.attention = norm(dims), Attention(dims)
        self.norm2, self.mlp = norm(dims), Mlp(dims)

    def forward(self, x, turn):
        x = x + self.attention(self.norm1(x), turn)
        return x + self.mlp(self.norm2(x))


class GPT(nn.Module):
    """A decoder-only transformer of the dims in the config group `model`. forward(tokens, targets) is the mean loss."""

    def __init__(self, dims, checkpoint):
        super().__init__()
        self.dims, self.checkpoint = dims, checkpoint
        self.embed = nn.Embedding(dims.vocab_size, dims.hidden_size)
        self.positions = nn.Embedding(dims.sequence_length, dims.hidden_size) if dims.positions == "learned" else None
        self.blocks = nn.ModuleList(Block(dims) for _ in range(dims.num_hidden_layers))
        self.norm = norm(dims)
        self.head = nn.Linear(dims.hidden_size, dims.vocab_size, bias=False)
        if dims.tie_word_embeddings:
            self.head.weight = self.embed.weight
        self.apply(init_weights)

    def forward(self, tokens, targets):
        x, turn = self.embed(tokens), None
        if self.positions is not None:
            x = x + self.positions(torch.arange(tokens.shape[1], device=tokens.device))
        else:
            turn = rotation(tokens.shape[1], self.dims.head_dim, x)
        for block in self.blocks:
            x = self.checkpoint(block, x, turn)
        logits = self.head(self.norm(x))
        return F.cross_entropy(logits.flatten(0, 1).float(), targets.flatten())


def norm(dims):
    return nn.LayerNorm(dims.hidden_size) if dims.norm == "layernorm" else nn.RMSNorm(dims.hidden_size, eps=1e-5)


def init_weights(module):
    if isinstance(module, (nn.Linear, nn.Embedding)):
        nn.init.normal_(module.weight, std=0.02)
    if isinstance(module, nn.Linear) and module.bias is not None:
        nn.init.zeros_(module.bias)


def rotation(length, head_dim, like):
    """Angles of rotary positions, in fp32 until the last: (2, length, head_dim / 2)."""
    frequencies = torch.exp(torch.arange(0, head_dim, 2, device=like.device) * (-math.log(10000.0) / head_dim))
    angles = torch.arange(length, device=like.device)[:, None] * frequencies
    return torch.stack((angles.cos(), angles.sin())).to(like.dtype)


def rotate(x, turn):
    (a, b), (cos, sin) = x.chunk(2, dim=-1), turn
    return torch.cat((a * cos - b * sin, b * cos + a * sin), dim=-1)


class Windows(Dataset):
    """Windows of a memory-mapped file of bytes; the index is where one begins. A byte's value is its token."""

    def __init__(self, path, length):
        self.bytes, self.length = np.memmap(path, dtype=np.uint8, mode="r"), length
        if len(self) < 1:
            raise ZerocfgError(f"{path} has {len(self.bytes)} bytes; model.sequence_length={length} needs {length + 1} at least")

    def __len__(self):
        return len(self.bytes) - self.length

    def __getitem__(self, start):
        window = torch.from_numpy(self.bytes[start : start + self.length + 1].astype(np.int64))
        return window[:-1], window[1:]


class GlobalBatches(Sampler):
    """This rank's micro batches. A step's global batch depends on seed and step alone, not on how it is split over ranks."""

    def __init__(self, size, run):
        self.size, self.batch, self.seed, self.rank = size, run.plan.batch, run.plan.train.seed, run.data_parallel_rank
        self.first = 0

    def set_start_step(self, step):
        """A resumed run begins here; run.steps calls it."""
        self.first = step

    def __iter__(self):
        ranks, micro = self.batch.data_parallel_size, self.batch.micro_batch_size
        for step in count(self.first):
            generator = torch.Generator().manual_seed(self.seed * 1_000_003 + step)
            starts = torch.randint(self.size, (self.batch.global_batch_size,), generator=generator).tolist()
            for first in range(self.rank * micro, len(starts), ranks * micro):
                yield starts[first : first + micro]


def corpus(run):
    """File of the text to train on: train.data itself, or all text below it (the standard library's sources) joined once a job."""
    source = Path(run.plan.train.data or sysconfig.get_path("stdlib"))
    if source.is_file():
        return source
    if not source.is_dir():
        raise ZerocfgError(f"train.data={source} is neither a file nor a folder")
    joined = run.output_dir / "corpus.bin"
    with filelock.FileLock(run.output_dir / "corpus.lock"):
        if not joined.exists():
            tops = sorted(top for top in source.iterdir() if top.name != "site-packages")
            files = [file for top in tops for file in (sorted(top.rglob("*")) if top.is_dir() else [top]) if file.is_file()]
            if not run.plan.train.data:
                files = [file for file in files if file.suffix == ".py"]
            draft = joined.with_suffix(".tmp")
            with draft.open("wb") as out:
                out.writelines(f.read_bytes() for f in files)
            os.replace(draft, joined)
    return joined


@hydra.main(version_base=None, config_path="conf", config_name="zerocfg")
def main(cfg: DictConfig) -> float:
    run = zerocfg.current_run()
    dims, train = run.plan.model, run.plan.train
    if dims is None:
        raise ZerocfgError("model=none describes no model, and this script builds the one that is described: model=gpt_tiny")
    if dims.vocab_size < 256:
        raise ZerocfgError(f"model.vocab_size={dims.vocab_size}, but a byte has 256 values: model.vocab_size=256")

    engine = run.initialize(run.build(GPT, dims, run.checkpoint))
    data = Windows(corpus(run), dims.sequence_length)
    loader = DataLoader(data, batch_sampler=GlobalBatches(len(data), run), num_workers=train.num_workers, pin_memory=train.pin_memory)
    for step in run.steps(loader):
        for tokens, targets in step:
            loss = engine(tokens, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
    return run.last_loss


if __name__ == "__main__":
    main()
