"""Which klamm this is."""

from __future__ import annotations


def klamm_version() -> str:
    """The version that is installed; "unknown" if klamm is run from its sources alone."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("klamm")
    except PackageNotFoundError:
        return "unknown"
