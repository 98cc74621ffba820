"""Coverage of an event table: number of events by kind, and completeness of each run.

One integer aggregation over the stored events, with a row for each kind in each epoch and file. A
second query runs only for epochs with missing or repeated sequence numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow.dataset as ds
from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from klamm.replay.event_schema import JOURNAL, KINDS, SOURCES, code_of
from klamm.replay.event_table import OutOfOrder, RunCoverage

_EPOCH: Final = ("source", "run", "controller", "epoch")
_JOURNAL: Final = code_of(JOURNAL, SOURCES)


class Coverage(NamedTuple):
    """By source: the number of events of each kind, in the order of KINDS, and the runs."""

    kinds: dict[str, dict[str, int]]
    runs: dict[str, list[RunCoverage]]


class _Epoch(NamedTuple):
    """One controller's epoch in a source and run.

    ``first``, ``last``, ``sum`` and ``xor`` are those of ``seq``; meaningful only in journals.
    """

    rows: int
    first_ms: int
    last_ms: int
    first: int
    last: int
    sum: int
    xor: int

    @property
    def numbers(self) -> int:
        """Number of sequence numbers from the first to the last."""
        return self.last - self.first + 1

    @property
    def is_plain(self) -> bool:
        """Whether each sequence number occurs exactly once.

        Count, sum and xor together exclude a repeated number that makes up for a missing one.
        """
        return (
            self.rows == self.numbers
            and self.sum == (self.first + self.last) * self.numbers // 2
            and self.xor == _xor_up_to(self.last) ^ _xor_up_to(self.first - 1)
        )


class _Stretch(NamedTuple):
    """The rows of a controller's epoch in one file.

    The first and last line, the sequence numbers on these lines, and the least and greatest
    sequence number.
    """

    first_line: int
    last_line: int
    first_seq: int
    last_seq: int
    least: int
    greatest: int


_Key = tuple[int, int, int, int]
_Stretches = dict[int, dict[tuple[int, int], _Stretch]]
"""The stretches of a run, by file, then by controller and epoch."""


def coverage_of(events: DataFrame, names: Path) -> Coverage:
    """Return what the events of a table cover; ``names`` is the directory of the names."""
    counted = (
        events.groupBy(*_EPOCH, "file", "kind")
        .agg(
            F.count("*").alias("rows"),
            F.min("t_ms").alias("first_ms"),
            F.max("t_ms").alias("last_ms"),
            F.min("seq").alias("first"),
            F.max("seq").alias("last"),
            F.sum("seq").alias("sum"),
            F.bit_xor("seq").alias("xor"),
            F.min("line").alias("first_line"),
            F.max("line").alias("last_line"),
            F.min_by("seq", "line").alias("first_seq"),
            F.max_by("seq", "line").alias("last_seq"),
        )
        .collect()
    )
    epochs: dict[_Key, _Epoch] = {}
    for row in counted:
        key = (row.source, row.run, row.controller, row.epoch)
        epochs[key] = _together(epochs.get(key), _Epoch(*(row[name] for name in _Epoch._fields)))
    doubtful = [key for key, at in epochs.items() if key[0] == _JOURNAL and not at.is_plain]
    different = _different(events, doubtful) if doubtful else {}
    runs = _runs(epochs, different, _stretches(counted), _words(names))
    return Coverage(_kinds(counted), runs)


def _together(one: _Epoch | None, other: _Epoch) -> _Epoch:
    if one is None:
        return other
    return _Epoch(
        one.rows + other.rows,
        min(one.first_ms, other.first_ms),
        max(one.last_ms, other.last_ms),
        min(one.first, other.first),
        max(one.last, other.last),
        one.sum + other.sum,
        one.xor ^ other.xor,
    )


def _stretches(counted: Iterable[Row]) -> dict[int, _Stretches]:
    """Return the stretches by run; journals only: other logs may have rows of old epochs late."""
    runs: dict[int, _Stretches] = defaultdict(lambda: defaultdict(dict))
    for row in counted:
        if row.source == _JOURNAL and row.epoch > 0:
            found = runs[row.run][row.file]
            key = (row.controller, row.epoch)
            lines, seqs = (row.first_line, row.last_line), (row.first_seq, row.last_seq)
            stretch = _Stretch(*lines, *seqs, row.first, row.last)
            found[key] = _joined(found[key], stretch) if key in found else stretch
    return runs


def _joined(one: _Stretch, other: _Stretch) -> _Stretch:
    begins, ends = min(one, other), max(one, other, key=lambda at: at.last_line)
    return _Stretch(
        *(begins.first_line, ends.last_line, begins.first_seq, ends.last_seq),
        *(min(one.least, other.least), max(one.greatest, other.greatest)),
    )


def _out_of_order(files: _Stretches, words: Mapping[int, str]) -> OutOfOrder | None:
    """Return the first place in the first file that is out of order; None if all are in order.

    Order between epochs is checked before order inside an epoch, which would only be a consequence.
    """
    for file in sorted(files, key=words.__getitem__):
        found = sorted((at, epoch) for (_, epoch), at in files[file].items())
        for (_, newest), (at, epoch) in pairwise(found):
            if epoch < newest:
                return OutOfOrder(words[file], at.first_line, epoch, newest)
        for at, epoch in found:
            if (at.first_seq, at.last_seq) != (at.least, at.greatest):
                return OutOfOrder(words[file], at.first_line, epoch, epoch)
    return None


def _kinds(counted: Iterable[Row]) -> dict[str, dict[str, int]]:
    counts: dict[tuple[int, int], int] = defaultdict(int)
    for row in counted:
        counts[row.source, row.kind] += row.rows
    kinds: dict[str, dict[str, int]] = defaultdict(dict)
    for source, kind in sorted(counts):
        kinds[SOURCES[source - 1]][str(KINDS[kind - 1])] = counts[source, kind]
    return kinds


def _different(events: DataFrame, doubtful: Iterable[_Key]) -> dict[_Key, int]:
    """Return the number of distinct sequence numbers of each given epoch."""
    spark = events.sparkSession
    asked = spark.createDataFrame(list(doubtful), events.select(*_EPOCH).schema)
    found = (
        events.join(F.broadcast(asked), list(_EPOCH), "left_semi")
        .groupBy(*_EPOCH)
        .agg(F.count_distinct("seq").alias("different"))
        .collect()
    )
    return {(row.source, row.run, row.controller, row.epoch): row.different for row in found}


def _runs(
    epochs: Mapping[_Key, _Epoch],
    different: Mapping[_Key, int],
    stretches: Mapping[int, _Stretches],
    words: Mapping[int, str],
) -> dict[str, list[RunCoverage]]:
    grouped: dict[tuple[int, int], list[_Key]] = defaultdict(list)
    for key in epochs:
        grouped[key[:2]].append(key)
    runs: dict[str, list[RunCoverage]] = defaultdict(list)
    for (source, run), keys in sorted(grouped.items()):
        found = [epochs[key] for key in keys]
        numbers = [key[3] for key in keys]
        rows = sum(at.rows for at in found)
        distinct = [different.get(key, epochs[key].rows) for key in keys]
        is_counted = source == _JOURNAL
        runs[SOURCES[source - 1]].append(
            RunCoverage(
                run=words[run],
                rows=rows,
                first_epoch=min((number for number in numbers if number > 0), default=0),
                last_epoch=max(numbers),
                first_ms=min(at.first_ms for at in found),
                last_ms=max(at.last_ms for at in found),
                missing=sum(at.numbers for at in found) - sum(distinct) if is_counted else None,
                repeated=rows - sum(distinct) if is_counted else None,
                out_of_order=_out_of_order(stretches.get(run, {}), words) if is_counted else None,
            )
        )
    for covered in runs.values():
        covered.sort(key=lambda at: (at.first_ms, at.run))
    return runs


def _words(names: Path) -> dict[int, str]:
    """Return the names of runs and files by hash; there are few of them."""
    table = ds.dataset(names, format="parquet").to_table(
        columns=["code", "name"], filter=ds.field("domain").isin(["run", "file"])
    )
    return dict(zip(*table.to_pydict().values(), strict=True))


def _xor_up_to(number: int) -> int:
    """Return 1 xor 2 xor ... xor number, which depends only on the number and its last two bits."""
    return (number, 1, number + 1, 0)[number & 3]
