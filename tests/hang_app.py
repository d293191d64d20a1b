"""A training in which rank 1 does not come to step 3, or dies before it: the app of both test_hang.py, here and under SLURM."""

APP = """
import os, signal, time
import hydra, torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset
import zerocfg

@hydra.main(version_base=None, config_path=".", config_name="config")
def main(cfg):
    run = zerocfg.current_run()
    engine = run.initialize(run.build(nn.Linear, 16, 1))
    x = torch.randn(50, 16)
    loader = DataLoader(TensorDataset(x, x.sum(1, keepdim=True)), batch_size=run.plan.batch.micro_batch_size, drop_last=True)
    for step in run.steps(loader):
        for inputs, targets in step:
            if step.number == 3 and run.rank == 1:
                time.sleep(2)  # the heartbeat is seen here
                if cfg.fault == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(1000)
            loss = ((engine(inputs) - targets) ** 2).mean()
            engine.backward(loss)
            engine.step()
            step.record(loss)

if __name__ == "__main__":
    main()
"""
SLEEPS = next(number for number, text in enumerate(APP.splitlines(), 1) if "sleep(1000)" in text)
"""Line of the app at which the rank hangs."""
