"""world/explain/journal_text.py: rows as people read them."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from klamm.cli.journal import row_line
from klamm.cluster.errors import KlammError
from klamm.cluster.journal import SCHEMA_VERSION, JournalRow, Kind
from klamm.world.explain.journal_text import EventNames, controller_text, summary_text

OF_REPLICA: Final = {"topic": "t", "partition": 4, "replica": 1}
LED: Final = {"leader": 2, "isr": (2, 0)}


def row(kind: Kind, **fields: Any) -> dict[str, Any]:
    """A row as it is in the file."""
    made = JournalRow(SCHEMA_VERSION, "run", 0, 1, 2, 3, kind, **fields)
    values: dict[str, Any] = msgspec.to_builtins(made)
    return values


@pytest.mark.parametrize(
    ("shown", "text"),
    [
        (
            row(
                Kind.PARTITION_TRANSITION,
                topic="t",
                partition=4,
                from_="OnlinePartition",
                to="OfflinePartition",
                leader=-1,
                prev_leader=2,
                leader_epoch=5,
                isr=(2, 1),
                election="OfflinePartitionLeaderElectionStrategy(false)",
            ),
            "t-4 OnlinePartition -> OfflinePartition (leader 2->-1, isr 2,1, epoch 5, "
            "OfflinePartitionLeaderElectionStrategy(false))",
        ),
        (
            row(
                Kind.REPLICA_TRANSITION,
                topic="t",
                partition=4,
                replica=1,
                from_="NewReplica",
                to="OnlineReplica",
            ),
            "t-4 on 1 NewReplica -> OnlineReplica",
        ),
        (
            row(Kind.ISR_REMOVED, **OF_REPLICA, **LED, prev_leader=2, prev_isr=(2, 0, 1)),
            "isr removed t-4 on 1 (leader 2, isr 2,0)",
        ),
        (
            row(Kind.ISR_REMOVED, **OF_REPLICA, **LED, prev_leader=2, prev_isr=(2, 0)),
            "isr unchanged t-4 on 1 (leader 2, isr 2,0)",
        ),
        (
            row(Kind.ISR_REMOVED, **OF_REPLICA, **LED),
            "isr unchanged t-4 on 1 (leader 2, isr 2,0)",
        ),
        (row(Kind.BROKER_OFFLINE, replica=1), "broker offline broker 1"),
        (row(Kind.EVENT, event_id=7, detail="TopicChange"), "event #7 TopicChange"),
        (row(Kind.EVENT, event_id=7, detail="A(a,b,c,d,e)"), "event #7 A(a,b,c,d,e)"),
        (
            row(Kind.EVENT, event_id=7, detail="A(a,b,c,d,e,f,g)"),
            "event #7 A(a, b, c, d, e and 2 more)",
        ),
        (
            row(Kind.EVENT_FAILED, detail="A(a,b,c,d,e,f)", outcome="O(a,b,c,d,e,f)"),
            "event failed A(a, b, c, d, e and 1 more) O(a,b,c,d,e,f)",
        ),
        (row(Kind.TOPIC_CREATED, topic="t"), "topic created t"),
        (
            row(Kind.ZNODE_MALFORMED, detail="/brokers/topics/x", outcome="not JSON"),
            "znode malformed /brokers/topics/x not JSON",
        ),
    ],
)
def test_what_happened(shown: dict[str, Any], text: str) -> None:
    assert summary_text(shown) == text
    assert controller_text(shown) == "controller 2 epoch 3"


def test_why_it_happened() -> None:
    names = EventNames()
    elected = row(Kind.CONTROLLER_ELECTED, event_id=1)
    first = row(Kind.EVENT, event_id=5, detail="BrokerChange")
    second = row(Kind.EVENT, event_id=6, cause_id=5, detail="TopicChange")
    for seen in (elected, first, second):
        names.see(seen)
    assert names.cause_of(first) == ""
    assert names.cause_of(second) == "after #5 BrokerChange"
    caused = row(Kind.TOPIC_CREATED, topic="t", event_id=6, cause_id=5)
    assert names.cause_of(caused) == "#6 TopicChange after #5 BrokerChange"
    assert names.cause_of(row(Kind.CONTROLLER_READY, event_id=1)) == "#1 election"
    assert names.cause_of(row(Kind.TOPIC_CREATED, event_id=9)) == "#9"
    other_epoch = {**caused, "epoch": 4}
    assert names.cause_of(other_epoch) == "#6 after #5"


def test_the_names_of_the_latest_events_are_known() -> None:
    names = EventNames()
    for number in range(1, 1_003):
        names.see(row(Kind.EVENT, event_id=number, detail="TopicChange"))
    causes = (names.cause_of(row(Kind.TOPIC_CREATED, event_id=number)) for number in (2, 3, 1_002))
    assert list(causes) == ["#2", "#3 TopicChange", "#1002 TopicChange"]


def test_a_line_that_is_no_row() -> None:
    for line in (b"{", b"{}", b"[]"):
        with pytest.raises(KlammError, match="not a journal row"):
            row_line(line, EventNames())
