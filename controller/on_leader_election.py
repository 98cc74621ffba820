"""Handlers for leader elections that are triggered by a znode, a timer or a config change.

Preferred leader elections are requested in /admin/preferred_replica_election or started by a timer.
The znode is read, processed and deleted; if its data changed in the meantime, it is read again.
When unclean leader election is enabled, elections for leaderless partitions are retried. The
functions in statemachines/election.py choose the leaders. Mirrors processReplicaLeaderElection,
onReplicaElection, fetchPendingPreferredReplicaElections,
removePartitionsFromPreferredReplicaElection, checkAndTriggerAutoLeaderRebalance,
processUncleanLeaderElectionEnable and processTopicUncleanLeaderElectionEnable of
kafka/controller/KafkaController.scala.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Final, NamedTuple

from klamm.cluster.errors import StateChangeFailed
from klamm.cluster.jvm.scala_sets import SMALL_SET, scala_hash_set, scala_set
from klamm.cluster.types import TopicPartition
from klamm.controller.events import (
    AutoPreferredReplicaLeaderElection,
    ReplicaLeaderElection,
    TopicUncleanLeaderElectionEnable,
    UncleanLeaderElectionEnable,
)
from klamm.controller.partition_state_machine import ElectionResults
from klamm.controller.znode_requests import Requests, read_requests
from klamm.statemachines.election import (
    ElectionStrategy,
    PreferredReplicaElection,
    preferred_replica_partition_leader_election,
)
from klamm.statemachines.partition_state import PartitionState
from klamm.zk.store import Delete, ResultCode
from klamm.zk.znode_client import store_error
from klamm.zk.znodes import PreferredReplicaElectionZNode
from klamm.zk.znodes.json_values import parse_bytes

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

_PATH: Final = PreferredReplicaElectionZNode.path
_PREFERRED: Final = PreferredReplicaElection()
_Asked = Requests[Sequence[TopicPartition]]


class ElectionTrigger(Enum):
    """What triggered an election. The value is Kafka's name for the trigger in log messages."""

    ADMIN = "AdminClientTriggered"
    AUTO = "AutoTriggered"
    ZK = "ZkTriggered"


# By znode


def process_zk_replica_leader_election(
    controller: KafkaController, _: ReplicaLeaderElection
) -> None:
    """Run the elections requested in /admin/preferred_replica_election, and delete the znode.

    Partitions that are unknown, being deleted, or already led by the preferred leader are skipped.
    """
    if not controller.zk.path_exists(_PATH, watch=True):
        return
    asked = _read(controller)
    if asked is None:
        controller.events.put_caused(ReplicaLeaderElection())
        return
    _elect_and_delete(controller, asked, _electable(controller, asked.entries))


def resume_preferred_replica_elections(controller: KafkaController) -> None:
    """Resume the elections requested in /admin/preferred_replica_election after a failover.

    Also watch for the creation of the znode.
    """
    asked = _read(controller)
    context, log = controller.context, controller.log
    undergoing = () if asked is None else asked.entries
    done = dict.fromkeys(
        tp
        for tp in undergoing
        if not (replicas := context.partition_replica_assignment(tp))
        or leader_of(controller, tp) == replicas[0]
    )
    open_ = [tp for tp in undergoing if tp not in done]
    deleted = [tp for tp in open_ if tp.topic in context.topics_to_be_deleted]
    pending = [tp for tp in open_ if tp.topic not in context.topics_to_be_deleted]
    log.info(f"Partitions undergoing preferred replica election: {_names(undergoing)}")
    log.info(f"Partitions that completed preferred replica election: {_names(done)}")
    log.info(
        "Skipping preferred replica election for partitions due to topic deletion: "
        f"{_names(deleted)}"
    )
    log.info(f"Resuming preferred replica election for partitions: {_names(pending)}")
    if asked is None:
        _elect_preferred(controller, (), ElectionTrigger.ZK)
        controller.events.put_caused(ReplicaLeaderElection())
    else:
        _elect_and_delete(controller, asked, _with_leadership(controller, pending))


def _elect_and_delete(
    controller: KafkaController, asked: _Asked, partitions: Sequence[TopicPartition]
) -> None:
    try:
        _elect_preferred(controller, partitions, ElectionTrigger.ZK)
    except Exception:
        _delete(controller, asked.version)
        raise
    _delete(controller, asked.version)


