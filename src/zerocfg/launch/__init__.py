"""From a composed config to ranks that run: checks before the start, job folders, submitit, torchrun, what comes back."""
