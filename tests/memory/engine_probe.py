"""Run by torchrun: trains train.py's GPT under DeepSpeed on CPU and writes what was live in each phase.

Arguments: a JSON file with a list of cases (lists of overrides), and the file that rank 0 writes: for each case a list,
by rank, of {init, forward, backward, step, resident} in bytes.
"""

import gc
import importlib.util
import json
import logging
import os
import sys
import time
from pathlib import Path

import torch

from zerocfg.compiler import compile_run
from zerocfg.compose import compose
from zerocfg.launch.ending import leave
from zerocfg.profile.live import live_bytes

ROOT = Path(__file__).parents[2]
STEPS = 2


class OptimizerWithoutBuild:
    """Stands for DeepSpeed's kernels: in place, no temporaries, nothing to compile."""

    def load(self):
        return self

    @staticmethod
    def multi_tensor_adam(chunk, flag, lists, *rest):
        gradients, parameters, *_ = lists
        for gradient, parameter in zip(gradients, parameters, strict=True):
            parameter.data.add_(gradient, alpha=-1e-12)

    multi_tensor_lion = multi_tensor_adam

    def __getattr__(self, name):
        """create_adam, adam_update, destroy_adam of the CPU optimizers."""
        return lambda *args, **kwargs: None


def main(cases_file, out_file):
    import deepspeed
    from deepspeed.ops.adam import cpu_adam, fused_adam
    from deepspeed.ops.lion import fused_lion

    fused_adam.FusedAdamBuilder = fused_lion.FusedLionBuilder = cpu_adam.CPUAdamBuilder = OptimizerWithoutBuild
    logging.disable(logging.WARNING)
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False
    deepspeed.init_distributed(dist_backend="gloo", verbose=False)
    found = []
    for case in json.loads(Path(cases_file).read_text()):
        own = measure(compile_run(compose(case, config_path=str(ROOT / "conf"), config_name="zerocfg").container))
        everyone = [None] * torch.distributed.get_world_size()
        torch.distributed.all_gather_object(everyone, own)
        found.append(everyone)
        gc.collect()
    if torch.distributed.get_rank() == 0:
        Path(out_file).write_text(json.dumps(found))


LINEAR = torch.nn.functional.linear


def measure(run):
    import deepspeed

    example = example_module()
    plan = run.plan
    dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[plan.precision.dtype]
    config = {**run.deepspeed, "steps_per_print": 10**9}

    def checkpoint(function, *args):
        return deepspeed.checkpointing.checkpoint(function, *args) if plan.activation_checkpointing.enabled else function(*args)

    # zero.Init puts DeepSpeed's own in its place and leaves it there
    torch.nn.functional.linear = LINEAR
    live, phases = live_bytes(), {}

    def mark(phase):
        phases[phase] = max(phases.get(phase, 0), live.peak)
        # gloo's threads let go of a tensor a little after the collective is over
        torch.distributed.barrier()
        time.sleep(0.05)
        live.restart()

    if plan.zero.stage == 3:
        # zero.Init wraps torch's constructors, which do not work under a dispatch mode
        with deepspeed.zero.Init(config_dict_or_path=config, dtype=dtype):
            model = example.GPT(plan.model, checkpoint)
        live.count(t for p in model.parameters() for t in (p, p.ds_tensor))
    else:
        torch.set_default_dtype(dtype)
        model = example.GPT(plan.model, checkpoint)
        torch.set_default_dtype(torch.float32)
        live.count(model.parameters())
    if plan.zero.find_leaf_modules:
        deepspeed.utils.set_z3_leaf_modules(model, [example.Block])
    if plan.activation_checkpointing.enabled:
        deepspeed.checkpointing.configure(None, deepspeed_config=config)
    with live:
        engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=[p for p in model.parameters() if p.requires_grad])
        mark("init")
        shape = (plan.batch.micro_batch_size, plan.model.sequence_length)
        for step in range(STEPS):
            for _ in range(plan.batch.gradient_accumulation_steps):
                tokens, targets = torch.randint(plan.model.vocab_size, shape), torch.randint(plan.model.vocab_size, shape)
                loss = engine(tokens, targets)
                mark("forward")
                engine.backward(loss)
                mark("backward")
                engine.step()
                mark("step")
                del tokens, targets, loss
            if step == 0:
                # moments are made in the first step, modules are prefetched from the second on
                phases = {"init": phases["init"]}
        phases["resident"] = live.now
    engine.destroy()
    return phases


def example_module():
    spec = importlib.util.spec_from_file_location("train_example", ROOT / "train.py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


if __name__ == "__main__":
    os.environ.setdefault("DS_ACCELERATOR", "cpu")
    main(*sys.argv[1:])
    leave(0)
