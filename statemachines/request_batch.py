"""Batch of the control requests that result from one state machine call.

The requests to a broker are merged into one per type. ``drain`` returns them in the order in which
they are to be sent. Requests to different brokers share partition state objects. Mirrors
AbstractControllerBrokerRequestBatch of kafka/controller/ControllerChannelManager.scala.
"""

from __future__ import annotations

from collections.abc import Iterable

from klamm.cluster.errors import KlammError
from klamm.cluster.requests import (
    ControlRequest,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.types import (
    EMPTY_ASSIGNMENT,
    EPOCH_DURING_DELETE,
    INITIAL_LEADER_EPOCH,
    INITIAL_ZK_VERSION,
    LEADER_DURING_DELETE,
    NO_EPOCH,
    Broker,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.statemachines.context import ControllerContext

_SharedState = tuple[LeaderIsrAndControllerEpoch, ReplicaAssignment, LeaderAndIsrPartitionState]
_Shared = tuple[dict[TopicPartition, _SharedState], dict[TopicPartition, _SharedState]]
"""Partition states that requests to several brokers share: without ``is_new``, and with it."""


class BatchNotEmpty(KlammError):
    """A new batch was started while the previous batch still held unsent requests."""


class ControllerBrokerRequestBatch:
    """Control requests per broker, collected between ``new_batch`` and ``drain``.

    Each of the two state machines has a batch, and the controller's event handlers share a third
    batch. If a partition is added to LeaderAndIsr twice, the second state replaces the first, but
    ``is_new`` is True if it is True in either of them. ``drain`` reads the partition states of
    UpdateMetadata from the context.
    """

    def __init__(self, context: ControllerContext, controller_id: int) -> None:
        self.context = context
        self.controller_id = controller_id
        self.leader_and_isr: dict[int, dict[TopicPartition, LeaderAndIsrPartitionState]] = {}
        self.stop_replica: dict[int, dict[TopicPartition, StopReplicaPartitionState]] = {}
        self.update_metadata_brokers: set[int] = set()
        self.update_metadata_partitions: dict[TopicPartition, None] = {}
        self.leaderless: list[TopicPartition] = []
        self._shared: _Shared = ({}, {})
        self._added_live_brokers: frozenset[int] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if the batch holds no requests."""
        return not (self.leader_and_isr or self.stop_replica or self.update_metadata_brokers)

    def new_batch(self) -> None:
        """Start a batch. Raises BatchNotEmpty if requests of the previous batch are left."""
        for name, left in (
            ("LeaderAndIsr", self.leader_and_isr),
            ("StopReplica", self.stop_replica),
            ("UpdateMetadata", self.update_metadata_brokers),
        ):
            if left:
                raise BatchNotEmpty(
                    "Controller to broker state change requests batch is not empty while creating "
                    f"a new one. Some {name} state changes to brokers "
                    f"{', '.join(map(str, sorted(left)))} might be lost"
                )

    def clear(self) -> None:
        """Drop all requests."""
        self.leader_and_isr = {}
        self.stop_replica = {}
        self.update_metadata_brokers = set()
        self.update_metadata_partitions = {}
        self.leaderless = []
        self._shared = ({}, {})
        self._added_live_brokers = frozenset()

    def abandon(self, moved: bool) -> None:
        """Drop all requests after a failed state change.

        ``moved``: True if the failure was ControllerMoved, i.e. another controller was elected.
        With the following quirks, the requests are kept, so that every later ``new_batch`` raises
        BatchNotEmpty:

        - KAFKA-12315, if ``moved`` is True.
        - failed_state_change_leaves_the_batch_dirty, if ``moved`` is False.
        """
        quirks = self.context.quirks
        if not (quirks.kafka_12315 if moved else quirks.failed_state_change_leaves_the_batch_dirty):
            self.clear()

    def add_leader_and_isr_request_for_brokers(
        self,
        broker_ids: Iterable[int],
        tp: TopicPartition,
        leadership: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        is_new: bool,
    ) -> None:
        """Add LeaderAndIsr for ``broker_ids``, and UpdateMetadata for every live broker.

        Negative broker ids are ignored.
        """
        state = self._state(tp, leadership, assignment, is_new)
        requests = self.leader_and_isr
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = requests.get(broker_id)
            if states is None:
                requests[broker_id] = {tp: state}
                continue
            previous = states.get(tp)
            if previous is not None and previous.is_new and not is_new:
                states[tp] = self._state(tp, leadership, assignment, True)
            else:
                states[tp] = state
        self._add_live_brokers()
        self.update_metadata_partitions[tp] = None

    def add_leader_and_isr_requests_for_broker(
        self, broker_id: int, partitions: Iterable[TopicPartition], is_new: bool
    ) -> None:
        """Add LeaderAndIsr for one broker and many partitions, and UpdateMetadata for all brokers.

        Leaders, ISRs and assignments are read from the context. Partitions without a leader and ISR
        are skipped.
        """
        leaderships = self.context.leaderships
        assignments = self.context.assignments
        metadata = self.update_metadata_partitions
        states = self.leader_and_isr.get(broker_id, {})
        may_be_new = bool(states) and not is_new
        for tp in partitions:
            leadership = leaderships.get(tp)
            if leadership is None:
                continue
            assignment = assignments.get(tp, EMPTY_ASSIGNMENT)
            stays_new = may_be_new and tp in states and states[tp].is_new
            states[tp] = self._state(tp, leadership, assignment, is_new or stays_new)
            metadata[tp] = None
        if states:
            self.leader_and_isr[broker_id] = states
            self._add_live_brokers()

    def add_stop_replica_request_for_brokers(
        self, broker_ids: Iterable[int], tp: TopicPartition, delete_partition: bool
    ) -> None:
        """Add a StopReplica request for a partition to each of ``broker_ids``.

        If the batch already has a StopReplica for this replica, both are merged, and the replica is
        deleted if one of them deletes it. The leader epoch in the request is -2 if the topic is
        queued for deletion, and -1 if the partition has no leader and ISR.
        """
        if tp.topic in self.context.topics_to_be_deleted:
            leader_epoch = EPOCH_DURING_DELETE
        else:
            leadership = self.context.leaderships.get(tp)
            leader_epoch = (
                NO_EPOCH if leadership is None else leadership.leader_and_isr.leader_epoch
            )
        for broker_id in broker_ids:
            if broker_id < 0:
                continue
            states = self.stop_replica.setdefault(broker_id, {})
            previous = states.get(tp)
            delete = delete_partition or (previous is not None and previous.delete_partition)
            states[tp] = StopReplicaPartitionState(tp, leader_epoch, delete)

    def add_update_metadata_request_for_brokers(
        self, broker_ids: Iterable[int], partitions: Iterable[TopicPartition]
    ) -> None:
        """Add UpdateMetadata to ``broker_ids``, with ``partitions`` and the live brokers.

        Partitions without a leader and ISR are noted in ``leaderless`` and skipped. If a topic is
        queued for deletion, the leader of its partitions is sent as -2. Negative broker ids are
        ignored.
        """
        leaderships = self.context.leaderships
        added = dict.fromkeys(partitions)
        self.update_metadata_brokers.update(b for b in broker_ids if b >= 0)
        self.update_metadata_partitions.update(added)
        self.leaderless += [tp for tp in added if tp not in leaderships]

    def drain(self) -> list[tuple[int, ControlRequest]]:
        """Empty the batch and return its (broker id, request) pairs in sending order.

        All LeaderAndIsr requests come first, then UpdateMetadata, then StopReplica; each type is
        sorted by broker id. Requests to brokers that are not live are dropped.
        """
        requests: list[tuple[int, ControlRequest]] = []
        live = self.context.live_or_shutting_down_broker_ids
        previous: tuple[LeaderAndIsrPartitionState, ...] = ()
        for broker_id in sorted(live.intersection(self.leader_and_isr)):
            states = tuple(self.leader_and_isr[broker_id].values())
            if states == previous:
                states = previous  # so that the states of such requests are encoded once
            previous = states
            requests.append((broker_id, self._leader_and_isr_request(broker_id, states)))
        requests += self._update_metadata_requests()
        for broker_id in sorted(live.intersection(self.stop_replica)):
            requests.append((broker_id, self._stop_replica_request(broker_id)))
        self.clear()
        return requests

    def _add_live_brokers(self) -> None:
        """Add every live broker to the recipients of UpdateMetadata.

        Do nothing if the set of live brokers has not changed since the last call.
        """
        everyone = self.context.live_or_shutting_down_broker_ids
        if self._added_live_brokers is not everyone:
            self.update_metadata_brokers |= everyone
            self._added_live_brokers = everyone

    def _state(
        self,
        tp: TopicPartition,
        leadership: LeaderIsrAndControllerEpoch,
        assignment: ReplicaAssignment,
        is_new: bool,
    ) -> LeaderAndIsrPartitionState:
        """Return the partition state to send. To save memory, equal states share one object."""
        shared = self._shared[is_new].get(tp)
        if shared is not None and shared[0] is leadership and shared[1] is assignment:
            return shared[2]
        leader_and_isr = leadership.leader_and_isr
        state = LeaderAndIsrPartitionState(
            tp,
            leadership.controller_epoch,
            leader_and_isr.leader,
            leader_and_isr.leader_epoch,
            leader_and_isr.isr,
            leader_and_isr.zk_version,
            assignment.replicas,
            assignment.adding_replicas,
            assignment.removing_replicas,
            is_new,
        )
        self._shared[is_new][tp] = (leadership, assignment, state)
        return state

    def _leader_and_isr_request(
        self, broker_id: int, states: tuple[LeaderAndIsrPartitionState, ...]
    ) -> LeaderAndIsrRequest:
        context = self.context
        leaders = {state.leader for state in states}
        return LeaderAndIsrRequest(
            self.controller_id,
            context.epoch,
            context.live_broker_epochs[broker_id],
            states,
            self._topic_ids(states),
            tuple(b for b in context.live_or_shutting_down_brokers if b.id in leaders),
        )

    def _update_metadata_requests(self) -> Iterable[tuple[int, UpdateMetadataRequest]]:
        context = self.context
        recipients = self.update_metadata_brokers & context.live_or_shutting_down_broker_ids
        if not recipients:
            return
        states = tuple(self._metadata_states())
        live_brokers: tuple[Broker, ...] = context.live_or_shutting_down_brokers
        topic_ids = self._topic_ids(states)
        for broker_id in sorted(recipients):
            epoch = context.live_broker_epochs[broker_id]
            yield (
                broker_id,
                UpdateMetadataRequest(
                    self.controller_id, context.epoch, epoch, states, live_brokers, topic_ids
                ),
            )

    def _metadata_states(self) -> Iterable[UpdateMetadataPartitionState]:
        context = self.context
        for tp in self.update_metadata_partitions:
            leadership = context.leaderships.get(tp)
            if leadership is None:
                continue
            state = leadership.leader_and_isr
            replicas = context.partition_replica_assignment(tp)
            deleting = tp.topic in context.topics_to_be_deleted
            yield UpdateMetadataPartitionState(
                tp,
                leadership.controller_epoch,
                LEADER_DURING_DELETE if deleting else state.leader,
                INITIAL_LEADER_EPOCH if deleting else state.leader_epoch,
                state.isr,
                INITIAL_ZK_VERSION if deleting else state.zk_version,
                replicas,
                context.offline_replicas(tp, replicas),
            )

    def _stop_replica_request(self, broker_id: int) -> StopReplicaRequest:
        return StopReplicaRequest(
            self.controller_id,
            self.context.epoch,
            self.context.live_broker_epochs[broker_id],
            tuple(self.stop_replica[broker_id].values()),
        )

    def _topic_ids(
        self,
        states: Iterable[LeaderAndIsrPartitionState] | Iterable[UpdateMetadataPartitionState],
    ) -> dict[str, str]:
        """Return {topic: id} in the order of ``states``. Topics without an id are omitted."""
        topics = dict.fromkeys(state.topic_partition.topic for state in states)
        ids = self.context.topic_ids
        return {topic: ids[topic] for topic in topics if topic in ids}
