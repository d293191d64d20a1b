"""What people wrote down about DeepSpeed's keys: meaning, where a key has an effect, what a dead key is replaced by.

Only `zerocfg.deepspeed.introspect` imports this; every other module reads the table made from it.
"""

from __future__ import annotations

from zerocfg.deepspeed.catalogue import data, observe, parallel, services, training, zero
from zerocfg.deepspeed.catalogue.entry import Entry

ENTRIES: tuple[Entry, ...] = (
    *training.ENTRIES,
    *zero.ENTRIES,
    *services.ENTRIES,
    *parallel.ENTRIES,
    *data.ENTRIES,
    *observe.ENTRIES,
)
