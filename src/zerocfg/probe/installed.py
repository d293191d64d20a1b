"""Versions of installed packages, without importing them."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def installed(name: str) -> str:
    """The version of an installed distribution; empty when it is not installed."""
    try:
        return version(name)
    except PackageNotFoundError:
        return ""
