"""zerocfg launch on two CPU ranks: a raw DeepSpeed script and a Hugging Face Trainer script, both unchanged, and how scripts end."""

from __future__ import annotations

import ast
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from zerocfg.deepspeed.importer.arguments import HF_DEFAULTS

pytestmark = pytest.mark.integration
RUN = ("hardware=cpu", "hardware.gpus_per_node=2", "precision=fp32", "model=none", "hydra.launcher.poll_seconds=0.05")

RAW = """
import argparse, json, os, sys
import deepspeed, torch

parser = argparse.ArgumentParser()
parser.add_argument("--steps", type=int, required=True)
parser = deepspeed.add_config_arguments(parser)
args = parser.parse_args()
deepspeed.init_distributed()
torch.manual_seed(0)
model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1))
engine, *_ = deepspeed.initialize(args=args, model=model, model_parameters=model.parameters())
x = torch.randn(4, 8, generator=torch.Generator().manual_seed(torch.distributed.get_rank()))
losses = []
for _ in range(args.steps):
    loss = torch.nn.functional.mse_loss(engine(x), x.sum(1, keepdim=True))
    engine.backward(loss)
    engine.step()
    losses.append(loss.item())
print("SAID", json.dumps({"argv": sys.argv, "losses": losses, "stage": engine.zero_optimization_stage(), "world": engine.world_size,
                          "micro": engine.train_micro_batch_size_per_gpu(), "lr": engine.get_lr(),
                          "json": os.environ["ZEROCFG_DS_CONFIG"]}), flush=True)
os._exit(0)  # torch's gloo threads can abort an interpreter that ends (zerocfg/launch/ending.py)
"""

TRAINER = """
import json, os
import torch
from transformers import GPT2Config, GPT2LMHeadModel, HfArgumentParser, Trainer, TrainingArguments

class Rows(torch.utils.data.Dataset):
    ids = torch.randint(0, 64, (32, 16), generator=torch.Generator().manual_seed(0))
    def __len__(self):
        return len(self.ids)
    def __getitem__(self, i):
        return {"input_ids": self.ids[i], "labels": self.ids[i]}

(args,) = HfArgumentParser(TrainingArguments).parse_args_into_dataclasses()
model = GPT2LMHeadModel(GPT2Config(vocab_size=64, n_positions=16, n_embd=32, n_layer=2, n_head=2, bos_token_id=0, eos_token_id=0))
trainer = Trainer(model=model, args=args, train_dataset=Rows())
done = trainer.train()
fields = TrainingArguments.__dataclass_fields__
print("SAID", json.dumps({"loss": done.training_loss, "steps": done.global_step, "stage": trainer.model_wrapped.zero_optimization_stage(),
                          "world": args.world_size, "defaults": {n: str(f.default) for n, f in fields.items()}}), flush=True)
os._exit(0)
"""

SMALL = """
import os, sys, time, zerocfg
run = zerocfg.current_run()
print("rank", run.rank, "of", run.world_size, "stage", run.plan.zero.stage, sys.argv[1:], flush=True)
if sys.argv[1] == "fail" and run.rank == 1:
    while not (run.output_dir / "pid_0").exists():  # the failure of one ends the other, however far it is
        time.sleep(0.05)
    print("last words", file=sys.stderr)
    sys.exit(7)
(run.output_dir / f"pid_{run.rank}").write_text(str(os.getpid()))
if sys.argv[1] != "return":
    time.sleep(120)
"""


