"""Values that are passed on but never written: to compiled/, logs, reports, scripts."""

from __future__ import annotations

import re
from collections.abc import Iterable

HIDDEN = "(not written: looks like a secret)"
ENVIRONMENTS = ("env", "hydra.launcher.environment", "hydra.job.env_set")
"""Config paths whose keys are names of an environment."""
_WORD = r"(TOKEN|KEY|SECRET|PASSWORD|PASSWD|CREDENTIAL)S?"
_SECRET = re.compile(rf"{_WORD}(_|$)", re.IGNORECASE)
_ASSIGNED = re.compile(rf"(?<![\w.$])(?P<name>\w*{_WORD}(_\w*)?)=(?P<value>[\"']?[^\s\"'$`;&|,)\]}}][^\s\"';&|,)\]}}]*)", re.IGNORECASE)
_ENTRY = re.compile(r"(?P<name>\w+)(?P<colon>\s*:\s*)(?P<value>'(?:[^'\\]|\\.)*'|\"(?:[^\"\\]|\\.)*\"|[^,}]*)")


def is_secret(name: str) -> bool:
    """Whether an environment name promises a secret: HF_TOKEN, AWS_SECRET_ACCESS_KEY, but not TOKENIZERS_PARALLELISM."""
    return _SECRET.search(name) is not None


def secret_path(path: str) -> bool:
    """Whether a config path is a secret's: env.HF_TOKEN. What is below it is its value too."""
    return any(path.startswith(f"{base}.") and is_secret(path.removeprefix(f"{base}.").partition(".")[0]) for base in ENVIRONMENTS)


def assigned_secrets(text: str) -> list[str]:
    """Names that look like secrets and get a value in a text that is written: `export HF_TOKEN=abc`, `--env=HF_TOKEN=abc`; not
    HF_TOKEN=$OTHER or HF_TOKEN="$(cat FILE)", which hold none."""
    return [found["name"] for found in _ASSIGNED.finditer(text)]


def hide_override(text: str) -> str:
    """An override as it may be shown: +env.HF_TOKEN=abc without its value; in +env={HF_TOKEN: abc, A: 1} that one without. Lines and
    options of the launcher and of a container without what they assign to such a name."""
    key, equals, value = text.partition("=")
    path = key.strip().lstrip("+~")
    if not equals:
        return text
    if secret_path(path):
        return f"{key}={HIDDEN}"
    if path in ENVIRONMENTS or path in ("hydra.launcher", "hydra.job"):
        value = _ENTRY.sub(_hide_entry, value)
    if path.startswith(("hydra.launcher", "container")):
        value = _ASSIGNED.sub(rf"\g<name>={HIDDEN}", value)
    return f"{key}={value}"


def _hide_entry(match: re.Match[str]) -> str:
    value = match["value"]
    if value.startswith("{") or not is_secret(match["name"]):
        # a mapping in a mapping: its own entries follow
        return match["name"] + match["colon"] + (_ENTRY.sub(_hide_entry, value) if value.startswith("{") else value)
    return f"{match['name']}{match['colon']}{HIDDEN}"


def hide_values(text: str, values: Iterable[str]) -> str:
    """Text in which none of these occurs. Values of fewer than four characters are left: they would be found in any text."""
    for value in sorted((v for v in values if len(v) >= 4), key=len, reverse=True):
        text = text.replace(value, HIDDEN)
    return text
