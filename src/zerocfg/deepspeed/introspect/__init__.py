"""Reads the installed DeepSpeed and makes the key table. The only module here that imports deepspeed, and only in functions.

    python -m zerocfg.deepspeed.introspect            what differs between the table and the installed release
    python -m zerocfg.deepspeed.introspect --write    make the table anew (`make deepspeed-keys`)

Names, types, defaults and limits of pydantic sections, defaults of raw sections, parameters of optimizers and schedulers,
and the lists of removed keys are asked of the release. Meaning is written by hand in `zerocfg.deepspeed.catalogue`; a key
that the release has and the catalogue lacks is a difference too.
"""
