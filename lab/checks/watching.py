"""Checks the invariants of a simulated world after every event that can violate them.

The Watcher observes committed transactions, sent messages, journal rows and the events that brokers
and controllers have finished. It changes nothing, except that reading a partition materializes its
constant-rate appends.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple

from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import BROKER_CONFIGS, UNCLEAN
from klamm.cluster.data_requests import (
    ProduceRequest,
    ProduceResponse,
)
from klamm.cluster.errors import InvalidConfig
from klamm.cluster.journal import Kind
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    AlterIsrResponse,
    ControlledShutdownRequest,
    ControlledShutdownResponse,
    ControlRequest,
    ElectLeadersRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.lab.checks.admin_history import DELETION_PATH, TOPIC_PATH
from klamm.lab.checks.invariants import INVARIANTS, InvariantCheck, InvariantViolated
from klamm.lab.checks.observations import (
    NO_NODE,
    Answered,
    Committed,
    EventEnded,
    History,
    IsrAnswered,
    IsrApplied,
    ObservedShutdown,
    ReplicaChanged,
    ReplicasChanged,
    Requested,
    RoleChanged,
    State,
    StateWritten,
    TopicWritten,
    decode_json,
    decode_state,
    decode_topic,
    is_current_leader,
)
from klamm.lab.checks.replicas import ReplicationChecker
from klamm.statemachines.replica_state import ReplicaState
from klamm.world.actors import Actor
from klamm.world.clients.constant_rate_producer import ConstantRateProducer
from klamm.world.simulated.world import SimulatedWorld
from klamm.world.views.replica_view import PartitionViews, ReplicaView
from klamm.world.views.replica_views import ReplicaViews, changed_partitions
from klamm.world.views.running_brokers import LeaderRole, RunningBrokers
from klamm.zk.data_tree import TreeChange
from klamm.zk.store import Check as CheckVersion
from klamm.zk.store import WatchKind, WriteOp
from klamm.zk.znodes import BrokerIdZNode, ControllerEpochZNode, TopicPartitionStateZNode
from klamm.zk.znodes.configs import ConfigEntityZNode
from klamm.zk.znodes.json_values import MalformedZNode

_CONFIG: Final = re.compile(r"/config/(brokers|topics)/([^/]+)")
_ASKED: Final = (
    LeaderAndIsrRequest,
    UpdateMetadataRequest,
    StopReplicaRequest,
    AlterIsrRequest,
    ControlledShutdownRequest,
)
_ANSWERS: Final = (
    LeaderAndIsrResponse,
    UpdateMetadataResponse,
    StopReplicaResponse,
    AlterIsrResponse,
    ControlledShutdownResponse,
)
_WATCHED: Final = frozenset(
    (*_ASKED, *_ANSWERS, ElectLeadersRequest, ProduceRequest, ProduceResponse)
)
_MAX_REQUESTS: Final = 10_000
_IMBALANCE: Final = "leader.imbalance.per.broker.percentage"
_MAX_LAG: Final = "replica.lag.time.max.ms"
_REVIVED: Final = (str(ReplicaState.OFFLINE), str(ReplicaState.ONLINE))
_FAILED: Final = (Kind.EVENT_FAILED, Kind.CONTROLLER_MOVED)
"""Rows of the journal after which a controller may have left some of its work undone."""


class Violation(NamedTuple):
    """A violated invariant: its name, and what was observed, with the time and journal row.

    ``row``: the number of the last journal row at that time, from 1."""

    name: str
    seen: str
    row: int


class Watcher:
    """Checks the invariants ``names`` in one world. Create it before the first broker starts.

    ``violations``: all violations found so far."""

    def __init__(self, world: SimulatedWorld, names: Sequence[str]) -> None:
        self.violations: list[Violation] = []
        self._world = world
        self._names = frozenset(names)
        self._checks: dict[type, list[tuple[str, InvariantCheck]]] = {}
        for name in names:
            invariant = INVARIANTS[name]
            if invariant.event is not None and invariant.check is not None:
                self._checks.setdefault(invariant.event, []).append((name, invariant.check))
        protocol = BROKER_CONFIGS["inter.broker.protocol.version"].value(world.spec.config)
        percentage = BROKER_CONFIGS[_IMBALANCE].value(world.spec.config)
        self._history = History(leaders_write_isrs=protocol < "2.7", max_imbalance=percentage / 100)
        if BROKER_CONFIGS[UNCLEAN].value(world.spec.config):
            self._history.unclean_configs["brokers"].add("<default>")
        self._checker = ReplicationChecker()
        self._replicas = ReplicaViews(world)
        self._brokers = RunningBrokers(world, self._on_restart)
        self._checked: dict[TopicPartition, tuple[object, ...]] = {}
        self._roles: defaultdict[int, dict[TopicPartition, tuple[object, ...]]] = defaultdict(dict)
        self._reported = 0
        self._rates: list[ConstantRateProducer] = []
        self._asked: dict[tuple[Address, Address, int], Any] = {}
        self._current: dict[Address, object] = {}
        self._broker_epochs: dict[int, int] = {}
        self._rows = 0
        self._max_lag_ms = BROKER_CONFIGS[_MAX_LAG].value(world.spec.config)
        self._events: dict[int, str] = {}
        self._fenced: set[int] = set()
        self._revived: dict[int, list[tuple[TopicPartition, int]]] = {}
        self._failed: dict[int, int] = {}
        world.server.commit_taps.append(self._on_commit)
        world.server.rejection_taps.append(self._on_rejection)
        world.transport.add_tap(self._on_message)
        world.request_taps.append(self._on_request)
        world.observer = self

    @property
    def remembered(self) -> tuple[object, ...]:
        """What the verdicts on later events depend on."""
        return self._history, self._checker

    def forget_rows(self) -> None:
        """Remove all rows from the world's journal, e.g. to make copies of the world small."""
        self._take_rows()
        self._world.journal.rows.clear()
        self._rows = 0

    def add_constant_rates(self, producer: ConstantRateProducer) -> None:
        """Also check that records acknowledged to this constant-rate producer are not lost."""
        self._rates.append(producer)

    def raise_violation(self) -> None:
        """Raise InvariantViolated for the first violation, if any."""
        if self.violations:
            raise InvariantViolated(*self.violations[0])

    # -- observations

    def _on_commit(self, session: int, changes: Sequence[TreeChange]) -> None:
        self._take_rows()
        history, tree = self._history, self._world.server.tree
        writer = self._writer(session)
        epoch_node = tree.nodes.get("/controller_epoch")
        epoch = 0 if epoch_node is None else decode_json(epoch_node.data, int) or 0
        if writer != NO_NODE:
            committed = Committed(
                session,
                writer,
                tuple(change.path for change in changes),
                history.epoch,
                epoch,
                (WatchKind.CREATED, "/controller") in changes,
            )
            self._check(committed)
            history.on_commit(committed)
        else:
            history.epoch = epoch
        for change in changes:
            self._on_change(change, writer)

    def _on_change(self, change: TreeChange, writer: int) -> None:
        history, path = self._history, change.path
        node = self._world.server.tree.nodes.get(path)
        if (tp := TopicPartitionStateZNode.partition_of(path)) is not None:
            after = None if node is None else decode_state(node.data, node.version)
            written = StateWritten(tp, history.states.get(tp), after, writer)
            self._check(written)
            history.on_state(written)
        elif found := TOPIC_PATH.fullmatch(path):
            topic = found[1]
            after_topic = None if node is None else decode_topic(node.data)
            changed = TopicWritten(topic, history.topics.get(topic), after_topic, writer)
            self._check(changed)
            history.on_topic(changed)
            if node is None:
                self._checker.forget(topic)
        elif found := DELETION_PATH.fullmatch(path):
            (history.deleting.discard if node is None else history.deleting.add)(found[1])
        elif (broker_id := BrokerIdZNode.id_of(path)) is not None:
            history.on_registration(broker_id, None if node is None else node.czxid)
        elif (found := _CONFIG.fullmatch(path)) and node is not None:
            with suppress(MalformedZNode, InvalidConfig):
                config = ConfigEntityZNode.decode(node.data)
                if BROKER_CONFIGS[UNCLEAN].value(config):
                    history.unclean_configs[found[1]].add(found[2])

    def _on_rejection(self, session: int, operation: WriteOp) -> None:
        """Remember that a fenced write of a controller has been rejected."""
        if isinstance(operation, CheckVersion) and operation.path == ControllerEpochZNode.path:
            self._fenced.add(self._writer(session))

    def _writer(self, session: int) -> int:
        for broker_id, running in self._world.nodes.items():
            if running.store.session_id == session:
                return broker_id
        return NO_NODE

    def _on_message(self, message: Message) -> None:
        self._take_rows()
        body = message.body
        if type(body) not in _WATCHED:
            return
        if isinstance(body, _ASKED):
            self._ask(message)
        elif isinstance(body, ElectLeadersRequest):
            if body.election_type is ElectionType.UNCLEAN:
                named = body.partitions
                self._history.unclean.update(self._history.states if named is None else named)
        elif isinstance(body, ProduceRequest | ProduceResponse):
            self._on_produce(message)
        elif isinstance(body, _ANSWERS):
            self._on_answer(message)

    def _on_request(self, broker_id: int, request: ControlRequest) -> None:
        """Check a control request when it is queued.

        It may be sent much later, because a controller sends a broker one request at a time."""
        requested = Requested(request.controller_id, broker_id, request)
        self._check(requested)
        self._history.on_request(requested)

    def _ask(self, message: Message) -> None:
        if len(self._asked) > _MAX_REQUESTS:
            del self._asked[next(iter(self._asked))]
        key = (message.source, message.destination, message.correlation_id)
        self._asked[key] = message.body

    def _on_answer(self, message: Message) -> None:
        body, source, destination = message.body, message.source, message.destination
        asked = self._asked.pop((destination, source, message.correlation_id), None)
        history = self._history
        match asked, body:
            case AlterIsrRequest(), AlterIsrResponse():
                self._check(IsrAnswered(source.id, destination.id, asked, body))
            case ControlledShutdownRequest(), ControlledShutdownResponse(error=Errors.NONE):
                registered = history.registered.get(asked.broker_id, 0)
                broker = self._brokers.get(asked.broker_id)
                hosted = () if broker is None else broker.hosted
                granted = ObservedShutdown(source.id, asked.broker_id, registered, hosted)
                self._check(granted)
                history.on_shut_down(granted)
            case (
                LeaderAndIsrRequest() | UpdateMetadataRequest() | StopReplicaRequest(),
                LeaderAndIsrResponse() | UpdateMetadataResponse() | StopReplicaResponse(),
            ):
                if self._brokers.get(source.id) is not None:
                    # The controller on the same node may register the broker again while the
                    # broker processes the request.
                    epoch = self._broker_epochs[source.id]
                    answered = Answered(source.id, epoch, asked, body)
                    self._check(answered)
                    history.on_answer(answered)
            case _:
                pass

    def _on_produce(self, message: Message) -> None:
        views: list[ReplicaView] = []
        body, broker_id = message.body, message.source.id
        if isinstance(body, ProduceResponse):
            views = [
                view
                for tp in body.partitions
                if (view := self._replicas.on_broker(tp, broker_id)) is not None
            ]
        self._checker.on_message(message, views)
        self._take_reports()

    # -- events of brokers and controllers

    def before(self, actor: Actor) -> None:
        """Remember which event a broker is about to process.

        Forget what a controller did in an event in which it crashed."""
        if actor.task is not None:
            return
        if actor.address.role == "controller":
            self._fenced.discard(actor.address.id)
            self._events.pop(actor.address.id, None)
            self._revived.pop(actor.address.id, None)
        elif actor.address.role == "broker":
            self._current[actor.address] = actor.inbox[0] if actor.inbox else None
            if (broker := self._brokers.get(actor.address.id)) is not None:
                self._broker_epochs[actor.address.id] = broker.broker_epoch

    def after(self, actor: Actor) -> None:
        """Check the partitions that are mentioned in the event that a broker has just finished."""
        if actor.task is not None:
            return
        if actor.address.role == "controller":
            self._on_event_ended(actor.address.id)
        elif actor.address.role == "broker":
            event = self._current.pop(actor.address, None)
            if tps := changed_partitions(event):
                self._on_replicas(tps, actor.address.id)
            if isinstance(event, Message) and isinstance(event.body, AlterIsrResponse):
                self._on_isrs(actor.address.id, event.body)

    def _on_event_ended(self, broker_id: int) -> None:
        """Check what a controller has done in the event that it has just finished."""
        self._take_rows()
        event, revived = self._events.pop(broker_id, ""), self._revived.pop(broker_id, ())
        controller = self._brokers.controller(broker_id)
        if controller is None:
            return
        has_failed = self._failed.get(broker_id) == controller.context.epoch
        context = controller.context if controller.is_active and not has_failed else None
        is_fenced = broker_id in self._fenced and controller.is_active
        self._fenced.discard(broker_id)
        unsent = controller.has_unsent_requests
        self._check(EventEnded(broker_id, event, context, unsent, is_fenced, revived))

    def _on_isrs(self, broker_id: int, response: AlterIsrResponse) -> None:
        """Check the high watermarks of the partitions whose new ISRs a leader has applied."""
        broker, now_ms = self._brokers.get(broker_id), self._world.clock.monotonic_ms()
        if broker is None:
            return
        for tp, answer in response.partitions.items():
            leader = broker.leader(tp)
            if leader is None or leader.leader_and_isr != answer:
                continue
            awaited = {*leader.leader_and_isr.isr, *leader.pending}.difference((broker_id,))
            ends = [leader.log_end_offset]
            for follower in leader.followers:
                is_late = now_ms - follower.caught_up_ms > self._max_lag_ms
                if follower.broker_id in awaited or not is_late:
                    ends.append(follower.log_end_offset)
                    awaited.discard(follower.broker_id)
            reached = None if awaited else min(ends)
            self._check(IsrApplied(tp, broker_id, leader.high_watermark, reached))

    def _on_replicas(self, tps: Iterable[TopicPartition], broker_id: int) -> None:
        broker = self._brokers.get(broker_id)
        if broker is None:
            return
        hosts, now_ms = self._replicas.hosts(), self._world.clock.monotonic_ms()
        acknowledged = self._checker.acknowledged
        for tp in tps:
            for producer in self._rates:
                if (progress := producer.partitions.get(tp)) is not None:
                    progress.materialize(now_ms)
                    acknowledged[tp] = progress.acknowledged
            replicas, state = self._replicas.of(tp, hosts), self._history.states.get(tp)
            self._on_replica(tp, broker_id, broker.role(tp), replicas, state)
            self._check_partition(tp, replicas)

    def _on_replica(
        self,
        tp: TopicPartition,
        broker_id: int,
        leads: LeaderRole,
        replicas: PartitionViews,
        state: State | None,
    ) -> None:
        """Check the replica on the broker whose event it was, as far as something has changed."""
        view = None
        for one in replicas.views:
            if one.broker_id == broker_id:
                view = one
        epochs = None if view is None else (view.leading_epoch, view.applied_epoch)
        role = (epochs, leads, state)
        seen = self._roles[broker_id]
        before, same = seen.get(tp, (None, None))
        if before == role and same is replicas:
            return
        seen[tp] = role, replicas
        if view is not None:
            is_current = is_current_leader(view, state)
            self._check(ReplicaChanged(tp, replicas, view, leads.isr if is_current else ()))
        if before != role:
            changed = RoleChanged(tp, broker_id, view, *leads)
            self._check(changed)
            self._history.on_role(changed)

    def _check_partition(self, tp: TopicPartition, replicas: PartitionViews) -> None:
        """Check what does not depend on the broker whose event it was, unless nothing changed."""
        state = self._history.states.get(tp)
        seen = (replicas, state, self._checker.acknowledged.get(tp))
        if self._checked.get(tp) == seen:
            return
        self._checked[tp] = seen
        leaders = [view for view in replicas.views if is_current_leader(view, state)]
        self._check(ReplicasChanged(tp, replicas, () if state is None else state.isr, leaders))
        self._checker.check_partition(tp, replicas)
        self._take_reports()

    def _on_restart(self, broker_id: int) -> None:
        """Forget the state of a broker that has restarted."""
        self._roles[broker_id].clear()
        self._history.on_restart(broker_id)
        self._checker.on_restart(broker_id)

    # -- checks

    def _check(self, event: Any) -> None:
        history = self._history
        for name, check in self._checks.get(event.__class__, ()):
            for line in check(history, event):
                self._report(name, line)

    def _take_reports(self) -> None:
        names = self._checker.names
        if len(names) > self._reported:
            for line in list(names)[self._reported :]:
                if names[line] in self._names:
                    self._report(names[line], line)
            self._reported = len(names)

    def _report(self, name: str, line: str) -> None:
        at_s = self._world.clock.monotonic_ms() / 1000
        rows = len(self._world.journal.rows)
        seen = f"{line}; at {at_s:.3f} s, journal row {rows}"
        self.violations.append(Violation(name, seen, rows))

    def _take_rows(self) -> None:
        rows = self._world.journal.rows
        if len(rows) == self._rows:
            return
        for row in rows[self._rows :]:
            self._history.on_row(row)
            if row.kind == Kind.EVENT:
                self._events[row.controller] = row.detail or ""
            elif row.kind == Kind.REPLICA_TRANSITION and (row.from_, row.to) == _REVIVED:
                tp = TopicPartition(row.topic or "", row.partition)
                self._revived.setdefault(row.controller, []).append((tp, row.replica))
            elif row.kind in _FAILED:
                self._failed[row.controller] = row.epoch
        self._rows = len(rows)
