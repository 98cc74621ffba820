"""Events observed in a simulated world, and the history that invariants compare them with.

Everything is observed from outside: znodes when they are committed, messages when they are sent,
and replicas after their broker has processed an event. watching.py creates the observations and
checks the invariants in invariants.py against them.
"""

from __future__ import annotations

from collections.abc import Container, Sequence
from typing import Final, NamedTuple, TypeVar

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import (
    AlterIsrRequest,
    AlterIsrResponse,
    ControlRequest,
    ControlResponse,
    LeaderAndIsrRequest,
    PartitionErrors,
    StopReplicaRequest,
    UpdateMetadataRequest,
)
from klamm.cluster.types import NO_EPOCH, TopicPartition
from klamm.statemachines.context import ControllerContext
from klamm.world.views.replica_view import PartitionViews, ReplicaView

T = TypeVar("T")
NO_NODE: Final = -1
"""The writer of a znode if a tool or a test wrote it, not a broker or a controller."""


class State(NamedTuple):
    """Contents of a partition state znode. ``version``: the version of the znode."""

    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int
    version: int


class Topic(NamedTuple):
    """Contents of a topic znode.

    ``adding`` and ``removing``: replicas that reassignments in progress add or remove, keyed by
    partition, as in the znode."""

    topic_id: str | None
    replicas: dict[int, tuple[int, ...]]
    adding: dict[int, tuple[int, ...]]
    removing: dict[int, tuple[int, ...]]

    def is_reassigning(self, partition: int) -> bool:
        """Return True while the partition is being reassigned."""
        return bool(self.adding.get(partition) or self.removing.get(partition))

    def target(self, partition: int) -> tuple[int, ...]:
        """Return the replicas that the partition will have after the reassignment."""
        removing = self.removing.get(partition, ())
        return tuple(r for r in self.replicas[partition] if r not in removing)

    def origin(self, partition: int) -> tuple[int, ...]:
        """Return the replicas that the partition had before the reassignment."""
        adding = self.adding.get(partition, ())
        return tuple(r for r in self.replicas[partition] if r not in adding)


class StateWritten(NamedTuple):
    """A partition state znode was created, changed or deleted; if deleted, ``after`` is None."""

    partition: TopicPartition
    before: State | None
    after: State | None
    writer: int


class TopicWritten(NamedTuple):
    """A topic znode was created, changed or deleted; if deleted, ``after`` is None."""

    topic: str
    before: Topic | None
    after: Topic | None
    writer: int


class Committed(NamedTuple):
    """A broker or its controller committed a ZooKeeper transaction.

    ``creates_controller``: the transaction created /controller."""

    session: int
    writer: int
    paths: tuple[str, ...]
    epoch_before: int
    epoch_after: int
    creates_controller: bool


class Requested(NamedTuple):
    """A controller queued a control request for a broker."""

    controller: int
    broker: int
    request: ControlRequest


class Answered(NamedTuple):
    """A broker responded to a control request.

    ``broker_epoch``: the broker's own epoch when it began to process the request."""

    broker: int
    broker_epoch: int
    request: ControlRequest
    response: ControlResponse


class IsrAnswered(NamedTuple):
    """A controller responded to a leader's AlterIsr request."""

    controller: int
    broker: int
    request: AlterIsrRequest
    response: AlterIsrResponse


class IsrApplied(NamedTuple):
    """A leader applied the ISR in an AlterIsr response.

    ``reached``: the smallest log end offset of the leader and of the followers that count, or None
    if a follower in the ISR has not fetched in this leader epoch."""

    partition: TopicPartition
    broker: int
    high_watermark: int
    reached: int | None


class EventEnded(NamedTuple):
    """A controller has processed an event.

    ``event``: the event as in the journal, or empty if the controller was not active. ``context``:
    the context of the active controller, or None if the controller is not active, or if one of its
    events has failed since its election. ``unsent``: whether its batches still hold requests.
    ``is_fenced``: the controller is active, although ZooKeeper has rejected one of its writes in
    this event because of a newer controller epoch. ``revived``: the replicas, with their brokers,
    that it moved from OfflineReplica to OnlineReplica."""

    controller: int
    event: str
    context: ControllerContext | None
    unsent: bool
    is_fenced: bool
    revived: Sequence[tuple[TopicPartition, int]]


