"""A few brokers in one place, with a clock that is set and a transport that is pumped by hand."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from klamm.brokers.broker import KafkaServer
from klamm.brokers.config import BrokerConfig
from klamm.brokers.logs.log_store import LogStore
from klamm.cluster.data_requests import FetchPartition, FetchRequest
from klamm.cluster.requests import (
    Address,
    AlterIsrRequest,
    AlterIsrResponse,
    LeaderAndIsrPartitionState,
    LeaderAndIsrRequest,
    Message,
    Request,
    Response,
    StopReplicaPartitionState,
    StopReplicaRequest,
    UpdateMetadataPartitionState,
    UpdateMetadataRequest,
)
from klamm.cluster.types import EPOCH_DURING_DELETE, EndPoint, TopicPartition
from klamm.cluster.types import Broker as RegisteredBroker
from klamm.zk.memory_store import MemoryServer, MemoryStore

CONTROLLER = 0
CONTROLLER_ADDRESS = Address("controller", CONTROLLER)
CONTROLLER_EPOCH = 5
T0 = TopicPartition("t", 0)
T1 = TopicPartition("t", 1)
TOPIC_ID = "topic-id-of-t-1234567"


class ManualClock:
    """Time that moves only when told to."""

    def __init__(self) -> None:
        self.time_ms = 1_000_000.0

    def now_ms(self) -> int:
        return int(self.time_ms)

    def monotonic_ms(self) -> float:
        return self.time_ms


class Network:
    """Brokers and what they sent. Messages to brokers wait for ``deliver``; others are kept.

    Nothing that is delivered arrives at the brokers in ``lost``; what ``withholds`` says is kept in
    ``withheld`` instead.
    """

    def __init__(self) -> None:
        self.clock = ManualClock()
        self.zookeeper = MemoryServer(self.clock)
        self.brokers: dict[int, KafkaServer] = {}
        self.stores: dict[int, MemoryStore] = {}
        self.sent: list[Message] = []
        self.lost: tuple[int, ...] = ()
        self.withholds: Callable[[Message], bool] | None = None
        self.withheld: list[Message] = []
        self._queue: deque[Message] = deque()
        self._correlation_id = 0

    def send(self, message: Message) -> None:
        self.sent.append(message)
        if message.destination.role == "broker":
            self._queue.append(message)

    def add(
        self,
        broker_id: int,
        config: BrokerConfig | None = None,
        broker_epoch: int = -1,
        proposed_cluster_id: str | None = None,
        log_store: LogStore | None = None,
    ) -> KafkaServer:
        """A new broker that has not registered; it replaces one with the same id."""
        store = self.stores[broker_id] = MemoryStore(self.zookeeper, 6000)
        broker = KafkaServer(
            registered(broker_id),
            store,
            self,
            self.clock,
            config,
            proposed_cluster_id,
            log_store=log_store,
        )
        broker.on_registered(broker_epoch)
        self.brokers[broker_id] = broker
        return broker

    def deliver(self) -> None:
        """Deliver what waits, and what that leads to; messages to absent brokers are lost."""
        while self._queue:
            message = self._queue.popleft()
            if self.withholds is not None and self.withholds(message):
                self.withheld.append(message)
                continue
            broker = self.brokers.get(message.destination.id)
            if broker is not None and message.destination.id not in self.lost:
                broker.receive(message)

    def ask(self, broker_id: int, body: Request, source: Address = CONTROLLER_ADDRESS) -> int:
        """Have a broker receive a request and return its number; nothing else is delivered."""
        self._correlation_id += 1
        address = Address("broker", broker_id)
        self.brokers[broker_id].receive(Message(source, address, self._correlation_id, body))
        return self._correlation_id

    def answer_to(self, number: int, source: Address) -> object:
        """The only response to a request of ``source``; None if the request waits."""
        answers = [
            m.body for m in self.sent if (m.destination, m.correlation_id) == (source, number)
        ]
        assert len(answers) <= 1
        return answers[0] if answers else None

    def request(
        self, broker_id: int, body: Request, source: Address = CONTROLLER_ADDRESS
    ) -> Response:
        """Have a broker handle a request, and return its answer; nothing else is delivered."""
        mark = len(self.sent)
        number = self.ask(broker_id, body, source)
        (answer,) = (
            m for m in self.sent[mark:] if (m.destination, m.correlation_id) == (source, number)
        )
        assert answer.source == Address("broker", broker_id)
        assert isinstance(answer.body, Response)
        return answer.body

    def answer(self, request: Message, body: AlterIsrResponse) -> None:
        """Answer an AlterIsr request as the controller that it was sent to."""
        reply = Message(request.destination, request.source, request.correlation_id, body)
        self.brokers[request.source.id].receive(reply)

    def alter_isr_requests(self) -> list[Message]:
        """Every AlterIsr request sent so far."""
        return [m for m in self.sent if isinstance(m.body, AlterIsrRequest)]

    def fetch_requests(self) -> list[Message]:
        """Every fetch sent so far."""
        return [m for m in self.sent if isinstance(m.body, FetchRequest)]

    def pass_time(self, duration_ms: float) -> None:
        """Let time pass, calling every timer that becomes due on the way, and deliver."""
        deadline_ms = self.clock.time_ms + duration_ms
        while True:
            due = [b.next_due_ms() for b in self.brokers.values()]
            next_ms = min((d for d in due if d is not None), default=None)
            if next_ms is None or next_ms > deadline_ms:
                break
            self.clock.time_ms = max(self.clock.time_ms, next_ms)
            for broker in self.brokers.values():
                broker.on_timer()
            self.deliver()
        self.clock.time_ms = deadline_ms


def registered(broker_id: int) -> RegisteredBroker:
    """What a broker registers."""
    return RegisteredBroker(broker_id, (EndPoint("localhost", 9092 + broker_id),), None)


def state(
    tp: TopicPartition = T0,
    *,
    leader: int = 1,
    leader_epoch: int = 3,
    isr: tuple[int, ...] = (1, 2),
    zk_version: int = 7,
    replicas: tuple[int, ...] = (1, 2),
    is_new: bool = True,
) -> LeaderAndIsrPartitionState:
    """A LeaderAndIsr state."""
    return LeaderAndIsrPartitionState(
        tp, CONTROLLER_EPOCH, leader, leader_epoch, isr, zk_version, replicas, (), (), is_new
    )


def leader_and_isr(
    *states: LeaderAndIsrPartitionState,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = -1,
    topic_id: str | None = TOPIC_ID,
) -> LeaderAndIsrRequest:
    """A LeaderAndIsr request for topic t."""
    ids = {} if topic_id is None else {"t": topic_id}
    return LeaderAndIsrRequest(CONTROLLER, controller_epoch, broker_epoch, states, ids, ())


def stop_replica(
    tp: TopicPartition = T0,
    leader_epoch: int = EPOCH_DURING_DELETE,
    *,
    delete: bool = True,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = -1,
) -> StopReplicaRequest:
    """A StopReplica request for one replica, by default for a topic that is deleted."""
    stopped = StopReplicaPartitionState(tp, leader_epoch, delete)
    return StopReplicaRequest(CONTROLLER, controller_epoch, broker_epoch, (stopped,))


def update_metadata(
    *states: UpdateMetadataPartitionState,
    live: tuple[int, ...] = (0, 1, 2, 3),
    controller_id: int = CONTROLLER,
    controller_epoch: int = CONTROLLER_EPOCH,
    broker_epoch: int = -1,
    topic_id: str = TOPIC_ID,
) -> UpdateMetadataRequest:
    """An UpdateMetadata request for topic t."""
    brokers = tuple(registered(broker_id) for broker_id in live)
    return UpdateMetadataRequest(
        controller_id, controller_epoch, broker_epoch, states, brokers, {"t": topic_id}
    )


def cached(
    tp: TopicPartition = T0, *, leader: int = 1, isr: tuple[int, ...] = (1, 2), zk_version: int = 7
) -> UpdateMetadataPartitionState:
    """An UpdateMetadata state."""
    return UpdateMetadataPartitionState(tp, CONTROLLER_EPOCH, leader, 3, isr, zk_version, (1, 2))


def fetch_of(
    replica_id: int, *tps: TopicPartition, leader_epoch: int = 3, offset: int = 0, epoch: int = -1
) -> FetchRequest:
    """A fetch of a follower whose logs end at ``offset`` with records of ``epoch``."""
    asked = FetchPartition(offset, leader_epoch, epoch)
    return FetchRequest(replica_id, dict.fromkeys(tps or (T0,), asked))
