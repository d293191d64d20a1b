"""What this machine reaches, measured once: the numbers that the planner prefers to the data sheet. IO: runs kernels and files."""
