"""What zerocfg's loop costs: tokens/s of one model and JSON through zerocfg's launcher and run.steps, and of a bare DeepSpeed script.

`python benchmarks/overhead.py [--gpus 2] [--hardware h200x2] [--blocks 3] [--steps 10] [overrides]`. Both sides run at the same time on
the same devices and take turns, a block of steps each: one trains while the other waits, asleep. A pair is one block of each, begun
by either in turn. Each side's memory must fit beside the other's. Without --gpus: two ranks on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
TARGET = 0.99
SIDES = ("zerocfg", "bare")
CPU_MODEL = ("model=gpt_tiny", "model.hidden_size=256", "model.intermediate_size=1024", "model.sequence_length=256")


def prepare(overrides: Sequence[str], folder: Path) -> tuple[list[str], dict[str, str]]:
    """Compile for the bare side: its files, torchrun arguments and environment are those that zerocfg's side gets."""
    sys.path[:0] = [str(ROOT / "src")]
    from zerocfg.compiler import compile_run
    from zerocfg.compose import compose
    from zerocfg.emit import write_compiled
    from zerocfg.planner import decide
    from zerocfg.probe import detect

    container = compose(list(overrides), config_path=str(ROOT / "conf"), config_name="zerocfg").container
    run = compile_run(container, detect=detect, decide=decide)
    if run.plan.model is None or run.plan.checkpoint.enabled:
        raise SystemExit("a described model, and checkpoint=none")
    write_compiled(run, folder / "compiled")
    return [word for word in run.torchrun if not word.startswith("--log-dir")], dict(run.environment)


def turns(folder: Path, count: int) -> list[tuple[str, int]]:
    """Who trains when: a warm-up block each, then pairs, begun by either side in turn. The files' names, in order."""
    order = [*SIDES]
    for pair in range(count):
        order += SIDES if pair % 2 == 0 else reversed(SIDES)
    seen = dict.fromkeys(SIDES, 0)
    plan = []
    for side in order:
        plan.append((side, seen[side]))
        seen[side] += 1
    return plan


def run(given: argparse.Namespace, overrides: list[str], folder: Path) -> dict[str, list[tuple[float, ...]]]:
    """Of each block after the warm-up, by side: seconds, and the CPU time of rank 0."""
    for side in SIDES:
        (folder / side).mkdir()
    blocks = given.blocks + 1
    overrides = [*overrides, f"train.steps={blocks * given.steps}", f"train.log_every={given.steps}"]
    torchrun, compiled = prepare(overrides, folder / "bare")
    environment = {**os.environ, "OVERHEAD_FOLDER": str(folder), "OVERHEAD_STEPS": str(given.steps)}
    if given.gpus:
        environment.setdefault("CUDA_VISIBLE_DEVICES", ",".join(map(str, range(given.gpus))))  # the same ones for both
    else:
        environment["ZEROCFG_LOCK_DIR"] = str(folder / "locks")  # the bare side takes the same cores anyway
    environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
    python = sys.executable
    commands = {
        "zerocfg": ([python, str(HERE / "overhead_app.py"), *overrides, f"hydra.sweep.dir={folder}/zerocfg"], environment),
        "bare": (
            [python, "-m", "torch.distributed.run", *torchrun, str(HERE / "overhead_bare.py"), str(folder / "bare" / "compiled")],
            {**environment, **compiled},
        ),
    }
    processes = {}
    for side, (command, env) in commands.items():
        with (folder / f"{side}.log").open("wb") as log:
            processes[side] = subprocess.Popen(command, env=env, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT)
    try:
        return conduct(folder, turns(folder, given.blocks), processes, time.monotonic() + given.timeout)
    finally:
        for process in processes.values():
            if process.poll() is None:
                process.terminate()
        for process in processes.values():
            try:
                process.wait(timeout=30)
            except subprocess.TimeoutExpired:
                process.kill()


