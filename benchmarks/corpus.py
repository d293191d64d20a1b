"""Import every config of a folder, compile the result, and ask DeepSpeed itself whether it means the same.

For each file that parses: every key is accounted for; import -> compose (hardware=a100x8 at a number of ranks that the file
allows) -> compile -> DeepSpeedConfig accepts, and all that it understood equals what it understands of the file itself, with
each "auto" resolved, each migration applied and each refused key left out. Exit status 1 when a file is neither the same nor
refused with a code, or a key is lost.

`python benchmarks/corpus.py ../shared/corpus`
"""

from __future__ import annotations

import argparse
import contextlib
import copy
import enum
import inspect
import logging
import os
import sys
import time
import warnings
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hydra import initialize_config_dir
from hydra.core.global_hydra import GlobalHydra
from hydra.types import RunMode

from zerocfg.compiler import examine
from zerocfg.compose import Composed, from_hydra
from zerocfg.compose.sweep import SweepComposer
from zerocfg.confsource import conf_dir
from zerocfg.deepspeed.importer import Imported, import_config
from zerocfg.deepspeed.importer.draft import join, leaves_of, split
from zerocfg.deepspeed.importer.read import parse
from zerocfg.deepspeed.keys import canonical, optimizer_params, scheduler_params
from zerocfg.diagnostics import ConfigProblems, Severity

MICRO = "train_micro_batch_size_per_gpu"
DTYPES = {"torch.float32": "fp32", "torch.float16": "fp16", "torch.bfloat16": "bf16"}


@dataclass
class Verdict:
    """What came of one file."""

    name: str
    outcome: str
    """same, refused (the whole file, with a code) or neither."""
    detail: str = ""
    lost: list[str] = field(default_factory=list)
    """Keys without an entry."""
    imported: Imported | None = None
    world_size: int = 0


class DeepSpeed:
    """The installed DeepSpeed's config class, on as many ranks as a file wants."""

    def __init__(self) -> None:
        os.environ.setdefault("DS_ACCELERATOR", "cpu")
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            from deepspeed.runtime import config

            logging.getLogger("DeepSpeed").setLevel(logging.CRITICAL)
        self._module = config

    def understand(self, config: Mapping[str, Any], world_size: int) -> dict[str, Any]:
        """Everything that DeepSpeedConfig holds after parsing, flat. Raises what it raises."""
        dist = self._module.dist
        saved = dist.get_rank, dist.get_world_size
        mesh = _Mesh(int(config["data_parallel_size"])) if {"sequence_parallel_size", "data_parallel_size"} <= config.keys() else None
        dist.get_rank = lambda *_, **__: 0
        dist.get_world_size = lambda group=None: world_size if group is None else group
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                parsed = self._module.DeepSpeedConfig(copy.deepcopy(dict(config)), mesh_device=mesh)
        finally:
            dist.get_rank, dist.get_world_size = saved
        state = {name: value for name, value in vars(parsed).items() if name not in ("_param_dict", "optimizer_params", "scheduler_params")}
        flat = dict(_flat(state))
        for kind in ("optimizer", "scheduler"):
            flat |= _arguments(kind, getattr(parsed, f"{kind}_name"), getattr(parsed, f"{kind}_params"), flat)
        return _same_to_the_engine(flat)


class Composer:
    """Hydra, as the launcher uses it for a sweep: one set-up for all files. A context."""

    def __enter__(self) -> Composer:
        GlobalHydra.instance().clear()
        self._hydra = initialize_config_dir(str(conf_dir()), version_base=None, job_name="corpus")
        self._hydra.__enter__()
        hydra = GlobalHydra.instance().hydra
        assert hydra is not None
        loader = hydra.config_loader
        self._sweep = SweepComposer(loader, loader.load_configuration("zerocfg", ["hydra.mode=MULTIRUN"], RunMode.MULTIRUN))
        return self

    def __exit__(self, *_: object) -> None:
        self._hydra.__exit__(None, None, None)
        GlobalHydra.instance().clear()

    def compose(self, overrides: list[str]) -> Composed:
        job = self._sweep.compose_job(overrides)
        return from_hydra(job.cfg, overrides, parsed=job.parsed, sources=job.sources)


class _Mesh:
    """deepspeed.initialize makes a device mesh when both sizes are written; the config then counts its data-parallel ranks."""

    def __init__(self, data_parallel_size: int) -> None:
        self._size = data_parallel_size

    def get_group(self, mesh_dim: str) -> int:
        return self._size


