"""What happened in a run besides the journal: messages, znode writes, steps, brokers, faults.

Observes a scenario's cluster, and changes nothing. In a real cluster znode writes are not observed,
and the states of brokers are polled.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Final, NamedTuple

from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.journal import JournalRow, Kind
from klamm.cluster.requests import ControlRequest, Message
from klamm.cluster.status import PAUSED, RUNNING
from klamm.cluster.types import TopicPartition
from klamm.lab.actions.action import DEAD
from klamm.lab.checks.observations import decode_state
from klamm.lab.drill import Step
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.page.fault_periods import FaultPeriods
from klamm.world.cluster import Cluster
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.data_tree import TreeChange
from klamm.zk.store import WatchKind
from klamm.zk.znodes import BrokerIdZNode, TopicPartitionStateZNode

MOST_EVENTS: Final = 5_000
MOST_QUEUED: Final = 100
MOST_STATES: Final = 500
"""How many of the last events, queued requests, and states of each broker a trace keeps."""
NO_SESSION: Final = "no session"
_DATA: Final = (FetchRequest, FetchResponse, ProduceRequest, ProduceResponse)


class BrokerState(NamedTuple):
    """State of a broker's process, and whether its znode in /brokers/ids exists."""

    process: str
    is_registered: bool

    @property
    def text(self) -> str:
        """The state in words."""
        if self.process == DEAD:
            return "dead, session not expired" if self.is_registered else DEAD
        if self.is_registered:
            return self.process
        return NO_SESSION if self.process == RUNNING else f"{self.process}, {NO_SESSION}"


class Sent(NamedTuple):
    """A message between brokers, controllers and clients, without those that carry records.

    Of each event, ``rows`` is the number of journal rows when it happened."""

    at_ms: float
    rows: int
    message: Message


class Queued(NamedTuple):
    """A control request that a controller has queued for a broker."""

    at_ms: float
    broker_id: int
    request: ControlRequest


class Leadership(NamedTuple):
    """Leader and ISR of a partition from a time on; None for a partition that was deleted."""

    at_ms: float
    leader: int | None
    isr: tuple[int, ...] = ()


class ZNodeChange(NamedTuple):
    """A change to a znode, with the data after the change; None if it was deleted."""

    kind: WatchKind
    path: str
    data: bytes | None


class Written(NamedTuple):
    """The changes of one ZooKeeper transaction, or of the end of a session.

    ``broker_id``: the broker whose session it was, or None for other clients."""

    at_ms: float
    rows: int
    broker_id: int | None
    has_ended: bool
    changes: tuple[ZNodeChange, ...]


class BegunStep(NamedTuple):
    """A step of the scenario that began."""

    at_ms: float
    rows: int
    step: Step


TraceEvent = Sent | Written | BegunStep


