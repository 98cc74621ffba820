"""Version of klamm."""

from __future__ import annotations


def klamm_version() -> str:
    """Return klamm's installed version, or "unknown" if klamm is not installed as a package."""
    from importlib.metadata import PackageNotFoundError, version  # slow to import

    try:
        return version("klamm")
    except PackageNotFoundError:
        return "unknown"
