"""What every writer of a history does: takes blocks, and tells where the planted rows stand.

One file a format beside this one; which rows there are is not decided here.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Protocol

from replay.generate.planting import Anomaly
from replay.generate.rows import Block


class Writer(Protocol):
    """Writes a history in one format. Raises OSError when the disk refuses."""

    def write(self, block: Block) -> None:
        """The next rows."""
        ...

    def close(self) -> None:
        """There are no more rows. Idempotent."""
        ...


class Places:
    """Where planted rows were written, relative to a directory."""

    def __init__(self, folder: Path, found: Sequence[Anomaly]) -> None:
        self.folder = folder
        self._found = found

    def tell(self, mark: int, file: Path, line: int) -> None:
        """A row with this mark stands there."""
        self._found[mark].places.append((str(file.relative_to(self.folder)), line))
