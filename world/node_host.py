"""What the clusters of both worlds have in common: what their nodes share, how one is created, and
what is seen of them.

world/real/ and world/simulated/ start, run and end the nodes.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Generic, Protocol, TypeVar

from klamm.admin.topics import new_topic_id
from klamm.brokers.bandwidth.copying import Copying, Give
from klamm.brokers.broker import KafkaServer
from klamm.brokers.constant_rate.connections import CertainConnections
from klamm.brokers.logs.log_journal import LogJournal
from klamm.brokers.storage.faults import FaultyDisk
from klamm.cluster.errors import KlammError, WrongState
from klamm.cluster.protocols import Clock, Journal, Transport
from klamm.cluster.requests import Address
from klamm.controller.candidacy import Candidacy
from klamm.controller.kafka_controller import KafkaController
from klamm.controller.request_sender import RequestTap
from klamm.controller.state_change_log import StateChangeLog
from klamm.placement.draws import JavaRandom
from klamm.statemachines.context import ControllerContext
from klamm.world.clock import MachineClocks
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.disks import ClusterDisks
from klamm.world.journal.journal_guard import JournalGuard
from klamm.world.journal.kafka_logs import KafkaLogs
from klamm.world.log_stores import LogStores
from klamm.world.node import Node
from klamm.world.node_actors import BeginCandidacy, LogDirFailed
from klamm.world.transport import RoutedTransport
from klamm.zk.store import Store


class Running(Protocol):
    """A running node, with what belongs to it in its world."""

    node: Node


R = TypeVar("R", bound=Running)


class NodeHost(Generic[R]):
    """A cluster of either world: its specification, and what its nodes share.

    - ``clocks``: the clocks of the brokers' machines.
    - ``copying``: the bandwidth model that delays replica copies.
    - ``guard``: the journal as the nodes see it; ``log_journal`` receives rows about logs.
    - ``log_stores``: the logs of the brokers, which survive when a broker crashes.

    ``give`` queues an event for an actor on the brokers' thread, ``post`` on any thread. ``logs``:
    the Kafka-like log files of the controllers, or None for no such files. ``on_failure`` is called
    when no controller can be elected any more.
    """

    nodes: Mapping[int, R]
    """The running nodes, keyed by broker id."""

    def __init__(
        self,
        spec: ClusterSpec,
        clock: Clock,
        transport: RoutedTransport,
        journal: Journal,
        disk: FaultyDisk,
        give: Give,
        post: Give,
        logs: KafkaLogs | None = None,
        on_failure: Callable[[KlammError], None] | None = None,
    ) -> None:
        self.spec = spec
        self.clocks = MachineClocks(clock)
        self.request_taps: list[RequestTap] = []
        self.candidacy = Candidacy(clock, on_failure)
        self.copying = Copying(clock, transport.send, give, transport.reaches)
        changed = self._on_candidacy_changed
        self.guard = JournalGuard(journal, logs, clock, post, self.candidacy, changed)
        self.log_journal = LogJournal(self.guard, clock, spec.run_id)
        self.log_stores = LogStores(spec.segments, disk)
        self.disks = ClusterDisks(
            spec, self.log_stores, self.copying, journal, self._send_event, self._call
        )
        self._post = post
        self._transport = transport
        self._incarnations = 0

    def running(self, broker_id: int) -> R:
        """Return the node of a broker. Raises WrongState if the broker is not running."""
        running = self.nodes.get(broker_id)
        if running is None:
            raise WrongState(f"broker {broker_id} is not running")
        return running

    def begin_candidacy(self, broker_id: int) -> None:
        """Let the controller on a broker take part in elections.

        Raises WrongState if the broker is not running."""
        self.running(broker_id)
        self._send_event(broker_id, BeginCandidacy())

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Fail a log directory of a broker, which handles the failure in its next event.

        If the broker's last log directory fails, the broker is killed. Raises WrongState if the
        broker is not running, and NotFound if it has no such directory.
        """
        self.running(broker_id)
        self.disks.paths(broker_id, path)
        self._send_event(broker_id, LogDirFailed(path))

    @property
    def failed_log_dir_broker_ids(self) -> frozenset[int]:
        """Ids of the running brokers with an offline log directory."""
        brokers = (node.node.broker for node in tuple(self.nodes.values()))
        return frozenset(one.info.id for one in brokers if one.replica_manager.log_dirs.offline)

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker. Raises WrongState if the broker is not running."""
        raise NotImplementedError

    def kill_all(self) -> None:
        """Kill the process of the whole cluster: every node, with all in-memory logs.

        This also ends network faults. ZooKeeper, the disks and the clients survive."""
        for broker_id in tuple(self.nodes):
            with contextlib.suppress(WrongState):  # it has failed in the meantime
                self.kill(broker_id)
        self.log_stores.end_process()
        self._transport.heal()

    # -- inspection

    @property
    def controller(self) -> KafkaController | None:
        """The active controller, or None. In the real world its thread may change it at any time.

        A deposed controller may not have noticed yet that it is no longer active. Therefore this is
        the active controller with the highest epoch.
        """
        nodes = sorted(tuple(self.nodes.items()))
        active = [one for _, running in nodes if (one := self._active(running)) is not None]
        return max(active, key=lambda controller: controller.context.epoch, default=None)

    @property
    def active_controller(self) -> int | None:
        """The id of the broker with the active controller, or None."""
        controller = self.controller
        return None if controller is None else controller.config.broker_id

    @property
    def controller_context(self) -> ControllerContext | None:
        """The active controller's context, or None."""
        controller = self.controller
        return None if controller is None else controller.context

    def broker_thread_paused(self) -> contextlib.AbstractContextManager[None]:
        """Context manager that pauses the processing of broker events while its body runs.

        This gives the body a consistent view of several brokers.
        """
        return contextlib.nullcontext()

    def _active(self, running: R) -> KafkaController | None:
        controller = running.node.controller
        return controller if controller is not None and controller.is_active else None

    def _call(self, function: Callable[[], None]) -> None:
        """Call a function on the brokers' thread."""
        function()

    def _send_event(self, broker_id: int, event: object) -> None:
        self._post(Address("broker", broker_id), event)

    def _on_candidacy_changed(self) -> None:
        for running in tuple(self.nodes.values()):
            if running.node.controller is not None:
                running.node.controller.on_candidacy_changed()

    def _new_node(
        self,
        broker_id: int,
        *,
        broker_store: Store,
        controller_store: Store,
        transport: Transport,
        journal: Journal,
        state_change_log: StateChangeLog | None,
        connections: CertainConnections | None = None,
    ) -> Node:
        """Create a node's broker and, if the broker is a controller candidate, its controller.

        ``broker_store`` and ``controller_store`` use the same session.
        """
        # A restarted broker draws different random numbers.
        self._incarnations += 1
        incarnation, spec, clock = self._incarnations, self.spec, self.clocks[broker_id]
        info = spec.broker_info(broker_id)
        broker = KafkaServer(
            info,
            broker_store,
            transport,
            clock,
            spec.broker_config,
            # Topic ids and cluster ids have the same format: a random UUID in base64.
            spec.cluster_id or new_topic_id(JavaRandom(spec.seed)),
            spec.quirks,
            self.log_stores[broker_id],
            connections,
            self.log_journal,
            self.copying,
        )
        if not spec.is_candidate(broker_id):
            return Node(broker=broker, controller=None)
        controller = KafkaController(
            spec.controller_config(broker_id),
            info,
            controller_store,
            transport,
            clock,
            journal,
            broker.metadata_cache,
            JavaRandom(hash((spec.seed, broker_id, incarnation))),
            spec.quirks,
            state_change_log,
            broker.on_registered,
            broker.dynamic_config_manager.config,
            self.candidacy,
            self.request_taps,
        )
        broker.dynamic_config_manager.on_unclean_election_enabled = (
            controller.enable_unclean_leader_election
        )
        return Node(broker=broker, controller=controller)
