"""Journals of simulated clusters, the same with rows spoilt, and both as event tables."""

from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import msgspec

from klamm.cluster.journal import JOURNAL_FILE, JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.replay.engines import Engine
from klamm.replay.event_table import EventTable, open_table
from klamm.replay.generate.generate import generate
from klamm.replay.generate.options import Format, HistoryOptions
from klamm.replay.ingest import make_table
from klamm.statemachines.partition_state import PartitionState
from klamm.statemachines.replica_state import ReplicaState
from tests.journal_bytes import journal_bytes
from tests.sim.deletions import delete_topics
from tests.sim.reassignments import brokers_up, reassign
from tests.sim.worlds import create_topic
from tests.spark.fold import Line

_TRANSITIONS = (Kind.PARTITION_TRANSITION, Kind.REPLICA_TRANSITION)


def eventful_journal() -> list[JournalRow]:
    """Some controllers, brokers that die and come back, an election of who was not in sync, a
    reassignment that ends and one that does not, a topic that is deleted while it is offline, a
    partition that ends offline."""
    world = brokers_up(4, config={"unclean.leader.election.enable": "true"})
    create_topic(world, "t", {n: tuple((n + k) % 3 for k in range(3)) for n in range(4)})
    create_topic(world, "single", {0: (0,), 1: (2,)})
    create_topic(world, "pair", {0: (1, 2)})
    create_topic(world, "lone", {0: (3,), 1: (1,)})
    world.run_for(3_000)
    world.kill(2)
    world.run_for(10_000)
    world.kill(1)
    world.run_for(10_000)
    world.start(2)
    world.run_for(10_000)
    delete_topics(world, "single")
    world.run_for(3_000)
    world.kill(0)
    world.run_for(10_000)
    world.start(1)
    world.start(0)
    world.run_for(20_000)
    reassign(world, {TopicPartition("t", 0): (1, 2, 3)})
    world.run_for(20_000)
    world.kill(3)
    world.run_for(10_000)
    reassign(world, {TopicPartition("t", 1): (1, 2, 3)})
    world.run_for(5_000)
    return list(world.journal.rows)


def generated_journal(folder: Path) -> list[JournalRow]:
    """The rows of a generated cluster: topics are deleted, brokers and controllers fail, and the
    whole cluster is killed and started again."""
    options = HistoryOptions(20, 4_000, 0.4, seed=4, partitions_per_topic=4, restarts=2)
    generate(options, Format.JOURNAL, folder)
    lines = (folder / JOURNAL_FILE).read_bytes().splitlines()
    return [msgspec.json.decode(line, type=JournalRow) for line in lines]


def as_run(rows: Sequence[JournalRow], run: str) -> list[JournalRow]:
    """The same rows as another run's."""
    return [msgspec.structs.replace(row, run_id=run, cluster_id=run) for row in rows]


def spoilt(rows: Sequence[JournalRow], seed: int) -> list[JournalRow]:
    """Rows dropped, doubled, put out of order, and states swapped; the same for the same seed."""
    draw = random.Random(seed)
    found = list(rows)
    for _ in range(draw.randrange(4)):
        del found[draw.randrange(len(found))]
    for _ in range(draw.randrange(4)):
        found.insert(draw.randrange(len(found)), found[draw.randrange(len(found))])
    moves = [n for n, row in enumerate(found) if row.kind in _TRANSITIONS]
    for _ in range(draw.randrange(6)):
        one, other = draw.sample(moves, 2)
        if found[one].kind == found[other].kind:
            to, from_ = found[other].to, found[other].from_
            found[other] = msgspec.structs.replace(found[other], to=found[one].to)
            found[one] = msgspec.structs.replace(found[one], to=to)
            if draw.random() < 0.3:
                found[one] = msgspec.structs.replace(found[one], from_=from_)
    for _ in range(draw.randrange(3)):
        n = draw.choice(moves)
        states = PartitionState if found[n].kind == Kind.PARTITION_TRANSITION else ReplicaState
        state = draw.choice(list(states)).value
        found[n] = msgspec.structs.replace(found[n], **{draw.choice(["to", "from_"]): state})
    if draw.random() < 0.5:
        draw.shuffle(found)
    return found


def lines_of(rows: Sequence[JournalRow]) -> list[Line]:
    """Rows as they stand in one file."""
    return [Line(n, row) for n, row in enumerate(rows, 1)]


def table_of(
    engine: Engine, folder: Path, rows: Sequence[JournalRow], more: bytes = b""
) -> EventTable:
    """The event table of a journal with these rows and bytes, in a directory of ``folder``."""
    path = folder / "journal.jsonl"
    path.write_bytes(journal_bytes(rows) + more)
    make_table(engine, [path], folder / "table", overwrite=(folder / "table").exists())
    return open_table(engine, folder / "table")
