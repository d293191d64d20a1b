"""Several engines one after the other on this machine: what plan_quality.py and zero3_speed.py time, memory_accuracy.py weighs.

A task is plain data: model (dims), dtype, stage, checkpointing, micro, accumulation, deepspeed (the JSON) or fsdp2, leaf, and
measure: "speed" or "memory". Each gets fresh processes, forked off one that has imported torch and DeepSpeed: importing takes
longer than measuring, and an engine leaves much behind (hooks that keep its memory, another torch.nn.functional.linear).

Alone, one process is rank 0 of that world, and its collectives end at once (lone_rank.py): its memory besides NCCL's, the work of its host
and of its GPU are a real rank's; its losses mean nothing, and its speed is one without communication.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from one_engine import ROOT, measure

sys.path[:0] = [str(ROOT / "src")]

if TYPE_CHECKING:
    from zerocfg.artifact import CompiledRun


def task_of(overrides: Sequence[str], **more: Any) -> dict[str, Any]:
    """A compiled plan as a task. Raises ConfigProblems."""
    from zerocfg.compiler import compile_run
    from zerocfg.compose import compose
    from zerocfg.planner import decide

    return task_of_run(
        compile_run(compose(list(overrides), config_path=str(ROOT / "conf"), config_name="zerocfg").container, decide=decide), **more
    )


def task_of_run(run: CompiledRun, **more: Any) -> dict[str, Any]:
    plan = run.plan
    assert plan.model is not None
    return {
        "deepspeed": dict(run.deepspeed),
        "environment": dict(run.environment),
        "model": {name: getattr(plan.model, name) for name in plan.model.__slots__},
        "dtype": plan.precision.dtype,
        "stage": plan.zero.stage,
        "leaf": plan.zero.find_leaf_modules,
        "checkpointing": plan.activation_checkpointing.enabled,
        "micro": plan.batch.micro_batch_size,
        "accumulation": plan.batch.gradient_accumulation_steps,
        "measure": "speed",
        **more,
    }


def run_all(tasks: Sequence[Mapping[str, Any]], gpus: int, timeout: float, alone: bool = False) -> Iterator[dict[str, Any]]:
    """timeout: seconds for each. alone: only rank 0 of the `gpus`, with collectives that end at once.

    As each ends: what its measure returns and seconds (all of it), or problem.
    """
    with tempfile.TemporaryDirectory() as folder:
        given, out, log = (Path(folder, name) for name in ("tasks.json", "out.jsonl", "log"))
        given.write_text(json.dumps(list(tasks)), encoding="utf-8")
        out.touch()
        # NVML counts the GPUs: with the CUDA runtime loaded no process can be forked off
        environment = {**os.environ, **tasks[0].get("environment", {}), "PYTORCH_NVML_BASED_CUDA_CHECK": "1"}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT / "src"), os.environ.get("PYTHONPATH", "")])
        command = [sys.executable, __file__, folder, str(gpus), str(timeout), *(["alone"] if alone else [])]
        with log.open("wb") as written, out.open(encoding="utf-8") as lines:
            process = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, stdout=written, stderr=subprocess.STDOUT)
            found = 0
            try:
                while found < len(tasks):
                    ended = process.poll() is not None
                    if line := lines.readline():
                        found += 1
                        yield json.loads(line)
                    elif ended:
                        break
                    else:
                        time.sleep(0.05)
            finally:
                process.kill()
                process.wait()
        for _ in tasks[found:]:
            yield {"problem": log.read_text(encoding="utf-8", errors="replace")[-1500:]}


def main(folder: str, gpus: int, timeout: float, alone: bool) -> None:
    import deepspeed  # noqa: F401
    import torch
    import torch.distributed  # noqa: F401

    tasks = json.loads(Path(folder, "tasks.json").read_text(encoding="utf-8"))
    for number, task in enumerate(tasks):
        begun = time.perf_counter()
        result = one(task, Path(folder, str(number)), gpus, timeout, alone)
        result["seconds"] = time.perf_counter() - begun
        with open(Path(folder, "out.jsonl"), "a", encoding="utf-8") as out:
            out.write(json.dumps(result) + "\n")


def one(task: Mapping[str, Any], folder: Path, gpus: int, timeout: float, alone: bool) -> dict[str, Any]:
    folder.mkdir()
    ranks: dict[int, int] = {}
    for rank in range(1 if alone else gpus):
        child = os.fork()
        if child == 0:
            in_rank(task, folder, rank, gpus, alone)
        ranks[child] = rank
    end, problem = time.monotonic() + timeout, ""
    while ranks:
        child, status = os.waitpid(-1, os.WNOHANG)
        if child:
            rank = ranks.pop(child)
            if status and not problem:
                problem = (folder / f"{rank}.log").read_text(encoding="utf-8", errors="replace")[-1500:] or f"exit status {status}"
        elif time.monotonic() > end and not problem:
            problem = f"no end after {timeout:.0f} s"
        else:
            time.sleep(0.02)
        if problem:  # the others would wait for it
            for child in ranks:
                os.kill(child, signal.SIGKILL)
    if problem:
        return {"problem": "out of memory" if "OutOfMemoryError" in problem else problem}
    found: dict[str, Any] = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    return found


def in_rank(task: Mapping[str, Any], folder: Path, rank: int, world: int, alone: bool) -> None:
    """Ends the process."""
    status = 1
    log = os.open(folder / f"{rank}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        import torch

        os.environ.update(task.get("environment", {}))
        os.environ.update(RANK=str(rank), LOCAL_RANK=str(rank), WORLD_SIZE=str(world), LOCAL_WORLD_SIZE=str(world))
        cuda = torch.cuda.is_available()
        if cuda:
            torch.cuda.set_device(rank)
        join(folder / "store", "nccl" if cuda else "gloo", rank, world, alone)
        result = measure(task, rank)
        if rank == 0:
            (folder / "result.json").write_text(json.dumps(result), encoding="utf-8")
        torch.distributed.barrier()
        status = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)


def join(store: Path, backend: str, rank: int, world: int, alone: bool) -> None:
    import torch

    if alone:
        from lone_rank import BACKEND

        torch.distributed.init_process_group(BACKEND, store=torch.distributed.HashStore(), rank=rank, world_size=world)
    else:
        torch.distributed.init_process_group(backend, init_method=f"file://{store}", rank=rank, world_size=world)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]), sys.argv[4:] == ["alone"])
