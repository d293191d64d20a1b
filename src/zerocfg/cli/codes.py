"""Codes of the command line, one line each; docs/reference/diagnostics.md is made from them."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC180": "zerocfg explain: the key is neither emitted nor in the config.",
    "ZC181": "zerocfg compile --out: the folder cannot be written, or holds files that differ.",
    "ZC182": "zerocfg init: files would be overwritten, or the folder cannot be written.",
    "ZC183": "zerocfg consolidate: no such checkpoint, or no such dtype.",
    "ZC184": "zerocfg report: neither a run nor a sweep.",
    "ZC185": "zerocfg report: the page cannot be written.",
    "ZC930": "zerocfg import --model: neither an option of the group model nor a path.",
    "ZC931": "zerocfg import --write: the file would be overwritten, or cannot be written.",
    "ZC932": "zerocfg diff: neither a file nor a list of overrides.",
}
