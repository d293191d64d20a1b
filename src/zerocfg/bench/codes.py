"""One line a diagnostic code of `zerocfg bench`."""

from __future__ import annotations

CODES: dict[str, str] = {
    "ZC871": "zerocfg bench comm: a backend, a size or a collective that is none.",
    "ZC872": "zerocfg bench comm: several nodes, or a backend that this hardware does not have.",
    "ZC873": "zerocfg bench comm: the ranks failed.",
    "ZC874": "A collective is slower than the link allows.",
    "ZC875": "zerocfg bench comm: the curve cannot be written.",
}
