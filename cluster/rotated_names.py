"""Names of rotated log files, such as ``journal.jsonl.00000000000016777216.gz``.

The number in the name is the uncompressed length in bytes of the whole log up to the end of the
file. Therefore, sorting by name also sorts by age, and a position in the log remains valid when the
file is rotated.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

COMPRESSED: Final = ".gz"
UNFINISHED: Final = ".gz.tmp"
_rotated = re.compile(r"(.+)\.([0-9]{20})(\.gz)?").fullmatch


class RotatedName(NamedTuple):
    """Parsed name of a rotated file.

    - ``end``: position in the whole uncompressed log at which the rotated file ends, in bytes.
    - ``live``: name of the file to which lines are still appended, such as ``journal.jsonl``.
    """

    end: int
    name: str
    live: str
    is_compressed: bool


def rotated_name(live: str, end: int) -> str:
    """Return the name of the uncompressed rotated file that ends at byte ``end`` of the log."""
    return f"{live}.{end:020d}"


def parse_rotated(name: str) -> RotatedName | None:
    """Parse a file name. Return None if ``name`` is not the name of a rotated file."""
    found = _rotated(name)
    return None if found is None else RotatedName(int(found[2]), name, found[1], bool(found[3]))


def rotated_names(live: str, names: Iterable[str]) -> list[RotatedName]:
    """Return the files in ``names`` that were rotated from ``live``, oldest first.

    If a crash left both an uncompressed and a compressed file with the same content, only the
    compressed file is returned.
    """
    parsed = (parse_rotated(name) for name in names if name.startswith(live))
    found = sorted(one for one in parsed if one is not None and one.live == live)
    return list({one.end: one for one in found}.values())
