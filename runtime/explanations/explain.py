"""Why something in a journal happened: the answer about a partition, and about an event.

Reads rows and nothing else. How events led to each other is in linked_events.py, what a single row
means in rows.py; how an answer is shown is the command line's.
"""

from __future__ import annotations

import difflib
import itertools
from collections.abc import Callable, Sequence

import msgspec

from cluster.errors import UnknownTopicOrPartition, UsageError
from cluster.journal import JournalRow, Kind
from cluster.types import TopicPartition
from runtime.explanations.linked_events import (
    Change,
    EventKey,
    Lines,
    LinkedEvents,
    key_of,
    read_rows,
)
from runtime.explanations.rows import Standing, standing
from runtime.explanations.waits import waits_of

Chosen = Callable[[Sequence[Sequence[JournalRow]]], int | None]
"""Picks one of a partition's changes, given the rows of each; None if there is no such one."""


class Explained(msgspec.Struct, frozen=True):
    """The answer: for a partition also where it stands after the last of ``changes``, and in
    ``waits`` what it waits for, a sentence each, in ``logs`` what befell its logs until then,
    a row each."""

    subject: str
    standing: Standing | None
    changes: tuple[Change, ...]
    others: tuple[EventKey, ...] = ()
    waits: tuple[str, ...] = ()
    logs: tuple[JournalRow, ...] = ()


def explain_partition(
    lines: Lines,
    partition: TopicPartition,
    chosen: Chosen | None = None,
    show_all: bool = False,
) -> Explained:
    """Why a partition is as it is: its last change, or all of them.

    With ``chosen`` the change that it picks is explained, those before it with ``show_all``, and
    where the partition stood after it. Raises UnknownTopicOrPartition if the journal does not know
    the partition, UsageError if nothing is picked.
    """
    wanted = f'"topic":"{partition.topic}"'.encode()
    found = LinkedEvents(lines, lambda line: b'"topic":' not in line or wanted in line)
    known = found.groups()
    groups = [group for group in known if any(_tells_of(partition, r) for r in group)]
    own = [[r for r in group if _tells_of(partition, r)] for group in groups]
    if not any(r.partition == partition.partition for rows in own for r in rows):
        raise _unknown(lines, partition)
    if chosen is not None:
        last = chosen(own)
        if last is None:
            raise UsageError(
                f"the journal has no such change of {partition}",
                hint=f"klamm explain {partition} --all lists them",
            )
        del own[last + 1 :]
        known = known[: known.index(groups[last]) + 1]
    logs = found.logs_of(partition)
    if chosen is not None:
        logs = [row for row in logs if row.t_ms <= own[-1][-1].t_ms]
    stands = standing(row for rows in own for row in rows)
    picked = range(len(own)) if show_all else [_last_change(own)]
    changes = tuple(found.change(groups[n], own[n]) for n in picked)
    waits = waits_of(itertools.chain.from_iterable(known), partition)
    return Explained(str(partition), stands, changes, waits=waits, logs=tuple(logs))


def explain_event(lines: Lines, event_id: int, epoch: int | None = None) -> Explained:
    """What an event did: the last one of this number, in the controller epoch if one is given.

    Raises UsageError if the journal has none.
    """
    number = f'"event_id":{event_id}'.encode()
    ends = (number + b",", number + b"}")
    found = LinkedEvents(
        lines,
        lambda line: (
            b'"topic":' not in line
            or any(end in line for end in ends)
            or b'"reassignment_phase"' in line
        ),
    )
    groups = [
        group
        for group in found.groups()
        if group[0].event_id == event_id and epoch in (None, group[0].epoch)
    ]
    if not groups:
        where = "" if epoch is None else f" of controller epoch {epoch}"
        raise UsageError(
            f"the journal has no event {event_id}{where}", hint=found.range_of_events(epoch)
        )
    shown = groups[-1]
    others = tuple(key_of(group[0]) for group in groups[:-1])
    return Explained(f"event {event_id}", None, (found.change(shown, shown),), others)


def _last_change(own: Sequence[Sequence[JournalRow]]) -> int:
    """The last event that changed more than nothing: not a failover's reading alone."""
    for n in range(len(own) - 1, -1, -1):
        if any(_is_change(row) for row in own[n]):
            return n
    return len(own) - 1


def _tells_of(partition: TopicPartition, row: JournalRow) -> bool:
    """True for the partition's own rows, and for those that say why its topic is still there."""
    return row.topic == partition.topic and (
        row.partition == partition.partition or row.kind == Kind.TOPIC_DELETION_HALTED
    )


def _is_change(row: JournalRow) -> bool:
    if row.kind == Kind.PARTITION_SNAPSHOT:
        return False
    return not (row.kind == Kind.REPLICA_TRANSITION and row.from_ == row.to)


def _unknown(lines: Lines, partition: TopicPartition) -> UnknownTopicOrPartition:
    known = {
        TopicPartition(row.topic, row.partition)
        for row in read_rows(lines, lambda line: b'"topic":' in line and b'"partition":' in line)
        if row.topic is not None
    }
    of_topic = sorted(tp.partition for tp in known if tp.topic == partition.topic)
    if of_topic:
        hint = f"of {partition.topic} it has partitions {of_topic[0]} to {of_topic[-1]}"
    elif near := difflib.get_close_matches(partition.topic, {tp.topic for tp in known}, n=3):
        hint = f"did you mean {' or '.join(f'{topic}-{partition.partition}' for topic in near)}?"
    else:
        topics = sorted({tp.topic for tp in known})
        more = f" and {len(topics) - 5} more" if len(topics) > 5 else ""
        hint = f"its topics: {', '.join(topics[:5])}{more}" if topics else "it has no partitions"
    return UnknownTopicOrPartition(f"the journal has no partition {partition}", hint=hint)
