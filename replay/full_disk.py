"""Turns errors about a full disk into an error message of one line."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from klamm.cluster.errors import EnvironmentProblem

_FULL: Final = re.compile(r"No space left on device|Disk quota exceeded|ENOSPC")


def is_full(text: str) -> bool:
    """Return whether an error message says that a disk is full."""
    return _FULL.search(text) is not None


def no_space(folder: Path | str) -> EnvironmentProblem:
    """Return the error for a disk that became full while klamm wrote to ``folder``."""
    return EnvironmentProblem(
        f"no space left on the disk while writing {folder}",
        hint="free some space there, or in the directory for temporary files (TMPDIR)",
    )


@contextmanager
def full_disk_errors(folder: Path) -> Iterator[None]:
    """Context manager that turns errors about a full disk into EnvironmentProblem.

    ``folder``, to which the body of the ``with`` statement writes, is named in the message.
    """
    try:
        yield
    except OSError as error:
        if is_full(str(error)):
            raise no_space(folder) from error
        raise
