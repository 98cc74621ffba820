"""Makes the kernel refuse what a file would take beyond a limit: the nearest thing to a full disk
that needs no disk of its own. Writes up to the limit are short, then fail with EFBIG."""

from __future__ import annotations

import resource
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def files_limited_to(size_bytes: int) -> Iterator[None]:
    """No file of this process grows beyond ``size_bytes`` inside the block."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size_bytes, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
