"""Writes the answers of a replay to a directory, which is created atomically.

``answers.json`` is written last.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, Final

import msgspec

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
    if_other="does not contain the answers of a replay",
)


def check_out(out: Path, *, overwrite: bool) -> None:
    """Raise UsageError if ``out`` exists, unless it has answers and ``overwrite`` is true."""
    check_folder(_KIND, out, overwrite=overwrite)


def result_folder(out: Path, *, overwrite: bool) -> AbstractContextManager[Path]:
    """Context manager that yields a new directory for answers, renamed to ``out`` on success."""
    return whole_folder(_KIND, out, overwrite=overwrite)


def as_values(answers: Answers) -> dict[str, Any]:
    """Return the content of ``answers.json``."""
    return {
        "violations": answers.violations,
        "counts": dict(answers.counts),
        "first_ms": answers.first_ms,
        "last_ms": answers.last_ms,
        "bucket_ms": answers.bucket_ms,
        "listings": {name: _listed(listing) for name, listing in answers.listings.items()},
        "damaged": {
            "kinds": answers.data_loss.kinds,
            **_listed(answers.data_loss.damaged),
        },
        "lost_transactions": _listed(answers.data_loss.lost),
    }


def _listed(listing: Listing) -> dict[str, Any]:
    return {"rows": listing.rows, "total": listing.total, "is_whole": listing.is_whole}


def write_answers(folder: Path, values: object) -> None:
    """Write ``answers.json`` to ``folder``."""
    (folder / ANSWERS).write_bytes(msgspec.json.format(msgspec.json.encode(values)))


def write_tables(folder: Path, table: EventTable, answers: Answers) -> None:
    """Write all rows of each answer, and the damaged lines, to Parquet files in subdirectories.

    Codes and hashes are replaced with strings.
    """
    engine = table.engine
    engine.write(f"SELECT * FROM {table.damaged}", folder / DAMAGED)
    for name, made in answers.tables.items():
        engine.write(table.in_words(made()), folder / name)
