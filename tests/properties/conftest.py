from __future__ import annotations

from hypothesis import HealthCheck, settings

# No deadline: a shared machine may stall any single example. Composing with Hydra makes examples slow, not wrong.
settings.register_profile("zerocfg", deadline=None, max_examples=150, suppress_health_check=[HealthCheck.too_slow], print_blob=True)
settings.load_profile("zerocfg")
