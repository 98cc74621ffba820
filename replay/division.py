"""Divides the events of a table into blocks of partitions, and collects what is not in blocks.

While events are divided, the times of controller epochs, events about the whole cluster, and the
sequence numbers of rows are collected.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Final

from klamm.replay.engines import Engine, Row, row
from klamm.replay.engines.blocks import Blocks
from klamm.replay.event_table import EventTable
from klamm.replay.filters import Filters, narrow
from klamm.replay.kafka_order import as_one_log
from klamm.replay.questions.columns import judged, total
from klamm.replay.questions.controllers import IS_START, epochs
from klamm.replay.questions.counts import counted_rows
from klamm.replay.questions.duplicates import duplicates, without
from klamm.replay.questions.lives import width_of
from klamm.replay.questions.outages import IS_OF_OUTAGES
from klamm.replay.questions.reassignments import IS_REASSIGNMENT
from klamm.replay.questions.row_checks import (
    blocks_beside_gaps,
    doubtful_epochs,
    lost_rows,
    numbered_blocks,
    rows_beside_gaps,
)
from klamm.replay.questions.timeline import MARKS

_NOT_USED: Final = "zxid, event_id, cause_id, has_predecessors"
_KEY: Final = "(topic & 2147483647) + (partition >> 4) * 40503"
"""SQL for the block of an event, modulo the number of blocks. Sixteen partitions of a topic are in
the same block, so that sums by topic have few rows in each block."""


@dataclass(frozen=True, slots=True)
class Divided:
    """The events that all questions of a replay are about, and facts about them.

    - ``blocks``: the events that pass the filters, without duplicates and without events that are
      about no topic.
    - ``at_home``: runs a query at home of the blocks, and keeps its result under a name.

    Names of relations at home:

    - ``epochs``: result of ``questions.controllers.epochs``.
    - ``rare``: events about controllers, brokers and topics that questions about outages use.
    - ``doubtful``: result of ``questions.row_checks.doubtful_epochs``.
    - ``lost``: result of ``questions.row_checks.lost_rows``.
    - ``repeated``: result of ``questions.duplicates``.

    Facts about the events:

    - ``missing``: whether row numbers are missing: the number of rows next to them.
    - ``extent``: the times of the first and last event, and whether there are writes by controllers
      of older epochs.
    """

    table: EventTable
    blocks: Blocks
    at_home: Callable[[str, str], str]
    epochs: str
    rare: str
    extent: Row
    doubtful: str
    missing: int
    lost: str
    repeated: str
    from_ms: int | None

    @property
    def start_ms(self) -> int:
        """Start of the first time bucket, in ms since 1970."""
        return max(self.extent["first_ms"] or 0, self.from_ms or 0)

    @property
    def width_ms(self) -> int:
        """Width of the time buckets in ms."""
        return width_of(self.start_ms, self.extent["last_ms"] or self.start_ms)

    @property
    def marks_at(self) -> tuple[int, int]:
        """Start of the first interval for marks in plots, and width of these intervals, in ms."""
        start_ms = self.start_ms
        return start_ms, width_of(start_ms, self.extent["last_ms"] or start_ms, MARKS)


def divided_events(table: EventTable, filters: Filters, stack: ExitStack) -> Divided:
    """Divide the events that pass the filters. ``stack`` frees what is kept when it is closed."""
    engine, events, from_ms = table.engine, as_one_log(table), filters.from_ms
    copies = sum(run.repeated or 0 for source in table.manifest.sources for run in source.runs)
    if copies:
        repeated = engine.keep(duplicates(events), "duplicates")
        stack.callback(engine.drop, [repeated])
        events = engine.view(without(events, repeated))
    narrowed = engine.view(judged(f"({narrow(engine, events, filters)})"), "judged")
    summaries = {
        "counted": counted_rows(narrowed, from_ms),
        "rare": f"SELECT * FROM {narrowed} WHERE {IS_OF_OUTAGES} OR {IS_START}",
        "numbered": numbered_blocks(events),
    }
    if filters.excludes_events:
        summaries["every"] = counted_rows(engine.view(judged(events), "judged"))
    blocks, found = engine.divide(summaries, _of_topics(narrowed), _KEY, table.manifest.rows)
    stack.callback(blocks.close)

    def at_home(sql: str, name: str) -> str:
        kept = blocks.home.keep(sql, name)
        stack.callback(blocks.home.drop, [kept])
        return kept

    rare = found["rare"]
    of_epochs = every = at_home(epochs(found["counted"]), "epochs")
    if filters.excludes_events:
        every = at_home(epochs(found["every"]), "every_epoch")
    doubtful = at_home(doubtful_epochs(every), "doubtful")
    extent = row(
        blocks.home,
        "SELECT min(first_ms) AS first_ms, max(last_ms) AS last_ms, "
        f"coalesce(bool_or(last_write_at > newer_at), false) AS has_late FROM {of_epochs}",
    )
    beside = at_home(blocks_beside_gaps(found["numbered"], doubtful), "beside_gaps")
    missing = row(blocks.home, f"SELECT {total('rows')} AS n FROM {beside}")["n"]
    # A relation without rows needs the same columns.
    lost = (
        _lost_rows(engine, events, blocks, beside, missing, stack)
        if missing
        else at_home(lost_rows(f"({rows_beside_gaps(no_rows(rare), beside)})"), "lost_rows")
    )
    repeated = (
        blocks.bring(repeated) if copies else at_home(duplicates(no_rows(rare)), "duplicates")
    )
    return Divided(
        *(table, blocks, at_home, of_epochs, rare, extent, doubtful, missing, lost, repeated),
        from_ms,
    )


def _lost_rows(
    engine: Engine, events: str, blocks: Blocks, beside: str, number: int, stack: ExitStack
) -> str:
    """Find lost rows. Return the name of a relation at home with the result of ``lost_rows``.

    Filters do not apply, because a lost row may have been about any topic. ``beside``: result of
    ``blocks_beside_gaps``, at home. ``number``: number of rows in these blocks.
    """
    few = engine.view(blocks.of_home(f"SELECT * FROM {beside}"))
    selected = rows_beside_gaps(events, few)
    of_epochs, _ = engine.divide({}, selected, "epoch", number, beside=blocks)
    stack.callback(of_epochs.close)
    return of_epochs.gather({"lost_rows": lost_rows(of_epochs.events)})["lost_rows"]


def no_rows(relation: str) -> str:
    """Return SQL for an empty relation with the columns of ``relation``. It reads no data."""
    return f"(SELECT * FROM {relation} WHERE false)"


def _of_topics(events: str) -> str:
    """Return a query for the events about topics, with the columns that questions use."""
    detail = f"CASE WHEN {IS_REASSIGNMENT} THEN detail END AS detail"
    return (
        f"SELECT * EXCLUDE ({_NOT_USED}) REPLACE ({detail}) FROM {events} WHERE topic IS NOT NULL"
    )