class ObservedShutdown(NamedTuple):
    """A controller granted a broker's controlled shutdown.

    ``broker_epoch``: epoch of the broker's registration. ``hosted``: replicas on the broker,
    except those in failed log directories."""

    controller: int
    broker: int
    broker_epoch: int
    hosted: Container[TopicPartition]


class ReplicaChanged(msgspec.Struct, frozen=True, gc=False):
    """A broker processed an event that mentions a partition, so its replica may have changed.

    ``view``: the replica on the broker. ``isr``: the ISR that the broker uses as leader; empty if
    it does not lead at the leader epoch in ZooKeeper."""

    partition: TopicPartition
    replicas: PartitionViews
    view: ReplicaView
    isr: tuple[int, ...]


class RoleChanged(msgspec.Struct, frozen=True, gc=False):
    """In such an event, the epochs or ISRs of the replica or the partition's state znode changed.

    ``view``: the replica on the broker, or None if it has none. ``isr`` and ``pending``: the ISR
    and the pending ISR that the broker uses as leader; both are empty if it is not the leader.
    ``log_epoch``: the newest leader epoch that the log of a leader knows, or None."""

    partition: TopicPartition
    broker: int
    view: ReplicaView | None
    isr: tuple[int, ...]
    pending: tuple[int, ...]
    log_epoch: int | None


class ReplicasChanged(msgspec.Struct, frozen=True, gc=False):
    """A replica of a partition, or its state znode, has changed.

    ``isr``: the ISR in ZooKeeper. ``leaders``: the replicas that lead at the leader epoch in
    ZooKeeper."""

    partition: TopicPartition
    replicas: PartitionViews
    isr: tuple[int, ...]
    leaders: list[ReplicaView]


