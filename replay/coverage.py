"""Coverage of an event table: the number of events of each kind, and how complete each log is.

One SQL aggregation over the stored events yields a row for each kind of event in each controller
epoch and file. A second query runs only for epochs with missing or repeated sequence numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from itertools import pairwise
from typing import Final, NamedTuple

from klamm.replay.engines import Engine, Row, rows
from klamm.replay.event_schema import JOURNAL, KINDS, SOURCES, code_of
from klamm.replay.event_table import OutOfOrder, RunCoverage

_EPOCH: Final = "source, run, controller, epoch"
_JOURNAL: Final = code_of(JOURNAL, SOURCES)


class Coverage(NamedTuple):
    """Coverage of each kind of log; the keys of both fields are the kinds of logs.

    - ``kinds``: number of events of each kind, in the order of KINDS.
    - ``runs``: coverage of each run, which is a cluster, a log directory or a chroot.
    """

    kinds: dict[str, dict[str, int]]
    runs: dict[str, list[RunCoverage]]


class _Epoch(NamedTuple):
    """Statistics of a controller epoch: number of rows, times, and sequence numbers.

    ``first``, ``last``, ``sum`` and ``xor`` are the minimum, maximum, sum and exclusive or of the
    column ``seq``, which only journals have.
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
        """Number of rows that the epoch would have if no row before the last one were missing.

        Sequence numbers begin at 1, or at 0 if a row has number 0.
        """
        return self.last - min(self.first, 1) + 1

    @property
    def is_plain(self) -> bool:
        """Whether each sequence number occurs exactly once.

        Count, sum and xor are all checked, because a repeated number could hide a missing one.
        """
        return (
            self.rows == self.numbers
            and self.sum == (min(self.first, 1) + self.last) * self.numbers // 2
            and self.xor == _xor_up_to(self.last)
        )


class _LineRange(NamedTuple):
    """The lines of one controller epoch in one file, and their sequence numbers.

    - ``first_seq``, ``last_seq``: sequence numbers on the first and the last line.
    - ``least``, ``greatest``: lowest and highest sequence number.
    """

    first_line: int
    last_line: int
    first_seq: int
    last_seq: int
    least: int
    greatest: int


_Key = tuple[int, int, int, int]
_LineRanges = dict[int, dict[tuple[int, int], _LineRange]]
"""The line ranges of one run, keyed by file, then by (controller, epoch)."""


def coverage_of(engine: Engine, events: str, names: str) -> Coverage:
    """Count the events of a table, and find missing, repeated and reordered journal rows."""
    counted = rows(
        engine,
        f"""
SELECT {_EPOCH}, file, kind, count(*) AS rows, min(t_ms) AS first_ms, max(t_ms) AS last_ms,
  min(seq) AS first, max(seq) AS last, CAST(sum(seq) AS BIGINT) AS sum, bit_xor(seq) AS xor,
  min(line) AS first_line, max(line) AS last_line,
  arg_min(seq, line) AS first_seq, arg_max(seq, line) AS last_seq
FROM {events} GROUP BY {_EPOCH}, file, kind""",
    )
    epochs: dict[_Key, _Epoch] = {}
    for row in counted:
        key = (row["source"], row["run"], row["controller"], row["epoch"])
        epochs[key] = _together(epochs.get(key), _Epoch(*(row[name] for name in _Epoch._fields)))
    doubtful = [key for key, at in epochs.items() if key[0] == _JOURNAL and not at.is_plain]
    different = _different(engine, events, doubtful) if doubtful else {}
    runs = _runs(epochs, different, _line_ranges(counted), _words(engine, names))
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


def _line_ranges(counted: Iterable[Row]) -> dict[int, _LineRanges]:
    """Return the line ranges in each journal, by run.

    Other kinds of logs are skipped, because they may contain rows of an old epoch after rows of a
    newer one.
    """
    runs: dict[int, _LineRanges] = defaultdict(lambda: defaultdict(dict))
    for row in counted:
        if row["source"] == _JOURNAL and row["epoch"] > 0:
            found = runs[row["run"]][row["file"]]
            key = (row["controller"], row["epoch"])
            lines, seqs = (row["first_line"], row["last_line"]), (row["first_seq"], row["last_seq"])
            line_range = _LineRange(*lines, *seqs, row["first"], row["last"])
            found[key] = _joined(found[key], line_range) if key in found else line_range
    return runs


def _joined(one: _LineRange, other: _LineRange) -> _LineRange:
    begins, ends = min(one, other), max(one, other, key=lambda at: at.last_line)
    return _LineRange(
        *(begins.first_line, ends.last_line, begins.first_seq, ends.last_seq),
        *(min(one.least, other.least), max(one.greatest, other.greatest)),
    )


def _out_of_order(files: _LineRanges, words: Mapping[int, str]) -> OutOfOrder | None:
    """Return the first place where a file's rows are out of order; None if there is none.

    Epochs are checked first: if they are out of order, the rows of an epoch usually are, too.
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
        counts[row["source"], row["kind"]] += row["rows"]
    kinds: dict[str, dict[str, int]] = defaultdict(dict)
    for source, kind in sorted(counts):
        kinds[SOURCES[source - 1]][str(KINDS[kind - 1])] = counts[source, kind]
    return kinds


def _different(engine: Engine, events: str, doubtful: Iterable[_Key]) -> dict[_Key, int]:
    """Return the number of distinct sequence numbers in each epoch of ``doubtful``."""
    found = rows(
        engine,
        f"SELECT {_EPOCH}, count(DISTINCT seq) AS different FROM {events} "
        f"WHERE source = {_JOURNAL} GROUP BY {_EPOCH}",
    )
    asked = set(doubtful)
    return {
        key: at["different"]
        for at in found
        if (key := (at["source"], at["run"], at["controller"], at["epoch"])) in asked
    }


def _runs(
    epochs: Mapping[_Key, _Epoch],
    different: Mapping[_Key, int],
    line_ranges: Mapping[int, _LineRanges],
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
        # Rows that no controller wrote, in epoch 0, are not numbered.
        numbered = [key for key in keys if key[3] > 0]
        distinct = sum(different.get(key, epochs[key].rows) for key in numbered)
        missing = sum(epochs[key].numbers for key in numbered) - distinct
        repeated = sum(epochs[key].rows for key in numbered) - distinct
        is_counted = source == _JOURNAL
        runs[SOURCES[source - 1]].append(
            RunCoverage(
                run=words[run],
                rows=rows,
                first_epoch=min((number for number in numbers if number > 0), default=0),
                last_epoch=max(numbers),
                first_ms=min(at.first_ms for at in found),
                last_ms=max(at.last_ms for at in found),
                missing=missing if is_counted else None,
                repeated=repeated if is_counted else None,
                out_of_order=_out_of_order(line_ranges.get(run, {}), words) if is_counted else None,
            )
        )
    for covered in runs.values():
        covered.sort(key=lambda at: (at.first_ms, at.run))
    return runs


def _words(engine: Engine, names: str) -> dict[int, str]:
    """Return the names of all runs and files, keyed by hash.

    Loading all of them is cheap, because a table has few runs and files but many topics.
    """
    found = rows(engine, f"SELECT code, name FROM {names} WHERE domain IN ('run', 'file')")
    return {at["code"]: at["name"] for at in found}


def _xor_up_to(number: int) -> int:
    """Return 1 xor 2 xor ... xor number, using its period of four."""
    return (number, 1, number + 1, 0)[number & 3]
