"""The core of benchmarks/corpus.py as the judge: real Hydra, the compiler, and DeepSpeed's own config class."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from benchmarks import corpus
from zerocfg.deepspeed.importer import Imported

Meaning = Callable[..., str]


@pytest.fixture(scope="session")
def deepspeed() -> corpus.DeepSpeed:
    return corpus.DeepSpeed()


@pytest.fixture(scope="module")
def hydra() -> Iterator[corpus.Composer]:
    with corpus.Composer() as composer:
        yield composer


@pytest.fixture
def compare(hydra: corpus.Composer, deepspeed: corpus.DeepSpeed) -> Meaning:
    """compare(config, imported, world_size=...) -> "" where the compiled import means the same, else what is wrong."""

    def compare(config: Mapping[str, Any], imported: Imported, world_size: int | None = None) -> str:
        return corpus.compare(config, imported, hydra, deepspeed, world_size or corpus.ranks_for(imported))

    return compare