class RunTrace:
    """Records the events of a run. Create it before the first broker starts.

    ``events`` are the last ones, in the order in which they happened; ``count`` is their total
    number. ``queued``: control requests that have not been sent yet. ``states`` has the last states
    of each broker, each with its time; they begin with DEAD. ``partitions`` has the last leaders
    and ISRs that were written to ZooKeeper, or, in a real cluster, that the controllers journalled.
    ``faults``: those of links, requests, disks and clocks.
    All times are milliseconds since the cluster started; ``started_ms`` is that time since 1970.
    """

    def __init__(self, driver: ScenarioDriver) -> None:
        self._driver = driver
        self.started_ms = driver.cluster.clock.now_ms() - driver.elapsed_ms
        self.count = 0
        self.events: deque[TraceEvent] = deque(maxlen=MOST_EVENTS)
        self.queued: deque[Queued] = deque(maxlen=MOST_QUEUED)
        self.steps: deque[BegunStep] = deque(maxlen=MOST_STATES)
        self.states: dict[int, deque[tuple[float, BrokerState]]] = {
            broker_id: deque([(0.0, BrokerState(DEAD, False))], MOST_STATES)
            for broker_id in driver.cluster.spec.broker_ids
        }
        self.partitions: dict[TopicPartition, deque[Leadership]] = {}
        self.faults = FaultPeriods(driver)
        self._sessions: dict[int, int] = {}
        self._unregistered: set[int] = set()
        self._rows_seen = 0
        self._seen: object = None
        self._may_have_acted = False
        self._cluster = driver.cluster
        self._cluster.transport.add_tap(self._on_message)
        self._cluster.request_taps.append(self._on_request)
        if isinstance(self._cluster, SimulatedWorld):
            self._cluster.server.commit_taps.append(self._on_commit)
        driver.turns.observers.append(self.observe)
        driver.turns.step_taps.append(self._on_step)

    @property
    def rows(self) -> Sequence[JournalRow]:
        """The rows of the journal so far."""
        return self._driver.rows

    @property
    def end_ms(self) -> float:
        """The current age of the cluster."""
        return self._driver.elapsed_ms

    def observe(self) -> None:
        """Record the states of brokers that have changed."""
        cluster = self._cluster
        paused, nodes = cluster.paused_broker_ids, cluster.nodes
        seen = self._driver.zookeeper_changes, tuple(nodes), paused
        if seen == self._seen and not self._may_have_acted:
            return
        self._seen, self._may_have_acted = seen, False
        self.faults.observe()
        self._take_rows()
        for broker_id, states in self.states.items():
            is_running = broker_id in nodes
            process = (PAUSED if broker_id in paused else RUNNING) if is_running else DEAD
            state = BrokerState(process, self._is_registered(cluster, broker_id, is_running))
            if state != states[-1][1]:
                states.append((self._driver.elapsed_ms, state))

    def _is_registered(self, cluster: Cluster, broker_id: int, is_running: bool) -> bool:
        if isinstance(cluster, SimulatedWorld):
            return BrokerIdZNode.path(broker_id) in cluster.server.tree.nodes
        return is_running and broker_id not in self._unregistered

    def _take_rows(self) -> None:
        """In a real cluster, learn registrations and leaders from the journal."""
        rows = self._driver.rows
        if isinstance(self._cluster, SimulatedWorld):
            return
        for row in rows[self._rows_seen :] if len(rows) > self._rows_seen else ():
            if row.kind == Kind.BROKER_OFFLINE:
                self._unregistered.add(row.replica)
            elif row.kind == Kind.BROKER_ONLINE:
                self._unregistered.discard(row.replica)
            at_ms = row.t_ms - self.started_ms
            if row.kind == Kind.TOPIC_DELETED:
                for tp in [tp for tp in self.partitions if tp.topic == row.topic]:
                    self.partitions[tp].append(Leadership(at_ms, None))
            elif row.topic is not None and row.leader is not None and row.partition >= 0:
                tp = TopicPartition(row.topic, row.partition)
                self._add_leadership(tp, Leadership(at_ms, row.leader, row.isr or ()))
        self._rows_seen = len(rows)

    def _add(self, event: TraceEvent) -> None:
        self.count += 1
        self.events.append(event)

    def _add_leadership(self, tp: TopicPartition, now: Leadership) -> None:
        self.partitions.setdefault(tp, deque(maxlen=MOST_STATES)).append(now)

    def _on_step(self, step: Step) -> None:
        begun = BegunStep(self._driver.elapsed_ms, len(self._driver.rows), step)
        self.steps.append(begun)
        self._add(begun)
        self._may_have_acted = True

    def _on_request(self, broker_id: int, request: ControlRequest) -> None:
        self.queued.append(Queued(self._driver.elapsed_ms, broker_id, request))

    def _on_message(self, message: Message) -> None:
        if isinstance(message.body, ControlRequest):
            sent = [at for at in tuple(self.queued) if at.request is message.body]
            for one in sent[:1]:
                self.queued.remove(one)
        if not isinstance(message.body, _DATA):
            self._add(Sent(self._driver.elapsed_ms, len(self._driver.rows), message))

    def _on_commit(self, session: int, changes: Sequence[TreeChange]) -> None:
        world = self._cluster
        assert isinstance(world, SimulatedWorld)
        for id_, running in world.nodes.items():
            self._sessions[running.store.session_id] = id_
        nodes = world.server.tree.nodes
        written = tuple(
            ZNodeChange(kind, path, nodes[path].data if path in nodes else None)
            for kind, path in changes
        )
        broker_id, has_ended = self._sessions.get(session), not world.server.is_alive(session)
        now_ms, rows = self._driver.elapsed_ms, len(self._driver.rows)
        self._add(Written(now_ms, rows, broker_id, has_ended, written))
        for _, path, data in written:
            if (tp := TopicPartitionStateZNode.partition_of(path)) is not None:
                state = decode_state(data, 0)
                now = Leadership(now_ms, None)
                if state is not None:
                    now = Leadership(now_ms, state.leader, state.isr)
                self._add_leadership(tp, now)
