"""What a report suggests, written into the overrides, makes that problem go away."""

from __future__ import annotations

import re
import typing
from collections.abc import Iterator
from enum import Enum

from hypothesis import given, settings
from hypothesis import strategies as st

from tests.composing import composed
from zerocfg.compiler import examine
from zerocfg.compose.paste import to_paste
from zerocfg.confsource import conf_dir
from zerocfg.diagnostics import Diagnostic
from zerocfg.facts import Detected
from zerocfg.schema import GROUPS, SECTIONS

MACHINE = Detected(cpus=8, host_memory_bytes=64 * 2**30, numa_nodes=1, reason="no driver")
FIELDS = {f"{group}.{name}": hint for group, cls in {**GROUPS, **SECTIONS}.items() for name, hint in typing.get_type_hints(cls).items()}
SKIPPED = ("name", "hf_config", "profile", "detect")
"""Names and files, and what is read off a machine."""
TEXTS = {
    "hardware.num_nodes": ["1", "2", "3"],
    "hardware.gpus_per_node": ["1", "2", "8"],
    "optimizer.type": ["AdamW", "Adam", "Lion", "Lamb", "Muon", "SGD"],
    "scheduler.type": ["WarmupLR", "WarmupDecayLR", "WarmupCosineLR", "OneCycle", "Cosine"],
    "scheduler.warmup_type": ["log", "cosine"],
    "hardware.compute_capability": ["'\"8.0\"'", "'\"7.5\"'", "abc"],
    "communication.nccl_debug": ["INFO", "LOUD"],
}
FREE = (
    "compile.keep_int_input_tensors=false",
    "data_types.param_dtype=fp16",
    "fp16.loss_scale_window=0",
    "managed_gradient_accumulation=false",
    "optimizer.params.adam_w_mode=false",
    "pipeline.seed_layers=true",
    "torch_autocast.enabled=true",
    "zero_optimization.offload_optimizer.super_offload=true",
    "zero_optimization.reduce_bucket_size=5e8",
    "zero_optimization.round_robin_gradients=true",
    "zero_optimization.zenflow.topk_ratio=0.5",
)
_SET = re.compile(r"(?<![\w.'\"=])(\+?[a-z_]+(?:\.\w+)*)=('[^']*'|\"[^\"]*\"|\[[^\]]*\]|[^\s,;]+)")
_PLACEHOLDER = re.compile(r"[A-Z]{4,}|\.\.\.")


def _values(path: str) -> st.SearchStrategy[str]:
    hint = FIELDS[path]
    kinds = [kind for kind in (typing.get_args(hint) or (hint,)) if kind is not type(None)]
    if path in TEXTS:
        return st.sampled_from(TEXTS[path])
    if kinds[0] is bool:
        return st.sampled_from(["true", "false"])
    if isinstance(kinds[0], type) and issubclass(kinds[0], Enum):
        return st.sampled_from([member.name for member in kinds[0]])
    numbers = ["0", "1", "2", "3", "8", "-1", "1000", "1000000"]
    return st.sampled_from(["x", "''"] if kinds[0] is str else [*numbers, "0.5"] if kinds[0] is float else numbers)


@st.composite
def overrides(draw: st.DrawFn) -> list[str]:
    made = []
    for group in GROUPS:
        options = sorted(path.stem for path in (conf_dir() / group).glob("*.yaml"))
        option = draw(st.sampled_from(options))
        if option != "auto":
            made.append(f"{group}={option}")
        made += {"all_nvme": ["offload.nvme_path=/nvme"], "apptainer": ["container.image=a.sif"], "pyxis": ["container.image=a"]}.get(
            option, []
        )
    written = {text.partition("=")[0] for text in made}
    scalar = sorted(p for p, hint in FIELDS.items() if p.rpartition(".")[2] not in SKIPPED and "List" not in str(hint) and p not in written)
    made += [f"{path}={draw(_values(path))}" for path in draw(st.lists(st.sampled_from(scalar), max_size=4, unique=True))]
    return made + [f"+deepspeed.{text}" for text in draw(st.lists(st.sampled_from(FREE), max_size=2, unique=True))]


def _examined(lines: list[str]) -> list[Diagnostic]:
    found = composed(*lines)
    outcome = examine(found.container, origins=found.origins, detect=lambda: MACHINE)
    return to_paste([*found.diagnostics, *outcome.diagnostics], found.origins)


def _alternatives(hint: str) -> Iterator[list[tuple[str, str]]]:
    """ "a=1 b=2, or c=3 or 4" -> [(a, 1), (b, 2)], [(c, 3)], [(c, 4)]; words and placeholders are left out."""
    for part in re.split(r",? or (?=[a-z+]|$)|; ", hint):
        first, *others = part.split(" or ")
        changes = _SET.findall(first)
        for value in [changes[-1][1], *others] if changes else []:
            whole = [*changes[:-1], (changes[-1][0], value)]
            if value not in ("more", "less", "fewer") and not any(_PLACEHOLDER.search(text) for _, text in whole):
                yield whole


def _written_into(lines: list[str], changes: list[tuple[str, str]]) -> list[str]:
    for key, value in changes:
        bare = key.lstrip("+")
        if any(line.lstrip("+").partition("=")[0] == bare for line in lines):
            lines = [f"{line.partition('=')[0]}={value}" if line.lstrip("+").partition("=")[0] == bare else line for line in lines]
        else:
            lines = [*lines, f"{key}={value}"]
    return lines


@settings(max_examples=20)
@given(overrides())
def test_each_suggestion_makes_its_problem_go_away(lines: list[str]) -> None:
    for problem in _examined(lines):
        for changes in _alternatives(problem.hint):
            again = _written_into(lines, changes)
            left = [found.render() for found in _examined(again) if (found.code, found.path) == (problem.code, problem.path)]
            assert left == [], (problem.render(), changes)
