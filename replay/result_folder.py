"""The directory that a replay's answers are written to: whole, or not there.

``answers.json`` is written last and marks it. Knows files, not what the answers mean.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

from klamm.replay.encode import ANSWER_STATES
from klamm.replay.event_table import DAMAGED, EventTable
from klamm.replay.listings import Listing
from klamm.replay.run import Answers
from klamm.replay.whole_folder import FolderKind, check_folder, whole_folder

ANSWERS: Final = "answers.json"
PAGE: Final = "page.html"
_KIND: Final = FolderKind(
    mark=ANSWERS,
    maker="replay",
    if_there="--overwrite replaces a replay's answers",
    if_other="holds no answers of a replay",
)


def check_out(out: Path, *, overwrite: bool) -> None:
    """Raises UsageError if ``out`` is there and may not be overwritten: only a directory that a
    replay has made ever is."""
    check_folder(_KIND, out, overwrite=overwrite)


def result_folder(out: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """An empty directory that becomes ``out``; see ``whole_folder``."""
    return whole_folder(_KIND, out, overwrite=overwrite)


def as_values(answers: Answers) -> dict[str, Any]:
    """All that was collected, as JSON has it."""
    return {
        "violations": answers.violations,
        "counts": dict(answers.counts),
        "first_ms": answers.first_ms,
        "last_ms": answers.last_ms,
        "bucket_ms": answers.bucket_ms,
        "listings": {name: _listed(listing) for name, listing in answers.listings.items()},
        "damaged": {
            "kinds": answers.unread.kinds,
            **_listed(answers.unread.damaged),
        },
        "lost_transactions": _listed(answers.unread.lost),
    }


def _listed(listing: Listing) -> dict[str, Any]:
    return {"rows": listing.rows, "total": listing.total, "is_whole": listing.is_whole}


def write_answers(folder: Path, values: object) -> None:
    """``answers.json``."""
    (folder / ANSWERS).write_bytes(msgspec.json.format(msgspec.json.encode(values)))


def write_tables(folder: Path, table: EventTable, answers: Answers) -> None:
    """Every whole answer as Parquet in words, a directory each, and the lines that could not be
    read."""
    table.damaged.write.option("compression", "zstd").parquet(str(folder / DAMAGED))
    for name, frame in answers.tables.items():
        words = table.in_words(frame, ANSWER_STATES)
        words.write.option("compression", "zstd").parquet(str(folder / name))
