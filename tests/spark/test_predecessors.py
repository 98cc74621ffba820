"""What came before a row: found where the rows prove it, and nowhere else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from klamm.replay.engines import Engine, Row, rows
from klamm.replay.event_schema import STATE_CODES
from klamm.replay.predecessors import add_predecessors
from tests.spark.conftest import table_in

Found = Callable[..., list[Row]]


@pytest.fixture(scope="module")
def found(engine: Engine) -> Found:
    """Rows with their predecessors, in the order of their places; seq counts up, t_ms = 10 seq."""

    def find(*given: dict[str, Any]) -> list[Row]:
        whole = [
            {
                "source": "zookeeper",
                "kind": "leadership_written",
                "topic": "t",
                "partition": 0,
                "seq": n,
                "t_ms": 10 * n,
                "has_predecessors": False,
                **row,
            }
            for n, row in enumerate(given, 1)
        ]
        sql = add_predecessors(table_in(engine, *whole[::-1]).events)
        return rows(engine, f"SELECT * FROM ({sql}) ORDER BY epoch, seq")

    return find


def leadership(version: int, leader: int, isr: list[int], **more: Any) -> dict[str, Any]:
    return {"zk_version": version, "leader": leader, "isr": isr, **more}


def before(row: Row) -> tuple[int | None, list[int] | None, int | None]:
    return row["prev_leader"], row["prev_isr"], row["since_ms"]


def test_a_leadership_follows_the_version_before_it(found: Found) -> None:
    given = found(
        leadership(0, 1, [1, 2]),
        leadership(0, 7, [7], partition=1),
        leadership(1, 2, [2]),
        leadership(2, 2, [2, 1], epoch=2),
    )
    assert [before(row) for row in given] == [
        (None, None, None),
        (None, None, None),
        (1, [1, 2], 10),
        (2, [2], 30),
    ]
    assert all(row["has_predecessors"] for row in given)


def test_nothing_is_known_behind_a_lost_write(found: Found) -> None:
    given = found(leadership(0, 1, [1, 2]), leadership(2, 2, [2]), leadership(3, 1, [1, 2]))
    assert [row["prev_leader"] for row in given] == [None, None, 2]


def test_the_leader_epoch_proves_the_leader_before(found: Found) -> None:
    given = found(
        leadership(0, 1, [1, 2], leader_epoch=0),
        leadership(5, 2, [2], leader_epoch=1),
        leadership(8, 2, [2, 1], leader_epoch=1),
        leadership(9, 1, [1], leader_epoch=4),
        leadership(11, 3, [3], leader_epoch=6),  # a leader in between is not in the log
    )
    assert [before(row)[:2] for row in given] == [
        (None, None),
        (1, None),
        (2, None),
        (2, [2, 1]),
        (None, None),
    ]


def test_a_topic_made_again_has_no_past(found: Found) -> None:
    given = found(leadership(4, 1, [1]), leadership(0, 2, [2]), leadership(1, 2, [2, 1]))
    assert [row["prev_leader"] for row in given] == [None, None, 2]


def test_runs_do_not_mix(found: Found) -> None:
    given = found(
        leadership(0, 1, [1]),
        leadership(1, 2, [2], run="another"),
        leadership(1, 4, [4]),
    )
    assert [row["prev_leader"] for row in given] == [None, None, 1]


def test_a_leader_that_changes_its_isr_stays_the_leader(found: Found) -> None:
    """controller.log names neither leader nor leader epoch."""
    changed = {"kind": "isr_changed", "leader": None, "leader_epoch": None}
    given = found(
        leadership(0, 1, [1, 2], leader_epoch=3),
        {**leadership(1, None, [1]), **changed},
        {**leadership(2, None, [1, 2]), **changed},
        leadership(3, 2, [2], leader_epoch=4),
        # Version 4 is not in the logs: another broker may lead now.
        {**leadership(5, None, [2, 3]), **changed},
    )
    assert [(row["leader"], row["leader_epoch"], *before(row)[:2]) for row in given] == [
        (1, 3, None, None),
        (1, 3, 1, [1, 2]),
        (1, 3, 1, [1]),
        (2, 4, 1, [1, 2]),
        (None, None, None, None),
    ]


def test_a_refused_proposal_is_no_predecessor(found: Found) -> None:
    given = found(
        leadership(0, 1, [1]),
        leadership(0, 1, [1, 2], kind="alter_isr_refused"),
        leadership(1, 2, [2]),
    )
    assert [row["prev_isr"] for row in given] == [None, None, [1]]


def transition(from_state: str | None, to: str, **more: Any) -> dict[str, Any]:
    kind = "partition_transition" if to.endswith("Partition") else "replica_transition"
    return {"kind": kind, "from_state": from_state, "to_state": to, **more}


def test_a_state_is_held_since_the_row_that_entered_it(found: Found) -> None:
    given = found(
        transition("NonExistentPartition", "NewPartition"),
        {"kind": "isr_changed"},
        transition("NewPartition", "OnlinePartition"),
        transition("OnlinePartition", "OnlinePartition", kind="partition_failed"),
        transition("OnlinePartition", "OfflinePartition"),
        transition("NewPartition", "OnlinePartition"),
    )
    assert [row["since_ms"] for row in given] == [None, None, 10, 30, 30, None]


def test_a_state_that_is_not_named_is_that_of_the_row_before(found: Found) -> None:
    given = found(transition(None, "NewPartition"), transition(None, "OnlinePartition"))
    assert [row["from_state"] for row in given] == [0, STATE_CODES["NewPartition"]]
    assert [row["since_ms"] for row in given] == [None, 10]


def test_states_do_not_go_over_a_controller_epoch(found: Found) -> None:
    given = found(
        transition(None, "OnlinePartition"),
        transition("OnlinePartition", "OfflinePartition", epoch=2),
        transition(None, "OnlinePartition", epoch=3),
    )
    assert [(row["from_state"], row["since_ms"]) for row in given] == [
        (0, None),
        (STATE_CODES["OnlinePartition"], None),
        (0, None),
    ]


def test_replicas_have_histories_of_their_own(found: Found) -> None:
    given = found(
        transition(None, "NewReplica", replica=1),
        transition("NewReplica", "OnlineReplica", replica=2),
        transition("NewPartition", "OnlinePartition"),
        transition("NewReplica", "OnlineReplica", replica=1),
    )
    assert [row["since_ms"] for row in given] == [None, None, None, 10]


def test_rows_about_no_topic_stay_as_they_are(found: Found) -> None:
    given = found(*({"kind": "broker_online", "topic": None, "replica": n} for n in range(3)))
    assert [row["replica"] for row in given] == [0, 1, 2]
    assert [before(row) for row in given] == [(None, None, None)] * 3


def test_what_a_row_says_itself_is_kept(found: Found) -> None:
    said = {"prev_leader": 9, "prev_isr": [9], "since_ms": 1}
    given = found(leadership(0, 1, [1]), leadership(1, 2, [2], **said))
    assert before(given[1]) == (9, [9], 1)
