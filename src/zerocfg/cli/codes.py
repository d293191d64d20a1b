"""Codes of the command line, one line each; docs/reference/diagnostics.md is made from them."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC180": "zerocfg explain: the key is neither emitted nor in the config.",
    "ZC181": "zerocfg compile --out: the folder cannot be written, or holds files that differ.",
    "ZC182": "zerocfg init: files would be overwritten, or the folder cannot be written.",
}
