"""Events that the controller puts for itself name the event that caused them.

Events from outside have no known cause: watches, requests, the session, the start of the process.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.types import TopicPartition
from klamm.controller.events import PartitionReassignmentIsrChange
from klamm.zk.memory_store import LostReply
from klamm.zk.store import (
    Create,
    Delete,
    GetData,
    ReadOp,
    ReadResult,
    SetData,
    Transaction,
    TxnResult,
    WriteOp,
)
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo, ControllerZNode, TopicPartitionStateZNode
from tests.unit.controller.cluster import Cluster, broker_info

T0 = TopicPartition("t", 0)
TOPIC = "/brokers/topics/t"
PREFERRED = "/admin/preferred_replica_election"


@pytest.fixture
def cluster() -> Cluster:
    return Cluster().start(0, 1, candidates=(0, 1))


def events(cluster: Cluster, name: str) -> list[JournalRow]:
    """The journalled events of a kind."""
    return [row for row in cluster.rows(Kind.EVENT) if (row.detail or "").startswith(name)]


def before_read(cluster: Cluster, path: str, number: int, write: Callable[[], object]) -> None:
    """Let somebody else write just before the data of a znode is read for the n-th time."""
    reads = 0

    def before(_: int, op: ReadOp | Transaction) -> None:
        nonlocal reads
        if isinstance(op, GetData) and op.path == path:
            reads += 1
            if reads == number:
                cluster.server.before_op = None
                write()

    cluster.server.before_op = before


def commit(cluster: Cluster, op: WriteOp) -> None:
    """Write past the hooks."""
    cluster.server.commit(cluster.stores[1].session_id, [op])


def test_a_failover_looks_for_preferred_elections(cluster: Cluster) -> None:
    (elected,) = cluster.rows(Kind.CONTROLLER_ELECTED)
    (event,) = events(cluster, "ReplicaLeaderElection")
    assert event.cause_id == elected.event_id > 0


def test_after_a_preferred_election_its_znode_is_looked_at_again(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.forget()
    cluster.admin.create_preferred_replica_election([T0])
    cluster.run()
    asked, again = events(cluster, "ReplicaLeaderElection")
    assert (asked.cause_id, again.cause_id) == (0, asked.event_id)


def test_a_request_for_preferred_leaders_that_vanished_is_looked_for_again(
    cluster: Cluster,
) -> None:
    cluster.forget()
    before_read(cluster, PREFERRED, 1, lambda: cluster.admin.delete(PREFERRED))
    cluster.admin.create_preferred_replica_election([T0])
    cluster.run()
    asked, again = events(cluster, "ReplicaLeaderElection")
    assert (asked.cause_id, again.cause_id) == (0, asked.event_id)


def test_a_lost_reply_to_the_deletion_of_a_request_for_preferred_leaders_is_no_failure(
    cluster: Cluster,
) -> None:
    def after(_: int, op: ReadOp | Transaction, __: ReadResult | TxnResult) -> None:
        if isinstance(op, list) and any(isinstance(o, Delete) and o.path == PREFERRED for o in op):
            cluster.server.after_op = None
            raise LostReply

    for _ in range(2):
        cluster.server.after_op = after
        cluster.admin.create_preferred_replica_election([T0])
        cluster.run()
        assert cluster.server.after_op is None
        assert not cluster.admin.path_exists(PREFERRED)
    cluster.assert_nothing_failed()


def test_the_znode_of_preferred_elections_is_removed_even_if_the_election_fails(
    cluster: Cluster,
) -> None:
    cluster.create_topic("t", (1, 0))
    cluster.stop(1)
    cluster.start(1)
    left = cluster.active.partition_state_machine.batch
    left.add_update_metadata_request_for_brokers([0], ())
    cluster.admin.create_preferred_replica_election([T0])
    cluster.run()
    assert not cluster.admin.path_exists(PREFERRED)
    (failed,) = cluster.rows(Kind.EVENT_FAILED)
    assert failed.detail == "ReplicaLeaderElection"
    assert (failed.outcome or "").startswith("BatchNotEmpty: ")


def test_a_broker_that_was_repaired_between_two_reads_is_read_again(cluster: Cluster) -> None:
    path = BrokerIdZNode.path(2)
    mended = BrokerIdZNode.encode(BrokerInfo(broker_info(2)), 0)
    cluster.forget()
    before_read(cluster, path, 2, lambda: commit(cluster, SetData(path, mended)))
    cluster.stores[1].write([[Create(path, b"?", ephemeral=True)]])
    cluster.run()
    registered, again = events(cluster, "BrokerChange")
    assert (registered.cause_id, again.cause_id) == (0, registered.event_id)
    assert 2 in cluster.active.context.live_broker_ids


def test_a_topic_that_vanishes_while_it_is_loaded_is_not_known(cluster: Cluster) -> None:
    cluster.create_topic("t", (0, 1))
    cluster.create_topic("u", (0, 1))
    cluster.paused.add(0)
    cluster.admin.delete(ControllerZNode.path)
    before_read(cluster, TOPIC, 1, lambda: cluster.admin.delete_recursive(TOPIC))
    new = cluster.controllers[1]
    while not new.is_active:
        assert new.step()
    assert new.context.all_topics == {"u"}


def test_a_state_that_was_repaired_between_two_reads_is_read_again(cluster: Cluster) -> None:
    (tp,) = cluster.create_topic("t", (0, 1))
    stored = cluster.stored(tp)
    assert stored is not None
    path = TopicPartitionStateZNode.path(tp)
    mended = TopicPartitionStateZNode.encode(stored.leader_and_isr, 1)
    cluster.write_state(tp, b"?")
    cluster.forget()
    before_read(cluster, path, 2, lambda: commit(cluster, SetData(path, mended)))
    cluster.fail_over()
    (elected,) = cluster.rows(Kind.CONTROLLER_ELECTED)
    (again,) = events(cluster, "PartitionStateModifications")
    assert again.cause_id == elected.event_id
    assert not cluster.active.malformed


def test_isr_changes_of_reassignments_that_are_processed_together_are_all_journalled(
    cluster: Cluster,
) -> None:
    changes = [PartitionReassignmentIsrChange(TopicPartition("t", number)) for number in (0, 1)]
    for change in changes:
        cluster.active.events.put(change)
    cluster.run()
    journalled = events(cluster, "PartitionReassignmentIsrChange")
    assert [row.detail for row in journalled] == list(map(str, changes))
    assert journalled[0].event_id < journalled[1].event_id


def test_an_election_in_a_new_session_is_caused_by_the_end_of_the_old_one() -> None:
    cluster = Cluster().start(0)
    cluster.forget()
    cluster.expire(0)
    cluster.run()
    (elected,) = cluster.rows(Kind.CONTROLLER_ELECTED)
    assert 0 < elected.cause_id < elected.event_id
