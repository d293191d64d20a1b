"""The checks, one function each: (machine, needs) -> findings."""
