"""Names of the files that rotation leaves behind: ``journal.jsonl.00000000000016777216.gz``.

The number is how many bytes of the whole log, uncompressed, end with the file. So names sort by
age, and a place in the log stays the same number when the file that it lies in is rotated.
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
    """The name of the file that ends at byte ``end`` of a log, before it is compressed."""
    return f"{live}.{end:020d}"


def parse_rotated(name: str) -> RotatedName | None:
    """What a name says; None for one that rotation does not give."""
    found = _rotated(name)
    return None if found is None else RotatedName(int(found[2]), name, found[1], bool(found[3]))


def rotated_names(live: str, names: Iterable[str]) -> list[RotatedName]:
    """The rotated files of a log among the names of its directory, the oldest first.

    Of a file that is there both plain and compressed, which a crash may leave, the latter.
    """
    parsed = (parse_rotated(name) for name in names if name.startswith(live))
    found = sorted(one for one in parsed if one is not None and one.live == live)
    return list({one.end: one for one in found}.values())
