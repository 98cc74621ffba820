"""The directory with a replay's answers, created atomically; ``answers.json`` is written last."""

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
    if_there="--overwrite replaces the answers of an earlier replay",
    if_other="does not hold the answers of a replay",
)


def check_out(out: Path, *, overwrite: bool) -> None:
    """Check that ``out`` may be created; only the answers of a replay may be overwritten.

    Raises UsageError if it may not.
    """
    check_folder(_KIND, out, overwrite=overwrite)


def result_folder(out: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Yield an empty directory that is renamed to ``out`` on success; see ``whole_folder``."""
    return whole_folder(_KIND, out, overwrite=overwrite)


def as_values(answers: Answers) -> dict[str, Any]:
    """Return the collected answers as the values of ``answers.json``."""
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
    """Write ``answers.json`` to ``folder``."""
    (folder / ANSWERS).write_bytes(msgspec.json.format(msgspec.json.encode(values)))


def write_tables(folder: Path, table: EventTable, answers: Answers) -> None:
    """Write each complete answer, with names for codes, and the damaged lines as Parquet.

    Every answer gets a directory of Parquet files in ``folder``.
    """
    table.damaged.write.option("compression", "zstd").parquet(str(folder / DAMAGED))
    for name, frame in answers.tables.items():
        words = table.in_words(frame, ANSWER_STATES)
        words.write.option("compression", "zstd").parquet(str(folder / name))
