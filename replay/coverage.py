"""Coverage of an event table: the number of events of each kind, and how complete each log is.

One SQL aggregation over the stored events yields a row for each kind of event in each controller
epoch and file, of which the others make sums. A query of its own runs for epochs with missing or
repeated sequence numbers.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Final, NamedTuple

from klamm.replay.engines import Engine, Row, rows
from klamm.replay.event_schema import JOURNAL, KINDS, SOURCES, code_of
from klamm.replay.event_table import OutOfOrder, RunCoverage
from klamm.replay.questions.columns import EPOCH, total

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

    ``first``, ``last``, ``sum`` and ``seq_xor``: minimum, maximum, sum and exclusive or of the
    column ``seq``, which only journals have.
    """

    rows: int
    first_ms: int
    last_ms: int
    first: int
    last: int
    sum: int
    seq_xor: int

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
            and self.seq_xor == _xor_up_to(self.last)
        )


_Key = tuple[int, int, int, int]


def coverage_of(engine: Engine, events: str, names: str) -> Coverage:
    """Count the events of a table, and find missing, repeated and reordered journal rows."""
    counted = engine.keep(
        f"""
SELECT {EPOCH}, file, kind, count(*) AS rows, min(t_ms) AS first_ms, max(t_ms) AS last_ms,
  min(seq) AS first, max(seq) AS last, CAST(sum(seq) AS BIGINT) AS sum, bit_xor(seq) AS seq_xor,
  min(line) AS first_line, max(line) AS last_line,
  arg_min(seq, line) AS first_seq, arg_max(seq, line) AS last_seq
FROM {events} GROUP BY {EPOCH}, file, kind""",
        "counted",
    )
    kinds = rows(
        engine, f"SELECT source, kind, {total('rows')} AS rows FROM {counted} GROUP BY source, kind"
    )
    of_epochs = rows(
        engine,
        f"""
SELECT {EPOCH}, {total("rows")} AS rows, min(first_ms) AS first_ms, max(last_ms) AS last_ms,
  min(first) AS first, max(last) AS last, {total("sum")} AS sum, bit_xor(seq_xor) AS seq_xor
FROM {counted} GROUP BY {EPOCH}""",
    )
    # Logs of other kinds may contain rows of an old epoch after rows of a newer one.
    in_files = rows(
        engine,
        f"""
SELECT run, file, epoch, min(first_line) AS line,
  arg_min(first_seq, first_line) = min(first) AND arg_max(last_seq, last_line) = max(last)
    AS is_in_order
FROM {counted} WHERE source = {_JOURNAL} AND epoch > 0 GROUP BY run, file, controller, epoch""",
    )
    engine.drop([counted])
    epochs = {_key(at): _Epoch(*(at[name] for name in _Epoch._fields)) for at in of_epochs}
    different: dict[_Key, int] = {}
    if any(key[0] == _JOURNAL and not at.is_plain for key, at in epochs.items()):
        distinct = f"SELECT {EPOCH}, count(DISTINCT seq) AS different FROM {events}"
        distinct += f" WHERE source = {_JOURNAL} GROUP BY {EPOCH}"
        different = {_key(at): at["different"] for at in rows(engine, distinct)}
    runs = _runs(epochs, different, in_files, _words(engine, names))
    return Coverage(_kinds(kinds), runs)


def _key(row: Row) -> _Key:
    return row["source"], row["run"], row["controller"], row["epoch"]


def _out_of_order(epochs: Iterable[Row], words: Mapping[int, str]) -> OutOfOrder | None:
    """Return the first place where rows of a run's journals are out of order, or None.

    ``epochs``: the epochs in each file. They are checked first: if they are out of order, the rows
    of an epoch usually are, too.
    """
    in_order = sorted(epochs, key=lambda at: (words[at["file"]], at["line"]))
    for file, of_file in groupby(in_order, lambda at: words[at["file"]]):
        found = list(of_file)
        for before, at in pairwise(found):
            if at["epoch"] < before["epoch"]:
                return OutOfOrder(file, at["line"], at["epoch"], before["epoch"])
        for at in found:
            if not at["is_in_order"]:
                return OutOfOrder(file, at["line"], at["epoch"], at["epoch"])
    return None


def _kinds(counted: Iterable[Row]) -> dict[str, dict[str, int]]:
    kinds: dict[str, dict[str, int]] = defaultdict(dict)
    for row in sorted(counted, key=itemgetter("source", "kind")):
        kinds[SOURCES[row["source"] - 1]][str(KINDS[row["kind"] - 1])] = row["rows"]
    return kinds


def _runs(
    epochs: Mapping[_Key, _Epoch],
    different: Mapping[_Key, int],
    in_files: Sequence[Row],
    words: Mapping[int, str],
) -> dict[str, list[RunCoverage]]:
    """Return the coverage of each run. ``different``: numbers of distinct sequence numbers."""
    grouped: dict[tuple[int, int], list[_Key]] = defaultdict(list)
    for key in epochs:
        grouped[key[:2]].append(key)
    runs: dict[str, list[RunCoverage]] = defaultdict(list)
    for (source, run), keys in grouped.items():
        found = [epochs[key] for key in keys]
        numbers = [key[3] for key in keys]
        rows = sum(at.rows for at in found)
        # Rows that no controller wrote, in epoch 0, are not numbered.
        numbered = [key for key in keys if key[3] > 0]
        distinct = sum(different.get(key, epochs[key].rows) for key in numbered)
        missing = sum(epochs[key].numbers for key in numbered) - distinct
        repeated = sum(epochs[key].rows for key in numbered) - distinct
        is_counted = source == _JOURNAL
        of_run = [at for at in in_files if at["run"] == run]
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
                out_of_order=_out_of_order(of_run, words) if is_counted else None,
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
