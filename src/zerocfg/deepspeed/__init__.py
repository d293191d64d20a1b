"""What DeepSpeed reads: the key table, its checks, import of existing files. Pure: only `introspect` imports deepspeed."""
