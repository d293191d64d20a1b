"""zerocfg's side of overhead.py: train.py's main, its steps in turns."""

import hydra
from omegaconf import DictConfig


@hydra.main(version_base=None, config_path="../conf", config_name="zerocfg")
def main(cfg: DictConfig) -> float:
    from overhead_turns import example, taking_turns
    from torch.utils.data import DataLoader

    import zerocfg

    train_py = example()
    run = zerocfg.current_run()
    dims, train = run.plan.model, run.plan.train
    engine = run.initialize(run.build(train_py.GPT, dims, run.checkpoint))
    data = train_py.Windows(train_py.corpus(run), dims.sequence_length)
    sampler = train_py.GlobalBatches(len(data), run)
    loader = DataLoader(data, batch_sampler=sampler, num_workers=train.num_workers, pin_memory=train.pin_memory)
    for step in taking_turns("zerocfg", run.steps(loader), lambda: run.last_loss):
        for tokens, targets in step:
            loss = engine(tokens, targets)
            engine.backward(loss)
            engine.step()
            step.record(loss)
    return run.last_loss


if __name__ == "__main__":
    main()
