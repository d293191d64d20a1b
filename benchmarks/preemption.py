"""A run that is stopped and goes on, beside one that is not: the same losses; and its consolidated weights in the plain model.

`python benchmarks/preemption.py [--launcher zerocfg_local] [--stop 25] [--steps 60] [--keep DIR] [overrides]`: train.py twice. The second
time it gets SIGUSR2 about after step --stop, saves, and is started again: by hand (zerocfg_local), or by SLURM's own requeue
(zerocfg_slurm). Overrides choose model and hardware; without them two ranks on the CPU.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from one_engine import ROOT, dtype_of, example

sys.path[:0] = [str(ROOT / "src")]
from zerocfg.errors import PREEMPTED_STATUS  # noqa: E402
from zerocfg.plan import Plan  # noqa: E402
from zerocfg.runtime.stored_plan import plan_from  # noqa: E402

CPU = ("hardware=cpu", "hardware.gpus_per_node=2", "precision=fp32", "model=gpt_tiny", "parallelism=zero3")


class Run:
    """`python train.py` into a folder of its own, which it goes on in when it is started again."""

    def __init__(self, folder: Path, overrides: Sequence[str]) -> None:
        self.folder = folder
        self.log = folder.with_suffix(".log")
        self.command = [sys.executable, str(ROOT / "train.py"), *overrides, "train.log_every=1", f"hydra.sweep.dir={folder}"]

    def start(self) -> subprocess.Popen[bytes]:
        with self.log.open("ab") as log:
            path = os.pathsep.join([str(ROOT / "src"), str(ROOT), os.environ.get("PYTHONPATH", "")])
            return subprocess.Popen(self.command, env={**os.environ, "PYTHONPATH": path}, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    @property
    def job(self) -> Path:
        return next((path.parent for path in self.folder.rglob("compiled")), self.folder)

    def records(self) -> list[dict[str, Any]]:
        path = self.job / "metrics.jsonl"
        lines = path.read_text(encoding="utf-8").split("\n")[:-1] if path.exists() else []
        return [json.loads(line) for line in lines]

    def await_step(self, step: int, process: subprocess.Popen[bytes], seconds: float) -> None:
        end = time.monotonic() + seconds
        while not any(record["step"] >= step for record in self.records()):
            if process.poll() is not None or time.monotonic() > end:
                self.fail(f"it did not come to step {step}")
            time.sleep(0.02)

    def fail(self, what: str) -> None:
        raise SystemExit(f"{self.folder.name}: {what}\n" + "\n".join(self.log.read_text(errors="replace").splitlines()[-25:]))

    def end(self, process: subprocess.Popen[bytes], expected: int, seconds: float) -> None:
        if (status := process.wait(seconds)) != expected:
            self.fail(f"exit status {status}, not {expected}")


def stop(run: Run, process: subprocess.Popen[bytes], slurm: bool) -> None:
    if not slurm:
        process.send_signal(signal.SIGUSR2)
        return
    (jobs,) = run.folder.rglob("jobs.json")
    number = json.loads(jobs.read_text(encoding="utf-8"))["jobs"][0]["slurm_id"]
    subprocess.run(["scancel", "--signal=USR2", str(number)], check=True)


def plain_loss(plan: Plan, job: Path, weights: Path, step: int) -> tuple[float, int]:
    """(mean loss of train.py's model with these weights on the global batch of a step, tensors of the weights).

    The model has the run's precision, is on one device, and knows nothing of DeepSpeed; the micro batches are the run's.
    """
    import torch
    from safetensors.torch import load_file

    assert plan.model is not None
    train_py = example()
    device = torch.device("cuda" if torch.cuda.is_available() and plan.hardware.is_cuda else "cpu")
    model = train_py.GPT(plan.model, lambda function, *args: function(*args))
    loaded = {name: tensor for path in sorted(weights.glob("*.safetensors")) for name, tensor in load_file(path).items()}
    model.load_state_dict(loaded)
    model.to(device, dtype_of(plan.precision.dtype))
    found = []
    for rank in range(plan.batch.data_parallel_size):
        view = SimpleNamespace(plan=plan, data_parallel_rank=rank, output_dir=job)
        data = train_py.Windows(train_py.corpus(view), plan.model.sequence_length)
        sampler = train_py.GlobalBatches(len(data), view)
        sampler.set_start_step(step - 1)
        batches = iter(sampler)
        for _ in range(plan.batch.gradient_accumulation_steps):
            rows = [data[start] for start in next(batches)]
            tokens, targets = (torch.stack(side).to(device) for side in zip(*rows, strict=True))
            with torch.no_grad():
                found.append(float(model(tokens, targets)))
    return sum(found) / len(found), len(loaded)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--launcher", default="zerocfg_local", choices=("zerocfg_local", "zerocfg_slurm"))
    parser.add_argument("--steps", type=int, default=60)
    parser.add_argument("--stop", type=int, default=25, help="the signal is sent when this step is logged")
    parser.add_argument("--tolerance", type=float, default=0.0, help="of a loss; bf16 on GPUs is not bit-reproducible")
    parser.add_argument("--timeout", type=float, default=240, help="seconds a start")
    parser.add_argument("--keep", help="folder for logs and runs; default: a temporary one")
    parser.add_argument("overrides", nargs="*", default=CPU)
    given = parser.parse_args()
    slurm = given.launcher == "zerocfg_slurm"
    base = [*given.overrides, f"hydra/launcher={given.launcher}", f"train.steps={given.steps}"]
    folder = Path(given.keep or tempfile.mkdtemp(prefix="zerocfg-preemption-")).absolute()
    folder.mkdir(parents=True, exist_ok=True)

    straight = Run(folder / "straight", base)
    straight.end(straight.start(), 0, given.timeout)
    stopped = Run(folder / "stopped", [*base, "checkpoint.enabled=true", "checkpoint.keep_last=0"])
    process = stopped.start()
    stopped.await_step(given.stop, process, given.timeout)
    stop(stopped, process, slurm)
    if slurm:  # the launcher waits until the requeued job has ended
        stopped.end(process, 0, 2 * given.timeout)
    else:
        stopped.end(process, PREEMPTED_STATUS, given.timeout)
        stopped.end(stopped.start(), 0, given.timeout)

    summary = json.loads((stopped.job / "summary.json").read_text(encoding="utf-8"))
    losses = [{record["step"]: record["loss"] for record in run.records()} for run in (straight, stopped)]
    steps = [[record["step"] for record in run.records()] for run in (straight, stopped)]
    (at,) = summary["resumed_at"]
    once = steps[0] == steps[1] == list(range(1, given.steps + 1))
    apart = {step: abs(losses[0][step] - losses[1][step]) for step in range(1, given.steps + 1)}
    before, after = max(v for s, v in apart.items() if s <= at), max(v for s, v in apart.items() if s > at)
    weights = folder / "weights"
    consolidate = ["consolidate", str(stopped.job), "--tag", f"global_step{at}", "--out", str(weights)]
    done = subprocess.run([sys.executable, "-m", "zerocfg", *consolidate], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(done.stdout + done.stderr)
    plan = plan_from(json.loads((stopped.job / "compiled" / "plan.json").read_text(encoding="utf-8")))
    plain, count = plain_loss(plan, stopped.job, weights, at + 1)

    what = f"{plan.model_name}, stage {plan.zero.stage}, {plan.precision.dtype}, {plan.topology.world_size} ranks"
    print(f"{what}, {given.launcher}")
    print(f"stopped and saved after step {at}, went on at {at + 1}; each step counted once: {'yes' if once else f'no: {steps[1]}'}")
    print(f"{'step':>6}{'straight':>12}{'stopped':>12}")
    for step in sorted({1, at, at + 1, at + 2, given.steps}):
        print(f"{step:>6}{losses[0][step]:>12.6f}{losses[1][step]:>12.6f}")
    print(f"largest difference: {before:.2e} up to step {at}, {after:.2e} after it")
    live = losses[1][at + 1]
    print(f"consolidated after step {at}: {count} tensors; loss on the batch of step {at + 1}: plain model {plain:.6f}, run {live:.6f}")
    met = once and max(before, after) <= given.tolerance and abs(plain - live) <= max(given.tolerance, 1e-5)
    print(f"the same within {given.tolerance:g}: {'yes' if met else 'no'}")
    if not given.keep:
        shutil.rmtree(folder, ignore_errors=True)
    return 0 if met else 1


if __name__ == "__main__":
    sys.exit(main())
