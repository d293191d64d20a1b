"""A whole file with the Trainer's arguments, and the shape of what is told as JSON."""

from __future__ import annotations

from typing import Any

from zerocfg.deepspeed.importer import import_config

TEMPLATE: dict[str, Any] = {
    "fp16": {"enabled": "auto", "loss_scale": 0},
    "bf16": {"enabled": "auto"},
    "optimizer": {"type": "AdamW", "params": {"lr": "auto", "betas": "auto", "eps": "auto", "weight_decay": "auto"}},
    "scheduler": {"type": "WarmupLR", "params": {"warmup_min_lr": "auto", "warmup_max_lr": "auto", "warmup_num_steps": "auto"}},
    "zero_optimization": {
        "stage": 3,
        "offload_optimizer": {"device": "cpu", "pin_memory": True},
        "overlap_comm": True,
        "sub_group_size": 1e9,
        "reduce_bucket_size": "auto",
        "stage3_prefetch_bucket_size": "auto",
    },
    "gradient_accumulation_steps": "auto",
    "gradient_clipping": "auto",
    "steps_per_print": 2000,
    "train_batch_size": "auto",
    "train_micro_batch_size_per_gpu": "auto",
}
ARGUMENTS = "--per_device_train_batch_size 8 --bf16 --learning_rate 2e-5 --warmup_steps 100 --max_grad_norm 0.5 --num_gpus 8"


def test_a_whole_template_with_the_trainers_arguments() -> None:
    imported = import_config(TEMPLATE, arguments=ARGUMENTS.split(), model={"model": "llama2_7b"})
    assert imported.overrides == [
        "model=llama2_7b",
        "parallelism=zero3",
        "offload=optimizer",
        "precision=bf16",
        "activation_checkpointing=none",
        "optimizer=adamw",
        "scheduler=warmup_lr",
        "hardware.gpus_per_node=8",
        "batch.micro_batch_size=8",
        "batch.gradient_accumulation_steps=1",
        "parallelism.overlap_comm=true",
        # the model would decide these, but the file does not leave them to it
        "parallelism.stage3_param_persistence_threshold=100000",
        "parallelism.stage3_max_live_parameters=1000000000",
        "parallelism.stage3_max_reuse_distance=1000000000",
        "parallelism.sub_group_size=1000000000",
        # else the repeated block would become a leaf module
        "parallelism.leaf_module_classes=[]",
        "optimizer.lr=2e-05",
        "optimizer.betas=[0.9,0.999]",
        "optimizer.eps=1e-08",
        "optimizer.weight_decay=0.0",
        "optimizer.gradient_clipping=0.5",
        "scheduler.warmup_num_steps=100",
        "scheduler.warmup_max_lr=2e-05",
        "scheduler.warmup_type=log",
        "+deepspeed.steps_per_print=2000",
    ]
    assert imported.kept == {"steps_per_print": 2000}
    assert [(e.path, e.outcome, e.code, e.reason) for e in imported.entries] == [
        ("fp16.enabled", "migrated", "ZC904", "auto became false from --fp16, the Trainer's default; precision=bf16"),
        ("fp16.loss_scale", "refused", "ZC906", "no effect while fp16.enabled is off"),
        ("bf16.enabled", "migrated", "ZC904", "auto became true from --bf16; precision=bf16"),
        ("optimizer.type", "expressed", "", "optimizer=adamw"),
        ("optimizer.params.lr", "migrated", "ZC904", "auto became 2e-05 from --learning_rate; optimizer.lr"),
        (
            "optimizer.params.betas",
            "migrated",
            "ZC904",
            "auto became [0.9, 0.999] from --adam_beta1 and --adam_beta2, the Trainer's default; optimizer.betas",
        ),
        ("optimizer.params.eps", "migrated", "ZC904", "auto became 1e-08 from --adam_epsilon, the Trainer's default; optimizer.eps"),
        (
            "optimizer.params.weight_decay",
            "migrated",
            "ZC904",
            "auto became 0.0 from --weight_decay, the Trainer's default; optimizer.weight_decay",
        ),
        ("scheduler.type", "expressed", "", "scheduler=warmup_lr"),
        (
            "scheduler.params.warmup_min_lr",
            "migrated",
            "ZC904",
            "auto became 0 from the Trainer, which always takes 0; scheduler.warmup_min_lr",
        ),
        ("scheduler.params.warmup_max_lr", "migrated", "ZC904", "auto became 2e-05 from --learning_rate; scheduler.warmup_max_lr"),
        ("scheduler.params.warmup_num_steps", "migrated", "ZC904", "auto became 100 from --warmup_steps; scheduler.warmup_num_steps"),
        ("zero_optimization.stage", "expressed", "", "parallelism=zero3"),
        ("zero_optimization.offload_optimizer.device", "expressed", "", "offload=optimizer"),
        ("zero_optimization.offload_optimizer.pin_memory", "expressed", "", "offload.pin_memory"),
        ("zero_optimization.overlap_comm", "expressed", "", "parallelism.overlap_comm"),
        ("zero_optimization.sub_group_size", "expressed", "", "parallelism.sub_group_size"),
        ("zero_optimization.reduce_bucket_size", "migrated", "ZC904", "auto: hidden_size^2, by the model"),
        ("zero_optimization.stage3_prefetch_bucket_size", "migrated", "ZC904", "auto: 0.9 x hidden_size^2, by the model"),
        (
            "gradient_accumulation_steps",
            "migrated",
            "ZC904",
            "auto became 1 from --gradient_accumulation_steps, the Trainer's default; batch.gradient_accumulation_steps",
        ),
        ("gradient_clipping", "migrated", "ZC904", "auto became 0.5 from --max_grad_norm; optimizer.gradient_clipping"),
        ("steps_per_print", "kept", "", "no group says it; under deepspeed"),
        ("train_batch_size", "migrated", "ZC904", "auto: micro x accumulation x ranks"),
        (
            "train_micro_batch_size_per_gpu",
            "migrated",
            "ZC904",
            "auto became 8 from --per_device_train_batch_size; batch.micro_batch_size",
        ),
    ]
    assert imported.any_world_size
    assert imported.notes == ()


def test_the_shape_of_the_json() -> None:
    told = import_config({"train_batch_size": 4, "foo": {"a": [1]}, "steps_per_print": 5}).as_dict()
    assert list(told) == ["overrides", "kept", "entries", "world_sizes"]
    assert told["kept"] == {"steps_per_print": 5}
    assert told["world_sizes"] == [1, 2, 4]
    assert [list(entry) for entry in told["entries"]] == [["path", "outcome", "code", "reason", "value"]] * 3
    assert [entry["path"] for entry in told["entries"]] == ["train_batch_size", "foo.a", "steps_per_print"]
