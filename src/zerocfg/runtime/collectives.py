"""Time in collectives, out of DeepSpeed's comms logger."""

from __future__ import annotations


class Collectives:
    """Reads what the logger has added up. on: the compiled JSON switches it on (train.profile=comms).

    The logger makes each collective of DeepSpeed blocking on cuda, so that nothing overlaps it: the time is what the collectives take
    by themselves, and steps are slower by what would have been hidden. On cpu asynchronous collectives count until they are begun.
    """

    def __init__(self, *, on: bool) -> None:
        self._on = on

    def take(self) -> dict[str, float]:
        """{"communication": seconds of this rank since the last call}; empty when off."""
        if not self._on:
            return {}
        from deepspeed.comm import comm

        # the logger's own list holds running totals in DeepSpeed 0.19, and its timers keep every interval until they are reset
        seconds = sum(timer.elapsed(reset=True) for timer in comm.timers.get_timers().values()) / 1e3
        comm.comms_logger.reset_data()
        return {"communication": seconds}
