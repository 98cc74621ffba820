"""Expands recorded episodes of a small cluster to a large cluster.

Each recorded partition, topic and broker has many copies, and each row about it becomes a row for
every copy. Times, epochs, znode versions and sequence numbers continue where the previous episode
ended. Rows are processed as columns, because single rows would take too long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import cached_property
from typing import Any, Final

import numpy as np

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import NO_LEADER, TopicPartition
from klamm.replay.event_schema import ELECTIONS, KINDS, STATE_CODES, code_of
from klamm.replay.generate.options import HistoryOptions, Planted
from klamm.replay.generate.recording import DELETED, KEPT
from klamm.replay.generate.rows import (
    COLUMNS,
    NO_BROKER,
    NULL,
    OR_NULL,
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
_RECORDED_KEPT: Final = 36
_RECORDED_DELETED: Final = 6
_RECORDED_BROKERS: Final = range(6, 12)
_DELETED_PART: Final = 10
"""One topic in ten is repeatedly deleted and created again."""
_SHIFT: Final = 7
_ONE, _PARTITIONS, _TOPICS, _BROKERS = range(4)
"""How a recorded row is expanded: to one row, or to one for each copy of its partition, topic or
broker."""
_PLAIN: Final = ("controller", "replica", "key_seq", "event_id", "cause_id")
_NUMBER: Final = re.compile(r"\d+")


class Layout:
    """Layout of the large cluster, whose topics and partitions are copies of recorded ones.

    Brokers form groups, each of which is a copy of the recorded cluster. Brokers that are left over
    have no replicas. ``topic`` and ``number``: for each partition of the cluster, the number of its
    topic, and its partition number in the topic.
    """

    def __init__(self, options: HistoryOptions) -> None:
        self.options = options
        self.topic, self.number = _topics(options)
        count = options.partitions
        is_deleted = self.topic % _DELETED_PART == _DELETED_PART - 1
        if count - int(is_deleted.sum()) < sum(options.planted.values()):
            is_deleted[:] = False
        self.is_deleted = is_deleted
        """For each partition: whether the partition's topic is repeatedly deleted."""
        self.brokers = options.brokers
        if options.brokers > _RECORDED_BROKERS[-1]:
            self.brokers = min(_RECORDED_BROKERS, key=lambda size: options.brokers % size)
        self.groups = options.brokers // self.brokers
        self.kept = min(_RECORDED_KEPT, int((~is_deleted).sum()))
        self.deleted = min(_RECORDED_DELETED, int(is_deleted.sum()))
        self.base = np.zeros(count, np.int32)
        """For each partition: number of the recorded partition of which it is a copy."""
        self.group = np.zeros(count, np.int32)
        for mask, first, size in (
            (~is_deleted, 0, self.kept),
            (is_deleted, self.kept, self.deleted),
        ):
            nth = np.arange(int(mask.sum()))
            self.base[mask] = first + nth % max(1, size)
            self.group[mask] = nth // max(1, size) % self.groups
        self.copies = np.argsort(self.base, kind="stable").astype(np.int32)
        """All partitions, sorted by the recorded partition that they copy."""
        self.assignments = spread(self.kept + self.deleted, self.brokers)
        """Replicas of each recorded partition."""
        stuck = options.planted.get(Planted.STUCK, 0)
        odd = (self.base % 2 == 1) & ~is_deleted
        self.is_moved = odd if stuck <= int((~odd & ~is_deleted).sum()) else odd & False
        """For each partition: whether recorded episodes reassign the partition."""
        ends = np.cumsum(np.bincount(self.base, minlength=self.kept + self.deleted))
        self.first_copy = np.concatenate(([0], ends))
        all_topics, at = np.unique(self.topic, return_index=True)
        gone = is_deleted[at]
        self.topics = {KEPT: all_topics[~gone], DELETED: all_topics[gone]}

    @cached_property
    def names(self) -> list[TopicPartition]:
        """Topic name and partition number of each partition."""
        return [
            TopicPartition(topic_name(topic), number)
            for topic, number in zip(self.topic.tolist(), self.number.tolist(), strict=True)
        ]

    def assignment(self, p: int) -> tuple[int, ...]:
        """Return a partition's initial replicas, which it also has between episodes."""
        shift = int(self.group[p]) * self.brokers
        return tuple(broker + shift for broker in self.assignments[int(self.base[p])])

    def partitions_of(self, topic: int) -> tuple[int, int]:
        """Return the range of a topic's partitions: the first index, and the last index plus 1."""
        first, end = np.searchsorted(self.topic, [topic, topic + 1])
        return int(first), int(end)

    def copies_of_broker(self, broker: int) -> list[int]:
        """Return the ids of the brokers that are copies of a recorded broker, one in each group."""
        return [broker + group * self.brokers for group in range(self.groups)]


