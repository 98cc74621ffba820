"""Expands recorded episodes of a small cluster to a large cluster.

Each recorded partition, topic and broker has many copies, and each row about it becomes a row for
every copy. Times, epochs, znode versions and sequence numbers continue where the previous episode
ended. Rows are processed as columns, because single rows would take too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from functools import cache
from typing import Final

import numpy as np

from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.cluster.types import NO_LEADER
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES, code_of
from klamm.replay.generate.layout import Layout
from klamm.replay.generate.rows import (
    COLUMNS,
    NO_BROKER,
    NULL,
    OR_NULL,
    REPEATED,
    TEXTS,
    Array,
    RowBlock,
    isr_column,
)
from klamm.statemachines.partition_state import PartitionState

START_MS: Final = 1_760_000_000_000
BLOCK_ROWS: Final = 250_000
PAUSE_MS: Final = 400_000
"""Time between two episodes. It exceeds FLAP_WINDOW_MS, so that no flapping is detected."""
_PLAIN: Final = ("controller", "replica", "key_seq", "event_id", "cause_id")
_COUNTED: Final = ("leader_epoch", "zk_version")
_NUMBER: Final = re.compile(r"\d+")
_FORMS: Final = (str, "Topic={0.topic},Partition={0.partition},".format)
"""How texts name a partition: alone, or with a replica."""


class Tile:
    """Recorded rows as columns. A Player can expand them any number of times.

    Times, controller epochs, leader epochs and znode versions are relative to the first row.
    """

    def __init__(
        self, rows: Sequence[JournalRow], layout: Layout, before: JournalRow | None = None
    ) -> None:
        """Convert recorded rows. ``before``: a row to which they are relative, not the first."""
        self.rows = rows
        before = before or rows[0]
        numbers: dict[str, int] = {}

        def number(text: str | None) -> int:
            return -1 if text is None else numbers.setdefault(text, len(numbers))

        known = {
            "t_ms": [row.t_ms - before.t_ms for row in rows],
            "epoch": [row.epoch - before.epoch for row in rows],
            "kind": [code_of(row.kind, KINDS) for row in rows],
            "from_state": [STATE_CODES.get(row.from_ or "", 0) for row in rows],
            "to_state": [STATE_CODES.get(row.to or "", 0) for row in rows],
            "since_ms": [row.since_ms - before.t_ms if row.since_ms else NULL for row in rows],
            "election": [code_of(row.election, ELECTIONS) if row.election else 0 for row in rows],
            **{name: [getattr(row, name) for row in rows] for name in _PLAIN},
            **{name: [_or_null(getattr(row, name)) for row in rows] for name in OR_NULL},
            "reassignment": [number(row.reassignment_id) for row in rows],
            "outcome": [number(row.outcome) for row in rows],
            "detail": [number(row.detail) for row in rows],
        }
        self.texts = list(numbers)
        self.columns: dict[str, Array] = {
            name: np.array(values, COLUMNS[name][0]) for name, values in known.items()
        }
        self.columns["isr"] = isr_column(row.isr or () for row in rows)
        self.columns["prev_isr"] = isr_column(row.prev_isr or () for row in rows)
        self.targets = [layout.targets(row) for row in rows]
        self.epochs = int(self.columns["epoch"].max()) + 1
        self._make_relative(before, layout)

    def _make_relative(self, before: JournalRow, layout: Layout) -> None:
        """Make leader epochs and znode versions relative to the first ones of each partition.

        If the rows create a partition, later rows about that partition (``is_reset``) keep absolute
        values. ``ends``: the last values of each partition.
        """
        begins = {layout.base_of(before): before}
        count = len(layout.assignments)
        self.was_created = np.zeros(count, bool)
        self.is_reset = np.zeros(len(self.rows), bool)
        self.ends = {name: np.zeros(count, np.int32) for name in _COUNTED}
        for n, row in enumerate(self.rows):
            base = layout.base_of(row)
            if row.from_ == PartitionState.NON_EXISTENT.value:
                self.was_created[base] = True
            if row.leader_epoch is None:
                continue
            begin = begins.setdefault(base, row)
            self.is_reset[n] = self.was_created[base]
            for name in _COUNTED:
                if not self.is_reset[n]:
                    self.columns[name][n] -= getattr(begin, name)
                if row.kind != Kind.ALTER_ISR_REFUSED:
                    self.ends[name][base] = self.columns[name][n]

    @property
    def count(self) -> int:
        """Number of rows of the expanded episode."""
        return sum(targets.shape[1] for targets in self.targets)


class Player:
    """Expands tiles (recorded episodes) one after another.

    Keeps the current time, controller epoch, controller and event id, and the leader epoch and
    znode version of each partition. The next tile continues from these values.
    """

    def __init__(self, layout: Layout) -> None:
        self.layout = layout
        self.t_ms = START_MS
        self.epoch = 0
        self.controller = 0
        self.run = -1
        """Number of the current run, -1 before the first one."""
        self.played: list[Tile] = []
        """The last two episodes, the newer one last."""
        self._began_ms = 0
        self._event_id = 0
        self._now = {name: np.zeros(layout.options.partitions, np.int32) for name in _COUNTED}
        self._seqs: dict[int, int] = {}
        """The last sequence numbers, keyed by ``epoch << 32 | controller``."""

    def start(self) -> RowBlock:
        """Begin the next run. Return the row with which it begins, as in klamm's journal."""
        self.run += 1
        detail = f'{{"brokers":{self.layout.options.brokers}}}'
        return self.insert([new_row(Kind.RUN_START, detail=detail)])

    def resign(self) -> RowBlock:
        """Return the row with which the current controller resigns."""
        return self.insert([new_row(Kind.CONTROLLER_RESIGNED, self.controller, event_id=1)])

    def play(self, tile: Tile) -> Iterator[RowBlock]:
        """Yield a tile's expanded rows in blocks, then advance the time, epochs and versions."""
        self.epoch += 1
        self._began_ms = self.t_ms
        self._seqs = {key: seq for key, seq in self._seqs.items() if key >> 32 >= self.epoch - 1}
        ends = np.cumsum([targets.shape[1] for targets in tile.targets])
        first = 0
        while first < len(ends):
            rows_before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, rows_before + BLOCK_ROWS, side="right"))
            last = max(last, first + 1)
            yield self._block(tile, slice(first, last))
            first = last
        self._end(tile, slice(None))
        self.t_ms += PAUSE_MS
        self.epoch += tile.epochs - 1
        self.controller = tile.rows[-1].controller
        self.played = [*self.played[-1:], tile]

    def insert(
        self,
        rows: Sequence[JournalRow],
        p: int = 0,
        before: JournalRow | None = None,
        **columns: Array,
    ) -> RowBlock:
        """Return some rows, which are not expanded, as a block, and advance the time and versions.

        - ``p``: the partition that the rows are about, a copy of the recorded one.
        - ``before``: as for a tile, from the current epoch.
        - ``columns``: values of more columns, such as ``fate``.
        """
        tile = Tile(rows, self.layout, before)
        tile.columns |= columns
        target = np.array([[p], [-1], [self.layout.group[p]]], np.int32)
        tile.targets = [
            target if row.topic else found for row, found in zip(rows, tile.targets, strict=True)
        ]
        block = self._block(tile, slice(0, len(rows)))
        self._end(tile, slice(p, p + 1))
        return block

    def _end(self, tile: Tile, partitions: slice) -> None:
        base = self.layout.base[partitions]
        for name, now in self._now.items():
            now[partitions] *= ~tile.was_created[base]
            now[partitions] += tile.ends[name][base]
        self.t_ms += int(tile.columns["t_ms"].max())
        self._event_id += int(tile.columns["event_id"].max())

    def _block(self, tile: Tile, some: slice) -> RowBlock:
        """Return the expanded rows of a part of a tile."""
        layout, targets = self.layout, tile.targets[some]
        p, topic, group = np.concatenate(targets, axis=1)
        copies = [found.shape[1] for found in targets]
        at = np.repeat(np.arange(some.start, some.stop), copies)
        columns: dict[str, Array] = {name: array[at] for name, array in tile.columns.items()}
        columns |= {"p": p, "topic": topic}
        if layout.groups > 1:
            _shift_brokers(columns, group * layout.brokers)
        for name, now in self._now.items():
            continues = (p >= 0) & ~tile.is_reset[at] & (columns[name] != NULL)
            columns[name][continues] += now[p[continues]]
        columns["t_ms"] += self.t_ms
        since_ms = columns["since_ms"]
        # A state at the beginning of inserted rows began with the failover before.
        began_ms = np.where(since_ms > 0, since_ms + self.t_ms, self._began_ms)
        columns["since_ms"] = np.where(since_ms == NULL, 0, began_ms)
        columns["epoch"] += self.epoch
        columns["epoch"][columns["controller"] < 0] = 0
        for name in ("event_id", "cause_id"):
            columns[name][columns[name] > 0] += self._event_id
        columns["seq"] = self._numbered(columns)
        texts = self._texts(tile, columns)
        return RowBlock.of(len(at), columns, texts)

    def _numbered(self, columns: dict[str, Array]) -> Array:
        """Return the sequence numbers of rows. A repeated row has that of the row before."""
        epochs, controllers = columns["epoch"], columns["controller"]
        counts = columns["fate"] < REPEATED if "fate" in columns else np.ones(len(epochs), bool)
        seqs = np.zeros(len(epochs), np.int64)
        keys = epochs.astype(np.int64) << 32 | controllers
        for key in np.unique(keys[controllers >= 0]).tolist():
            mask = keys == key
            seqs[mask] = self._seqs.get(key, 0) + np.cumsum(counts[mask])
            self._seqs[key] = int(seqs[mask][-1])
        return seqs

    def _texts(self, tile: Tile, columns: dict[str, Array]) -> list[str]:
        """Return the distinct strings in some rows, and store their indexes in ``columns``."""
        text = cache(self._text)
        numbers: dict[str, int] = {}
        p, topic = columns["p"].tolist(), columns["topic"].tolist()
        for name in TEXTS:
            for row in np.nonzero(columns[name] >= 0)[0].tolist():
                found = text(tile.texts[columns[name][row]], name, p[row], topic[row])
                columns[name][row] = numbers.setdefault(found, len(numbers))
        return list(numbers)

    def _text(self, words: str, column: str, p: int, topic: int) -> str:
        layout = self.layout
        if topic >= 0:
            first, end = layout.partitions_of(topic)
            return _NUMBER.sub(str(end - first), words)
        if p < 0:
            return words
        shift = int(layout.group[p]) * layout.brokers
        if column == "detail":
            return _shifted(words, shift)
        recorded, name = layout.recorded_name(int(layout.base[p])), layout.names[p]
        for form in _FORMS:
            before, found, after = words.partition(form(recorded))
            if found:
                return f"{before}{form(name)}{_shifted(after, shift)}"
        return words


def new_row(
    kind: Kind, controller: int = -1, *, detail: str | None = None, event_id: int = 0
) -> JournalRow:
    """Return a row that is not recorded."""
    place = (SCHEMA_VERSION, "", 0, 0, controller, 0)
    return JournalRow(*place, kind.value, detail=detail, event_id=event_id)


def _shifted(words: str, shift: int) -> str:
    if not shift:
        return words
    return _NUMBER.sub(lambda found: str(int(found[0]) + shift), words)


def _shift_brokers(columns: dict[str, Array], shift: Array) -> None:
    for name in ("replica", "leader", "prev_leader"):
        broker = columns[name] > NO_LEADER
        columns[name][broker] += shift[broker].astype(columns[name].dtype)
    for name in ("isr", "prev_isr"):
        isrs = columns[name]
        isrs += np.where(isrs == NO_BROKER, 0, shift[:, None]).astype(isrs.dtype)


def _or_null(number: int | None) -> int:
    return NULL if number is None else number
