"""Resolve passes: each turns what was asked into one section of the Plan and says why. They never stop at a problem."""
