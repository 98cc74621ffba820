"""Controllers over a ZooKeeper in memory, with brokers that answer every request at once.

Time stands still unless a test advances it, and a controller processes events only when told to.
"""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from typing import Self, TypeVar

from klamm.cluster.api_errors import Errors
from klamm.cluster.configs import broker_fields
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.requests import (
    Address,
    ControlRequest,
    LeaderAndIsrRequest,
    LeaderAndIsrResponse,
    Message,
    Request,
    Response,
    StopReplicaRequest,
    StopReplicaResponse,
    UpdateMetadataRequest,
    UpdateMetadataResponse,
)
from klamm.cluster.types import (
    LEADER_DURING_DELETE,
    Broker,
    EndPoint,
    LeaderAndIsr,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicPartition,
)
from klamm.controller.candidacy import Candidacy
from klamm.controller.config import ControllerConfig
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.state_change_log import StateChangeLog
from klamm.placement.draws import JavaRandom
from klamm.world.clock import VirtualClock
from klamm.world.journal.journal import MemoryJournal
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import ReadOp, Transaction
from klamm.zk.znodes import BrokerInfo, ControllerZNode, TopicPartitionStateZNode, TopicZNode

CLIENT = Address("client", 7)
_Answer = TypeVar("_Answer", bound=Response)


class FakeBroker:
    """Answers everything with success and keeps what it was told of leaders."""

    def __init__(self, broker_id: int) -> None:
        self.id = broker_id
        self.requests: list[ControlRequest] = []
        self.is_silent = False
        self.failed_dirs: set[TopicPartition] = set()
        self.error = Errors.NONE
        self._leaders: dict[TopicPartition, int] = {}

    def leader_of(self, partition: TopicPartition) -> int | None:
        """The leader last heard of."""
        return self._leaders.get(partition)

    def num_partitions(self, topic: str) -> int:
        """How many partitions of the topic it has heard of and not heard the end of."""
        leaders = self._leaders.items()
        return sum(tp.topic == topic and leader != LEADER_DURING_DELETE for tp, leader in leaders)

    def answer(self, request: ControlRequest) -> Response:
        """Take a request in and answer it."""
        self.requests.append(request)
        match request:
            case LeaderAndIsrRequest():
                errors = {
                    s.topic_partition: Errors.KAFKA_STORAGE_ERROR
                    if s.topic_partition in self.failed_dirs
                    else Errors.NONE
                    for s in request.partition_states
                }
                return LeaderAndIsrResponse(self.error, errors)
            case UpdateMetadataRequest():
                for state in request.partition_states:
                    self._leaders[state.topic_partition] = state.leader
                return UpdateMetadataResponse(self.error)
            case StopReplicaRequest():
                stopped = {
                    s.topic_partition: Errors.KAFKA_STORAGE_ERROR
                    if s.topic_partition in self.failed_dirs
                    else Errors.NONE
                    for s in request.partition_states
                }
                return StopReplicaResponse(self.error, stopped)

    def take_requests(self) -> list[ControlRequest]:
        """What was received since the last call."""
        taken, self.requests = self.requests, []
        return taken