class History:
    """What was observed before the current event.

    Current contents of ZooKeeper:

    - ``states`` and ``topics``: the znodes of partition states and topics.
    - ``registered``: the zxid of each broker's registration.
    - ``epoch`` and ``elected_session``: the controller epoch, and the session that wrote it.
    - ``deleting``: the topics that are queued for deletion.
    - ``leaderless``: the partitions whose state has no leader.

    Configs:

    - ``leaders_write_isrs``: whether leaders write ISRs to ZooKeeper themselves.
    - ``max_imbalance``: the share of a broker's preferred partitions that others may lead.

    Recorded since the start of the run:

    - ``stored``: every leader, leader epoch, ISR and version that a partition has had.
    - ``elected``: the elected broker, keyed by controller epoch.
    - ``leaders``: the leader, keyed by partition and leader epoch.
    - ``unclean``: partitions for which an unclean election was requested.
    - ``unclean_configs``: the broker ids (or ``<default>``) and the topics whose configs allowed
      unclean elections at any time.
    - ``edited``: the replicas that partitions had before a tool changed them in the topic znode.
    - ``served``: the partitions of existing topics that have had a state.
    - ``deleted_replicas``: the brokers that have deleted their replica of a partition.
    - ``sent_epochs``: the leader epoch of the last LeaderAndIsr that a controller sent to a
      broker, unless a StopReplica followed. The key includes the controller epoch and the
      broker's registration.
    - ``updated``: the live brokers in the last UpdateMetadata that a controller sent to a broker,
      with the same key.

    Recorded since the last controller election:

    - ``shut_down``: controller epoch and broker epoch of each granted controlled shutdown.
    - ``alive``: the brokers that the controller may consider alive, or None before the first
      election. A broker that registers while the controller loads the cluster may be among them.
    - ``is_loaded``: whether the controller has loaded the cluster.

    Recorded since the last restart of a broker:

    - ``accepted``: the highest controller epoch that the broker has accepted.
    - ``applied``: the leader epoch of each of its replicas.
    """

    def __init__(self, *, leaders_write_isrs: bool, max_imbalance: float) -> None:
        self.leaders_write_isrs = leaders_write_isrs
        self.max_imbalance = max_imbalance
        self.states: dict[TopicPartition, State] = {}
        self.topics: dict[str, Topic] = {}
        self.registered: dict[int, int] = {}
        self.epoch = 0
        self.elected_session = 0
        self.elected: dict[int, int] = {}
        self.stored: dict[TopicPartition, set[tuple[int, int, tuple[int, ...], int]]] = {}
        self.leaders: dict[tuple[TopicPartition, int], int] = {}
        self.unclean: set[TopicPartition] = set()
        self.unclean_configs: dict[str, set[str]] = {"brokers": set(), "topics": set()}
        self.shut_down: dict[int, tuple[int, int]] = {}
        self.deleting: set[str] = set()
        self.leaderless: set[TopicPartition] = set()
        self.alive: set[int] | None = None
        self.is_loaded = False
        self.sent_epochs: dict[tuple[int, int, int, TopicPartition], int] = {}
        self.updated: dict[tuple[int, int, int], frozenset[int]] = {}
        self.accepted: dict[int, int] = {}
        self.edited: dict[TopicPartition, set[tuple[int, ...]]] = {}
        self.served: set[TopicPartition] = set()
        self.deleted_replicas: dict[TopicPartition, set[int]] = {}
        self.applied: dict[tuple[TopicPartition, int], int] = {}

    def may_be_unclean(self, tp: TopicPartition) -> bool:
        """Return True if an unclean election of the partition was requested or allowed."""
        configs = self.unclean_configs
        return tp in self.unclean or tp.topic in configs["topics"] or bool(configs["brokers"])

    def on_state(self, event: StateWritten) -> None:
        """Record a write of a partition state znode."""
        tp, _, after, _ = event
        self.leaderless.discard(tp)
        if after is None:
            self.states.pop(tp, None)
            for key in [key for key in self.leaders if key[0] == tp]:
                del self.leaders[key]
            return
        self.states[tp] = after
        self.served.add(tp)
        self.stored.setdefault(tp, set()).add((*after[:3], after.version))
        if after.leader >= 0:
            self.leaders[tp, after.leader_epoch] = after.leader
        else:
            self.leaderless.add(tp)

    def on_topic(self, event: TopicWritten) -> None:
        """Record a write of a topic znode."""
        if event.after is not None:
            self.topics[event.topic] = event.after
            if event.writer == NO_NODE and event.before is not None:
                for number, replicas in event.before.replicas.items():
                    tp = TopicPartition(event.topic, number)
                    self.edited.setdefault(tp, set()).add(replicas)
            return
        self.topics.pop(event.topic, None)
        self.served = {tp for tp in self.served if tp.topic != event.topic}
        for tp in [tp for tp in self.deleted_replicas if tp.topic == event.topic]:
            del self.deleted_replicas[tp]

    def on_commit(self, event: Committed) -> None:
        """Record a committed transaction, which may be a controller election."""
        self.epoch = event.epoch_after
        if event.epoch_after != event.epoch_before:
            self.elected_session = event.session
            self.elected[event.epoch_after] = event.writer
            self.alive, self.is_loaded = set(self.registered), False
            self.shut_down.clear()

    def on_registration(self, broker_id: int, czxid: int | None) -> None:
        """Record the registration of a broker, or its end (None)."""
        if czxid is None:
            self.registered.pop(broker_id, None)
            return
        self.registered[broker_id] = czxid
        if self.alive is not None and not self.is_loaded:
            self.alive.add(broker_id)

    def on_restart(self, broker_id: int) -> None:
        """Forget the state that a restarted broker had only in memory."""
        self.accepted.pop(broker_id, None)
        for key in [key for key in self.applied if key[1] == broker_id]:
            del self.applied[key]

    def on_request(self, event: Requested) -> None:
        """Record a control request that a controller queued."""
        request = event.request
        receiver = (request.controller_epoch, event.broker, request.broker_epoch)
        if isinstance(request, UpdateMetadataRequest):
            self.updated[receiver] = frozenset(broker.id for broker in request.live_brokers)
        elif isinstance(request, LeaderAndIsrRequest):
            for state in request.partition_states:
                self.sent_epochs[(*receiver, state.topic_partition)] = state.leader_epoch
        else:
            for stop in request.partition_states:
                key = (*receiver, stop.topic_partition)
                if stop.leader_epoch < 0 or stop.leader_epoch > self.sent_epochs.get(key, -1):
                    self.sent_epochs.pop(key, None)

    def on_shut_down(self, event: ObservedShutdown) -> None:
        """Record a granted controlled shutdown, unless a deposed controller granted it."""
        if self.elected.get(self.epoch) == event.controller:
            self.shut_down[event.broker] = (self.epoch, event.broker_epoch)

    def on_answer(self, event: Answered) -> None:
        """Record a broker's response to a control request, unless it is an error."""
        request, response, broker = event.request, event.response, event.broker
        if response.error is not Errors.NONE:
            return
        self.accepted[broker] = max(request.controller_epoch, self.accepted.get(broker, 0))
        if isinstance(request, StopReplicaRequest) and isinstance(response, PartitionErrors):
            for stop in request.partition_states:
                tp = stop.topic_partition
                if stop.delete_partition and response.partition_errors.get(tp) is Errors.NONE:
                    self.deleted_replicas.setdefault(tp, set()).add(broker)
        elif isinstance(request, LeaderAndIsrRequest):
            for state in request.partition_states:
                self.deleted_replicas.get(state.topic_partition, set()).discard(broker)

    def on_role(self, event: RoleChanged) -> None:
        """Record the leader epoch that a broker has applied to its replica."""
        view, key = event.view, (event.partition, event.broker)
        if view is None:
            self.applied.pop(key, None)
        else:
            self.applied[key] = view.applied_epoch

    def on_row(self, row: JournalRow) -> None:
        """Track, from journal rows, which brokers the controller considers alive."""
        if row.epoch != self.epoch or self.alive is None:
            return
        if row.kind == Kind.BROKER_OFFLINE:
            self.alive.discard(row.replica)
        elif row.kind == Kind.BROKER_ONLINE:
            self.alive.add(row.replica)
        elif row.kind == Kind.CONTROLLER_READY:
            self.is_loaded = True


