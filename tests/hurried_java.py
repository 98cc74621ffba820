"""Lets the Java that tests start compile in a hurry: better code would not pay before it ends."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

import pytest

FIRST_COMPILER_ALONE = "-XX:TieredStopAtLevel=1"
HURRIED = {"JDK_JAVA_OPTIONS": FIRST_COMPILER_ALONE}
"""Variables for it. Java says on standard error that it reads them; of ZooKeeper's servers that is
in their logs."""


@contextlib.contextmanager
def hurried() -> Iterator[None]:
    """What is started meanwhile hurries."""
    with pytest.MonkeyPatch.context() as patch:
        for name, value in HURRIED.items():
            patch.setenv(name, value)
        yield