class Cluster:
    """Brokers by id, each with a session; those that are candidates have a controller."""

    def __init__(
        self,
        quirks: Quirks = NO_QUIRKS,
        *,
        journal_messages: bool = False,
        delete_topic_enable: bool = True,
    ) -> None:
        self.quirks = quirks
        self.delete_topic_enable = delete_topic_enable
        self.journal_messages = journal_messages
        self.clock = VirtualClock()
        self.candidacy = Candidacy(self.clock)
        self.server = MemoryServer(self.clock)
        self.journal = MemoryJournal()
        self.stores: dict[int, MemoryStore] = {}
        self.brokers: dict[int, FakeBroker] = {}
        self.controllers: dict[int, KafkaController] = {}
        self.state_change_logs: dict[int, io.StringIO] = {}
        self.controller_logs: dict[int, io.StringIO] = {}
        self.replies: list[Message] = []
        self.paused: set[int] = set()
        self.admin = KafkaZkClient(MemoryStore(self.server))
        self.admin.create_top_level_paths()

    # Transport

    def send(self, message: Message) -> None:
        """Carry a message: to a broker that answers at once, or back to whoever asked."""
        if message.destination.role != "broker":
            self.replies.append(message)
            return
        broker = self.brokers.get(message.destination.id)
        if broker is None or broker.is_silent:
            return
        body = broker.answer(message.body)  # type: ignore[arg-type]
        own = self.controllers.get(message.destination.id)
        if own is not None and isinstance(body, UpdateMetadataResponse):
            own.on_metadata_updated()
        answer = Message(message.destination, message.source, message.correlation_id, body)
        controller = self.controllers.get(message.source.id)
        if controller is not None:
            controller.receive(answer)

    def ask(self, controller_id: int, request: Request, number: int = 1) -> None:
        """Send a request to a controller."""
        address = Address("controller", controller_id)
        self.controllers[controller_id].receive(Message(CLIENT, address, number, request))

    def answer(self) -> Response:
        """The one reply since the last call."""
        replies, self.replies = self.replies, []
        assert len(replies) == 1, replies
        return replies[0].body  # type: ignore[return-value]

    def request(self, request: Request, answer: type[_Answer], controller_id: int = 0) -> _Answer:
        """Send a request to a controller and return its answer."""
        self.ask(controller_id, request)
        self.run()
        found = self.answer()
        assert isinstance(found, answer)
        return found

    # Brokers and controllers

    def start(self, *broker_ids: int, candidates: Iterable[int] = (0,)) -> Self:
        """Start brokers, one after the other, and process the events that follow from each."""
        for broker_id in broker_ids:
            self.start_broker(broker_id, is_candidate=broker_id in candidates)
            self.run()
        return self

    def stop(self, broker_id: int) -> None:
        """End a broker and process the events that follow."""
        self.kill_broker(broker_id)
        self.run()

    def fail_over(self) -> None:
        """Delete the znode of the controller and process the election that follows."""
        self.admin.delete(ControllerZNode.path)
        self.run()

    def resume(self) -> None:
        """Let the paused controllers process their events."""
        self.paused.clear()
        self.run()

    def start_broker(self, broker_id: int, is_candidate: bool = False, port: int = 9092) -> None:
        """Register a broker; a candidate's controller begins to be one."""
        store = MemoryStore(self.server)
        info = broker_info(broker_id, port)
        self.stores[broker_id] = store
        self.brokers[broker_id] = broker = FakeBroker(broker_id)
        KafkaZkClient(store).register_broker(BrokerInfo(info), self.clock.now_ms())
        if not is_candidate:
            return
        state_change = self.state_change_logs.setdefault(broker_id, io.StringIO())
        log = self.controller_logs.setdefault(broker_id, io.StringIO())
        self.controllers[broker_id] = controller = KafkaController(
            ControllerConfig(
                broker_id=broker_id,
                run_id="test",
                journal_messages=self.journal_messages,
                **broker_fields(
                    ControllerConfig.__struct_fields__,
                    {"delete.topic.enable": str(self.delete_topic_enable)},
                ),
            ),
            info,
            store,
            self,
            self.clock,
            self.journal,
            broker,
            JavaRandom(broker_id),
            self.quirks,
            StateChangeLog(broker_id, self.clock, state_change=state_change, controller=log),
            candidacy=self.candidacy,
        )
        controller.startup()

    def kill_broker(self, broker_id: int) -> None:
        """End a broker and its controller; the session ends at once."""
        self.brokers.pop(broker_id)
        self.controllers.pop(broker_id, None)
        self.stores.pop(broker_id).close()

    def expire(self, broker_id: int, notify: bool = True) -> None:
        """Expire a broker's session while the process lives on."""
        self.server.expire_session(self.stores[broker_id].session_id, notify)

    def run(self) -> None:
        """Let every controller that is not paused process all it has."""
        while any([c.step() for id_, c in self.controllers.items() if id_ not in self.paused]):
            pass

    def advance(self, ms: float) -> None:
        """Let time pass, then run."""
        self.clock.advance_to(self.clock.monotonic_ms() + ms)
        self.run()

    @property
    def active(self) -> KafkaController:
        """The one controller that is active."""
        active = [c for c in self.controllers.values() if c.is_active]
        assert len(active) == 1, [c.config.broker_id for c in active]
        return active[0]

    def active_among(self, *broker_ids: int) -> bool:
        """True if one of these is active, whatever a paused one believes."""
        return any(self.controllers[id_].is_active for id_ in broker_ids)

    # Topics

    def create_topic(self, topic: str, *replicas: tuple[int, ...]) -> list[TopicPartition]:
        """Write a topic's znode as a tool does and process what follows."""
        tps = [TopicPartition(topic, n) for n in range(len(replicas))]
        assignment = {tp: ReplicaAssignment(r) for tp, r in zip(tps, replicas, strict=True)}
        assert self.admin.create_topic_assignment(topic, None, assignment)
        self.run()
        return tps

    def add_partitions(self, topic: str, *replicas: tuple[int, ...]) -> None:
        """Replace a topic's znode by one with these partitions and process what follows."""
        found = self.admin.get_topic_assignments([topic]).values[topic]
        assignment = {
            TopicPartition(topic, n): ReplicaAssignment(r) for n, r in enumerate(replicas)
        }
        self.admin.set_topic_assignment(topic, found.topic_id, assignment)
        self.run()

    def delete_topic(self, topic: str) -> None:
        """Mark a topic for deletion as a tool does and process the events that follow."""
        self.admin.create_delete_topic_path(topic)
        self.run()

    def reassign(self, targets: dict[TopicPartition, tuple[int, ...] | None]) -> None:
        """Write the znode of reassignments as a tool does and process the events that follow."""
        self.admin.create_partition_reassignment(targets)
        self.run()

    def stored(self, tp: TopicPartition) -> LeaderIsrAndControllerEpoch | None:
        """What the state znode holds."""
        return self.admin.get_partition_states([tp]).values.get(tp)

    def state_of(self, controller_id: int, tp: TopicPartition) -> LeaderAndIsr:
        """What one controller knows of a partition."""
        return self.controllers[controller_id].context.leaderships[tp].leader_and_isr

    def state(self, tp: TopicPartition) -> LeaderAndIsr:
        """Leader and ISR in the state znode, which the context must agree with."""
        stored = self.stored(tp)
        assert stored is not None, f"{tp} has no state"
        assert self.active.context.leaderships[tp].leader_and_isr == stored.leader_and_isr
        return stored.leader_and_isr

    def topic_version(self, topic: str) -> int:
        """The data version of the topic's znode."""
        found = self.admin.get_data_and_stat(TopicZNode.path(topic))
        assert found is not None
        return found[1].version

    def write_state(self, tp: TopicPartition, data: bytes) -> None:
        """Overwrite a state znode by hand."""
        self.admin.set_data(TopicPartitionStateZNode.path(tp), data)

    # What happened

    def rows(self, *kinds: Kind) -> list[JournalRow]:
        """Journal rows of these kinds."""
        return [row for row in self.journal.rows if row.kind in kinds]

    def moves(self, kind: Kind = Kind.PARTITION_TRANSITION) -> list[str]:
        """Transitions in the journal, e.g. ``t-0 New>Online`` or ``t-0 r1 New>Online``."""
        return [
            f"{r.topic}-{r.partition}{'' if r.replica < 0 else f' r{r.replica}'} "
            f"{_short(r.from_)}>{_short(r.to)}"
            for r in self.rows(kind)
        ]

    def logged(self, *words: str, controller: int = 0) -> list[str]:
        """The lines of a controller's log with one of these words, without time and sender."""
        lines = self.controller_logs[controller].getvalue().splitlines()
        sender = f"[Controller id={controller}] "
        found = [line.partition(sender)[2].rpartition(" (")[0] for line in lines]
        return [line for line in found if any(word in line for word in words)]

    def write_before(
        self, is_next: Callable[[ReadOp | Transaction], bool], write: Callable[[], object]
    ) -> None:
        """Have ``write`` called just before the first operation for which ``is_next`` is true."""

        def before(_: int, op: ReadOp | Transaction) -> None:
            if is_next(op):
                self.server.before_op = None
                write()

        self.server.before_op = before

    def forget(self) -> None:
        """Begin to look anew: empty journal, requests and replies."""
        self.journal.rows.clear()
        self.replies.clear()
        for broker in self.brokers.values():
            broker.take_requests()

    def assert_nothing_failed(self) -> None:
        """No event ended with an error, and the counters equal a recount."""
        assert not self.rows(Kind.EVENT_FAILED)
        context = self.active.context
        assert context.counts() == context.recount()
        assert self.active.channels.is_idle()


def broker_info(broker_id: int, port: int = 9092) -> Broker:
    """What a broker registers."""
    return Broker(broker_id, (EndPoint("localhost", port),))


def _short(state: str | None) -> str:
    return (state or "").replace("Partition", "").replace("Replica", "")
