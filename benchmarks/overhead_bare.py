"""The bare side of overhead.py: the same model, data and JSON as one writes it without zerocfg. `torchrun overhead_bare.py FOLDER`."""

import json
import os
import sys
from pathlib import Path
from types import SimpleNamespace

import deepspeed
import torch
from overhead_turns import example, taking_turns
from torch.utils.data import DataLoader

folder, train_py = Path(sys.argv[1]), example()
config, plan = (json.loads((folder / f"{name}.json").read_text()) for name in ("ds_config", "plan"))
rank, local, cuda = int(os.environ["RANK"]), int(os.environ["LOCAL_RANK"]), torch.cuda.is_available()
device = torch.device("cuda", local) if cuda else torch.device("cpu")
dtype = {"fp32": torch.float32, "fp16": torch.float16, "bf16": torch.bfloat16}[plan["precision"]["dtype"]]
dims, batch, train = (SimpleNamespace(**plan[name]) for name in ("model", "batch", "train"))
if cuda:
    torch.cuda.set_device(device)
    torch.set_float32_matmul_precision("high" if plan["precision"]["tf32"] else "highest")
else:
    deepspeed.ops.__compatible_ops__["deepspeed_shm_comm"] = False  # it would be compiled for a minute
deepspeed.init_distributed(dist_backend=plan["topology"]["backend"], verbose=False)


def checkpoint(function, *args):
    if not plan["activation_checkpointing"]["enabled"]:
        return function(*args)
    tensors = [a for a in args if torch.is_tensor(a)]
    return deepspeed.checkpointing.checkpoint(lambda *given: function(*given, *args[len(given) :]), *tensors)


torch.manual_seed(train.seed)
torch.set_default_dtype(dtype)
if plan["zero"]["stage"] == 3:
    with deepspeed.zero.Init(config_dict_or_path=config):
        model = train_py.GPT(dims, checkpoint)
    if plan["zero"]["find_leaf_modules"]:
        deepspeed.utils.set_z3_leaf_modules(model, [train_py.Block])
else:
    with device:
        model = train_py.GPT(dims, checkpoint)
torch.set_default_dtype(torch.float32)
if plan["activation_checkpointing"]["enabled"]:
    deepspeed.checkpointing.configure(None, deepspeed_config=config)
engine, *_ = deepspeed.initialize(model=model, config=config, model_parameters=list(model.parameters()))

run = SimpleNamespace(plan=SimpleNamespace(batch=batch, train=train), data_parallel_rank=rank, output_dir=folder.parent)
data = train_py.Windows(train_py.corpus(run), dims.sequence_length)
sampler = train_py.GlobalBatches(len(data), run)
batches = iter(DataLoader(data, batch_sampler=sampler, num_workers=train.num_workers, pin_memory=train.pin_memory))
last = [float("nan")]
for number in taking_turns("bare", range(1, train.steps + 1), lambda: last[0]):
    for _ in range(batch.gradient_accumulation_steps):
        tokens, targets = (tensor.to(device, non_blocking=True) for tensor in next(batches))
        loss = engine(tokens, targets)
        engine.backward(loss)
        engine.step()
    if number % train.log_every == 0:
        mean = loss.detach().float()
        torch.distributed.all_reduce(mean)
        last[0] = mean.item() / torch.distributed.get_world_size()
        if rank == 0:
            print(f"step {number} loss {last[0]:.4f}", flush=True)