def _flat(node: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if hasattr(node, "model_dump"):
        node = node.model_dump()
    elif hasattr(node, "__dict__") and not isinstance(node, enum.Enum) and not inspect.isclass(node):
        node = vars(node)
    if isinstance(node, Mapping):
        for name, value in node.items():
            yield from _flat(value, f"{path}.{name}" if path else str(name))
    elif isinstance(node, enum.Enum):
        yield path, node.value
    elif isinstance(node, (list, tuple)):
        yield path, [dict(_flat(item)) if hasattr(item, "model_dump") else item for item in node]
    else:
        yield path, node if node is None or isinstance(node, (bool, int, float, str)) else str(node)


def _arguments(kind: str, name: str | None, given: Any, state: Mapping[str, Any]) -> dict[str, Any]:
    """What the class gets: the arguments written, and the defaults of the class."""
    if name is None:
        return {}
    offloaded = state.get("zero_config.offload_optimizer.device", "none") != "none"
    given = dict(given or {})
    torch_adam = given.get("torch_adam") is True
    known = optimizer_params(name, offloaded, torch_adam=torch_adam) if kind == "optimizer" else scheduler_params(name)
    defaults = {argument: key.default for argument, key in (known or {}).items() if not key.required}
    both = {f"{kind}.params.{argument}": value for argument, value in {**defaults, **given}.items()}
    return {path: list(value) if isinstance(value, tuple) else value for path, value in both.items()}


def _same_to_the_engine(flat: dict[str, Any]) -> dict[str, Any]:
    """Values that the engine takes for one another."""
    dtype = "fp16" if flat["float16_config.enabled"] else "bf16" if flat["bfloat16_config.enabled"] else "fp32"
    for name in ("communication_data_type", "grad_accum_dtype"):  # None: the model's (engine.py:1719, 1799)
        value = flat[name]
        plain = {"float16": "fp16", "half": "fp16", "bfloat16": "bf16", "float32": "fp32", "float": "fp32"}
        shown = DTYPES.get(str(value), str(value).removeprefix("torch."))
        flat[name] = dtype if value is None else plain.get(shown, shown)
    for section in ("offload_optimizer", "offload_param"):  # device none: nothing is offloaded (engine.py:1760)
        below = [path for path in flat if path.startswith(f"zero_config.{section}.")]
        if flat.get(f"zero_config.{section}.device") == "none":
            for path in below:
                del flat[path]
            flat[f"zero_config.{section}"] = None
    path = "tensor_parallel_config.autotp_size"  # off below 2 (engine.py:595)
    flat[path] = max(1, flat[path])
    path = "zero_config.zero_hpz_partition_size"  # off below 2 (stage3.py:271)
    flat[path] = max(1, flat[path])
    path = "scheduler.params.warmup_max_lr"  # None: the optimizer's (lr_schedules.py:720)
    if path in flat and flat[path] is None:
        flat[path] = flat.get("optimizer.params.lr")
    path = "scheduler.params.warmup_num_steps"  # (lr_schedules.py:726)
    if path in flat and isinstance(flat[path], int):
        flat[path] = max(2, flat[path])
    return flat


def reference(config: Mapping[str, Any], imported: Imported) -> dict[str, Any]:
    """The file as DeepSpeed reads it: what was neither migrated nor refused stands as it is written."""
    understood = {join(names): value for names, value in leaves_of(imported.understood)}
    written: dict[str, Any] = {}
    for names, value in leaves_of(config):
        entry = next(e for e in imported.entries if e.path == join(names))
        if entry.outcome in ("expressed", "kept"):
            _put(written, names, value)
            spelled = join(names)
            understood.pop(canonical(spelled) if '"' not in spelled else spelled)
    for path, value in understood.items():
        _put(written, split(path), value)
    if not {"train_batch_size", MICRO} & written.keys():
        written[MICRO] = 1  # DeepSpeed wants one; the group's is 1
    return written


def _put(root: dict[str, Any], names: tuple[str, ...], value: Any) -> None:
    *parents, last = names
    for name in parents:
        root = root.setdefault(name, {})
    root.setdefault(last, value)


def ranks_for(imported: Imported) -> int:
    """A number of ranks that the file allows: 8 where it may be chosen."""
    sizes = imported.world_sizes
    return 8 if 8 in sizes or not sizes else sizes[0]


def hardware(world_size: int) -> list[str]:
    nodes = world_size // 8 if world_size % 8 == 0 else 1
    while world_size // nodes > 256:
        nodes = next(n for n in range(nodes + 1, world_size + 1) if world_size % n == 0)
    # whether it fits is another question than what it means
    memory = [f"hardware.{name}={2**62}" for name in ("memory_bytes", "host_memory_bytes")]
    return ["hardware=a100x8", *memory, f"hardware.gpus_per_node={world_size // nodes}", f"hardware.num_nodes={nodes}"]


def unaccounted(config: Mapping[str, Any], imported: Imported) -> list[str]:
    wanted = Counter(join(names) for names, _ in leaves_of(config))
    had = Counter(entry.path for entry in imported.entries)
    return [
        *(wanted - had),
        *(had - wanted),
        *(e.path for e in imported.entries if not e.reason or (e.code == "") != (e.outcome in ("expressed", "kept"))),
    ]


def compare(config: Mapping[str, Any], imported: Imported, hydra: Composer, deepspeed: DeepSpeed, world_size: int) -> str:
    """Empty where the import means the same; else what is wrong."""
    try:
        composed = hydra.compose([*imported.overrides, *hardware(world_size)])
    except Exception as error:
        return f"does not compose: {error}"
    outcome = examine(composed.container, origins=composed.origins)
    errors = [d for d in (*composed.diagnostics, *outcome.diagnostics) if d.severity is Severity.ERROR]
    if errors or outcome.run is None:
        return "does not compile: " + " | ".join(f"{d.code} {d.message}" for d in errors)
    try:
        after = deepspeed.understand(outcome.run.deepspeed, world_size)
    except Exception as error:
        return f"DeepSpeed refuses the result: {error}"
    try:
        before = deepspeed.understand(reference(config, imported), world_size)
    except Exception as error:
        return f"DeepSpeed refuses the file as understood: {error}"
    # what the class needs and the file left out: DeepSpeed would raise, so the group's own value stands
    for argument, key in (scheduler_params(str(before["scheduler_name"])) or {}).items():
        if key.required and f"scheduler.params.{argument}" not in before:
            after.pop(f"scheduler.params.{argument}", None)
    differences = [
        f"{path}: {before.get(path)} -> {after.get(path)}" for path in sorted({*before, *after}) if before.get(path) != after.get(path)
    ]
    return "means something else: " + " | ".join(differences) if differences else ""


def judge(data: bytes, name: str, hydra: Composer, deepspeed: DeepSpeed) -> Verdict:
    try:
        config = parse(data, name)
    except ConfigProblems as problem:
        return Verdict(name, "refused", " ".join(f"{d.code} {d.message}" for d in problem.diagnostics))
    imported = import_config(config)
    world_size = ranks_for(imported)
    errors = [d for d in imported.notes if d.severity is Severity.ERROR and d.code != "ZC640"]
    detail = compare(config, imported, hydra, deepspeed, world_size) if not errors else f"errors left: {errors[0].message}"
    outcome = "neither" if detail else "same"
    return Verdict(name, outcome, detail, unaccounted(config, imported), imported, world_size)


def run(folder: Path, deepspeed: DeepSpeed) -> list[Verdict]:
    """One verdict a file of folder/files."""
    with contextlib.redirect_stderr(None), Composer() as hydra:
        return [judge(path.read_bytes(), path.name, hydra, deepspeed) for path in sorted((folder / "files").iterdir())]


def main() -> int:
    from corpus_mistakes import named

    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path, help="holds files/")
    parser.add_argument("--verbose", action="store_true", help="every refused key")
    given = parser.parse_args()
    start = time.perf_counter()
    deepspeed = DeepSpeed()
    loaded = time.perf_counter()
    verdicts = run(given.folder, deepspeed)
    counts = Counter(verdict.outcome for verdict in verdicts)
    outcomes = Counter(entry.outcome for verdict in verdicts if verdict.imported for entry in verdict.imported.entries)
    codes = Counter((entry.outcome, entry.code) for v in verdicts if v.imported for entry in v.imported.entries if entry.code)
    parsed = counts["same"] + counts["neither"]
    print(f"{len(verdicts)} files: {parsed} parse, {counts['refused']} are refused as a whole")
    for verdict in verdicts:
        if verdict.outcome == "refused":
            print(f"  refused  {verdict.detail}")
    print(f"of the {parsed} that parse, {counts['same']} compile to the same meaning, {counts['neither']} do not")
    for verdict in verdicts:
        if verdict.outcome == "neither":
            print(f"  neither  {verdict.name} on {verdict.world_size} ranks: {verdict.detail}")
    lost = [f"{verdict.name}: {path}" for verdict in verdicts for path in verdict.lost]
    print(
        f"keys: {sum(outcomes.values())} accounted for ("
        + ", ".join(f"{n} {name}" for name, n in outcomes.most_common())
        + f"), {len(lost)} lost"
    )
    for line in lost:
        print(f"  lost     {line}")
    for (outcome, code), count in sorted(codes.items(), key=lambda item: -item[1]):
        print(f"  {outcome:9} {code} {count:5}")
    mistaken = named()
    print(f"mistakes named with their fix: {sum(ok for _, ok, _ in mistaken)} of {len(mistaken)}")
    for mistake, ok, code in mistaken:
        print(f"  {'named' if ok else 'MISSED'} {code} {mistake}")
    print(f"{time.perf_counter() - loaded:.1f} s for the files, {loaded - start:.1f} s to import DeepSpeed")
    return 0 if counts["neither"] == 0 and not lost and all(ok for _, ok, _ in mistaken) else 1


if __name__ == "__main__":
    sys.exit(main())
