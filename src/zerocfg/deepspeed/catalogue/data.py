"""data_efficiency: curriculum learning, dynamic batching, random layerwise token dropping."""

from __future__ import annotations

from zerocfg.deepspeed.catalogue.entry import Entry, raw, section

D = "data_efficiency"
S = f"{D}.data_sampling"
C = f"{S}.curriculum_learning"
M = f"{C}.curriculum_metrics.*"
B = f"{S}.dynamic_batching"
R = f"{D}.data_routing"
L = f"{R}.random_ltd"
ON = (f"{D}.enabled",)
SAMPLING = (*ON, f"{S}.enabled")
CURRICULUM = (*SAMPLING, f"{C}.enabled")
BATCHING = (*SAMPLING, f"{B}.enabled")
LTD = (*ON, f"{R}.enabled", f"{L}.enabled")

ENTRIES: tuple[Entry, ...] = (
    section(D, "Data efficiency: which samples, in which order, through which layers."),
    raw(f"{D}.enabled", "bool", False, "Main switch."),
    raw(f"{D}.seed", "int", 1234, "Seed of the sampler.", needs=ON),
    section(S, "Choice of samples.", needs=ON),
    raw(f"{S}.enabled", "bool", False, "Let the engine make its sampler.", needs=ON),
    raw(f"{S}.num_epochs", "int", 1000, "Upper bound of epochs the sampler prepares.", gt=0, needs=SAMPLING),
    raw(f"{S}.num_workers", "int", 0, "Worker processes of the data loader.", ge=0, needs=SAMPLING),
    raw(f"{S}.pin_memory", "bool", False, "Page-lock batches.", needs=SAMPLING),
    section(C, "Easy samples first.", needs=SAMPLING),
    raw(f"{C}.enabled", "bool", False, "Switch the curriculum on; must be written when the section is there and on.", needs=SAMPLING),
    raw(f"{C}.data_cluster_path", "str", None, "Directory of the sample clusters.", needs=CURRICULUM),
    raw(f"{C}.curriculum_metrics", "section", None, "One entry a difficulty metric, names free.", needs=CURRICULUM),
    section(M, "One difficulty metric.", needs=CURRICULUM),
    raw(f"{M}.index_to_sample_path", "str", None, "File: difficulty to samples.", needs=CURRICULUM),
    raw(f"{M}.index_to_metric_path", "str", None, "File: difficulty values.", needs=CURRICULUM),
    raw(f"{M}.difficulty_type", "str", None, "value or percentile.", choices=("value", "percentile"), needs=CURRICULUM),
    raw(f"{M}.clustering_type", "str", None, "single_cluster or schedule_based.", needs=CURRICULUM),
    raw(f"{M}.min_difficulty", "float", None, "Difficulty at the start.", required=True, needs=CURRICULUM),
    raw(f"{M}.max_difficulty", "float", None, "Difficulty at the end.", required=True, needs=CURRICULUM),
    raw(
        f"{M}.schedule_type",
        "str",
        None,
        "How difficulty grows.",
        choices=("fixed_discrete", "fixed_root", "fixed_linear", "custom"),
        required=True,
        needs=CURRICULUM,
    ),
    section(f"{M}.schedule_config", "Numbers of that schedule.", needs=CURRICULUM),
    raw(f"{M}.schedule_config.difficulty", "list", None, "fixed_discrete: the difficulties.", needs=CURRICULUM),
    raw(f"{M}.schedule_config.max_step", "list", None, "fixed_discrete: last step of each but the last difficulty.", needs=CURRICULUM),
    raw(f"{M}.schedule_config.total_curriculum_step", "int", None, "Steps until the end.", gt=0, needs=CURRICULUM),
    raw(f"{M}.schedule_config.difficulty_step", "int", None, "Difficulty grows by this; a multiple of 8.", gt=0, needs=CURRICULUM),
    raw(f"{M}.schedule_config.root_degree", "int", None, "fixed_root: degree of the root.", gt=0, needs=CURRICULUM),
    section(B, "Batches of about equal tokens.", needs=SAMPLING),
    raw(f"{B}.enabled", "bool", False, "Switch it on.", needs=SAMPLING),
    raw(f"{B}.metrics_path", "str", None, "Directory with the sequence lengths.", needs=BATCHING),
    raw(
        f"{B}.lr_scaling_method",
        "str",
        "linear",
        "How the learning rate follows the batch.",
        choices=("linear", "sqrt", "none"),
        needs=BATCHING,
    ),
    raw(f"{B}.min_batch_size", "int", 1, "Fewest sequences.", gt=0, needs=BATCHING),
    raw(f"{B}.max_batch_size", "int", None, "Most sequences.", gt=0, needs=BATCHING),
    raw(
        f"{B}.sequence_picking_order",
        "str",
        "dataloader",
        "Order in which sequences are packed.",
        choices=("dataloader", "random", "seqlen"),
        needs=BATCHING,
    ),
    raw(f"{B}.max_tokens", "int", None, "Tokens of a batch; required when on.", gt=0, needs=BATCHING),
    raw(f"{B}.verbose", "bool", False, "Log the batches.", needs=BATCHING),
    section(R, "Routing of tokens through layers.", needs=ON),
    raw(f"{R}.enabled", "bool", False, "Main switch of routing.", needs=ON),
    section(L, "Random layerwise token dropping: middle layers see part of the tokens.", needs=(*ON, f"{R}.enabled")),
    raw(f"{L}.enabled", "bool", False, "Switch it on; must be written when the section is there and on.", needs=(*ON, f"{R}.enabled")),
    raw(f"{L}.total_layer_num", "int", None, "Layers of the model.", gt=0, needs=LTD),
    raw(f"{L}.random_ltd_layer_num", "int", None, "Layers that drop tokens.", gt=0, needs=LTD),
    raw(f"{L}.random_ltd_layer_id", "list", None, "Their numbers.", needs=LTD),
    raw(f"{L}.model_mask_name", "str|null", None, "Argument of forward with the attention mask.", needs=LTD),
    raw(f"{L}.model_type", "str", None, "encoder or decoder.", choices=("encoder", "decoder"), needs=LTD),
    raw(
        f"{L}.hidden_state_order",
        "str",
        None,
        "Order of the dimensions of hidden states.",
        choices=("batch_seq_dim", "seq_batch_dim"),
        needs=LTD,
    ),
    section(f"{L}.random_ltd_schedule", "How many tokens are kept over time.", needs=LTD),
    raw(f"{L}.random_ltd_schedule.min_value", "int", None, "Tokens kept at the start.", gt=0, needs=LTD),
    raw(f"{L}.random_ltd_schedule.max_value", "int", None, "Tokens kept at the end.", gt=0, needs=LTD),
    raw(f"{L}.random_ltd_schedule.schedule_type", "str", None, "Only fixed_linear.", choices=("fixed_linear",), needs=LTD),
    section(f"{L}.random_ltd_schedule.schedule_config", "Numbers of the schedule.", needs=LTD),
    raw(f"{L}.random_ltd_schedule.schedule_config.require_steps", "int", None, "Steps until the end.", gt=0, needs=LTD),
    raw(f"{L}.random_ltd_schedule.schedule_config.seq_per_step", "int", None, "Tokens grow by this.", gt=0, needs=LTD),
    section(f"{L}.layer_token_lr_schedule", "Learning rate by layer tokens; not implemented.", needs=LTD),
    raw(f"{L}.layer_token_lr_schedule.enabled", "bool", False, "true raises: not implemented.", needs=LTD),
    raw(f"{L}.layer_token_lr_schedule.total_layer_tokens", "int", None, "Never read: the schedule is not implemented.", status="dead"),
    raw(f"{L}.layer_token_lr_schedule.warmup_type", "str", None, "Never read: the schedule is not implemented.", status="dead"),
    raw(f"{L}.layer_token_lr_schedule.warmup_layer_tokens", "int", None, "Never read: the schedule is not implemented.", status="dead"),
)