def _read(controller: KafkaController) -> _Asked | None:
    return read_requests(controller, _PATH, _decode, ())


def _decode(data: bytes | None) -> Sequence[TopicPartition]:
    parse_bytes(data)  # raises UnparsableJson
    return PreferredReplicaElectionZNode.decode(data)


def _delete(controller: KafkaController, version: int) -> None:
    """Delete /admin/preferred_replica_election if it still has the version ``version``.

    Then enqueue an event: its handler sets the watch again, and processes the new content if the
    znode has been changed or created again.
    """
    epoch_zk_version = controller.context.epoch_zk_version
    result = controller.controller_zk.fenced_write([Delete(_PATH, version)], epoch_zk_version)[0]
    if result.code is ResultCode.NOTEMPTY:
        controller.controller_zk.delete_below(_PATH, epoch_zk_version)
        _delete(controller, version)
        return
    if result.code in (ResultCode.OK, ResultCode.NONODE):
        controller.malformed.pop(_PATH, None)
    elif result.code not in (ResultCode.BADVERSION, ResultCode.CONNECTIONLOSS):
        raise store_error(result.code, _PATH)
    # The handler of this event arms the watch again.
    controller.events.put_caused(ReplicaLeaderElection())


# By timer


def process_auto_preferred_replica_leader_election(
    controller: KafkaController, _: AutoPreferredReplicaLeaderElection
) -> None:
    """Run preferred leader elections for brokers whose leader imbalance exceeds the limit.

    Also schedule the next imbalance check.
    """
    try:
        controller.log.info("Processing automatic preferred replica leader election")
        _rebalance(controller)
    finally:
        interval_s = controller.config.leader_imbalance_check_interval_seconds
        controller.events.schedule(AutoPreferredReplicaLeaderElection(), interval_s * 1000)


def _rebalance(controller: KafkaController) -> None:
    context, quirks = controller.context, controller.quirks
    preferred: Counter[int] = Counter()
    led_by_others: dict[int, list[TopicPartition]] = {}
    for tp in context.all_partitions():
        if tp.topic in context.topics_to_be_deleted:
            continue
        broker_id = context.partition_replica_assignment(tp)[0]
        preferred[broker_id] += 1
        leadership = context.partition_leadership_info(tp)
        if leadership is not None and leadership.leader_and_isr.leader != broker_id:
            led_by_others.setdefault(broker_id, []).append(tp)
    allowed = controller.config.leader_imbalance_per_broker_percentage / 100
    moving = context.partitions_being_reassigned
    for broker_id, partitions in sorted(led_by_others.items()):
        if len(partitions) / preferred[broker_id] <= allowed:
            continue
        candidates = [
            tp
            for tp in partitions
            if not (moving if quirks.kafka_10149 else tp in moving)
            and _can_preferred_replica_be_leader(controller, tp)
        ]
        _elect_preferred(controller, candidates, ElectionTrigger.AUTO)


def _can_preferred_replica_be_leader(controller: KafkaController, tp: TopicPartition) -> bool:
    context = controller.context
    assignment = context.partition_replica_assignment(tp)
    leadership = context.leaderships[tp]
    elected = preferred_replica_partition_leader_election(
        assignment, leadership.leader_and_isr.isr, context.online_replicas(tp, assignment)
    )
    return elected is not None


# Shared


class RequestedPartitions(NamedTuple):
    """Partitions of a request: those that may get a leader, unknown ones, and deleted ones."""

    known: list[TopicPartition]
    unknown: list[TopicPartition]
    being_deleted: list[TopicPartition]


def divide(
    controller: KafkaController,
    partitions: Collection[TopicPartition],
    election_type: str,
    trigger: ElectionTrigger,
) -> RequestedPartitions:
    """Log which partitions of a request do not exist or are being deleted, and divide them."""
    context, log = controller.context, controller.log
    divided = RequestedPartitions([], [], [])
    skipping = f"Skipping replica leader election ({election_type}) for"
    for tp in partitions:
        if not context.partition_replica_assignment(tp):
            divided.unknown.append(tp)
            log.info(f"{skipping} partition {tp} by {trigger.value} since it doesn't exist.")
        elif tp.topic in context.topics_to_be_deleted:
            divided.being_deleted.append(tp)
        else:
            divided.known.append(tp)
    if divided.being_deleted:
        # A part of a large set of Scala is a HashSet, however small it is.
        as_set = scala_set if len(partitions) <= SMALL_SET else scala_hash_set
        log.warn(
            f"{skipping} partitions {as_set(divided.being_deleted)} by {trigger.value} since the "
            "respective topics are being deleted"
        )
    return divided


