"""Text of journal rows: one line with the change and the controller event that caused it.

Works on plain values, so that it can also show rows written by other versions of klamm.
"""

from __future__ import annotations

import re
from collections import OrderedDict
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from klamm.cluster.counting import listed
from klamm.cluster.journal import Kind, is_isr_removal_written
from klamm.cluster.plain_text import harmless_line

Row = Mapping[str, Any]

_EVENTS_REMEMBERED: Final = 1_000
_ARGUMENTS: Final = re.compile(r"\(([^()]*)\)")
_ARGUMENTS_SHOWN: Final = 5
_ISRS: Final = ("isr", "leader", "prev_isr", "prev_leader")
_NAME_AN_EVENT: Final = frozenset({Kind.EVENT, Kind.EVENT_FAILED, Kind.CONTROLLER_MOVED})
_STRUCTURE: Final = frozenset({"partition_transition", "replica_transition"})


class EventNames:
    """Names of the most recent controller events, keyed by event number."""

    def __init__(self) -> None:
        self._names: OrderedDict[tuple[int, int, int], str] = OrderedDict()

    def see(self, row: Row) -> None:
        """Remember the name of the event that a row records, if any."""
        # The event that elected a controller began before the epoch, so it has no EVENT row.
        name = {Kind.EVENT: row.get("detail"), Kind.CONTROLLER_ELECTED: "election"}.get(row["kind"])
        if name:
            key = (row["controller"], row["epoch"], row.get("event_id", 0))
            self._names[key] = name
            if len(self._names) > _EVENTS_REMEMBERED:
                self._names.popitem(last=False)

    def cause_of(self, row: Row) -> str:
        """Return a row's event and its cause, e.g. ``#12 BrokerChange() after #7 ...``.

        The text is empty if no event is recorded in the row.
        """
        words = self._name(row, "event_id") if row["kind"] != Kind.EVENT else ""
        before = self._name(row, "cause_id")
        return f"{words} after {before}".strip() if before else words

    def _name(self, row: Row, field: str) -> str:
        number = row.get(field, 0)
        if not number:
            return ""
        name = self._names.get((row["controller"], row["epoch"], number))
        return f"#{number} {event_text(name)}" if name else f"#{number}"


def event_text(text: str) -> str:
    """Return the text of an event with its first arguments, and how many more there are.

    The event of a request has all its topics or partitions as arguments.
    """
    found = _ARGUMENTS.search(text)
    arguments = [] if found is None else found[1].split(",")
    if found is None or len(arguments) <= _ARGUMENTS_SHOWN:
        return text
    begin, end = found.span(1)
    return f"{text[:begin]}{listed(arguments, _ARGUMENTS_SHOWN)}{text[end:]}"


def row_time_text(row: Row) -> str:
    """Return a row's local time of day with milliseconds."""
    return datetime.fromtimestamp(row["t_ms"] / 1000).strftime("%H:%M:%S.%f")[:-3]


def time_zone() -> str:
    """Return the name of the time zone of ``row_time_text``, e.g. CET."""
    return datetime.now().astimezone().tzname() or "local time"


def controller_text(row: Row) -> str:
    """Return the controller and its epoch, or "" for a row that no controller wrote."""
    return f"controller {row['controller']} epoch {row['epoch']}" if row["epoch"] else ""


def summary_text(row: Row) -> str:
    """Return the change that a row records, without time and cause."""
    kind = row["kind"]
    parts = [] if kind in _STRUCTURE else [kind.replace("_", " ")]
    if kind == Kind.ISR_REMOVED and not is_isr_removal_written(*map(row.get, _ISRS)):
        parts = ["isr unchanged"]
    parts += [_subject(row), _change(row), _leadership(row)]
    if row.get("detail"):
        detail = str(row["detail"])
        parts.append(event_text(detail) if kind in _NAME_AN_EVENT else detail)
    if row.get("outcome"):
        parts.append(str(row["outcome"]))
    if kind == Kind.EVENT:
        parts[0] = f"event #{row.get('event_id', 0)}"
    return harmless_line(" ".join(part for part in parts if part))


def row_text(row: Row, names: EventNames) -> str:
    """Return a row as one line: time, controller, change and cause."""
    return f"{row_time_text(row)}  {change_text(row, names)}"


def change_text(row: Row, names: EventNames) -> str:
    """Return the part of ``row_text`` after the time."""
    cause = names.cause_of(row)
    why = harmless_line(f"  [{cause}]") if cause else ""
    return f"{controller_text(row):24}  {summary_text(row)}{why}"


def _subject(row: Row) -> str:
    topic = row.get("topic")
    replica = row.get("replica", -1)
    if topic is None:
        return f"broker {replica}" if replica >= 0 else ""
    partition = row.get("partition", -1)
    name = topic if partition < 0 else f"{topic}-{partition}"
    return f"{name} on {replica}" if replica >= 0 else name


def _change(row: Row) -> str:
    before, after = row.get("from"), row.get("to")
    if before and after:
        return f"{before} -> {after}"
    return after or ""


def _leadership(row: Row) -> str:
    words = []
    leader, before = row.get("leader"), row.get("prev_leader")
    if leader is not None:
        words.append(
            f"leader {leader}" if before in (None, leader) else f"leader {before}->{leader}"
        )
    if row.get("isr") is not None:
        words.append(f"isr {','.join(map(str, row['isr']))}")
    if row.get("leader_epoch") is not None:
        words.append(f"epoch {row['leader_epoch']}")
    if row.get("election"):
        words.append(str(row["election"]))
    return f"({', '.join(words)})" if words else ""
