"""`klamm drill run --twice`: repeats simulated drills in another process, and compares journals.

The same seed must give the same journal, byte for byte. The second process has another hash seed,
so that a dependence on the order of a set is found, too.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.errors import KlammError
from klamm.cluster.journal import JOURNAL_FILE
from klamm.interrupts import temporary_folder

_HASH_SEED: Final = "PYTHONHASHSEED"
_SHOWN_BYTES: Final = 300


class Repeated(msgspec.Struct, frozen=True):
    """Comparison of a drill's journal with the journal of its second run.

    ``row_count``: rows that both journals have from the beginning. ``first``, ``second``: the first
    row that differs, in both runs; empty if the journal has no more rows, None if they are equal.
    """

    row_count: int
    first: str | None = None
    second: str | None = None

    @property
    def is_same(self) -> bool:
        """True if both journals are the same, byte for byte."""
        return self.first is None

    def lines(self, drill: str) -> list[str]:
        """Return the comparison as lines of text."""
        if self.is_same:
            return [f"{drill}: both runs wrote the same journal, {self.row_count:,} rows"]
        return [
            f"{drill} is NOT DETERMINISTIC: row {self.row_count + 1:,} of the journal differs",
            f"  first run:  {self.first or 'no row'}",
            f"  second run: {self.second or 'no row'}",
        ]


def repeat(arguments: Sequence[str], journals: Path) -> list[Repeated]:
    """Run drills a second time, and compare their journals with those of the first run.

    - ``arguments``: the arguments of `klamm drill run` in the first run.
    - ``journals``: the directory in which the first run has a directory for each drill.

    Raises KlammError if the second run does not end with a verdict on every drill.
    """
    with temporary_folder("klamm-drill-") as folder:
        command = [sys.executable, "-m", "klamm", "drill", "run", *arguments, "--json"]
        done = subprocess.run(
            [*command, "--data-dir", str(folder)],
            env={**os.environ, _HASH_SEED: "2" if os.environ.get(_HASH_SEED) == "1" else "1"},
            capture_output=True,
            text=True,
            check=False,
        )
        # Directories are named NUMBER-DRILL, in the order of the runs.
        found = sorted(
            journals.glob(f"*/{JOURNAL_FILE}"), key=lambda path: int(path.parent.name.split("-")[0])
        )
        again = [folder / path.relative_to(journals) for path in found]
        if not all(path.exists() for path in again):
            last = done.stderr.splitlines()[-1:] or ["no error message"]
            raise KlammError(f"the second run failed with exit code {done.returncode}: {last[0]}")
        return [compare_journals(*paths) for paths in zip(found, again, strict=True)]


def compare_journals(first: Path, second: Path) -> Repeated:
    """Compare two journals."""
    count = 0
    with first.open("rb") as one, second.open("rb") as other:
        for row, wanted in itertools.zip_longest(one, other, fillvalue=b""):
            if row != wanted:
                return Repeated(count, _shown(row), _shown(wanted))
            count += 1
    return Repeated(count)


def _shown(row: bytes) -> str:
    return row[:_SHOWN_BYTES].decode(errors="replace").rstrip("\n")