def spread(count: int, brokers: int) -> list[tuple[int, ...]]:
    """Assign replicas to brokers as Kafka's AdminUtils.assignReplicasToBrokersRackUnaware does."""
    found = []
    for n in range(count):
        others = (n + 1 + (_SHIFT + n // brokers + k) % (brokers - 1) for k in range(2))
        found.append((n % brokers + 1, *(other % brokers + 1 for other in others)))
    return found


def cluster_name(seed: int) -> str:
    """Return the cluster id of the history with this seed."""
    return f"generated-{seed}"


def run_name(seed: int, run: int) -> str:
    """Return the run id of a run, which is numbered from 0."""
    return f"{cluster_name(seed)}-{run}"


def recorded_name(base: int, kept: int) -> TopicPartition:
    """Return the name of a recorded partition.

    The first ``kept`` partitions belong to topic KEPT, all others to topic DELETED.
    """
    return TopicPartition(KEPT, base) if base < kept else TopicPartition(DELETED, base - kept)


def topic_name(topic: int) -> str:
    """Return the name of the topic with this number."""
    return f"topic-{topic:05d}"


class Tile:
    """A recorded episode as columns. A Player can expand it any number of times.

    Times, controller epochs, leader epochs and znode versions are relative to the start of the
    episode.
    """

    def __init__(self, rows: list[JournalRow], layout: Layout) -> None:
        """Convert the rows of a recorded episode."""
        self.texts: list[str] = [""]
        numbers: dict[str, int] = {"": 0}

        def text(words: str | None) -> int:
            if words is not None and words not in numbers:
                numbers[words] = len(self.texts)
                self.texts.append(words)
            return -1 if words is None else numbers[words]

        first = {KEPT: 0, DELETED: layout.kept}
        at_ms, epoch = rows[0].t_ms, rows[0].epoch
        known = {
            "t_ms": [row.t_ms - at_ms for row in rows],
            "epoch": [row.epoch - epoch for row in rows],
            "kind": [code_of(row.kind, KINDS) for row in rows],
            "from_state": [STATE_CODES.get(row.from_ or "", 0) for row in rows],
            "to_state": [STATE_CODES.get(row.to or "", 0) for row in rows],
            "since_ms": [row.since_ms - at_ms if row.since_ms else NULL for row in rows],
            "election": [code_of(row.election, ELECTIONS) if row.election else 0 for row in rows],
            **{name: [getattr(row, name) for row in rows] for name in _PLAIN},
            **{name: [_or_null(getattr(row, name)) for row in rows] for name in OR_NULL},
            "reassignment": [text(row.reassignment_id) for row in rows],
            "outcome": [text(row.outcome) for row in rows],
            "detail": [text(row.detail) for row in rows],
        }
        self.columns: dict[str, Array] = {
            name: np.array(values, COLUMNS[name][0]) for name, values in known.items()
        }
        self.columns["isr"] = isr_column(row.isr or () for row in rows)
        self.columns["prev_isr"] = isr_column(row.prev_isr or () for row in rows)
        self.topic = [row.topic for row in rows]
        self.base = np.array(
            [first[row.topic] + row.partition if row.topic else -1 for row in rows], np.int32
        )
        self.expands = np.array([_expands(row) for row in rows], np.int8)
        self.epochs = int(self.columns["epoch"].max()) + 1
        self.event_ids = int(self.columns["event_id"].max())
        self._make_relative(layout.kept + layout.deleted)
        self.copies = self._copies(layout)

    def _make_relative(self, count: int) -> None:
        """Make leader epochs and znode versions relative to the start of the episode.

        If the episode creates a partition, later rows about that partition (``is_reset``) keep
        absolute values.
        """
        columns, base = self.columns, self.base
        refused = code_of(Kind.ALTER_ISR_REFUSED, KINDS)
        is_new = columns["kind"] == code_of(Kind.PARTITION_TRANSITION, KINDS)
        is_new &= columns["to_state"] == STATE_CODES[PartitionState.NEW.value]
        created = np.full(count, len(base))
        created[base[is_new][::-1]] = np.nonzero(is_new)[0][::-1]
        self.was_created = created < len(base)
        of_partition = self.expands == _PARTITIONS
        self.is_reset = of_partition & (np.arange(len(base)) >= created[base])
        self.ends: dict[str, Array] = {}
        for name in ("leader_epoch", "zk_version"):
            values = columns[name]
            begin, end = np.zeros(count, np.int32), np.zeros(count, np.int32)
            before = np.nonzero(of_partition & ~self.is_reset & (values != NULL))[0][::-1]
            begin[base[before]] = values[before]
            before = before[::-1]
            values[before] -= begin[base[before]]
            counted = of_partition & (values != NULL) & (columns["kind"] != refused)
            counted &= self.is_reset == self.was_created[base]
            end[base[counted]] = values[counted]
            self.ends[name] = end

    def _copies(self, layout: Layout) -> Array:
        """Return the number of rows to which each recorded row is expanded."""
        topics = {name: len(found) for name, found in layout.topics.items()}
        of_topic = np.array([topics.get(name or "", 0) for name in self.topic])
        partitions = np.diff(layout.first_copy)[self.base]
        groups = np.full(len(of_topic), layout.groups)
        return np.choose(self.expands, [np.ones_like(of_topic), partitions, of_topic, groups])

    @property
    def count(self) -> int:
        """Number of rows of the expanded episode."""
        return int(self.copies.sum())

    def key(self, base: int, replica: int, epoch: int) -> tuple[int, int]:
        """Return the time of a replica's last state change in an epoch, and its last row number.

        - ``base``: recorded partition.
        - ``replica``: broker id; -1 for the partition itself instead of a replica.
        - ``epoch``: counted from the start of the episode, like the returned time.

        The row number is the column ``key_seq``.
        """
        columns = self.columns
        of_key = (self.base == base) & (columns["replica"] == replica)
        of_key &= columns["epoch"] == epoch
        changed = of_key & (columns["to_state"] > 0) & (columns["to_state"] < _FIRST_PHASE)
        times, numbers = columns["t_ms"][changed], columns["key_seq"][of_key]
        return int(times.max(initial=0)), int(numbers.max(initial=0))

    def controller(self, epoch: int) -> int:
        """Return the controller of an epoch. Epochs are counted from the start of the episode."""
        return int(self.columns["controller"][self.columns["epoch"] == epoch][0])


_FIRST_PHASE: Final = 20
"""Codes of states are lower than this number, codes of reassignment phases are higher."""


class Player:
    """Expands tiles (recorded episodes) one after another.

    Keeps the current time, controller epoch, controller and event id, and the leader epoch and
    znode version of each partition. The next tile continues from these values.
    """

    def __init__(self, layout: Layout) -> None:
        count = layout.options.partitions
        self.layout = layout
        self.t_ms = START_MS
        self.epoch = 0
        self.controller = 0
        self.run = -1
        """Number of the current run, -1 before the first one."""
        self.event_id = 0
        self.leader_epoch = np.zeros(count, np.int32)
        self.zk_version = np.zeros(count, np.int32)
        self.played: list[tuple[Tile, int]] = []
        """The last two tiles and their start times, the newer one last."""
        self._seqs: dict[tuple[int, int], int] = {}

    def next_seqs(self, controller: int, epoch: int, count: int = 1) -> Array:
        """Allocate the sequence numbers of the next ``count`` rows of a controller in an epoch."""
        last = self._seqs.get((controller, epoch), 0)
        self._seqs[controller, epoch] = last + count
        return np.arange(last + 1, last + count + 1)

    def columns_now(self) -> dict[str, Any]:
        """Return the columns that all rows of this time have."""
        return {
            "t_ms": self.t_ms,
            "controller": self.controller,
            "epoch": self.epoch,
            "event_id": self.event_id,
        }

    def next_row(self, kind: Kind, by: tuple[int, int] | None = None) -> dict[str, Any]:
        """Return a row with the next number. ``by``: controller and epoch, if not the current."""
        controller, epoch = by or (self.controller, self.epoch)
        return {
            **self.columns_now(),
            "controller": controller,
            "epoch": epoch,
            "seq": self.next_seqs(controller, epoch)[0],
            "kind": code_of(kind, KINDS),
        }

    def epoch_before(self) -> tuple[Tile, int]:
        """Return the tile that contains the previous controller epoch, and the epoch's number.

        The number is relative to the start of the tile.
        """
        (before, _), (tile, _) = self.played[-2:] if len(self.played) > 1 else self.played * 2
        return (tile, tile.epochs - 2) if tile.epochs > 1 else (before, before.epochs - 1)

    def start(self) -> RowBlock:
        """Begin the next run. Return the row with which it begins, as in klamm's journal."""
        self.run += 1
        start = {
            "t_ms": self.t_ms,
            "controller": -1,
            "kind": code_of(Kind.RUN_START, KINDS),
            "detail": f'{{"brokers":{self.layout.options.brokers}}}',
        }
        return RowBlock.of_rows([start])

    def play(self, tile: Tile) -> Iterator[RowBlock]:
        """Yield a tile's expanded rows in blocks, then advance the time, epochs and versions."""
        self._seqs = {key: seq for key, seq in self._seqs.items() if key[1] >= self.epoch}
        ends = np.cumsum(tile.copies)
        first = 0
        while first < len(ends):
            rows_before = int(ends[first - 1]) if first else 0
            last = int(np.searchsorted(ends, rows_before + BLOCK_ROWS, side="right"))
            last = max(last, first + 1)
            yield self._block(tile, slice(first, last))
            first = last
        self._end(tile)

    def _end(self, tile: Tile) -> None:
        base = self.layout.base
        for values, name in ((self.leader_epoch, "leader_epoch"), (self.zk_version, "zk_version")):
            values[tile.was_created[base]] = 0
            values += tile.ends[name][base]
        self.played = [*self.played[-1:], (tile, self.t_ms)]
        self.t_ms += int(tile.columns["t_ms"].max()) + PAUSE_MS
        self.epoch += tile.epochs
        self.event_id += tile.event_ids
        self.controller = tile.controller(tile.epochs - 1)

    def _block(self, tile: Tile, some: slice) -> RowBlock:
        layout, copies = self.layout, tile.copies[some]
        at = np.repeat(np.arange(some.start, some.stop), copies)
        nth = np.arange(len(at)) - np.repeat(np.cumsum(copies) - copies, copies)
        columns: dict[str, Array] = {name: array[at] for name, array in tile.columns.items()}
        expands, base = tile.expands[at], tile.base[at]
        is_partition = expands == _PARTITIONS
        p = np.full(len(at), -1, np.int32)
        p[is_partition] = layout.copies[layout.first_copy[base[is_partition]] + nth[is_partition]]
        columns["p"] = p
        columns["topic"] = topic = np.full(len(at), -1, np.int32)
        for name, topics in layout.topics.items():
            of_topic = np.array([each == name for each in tile.topic[some]])
            mask = np.repeat(of_topic, copies) & (expands == _TOPICS)
            topic[mask] = topics[nth[mask]]
        if layout.groups > 1:
            group = np.where(is_partition, layout.group[p], np.where(expands == _BROKERS, nth, 0))
            _shift_brokers(columns, group.astype(np.int32) * layout.brokers)
        for name, now in (("leader_epoch", self.leader_epoch), ("zk_version", self.zk_version)):
            continues = is_partition & ~tile.is_reset[at] & (columns[name] != NULL)
            columns[name][continues] += now[p[continues]]
        columns["t_ms"] += self.t_ms
        since_ms = columns["since_ms"]
        columns["since_ms"] = np.where(since_ms == NULL, 0, since_ms + self.t_ms)
        columns["epoch"] += self.epoch + 1
        columns["event_id"] += self.event_id
        columns["cause_id"][columns["cause_id"] > 0] += self.event_id
        columns["seq"] = self._numbered(columns)
        texts = self._texts(tile, columns)
        return RowBlock.of(len(at), columns, texts)

    def _numbered(self, columns: dict[str, Array]) -> Array:
        epochs, controllers = columns["epoch"], columns["controller"]
        seqs = np.zeros(len(epochs), np.int64)
        key = epochs.astype(np.int64) << 32 | controllers
        for one in np.unique(key).tolist():
            mask = key == one
            count = int(mask.sum())
            seqs[mask] = self.next_seqs(one & 0xFFFFFFFF, one >> 32, count)
        return seqs

    def _texts(self, tile: Tile, columns: dict[str, Array]) -> list[str]:
        """Return the distinct strings in some rows, and store their indexes in ``columns``."""
        texts: list[str] = []
        layout, p, topic = self.layout, columns["p"], columns["topic"]
        for name in TEXTS:
            places = columns[name]
            rows = np.nonzero(places >= 0)[0]
            keys = places[rows].astype(np.int64) << 32
            if name == "detail":
                group = np.where(p[rows] >= 0, layout.group[p[rows]], 0)
                keys |= np.where(topic[rows] >= 0, topic[rows] + layout.groups, group)
            else:
                keys |= p[rows]
            unique, first, place = np.unique(keys, return_index=True, return_inverse=True)
            places[rows] = place + len(texts)
            for number, row in zip((unique >> 32).tolist(), rows[first].tolist(), strict=True):
                texts.append(self._text(tile.texts[number], name, int(p[row]), int(topic[row])))
        return texts

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
        recorded = str(recorded_name(int(layout.base[p]), layout.kept))
        before, _, after = words.partition(recorded)
        return f"{before}{layout.names[p]}{_shifted(after, shift)}"


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


def _expands(row: JournalRow) -> int:
    if row.topic is not None:
        return _PARTITIONS if row.partition >= 0 else _TOPICS
    return _BROKERS if row.replica >= 0 else _ONE


def _or_null(number: int | None) -> int:
    return NULL if number is None else number


def _topics(options: HistoryOptions) -> tuple[Array, Array]:
    """Return the topic number and the partition number of each partition."""
    partitions = np.arange(options.partitions, dtype=np.int32)
    large = round(options.skew * options.partitions)
    rest = partitions - large
    per_topic = options.partitions_per_topic
    is_large = partitions < large
    first = 1 if large else 0
    topic = np.where(is_large, 0, first + rest // per_topic)
    number = np.where(is_large, partitions, rest % per_topic)
    return topic.astype(np.int32), number.astype(np.int32)