class _StateZNode(msgspec.Struct):
    leader: int
    leader_epoch: int
    isr: tuple[int, ...]
    controller_epoch: int


class _TopicZNode(msgspec.Struct):
    partitions: dict[int, tuple[int, ...]]
    topic_id: str | None = None
    adding_replicas: dict[int, tuple[int, ...]] | None = None
    removing_replicas: dict[int, tuple[int, ...]] | None = None


def decode_state(data: bytes | None, version: int) -> State | None:
    """Decode a partition state znode. Return None if it is missing or malformed."""
    node = decode_json(data, _StateZNode)
    if node is None:
        return None
    return State(node.leader, node.leader_epoch, node.isr, node.controller_epoch, version)


def decode_topic(data: bytes | None) -> Topic | None:
    """Decode a topic znode. Return None if it is missing or malformed."""
    node = decode_json(data, _TopicZNode)
    if node is None:
        return None
    adding, removing = node.adding_replicas or {}, node.removing_replicas or {}
    return Topic(node.topic_id, node.partitions, adding, removing)


def decode_json(data: bytes | None, kind: type[T]) -> T | None:
    """Decode JSON of a type. Return None if ``data`` is missing or something else."""
    try:
        return msgspec.json.decode(data or b"", type=kind)
    except (ValueError, RecursionError):  # msgspec's errors, and Python's for bad UTF-8
        return None


def is_current_leader(view: ReplicaView, state: State | None) -> bool:
    """Return True if the replica is the leader at the leader epoch in ZooKeeper."""
    return (
        state is not None
        and view.leading_epoch != NO_EPOCH
        and view.leading_epoch == state.leader_epoch
    )
