"""A small training whose ranks end themselves in the ways of a list, one a start: the app of test_survival.py, copied to where it runs."""

import os
import signal
from pathlib import Path

import hydra
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import zerocfg
from zerocfg.runtime import checkpoint_files, checkpoint_write


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.dropout, self.b = nn.Linear(16, 64), nn.Dropout(0.1), nn.Linear(64, 64)
        self.c = nn.Linear(64, 1)

    def forward(self, x, y):
        return ((self.c(torch.relu(self.b(self.dropout(torch.relu(self.a(x)))))) - y) ** 2).mean()


def kill(pid):
    os.kill(pid, signal.SIGKILL)
    signal.pause()


def arm(fault, run):
    """Faults inside a save: in the middle of a rank's file, between the new name and `latest`, while an old one is dropped."""
    if fault == "rank 1 in its file" and run.rank == 1:
        whole = checkpoint_write._write_file

        def half(path, fill):
            if "global_step20" in path:
                Path(path).write_bytes(b"half")
                kill(os.getpid())
            whole(path, fill)

        checkpoint_write._write_file = half
    if fault == "rank 0 before latest" and run.rank == 0:
        through = checkpoint_files.write_through

        def write(path, text):
            if path.name == f".{checkpoint_files.LATEST}" and text == "global_step25":
                kill(os.getpid())
            through(path, text)

        checkpoint_files.write_through = write
    if fault == "rank 0 while dropping" and run.rank == 0:
        drop = checkpoint_files.shutil.rmtree

        def remove(path, **options):
            if ".deleting-" in str(path) and Path(path).is_dir():
                next(Path(path).iterdir()).unlink()
                kill(os.getpid())
            drop(path, **options)

        checkpoint_files.shutil.rmtree = remove


@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    starts = run.output_dir / f"starts_{run.rank}"
    with starts.open("a") as file:
        file.write("x")
    attempt = starts.stat().st_size - 1
    fault = cfg.faults[attempt] if attempt < len(cfg.faults) else ""
    engine = run.initialize(run.build(Model))
    arm(fault, run)
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(50, 16, generator=generator)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=run.plan.batch.micro_batch_size, shuffle=True, drop_last=True)
    for step in run.steps(loader):
        for inputs, targets in step:
            loss = engine(inputs, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
        if fault == f"rank 1 at {step.number}" and run.rank == 1:
            kill(os.getpid())
        if fault == f"exception at {step.number}" and run.rank == 1:
            raise ValueError("rank 1 is unwell")
        if fault == f"agent at {step.number}" and run.rank == 0:
            kill(os.getppid())
    return run.last_loss


if __name__ == "__main__":
    main()