def launch(home: Path, *words: str, **environ: str) -> subprocess.Popen[str]:
    """environ: laid over this one. Its own cores: other tests may run at the same time."""
    command = [sys.executable, "-m", "zerocfg", "launch", *RUN, "--out", "job", *words]
    env = {**os.environ, "ZEROCFG_LOCK_DIR": str(home / "locks"), **environ}
    return subprocess.Popen(command, cwd=home, env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def ended(process: subprocess.Popen[str]) -> tuple[int, str, str]:
    out, err = process.communicate(timeout=600)
    return process.returncode, out, err


def said(log: str) -> dict[str, Any]:
    (line,) = [line for line in log.splitlines() if line.startswith("SAID ")]
    found: dict[str, Any] = json.loads(line.removeprefix("SAID "))
    return found


@pytest.fixture
def home(tmp_path: Path) -> Path:
    folder = tmp_path / "a script's home"
    folder.mkdir()
    for name, text in (("raw.py", RAW), ("hf.py", TRAINER), ("small.py", SMALL)):
        (folder / name).write_text(text)
    return folder


def test_a_raw_deepspeed_script(home: Path) -> None:
    own = ("--steps", "8", "--deepspeed", "--deepspeed_config", "{ds_config}")
    overrides = ("parallelism=zero2", "batch.micro_batch_size=4", "optimizer.lr=0.02")
    status, out, err = ended(launch(home, *overrides, "--", "raw.py", *own))
    assert status == 0, out + err
    job = home / "job"
    first, second = said(out), said((job / "rank_1.log").read_text())
    path = str(job / "compiled" / "ds_config.json")
    argv = ["raw.py", "--steps", "8", "--deepspeed", "--deepspeed_config", path]
    told = {name: value for name, value in first.items() if name != "losses"}
    assert told == {"argv": argv, "stage": 2, "world": 2, "micro": 4, "lr": [0.02], "json": path}
    assert first["losses"][-1] < 0.7 * first["losses"][0]
    assert (second["argv"], second["losses"] == first["losses"]) == (argv, False)  # other samples
    assert said((job / "rank_0.log").read_text()) == first
    assert "job 0: started, 2 ranks, gloo, ZeRO stage 2: " in err


def test_a_trainer_script(home: Path) -> None:
    own = ("--output_dir", "out", "--deepspeed={ds_config}", "--per_device_train_batch_size", "4", "--learning_rate", "1e-3")
    more = ("--weight_decay=0.01", "--max_steps", "3", "--report_to", "none", "--use_cpu", "--save_strategy", "no")
    overrides = ("parallelism=zero2", "batch.micro_batch_size=4", "optimizer.lr=1e-3")
    status, out, err = ended(launch(home, *overrides, "--", "hf.py", *own, *more, HF_HUB_OFFLINE="1"))
    assert status == 0, out + err
    assert "ZC752" not in err
    told = said((home / "job" / "rank_0.log").read_text())
    assert {name: told[name] for name in ("steps", "stage", "world")} == {"steps": 3, "stage": 2, "world": 2}
    assert 3 < told["loss"] < 5  # ln(64) = 4.2: untrained
    # what is reported before a start compares with these
    compared = HF_DEFAULTS.keys() - {"warmup_steps", "warmup_ratio", "max_steps"}
    defaults = {name: told["defaults"][name] for name in compared}
    assert {name: ast.literal_eval(text) for name, text in defaults.items()} == {name: HF_DEFAULTS[name] for name in compared}


def test_the_failing_rank_is_named_and_its_exit_status_is_the_commands(home: Path) -> None:
    status, out, err = ended(launch(home, "parallelism=zero1", "--", "small.py", "fail", "{ds_config}"))
    job = home / "job"
    words = ["fail", f"{job}/compiled/ds_config.json"]
    assert (status, out) == (7, f"rank 0 of 2 stage 1 {words}\n")
    _, end = err.split("job 0 failed: ")
    assert end == f"rank 1 of 2: exit status 7\n  log: {job}/rank_1.log\n\nrank 1 of 2 stage 1 {words}\nlast words\n"


def test_launch_sh_runs_the_script_again_from_anywhere(home: Path) -> None:
    status, _, err = ended(launch(home, "parallelism=zero1", "hydra.launcher.dry_run=true", "--", "small.py", "return", "{ds_config}"))
    assert status == 0, err
    moved = home / "moved to"
    (home / "job").rename(moved)
    done = subprocess.run([moved / "compiled" / "launch.sh"], cwd="/", capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    line = ["return", f"{moved}/compiled/ds_config.json"]
    assert (moved / "rank_0.log").read_text() == f"rank 0 of 2 stage 1 {line}\n"
    assert (moved / "rank_1.log").read_text() == f"rank 1 of 2 stage 1 {line}\n"
    assert f"rank 0 of 2 stage 1 {line}" in done.stdout


@pytest.mark.parametrize(("number", "status"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGKILL, -9)])
def test_no_rank_outlives_the_command(home: Path, number: int, status: int) -> None:
    process = launch(home, "parallelism=zero1", "--", "small.py", "sleep")
    pids = [home / "job" / f"pid_{rank}" for rank in range(2)]
    wait_until(lambda: all(path.exists() and path.read_text() for path in pids))
    process.send_signal(number)
    assert ended(process)[0] == status
    scripts = [path.read_text() for path in pids]
    wait_until(
        lambda: (
            not any(Path(f"/proc/{pid}/cmdline").exists() and b"small.py" in Path(f"/proc/{pid}/cmdline").read_bytes() for pid in scripts)
        )
    )


def wait_until(probe: Any, timeout: float = 120) -> None:
    deadline = time.monotonic() + timeout
    while not probe():
        assert time.monotonic() < deadline, f"not within {timeout} s"
        time.sleep(0.1)
