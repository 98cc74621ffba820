"""What `klamm explain` prints: an answer of cli/explanations/ as lines and as JSON."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec

from cli.explanations.explain import Explained
from cli.explanations.linked_events import Cause, Change, Step
from cli.explanations.rows import Standing, is_unclean
from cli.journal_text import time_text, what_text
from cluster.journal import JournalRow
from statemachines.explanations import Rule

STEPS_SHOWN: Final = 40
FOLLOWED_SHOWN: Final = 5
LOGS_SHOWN: Final = 10
WRITES_NOTE: Final = (
    "The journal has no row for a write: these follow from the rows above, with the version where"
    " a row has it."
)
REQUESTS_NOTE: Final = "not recorded; klamm up --journal-messages records them"


def explained_lines(explained: Explained) -> Iterator[str]:
    """The answer for people."""
    if explained.standing is not None:
        yield f"{explained.subject}: {_standing_text(explained.standing)}"
    for wait in explained.waits:
        yield f"  {wait}"
    if explained.logs:
        yield ""
        yield "What befell its logs"
    for row in explained.logs[-LOGS_SHOWN:]:
        yield f"    {_clock(row.t_ms)}  {_row_text(row)}"
    if len(explained.logs) > LOGS_SHOWN:
        yield f"    and {len(explained.logs) - LOGS_SHOWN} before; --json has them all"
    for change in explained.changes:
        yield ""
        yield from _change_lines(change)
    if explained.others:
        others = ", ".join(
            f"{key.epoch}#{key.event_id} (controller {key.controller})" for key in explained.others
        )
        yield ""
        yield f"Earlier events of this number: {others}"


def as_json(explained: Explained) -> dict[str, Any]:
    """The answer for machines: the same, with the journal's rows as they are."""
    return {
        "subject": explained.subject,
        "standing": None if explained.standing is None else explained.standing._asdict(),
        "waits": explained.waits,
        "logs": explained.logs,
        "changes": [_change_as_json(change) for change in explained.changes],
        "others": [key._asdict() for key in explained.others],
    }


def _change_lines(change: Change) -> Iterator[str]:
    key = change.key
    who = f", controller {key.controller} epoch {key.epoch}" if key.epoch else ""
    yield f"{_clock(change.t_ms)}{who}"
    yield "  Why"
    for cause in change.causes:
        yield f"    {_cause_text(cause)}"
    yield "  What it did"
    rules: dict[Rule, int] = {}
    for step in change.steps[:STEPS_SHOWN]:
        numbers = [rules.setdefault(rule, len(rules) + 1) for rule in step.rules]
        unclean = " UNCLEAN: the leader was not in the ISR" if is_unclean(step.row) else ""
        yield f"    {_row_text(step.row)}{unclean}  ({','.join(map(str, numbers))})"
    if len(change.steps) > STEPS_SHOWN:
        yield f"    and {len(change.steps) - STEPS_SHOWN} more; --json has them all"
    if not change.steps:
        yield "    nothing that the journal records"
    if rules:
        yield "  Rules"
    for rule, number in rules.items():
        yield f"    {number}. {rule.text} [{rule.source}]"
    yield "  Znodes written"
    yield from _znode_lines(change.steps)
    yield "  Requests sent"
    yield from _request_lines(change.requests)
    if change.followed:
        yield "  Led to"
        for cause in change.followed[:FOLLOWED_SHOWN]:
            yield f"    {_cause_text(cause)}"
        if len(change.followed) > FOLLOWED_SHOWN:
            yield f"    and {len(change.followed) - FOLLOWED_SHOWN} more"


def _znode_lines(steps: Sequence[Step]) -> Iterator[str]:
    writes = [write for step in steps for write in step.znodes]
    for write in writes[:STEPS_SHOWN]:
        version = "" if write.version is None else f", version {write.version}"
        yield f"    {write.path}: {write.action}{version}"
    if len(writes) > STEPS_SHOWN:
        yield f"    and {len(writes) - STEPS_SHOWN} more; --json has them all"
    yield f"    {WRITES_NOTE}" if writes else "    none that follows from these rows"


def _request_lines(requests: Sequence[JournalRow] | None) -> Iterator[str]:
    if requests is None:
        yield f"    {REQUESTS_NOTE}"
        return
    by_text: dict[str, list[int]] = {}
    for row in requests:
        by_text.setdefault(row.detail or "", []).append(row.replica)
    for text, brokers in by_text.items():
        shown = ",".join(
            f"{broker}" if times == 1 else f"{broker} (x{times})"
            for broker, times in Counter(brokers).items()
        )
        many = "" if text.endswith(" for 1") else "s"
        yield f"    {text} partition{many} to broker{'s' if len(brokers) > 1 else ''} {shown}"
    if not requests:
        yield "    none"


def _standing_text(standing: Standing) -> str:
    words = [standing.state or "state not recorded"]
    if standing.leader is not None:
        leader = "no leader" if standing.leader < 0 else f"leader {standing.leader}"
        words += [leader, f"leader epoch {standing.leader_epoch}"]
    if standing.isr is not None:
        words.append(f"isr {','.join(map(str, standing.isr))}")
    if standing.zk_version is not None:
        words.append(f"state znode version {standing.zk_version}")
    if standing.replicas:
        words.append(
            "replicas " + ", ".join(f"{id_} {state}" for id_, state in standing.replicas.items())
        )
    return ", ".join(words)


def _cause_text(cause: Cause) -> str:
    number = f"#{cause.event_id} " if cause.event_id else ""
    when = "" if cause.t_ms is None or not cause.event_id else f"  ({_clock(cause.t_ms)})"
    return f"{cause.relation} {number}{cause.text}{when}"


def _row_text(row: JournalRow) -> str:
    return what_text(msgspec.to_builtins(row))


def _clock(t_ms: int) -> str:
    day = datetime.fromtimestamp(t_ms / 1000).strftime("%Y-%m-%d")
    return f"{day} {time_text({'t_ms': t_ms})}"


def _change_as_json(change: Change) -> dict[str, Any]:
    return {
        **change.key._asdict(),
        "event": change.name,
        "t_ms": change.t_ms,
        "causes": [msgspec.to_builtins(cause) for cause in change.causes],
        "steps": [
            {
                "row": step.row,
                "unclean": is_unclean(step.row),
                "rules": [rule._asdict() for rule in step.rules],
                "znodes": [write._asdict() for write in step.znodes],
            }
            for step in change.steps
        ],
        "requests": change.requests,
        "led_to": [msgspec.to_builtins(cause) for cause in change.followed],
    }
