"""Which klamm this is."""

from __future__ import annotations

from importlib.metadata import PackageNotFoundError, version


def klamm_version() -> str:
    """The version that is installed; "unknown" if klamm is run from its sources alone."""
    try:
        return version("klamm")
    except PackageNotFoundError:
        return "unknown"