def _electable(
    controller: KafkaController, partitions: Collection[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions for which a preferred leader election should be attempted.

    These are existing partitions that are not being deleted, have had a leader, and are not led by
    the preferred leader.
    """
    context = controller.context
    known = divide(controller, partitions, "PREFERRED", ElectionTrigger.ZK).known
    return [
        tp
        for tp in _with_leadership(controller, known)
        if leader_of(controller, tp) != context.partition_replica_assignment(tp)[0]
    ]


def _with_leadership(
    controller: KafkaController, partitions: Iterable[TopicPartition]
) -> list[TopicPartition]:
    """Return the partitions that have had a leader; other partitions have no ISR to elect from."""
    found: list[TopicPartition] = []
    for tp in partitions:
        if leader_of(controller, tp) is None:
            controller.log.warn(
                f"Skipping replica leader election for partition {tp} since it never had a leader"
            )
        else:
            found.append(tp)
    return found


def leader_of(controller: KafkaController, tp: TopicPartition) -> int | None:
    """Return the leader of a partition, or None if the partition never had a leader.

    With the quirk leaderless_preferred_election_fails_the_event, LookupError is raised instead of
    returning None.
    """
    leadership = controller.context.partition_leadership_info(tp)
    if leadership is not None:
        return leadership.leader_and_isr.leader
    if controller.quirks.leaderless_preferred_election_fails_the_event:
        raise LookupError(f"partition {tp} never had a leader")
    return None


def _elect_preferred(
    controller: KafkaController, partitions: Sequence[TopicPartition], trigger: ElectionTrigger
) -> None:
    results = on_replica_election(controller, partitions, "PREFERRED", _PREFERRED, trigger)
    for tp, result in results.items():
        if isinstance(result, StateChangeFailed):
            controller.log.error(
                f"Error completing replica leader election (PREFERRED) for partition {tp}: "
                f"{result.reason}"
            )
    preferred = {tp: controller.context.partition_replica_assignment(tp)[0] for tp in partitions}
    # A preferred election that moved leadership elsewhere would run again at every rebalance.
    assert all(
        isinstance(result, StateChangeFailed) or result.leader == preferred[tp]
        for tp, result in results.items()
    ), "an election chose another leader than the preferred replica"
    leaders = {tp: leader_of(controller, tp) for tp in partitions}
    controller.log.infos(
        f"Partition {tp} completed preferred replica leader election. New leader is {broker_id}"
        for tp, broker_id in preferred.items()
        if leaders[tp] == broker_id
    )
    for tp, broker_id in preferred.items():
        if leaders[tp] != broker_id:
            controller.log.warn(
                f"Partition {tp} failed to complete preferred replica leader election to "
                f"{broker_id}. Leader is still {leaders[tp]}"
            )


def on_replica_election(
    controller: KafkaController,
    partitions: Sequence[TopicPartition],
    election_type: str,
    strategy: ElectionStrategy,
    trigger: ElectionTrigger,
) -> ElectionResults:
    """Elect leaders with ``strategy``, and return {partition: new state or failure}."""
    controller.log.info(
        f"Starting replica leader election ({election_type}) for partitions {_names(partitions)} "
        f"triggered by {trigger.value}"
    )
    machine = controller.partition_state_machine
    return machine.handle_state_changes(partitions, PartitionState.ONLINE, strategy)


def _names(partitions: Collection[TopicPartition]) -> str:
    return ",".join(map(str, partitions))


# By configs, which the broker of the same process watches


def process_unclean_leader_election_enable(
    controller: KafkaController, _: UncleanLeaderElectionEnable
) -> None:
    """Retry elections for all leaderless partitions, because unclean election was enabled."""
    controller.log.info("Unclean leader election has been enabled by default")
    controller.partition_state_machine.trigger_online_partition_state_change()


def process_topic_unclean_leader_election_enable(
    controller: KafkaController, event: TopicUncleanLeaderElectionEnable
) -> None:
    """Retry elections for a topic's leaderless partitions, because unclean election was enabled."""
    controller.log.info(f"Unclean leader election has been enabled for topic {event.topic}")
    controller.partition_state_machine.trigger_online_partition_state_change(event.topic)
