"""A small training that waits at a step until the test has done something to it: the app of test_requeue.py, copied to where it runs."""

import signal
import time

import hydra
import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

import zerocfg


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.a, self.dropout, self.b = nn.Linear(16, 64), nn.Dropout(0.1), nn.Linear(64, 64)
        self.c = nn.Linear(64, 1)

    def forward(self, x, y):
        return ((self.c(torch.relu(self.b(self.dropout(torch.relu(self.a(x)))))) - y) ** 2).mean()


def hold(run, step, cfg):
    """At step cfg.hold, or the first after it, of the first cfg.holds starts that get there: until a signal comes, or the test's word."""
    done = len(list(run.output_dir.glob(f"held_*_{run.rank}")))
    if done == cfg.holds or step < cfg.hold or step > max(cfg.hold, run.start_step + 1):
        return
    (run.output_dir / f"held_{done + 1}_{run.rank}").touch()
    go, deadline = run.output_dir / f"go_{done + 1}", time.monotonic() + 300
    while not go.exists() and time.monotonic() < deadline:
        listening = getattr(signal.getsignal(signal.SIGUSR2), "__self__", None)
        if listening is not None and listening.number:
            return
        time.sleep(0.02)


@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    with (run.output_dir / f"starts_{run.rank}").open("a") as file:
        file.write("x")
    engine = run.initialize(run.build(Model))
    x = torch.randn(50, 16, generator=torch.Generator().manual_seed(3))
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=run.plan.batch.micro_batch_size, shuffle=True, drop_last=True)
    for step in run.steps(loader):
        for inputs, targets in step:
            loss = engine(inputs, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
        hold(run, step.number, cfg)
    return run.last_loss


if __name__ == "__main__":
    main()
