"""Names of rotated log files, such as ``journal.jsonl.00000000000016777216.gz``.

The number is the uncompressed length of the whole log up to the end of the file. So names sort by
age, and a position in the log stays valid when its file is rotated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".gz.tmp"
_rotated = re.compile(r"(.+)\.([0-9]{20})(\.gz)?").fullmatch


class RotatedName(NamedTuple):
    """A rotated file of the log ``live``, which ends at byte ``end`` of the whole log."""

    end: int
    name: str
    live: str
    is_compressed: bool


def rotated_name(live: str, end: int) -> str:
    """Return the name of the uncompressed file that ends at byte ``end`` of a log."""
    return f"{live}.{end:020d}"


def parse_rotated(name: str) -> RotatedName | None:
    """Parse a name; None if it is not the name of a rotated file."""
    found = _rotated(name)
    return None if found is None else RotatedName(int(found[2]), name, found[1], bool(found[3]))


def rotated_names(live: str, names: Iterable[str]) -> list[RotatedName]:
    """Return the rotated files of a log among the names of its directory, oldest first.

    If a crash left a file both plain and compressed, only the compressed one is returned.
    """
    parsed = (parse_rotated(name) for name in names if name.startswith(live))
    found = sorted(one for one in parsed if one is not None and one.live == live)
    return list({one.end: one for one in found}.values())