def conduct(folder: Path, plan: list[tuple[str, int]], processes: dict[str, Any], deadline: float) -> dict[str, list[tuple[float, ...]]]:
    times: dict[str, list[tuple[float, ...]]] = {side: [] for side in SIDES}
    for side in SIDES:  # imports, building and compiling of kernels disturb nobody
        await_file(folder / side / "ready", processes, deadline)
    for side, block in plan:
        (folder / side / f"go_{block}").touch()
        done = await_file(folder / side / f"done_{block}", processes, deadline)
        if block:
            times[side].append(tuple(map(float, done.split())))
    for side in SIDES:
        (folder / side / "end").touch()
    for side, process in processes.items():
        if process.wait(timeout=max(1.0, deadline - time.monotonic())):
            raise Failed(side, f"exit status {process.returncode}")
    return times


class Failed(Exception):
    pass


def await_file(path: Path, processes: dict[str, Any], deadline: float) -> str:
    while not path.exists():
        for side, process in processes.items():
            if process.poll() is not None:
                raise Failed(side, f"ended with status {process.returncode} before {path.name}")
        if time.monotonic() > deadline:
            raise Failed(path.parent.name, f"no {path.name} in time")
        time.sleep(0.02)
    return path.read_text(encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--gpus", type=int, default=0, help="0: two ranks on the CPU")
    parser.add_argument("--hardware", default="auto", help="option of the group hardware, with --gpus")
    parser.add_argument("--blocks", type=int, default=3, help="pairs that are timed, after one that is not")
    parser.add_argument("--steps", type=int, default=10, help="optimizer steps of a block; both sides log the loss once in it")
    parser.add_argument("--timeout", type=float, default=240)
    parser.add_argument("--keep", help="folder for logs and files; default: a temporary one")
    given, rest = parser.parse_known_args()
    if wrong := [word for word in rest if "=" not in word]:
        parser.error(f"neither an option nor an override: {' '.join(wrong)}")
    if given.gpus:
        overrides = [f"hardware={given.hardware}", f"hardware.gpus_per_node={given.gpus}", *rest]
    else:
        overrides = ["hardware=cpu", "precision=fp32", *([] if any(w.startswith("model=") for w in rest) else CPU_MODEL), *rest]
    folder = Path(given.keep).absolute() if given.keep else Path(tempfile.mkdtemp(prefix="zerocfg-overhead-"))
    folder.mkdir(parents=True, exist_ok=True)
    try:
        times = run(given, overrides, folder)
    except Failed as why:
        side, what = why.args
        log = (folder / f"{side}.log").read_text(encoding="utf-8", errors="replace")
        print(f"{side}: {what}\n" + "\n".join(log.splitlines()[-25:]))
        return 1
    seconds, cpu = ({side: [block[i] for block in times[side]] for side in SIDES} for i in (0, 1))
    plan = json.loads((folder / "bare" / "compiled" / "plan.json").read_text(encoding="utf-8"))
    tokens = given.steps * plan["batch"]["global_batch_size"] * plan["model"]["sequence_length"]
    world = plan["topology"]["num_nodes"] * plan["topology"]["nproc_per_node"]
    print(
        f"{plan['model']['name']}, stage {plan['zero']['stage']}, {plan['precision']['dtype']}, {world} ranks, {given.steps} steps a block"
    )
    print(f"{'pair':6}{'zerocfg':>12}{'bare':>12}   tokens/s{'ratio':>8}")
    ratios = []
    for pair, (ours, bare) in enumerate(zip(seconds["zerocfg"], seconds["bare"], strict=True), 1):
        ratios.append(bare / ours)
        print(f"{pair:<6}{tokens / ours:>12,.0f}{tokens / bare:>12,.0f}{ratios[-1]:>19.4f}")
    losses = [(folder / side / "loss").read_text(encoding="utf-8") for side in SIDES]
    ours, bare = (tokens / median(seconds[side]) for side in SIDES)
    print(f"median{ours:>12,.0f}{bare:>12,.0f}{median(ratios):>19.4f}")
    # says what the loop costs on a machine that others use too
    ours, bare = (sum(cpu[side]) for side in SIDES)
    print(f"CPU time of rank 0, all blocks: {ours:.3f} and {bare:.3f} s, {ours / bare - 1:+.1%}")
    print(f"last loss: {losses[0]} and {losses[1]}")
    met = median(ratios) >= TARGET
    print(f"target {TARGET}: {'met' if met else 'not met'}")
    if not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
