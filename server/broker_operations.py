"""Applies the actions of the HTTP API to a running cluster, and adds brokers.

Records why a broker is not running. The actions themselves are implemented in lab/actions/.
Kafka has no equivalent; operators use shell commands.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, get_type_hints

from klamm.brokers.controlled_shutdown import ControlledShutdownRequests
from klamm.brokers.status import CachedMetadata, cached_metadata
from klamm.cluster.errors import KlammError, NotFound, RequestTimedOut, UsageError, WrongState
from klamm.cluster.status import PAUSED, RUNNING, STARTING, STOPPING
from klamm.controller.events import ControllerState
from klamm.lab.actions.action import ENDED, Action, BrokerAction, BrokerRef
from klamm.lab.actions.actions import (
    FailDisk,
    FailLogDir,
    HealDisks,
    MoveController,
    Pause,
    Resume,
    SkewClock,
    SlowDisk,
    Start,
    Stop,
)
from klamm.lab.actions.network_actions import NetworkAction
from klamm.server.closing import Closing
from klamm.server.states import (
    AddedBroker,
    BrokerRegistration,
    ChangedBroker,
    ControllerMove,
    DiskFaults,
    ElectedController,
    LogDirChange,
    NetworkFaults,
    ShutdownOutcome,
    StartedBroker,
)
from klamm.server.zookeeper import connected_store, why_no_controller
from klamm.world.cluster import Cluster
from klamm.world.cluster_spec import check_broker_id, check_rack_name
from klamm.world.real.cluster import RealCluster
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import Exists, Store
from klamm.zk.znode_client import NodeExists
from klamm.zk.znodes import BrokerIdZNode, ControllerZNode

ADDED: Final = "added"
NOT_STARTED: Final = "not started"
FAILED_TO_START: Final = "failed to start"
FAILED: Final = "failed"
MOVE_TIMEOUT_S: Final = 30.0
LOG_DIR_TIMEOUT_S: Final = 30.0


class BrokerOperations:
    """Applies the actions of the HTTP API to a cluster.

    Thread-safe; actions on the same broker run one at a time. ``not_started`` are the brokers that
    klamm up did not start.
    """

    def __init__(
        self, cluster: RealCluster, closing: Closing, not_started: Iterable[int] = ()
    ) -> None:
        self._cluster = cluster
        self._closing = closing
        self._ended = dict.fromkeys(not_started, NOT_STARTED)
        self._dead_in_dump = frozenset(self._ended)
        self._stopping: set[int] = set()
        self._failed_log_dirs: defaultdict[int, set[str]] = defaultdict(set)
        self._adding = threading.Lock()
        self._locks: defaultdict[int, threading.Lock] = defaultdict(threading.Lock)

    def state_of(self, broker_id: int) -> str:
        """Return a broker's state.

        The states are RUNNING, PAUSED, the states in ENDED and those that this file defines.
        """
        running = self._cluster.nodes.get(broker_id)
        if running is None:
            default = STARTING if self.reason_of(broker_id) is None else FAILED
            return self._ended.get(broker_id, default)
        if running.is_paused:
            return PAUSED
        if broker_id in self._stopping:
            return STOPPING
        return STARTING if broker_id in self._cluster.nodes.starting_broker_ids else RUNNING

    def states(self) -> dict[int, tuple[str, str | None]]:
        """Return the state of each broker, and the reason if it failed."""
        ids = self._cluster.spec.broker_ids
        return {id_: (self.state_of(id_), self.reason_of(id_)) for id_ in ids}

    def reason_of(self, broker_id: int) -> str | None:
        """Return the reason for a broker's failure, or None if it did not fail."""
        failed = self._ended.get(broker_id, FAILED) in (FAILED, FAILED_TO_START)
        return self._cluster.nodes.failures.get(broker_id) if failed else None

    def describe(self, broker_id: int) -> BrokerRegistration:
        """Return the state of a broker, and its registration in ZooKeeper with the session id.

        Raises NotFound if the broker does not exist.
        """
        self._check_known(broker_id)
        path = BrokerIdZNode.path(broker_id)
        stat = KafkaZkClient(self.store).read([Exists(path)])[0].stat
        return {
            "id": broker_id,
            "state": self.state_of(broker_id),
            "registered": stat is not None,
            "session": None if stat is None else f"0x{stat.ephemeral_owner:x}",
            "session_timeout_ms": self._cluster.spec.session_timeout_ms,
        }

    def metadata_of(self, broker_id: int) -> CachedMetadata:
        """Return the metadata cache of a broker.

        Raises NotFound if the broker does not exist, WrongState if it is not running.
        """
        self._check_known(broker_id)
        running = self._cluster.nodes.get(broker_id)
        if running is None:
            raise self._is_not(RUNNING, broker_id)
        with self._cluster.broker_thread_paused():
            return cached_metadata(running.node.broker)

    def _is_not(self, state: str, broker_id: int) -> WrongState:
        return WrongState(
            f"broker {broker_id} is not {state}", hint=f"its state is '{self.state_of(broker_id)}'"
        )

    def _start(self, action: Start) -> StartedBroker:
        """Start a broker and wait until it is registered.

        If the broker is being stopped, waits for that first. Raises KlammError if the start fails
        or the server shuts down.
        """
        begun_s = time.monotonic()
        (broker_id,) = self.broker_ids(action.broker)
        with self._locks[broker_id]:
            if self.state_of(broker_id) == PAUSED:
                raise WrongState(
                    f"broker {broker_id} is paused", hint=f"klamm broker resume {broker_id}"
                )
            started = self._cluster.begin_start(broker_id, wait_for_session=action.wait)
            ended = self._ended.pop(broker_id, None)
            self._failed_log_dirs.pop(broker_id, None)
        try:
            self._closing.result_of(started, None)
        except Exception as error:
            self._ended.setdefault(broker_id, ended or FAILED_TO_START)
            if isinstance(error, NodeExists) and not action.wait:
                raise self._is_still_registered(broker_id) from error
            raise
        took_ms = round((time.monotonic() - begun_s) * 1000)
        return {"id": broker_id, "state": RUNNING, "took_ms": took_ms}

    def _is_still_registered(self, broker_id: int) -> NodeExists:
        timeout_ms = self._cluster.spec.session_timeout_ms
        return NodeExists(
            f"broker {broker_id} cannot register: its previous session has not expired",
            hint=f"the session expires within about {timeout_ms} ms; without --no-wait, klamm "
            "waits for that",
        )

    def perform(self, action: Action) -> Any:
        """Apply an action to the cluster; return the body of the response. Raises KlammError."""
        action.check_world(is_simulated=False)
        return _performer(type(action))(self, action)

    # -- ActionTarget

    @property
    def cluster(self) -> Cluster:
        """The cluster to which the actions apply."""
        return self._cluster

    @property
    def store(self) -> Store:
        """The cluster's ZooKeeper store.

        Raises ZooKeeperUnavailable while the session is disconnected.
        """
        return connected_store(self._cluster)

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Return the given broker id in a list. Raises NotFound if the broker does not exist."""
        if not isinstance(broker, int):
            raise UsageError(
                f"{broker!r} is not a broker",
                hint="give a broker id (a number), others, clients or zookeeper",
            )
        self._check_known(broker)
        return [broker]

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state that an action left the broker in, if the broker has ended.

        Such a state is, for example, killed. Other states are not recorded.
        """
        if state in ENDED:
            self._ended[broker_id] = state

    # -- actions, with their responses

    def _act_on_network(self, action: NetworkAction) -> NetworkFaults:
        action.act(self)
        transport = self._cluster.transport
        return {"isolated": transport.isolated_broker_ids, "faults": transport.fault_texts}

    def _act_on_disks(self, action: Action) -> DiskFaults:
        action.act(self)
        return {"disk_faults": self._cluster.disks.describe()}

    def _act_on_broker(self, action: BrokerAction) -> ChangedBroker:
        """Apply an action under the broker's lock; return the body of the response.

        The response contains:

        - ``is_session_shared``: the killed or stopped broker shared its ZooKeeper session with
          other brokers. The session does not expire; the broker's registration is deleted at once.
        - ``controlled_shutdown`` of a stopped broker: the ``outcome`` (succeeded, failed or not
          attempted), Kafka's ``error``, and the ``remaining`` partitions in the controller's last
          response. If the shutdown failed without an error and without remaining partitions, no
          controller responded.
        """
        (broker_id,) = self.broker_ids(action.broker)
        with self._locks[broker_id]:
            before, running = self.state_of(broker_id), self._cluster.nodes.get(broker_id)
            if isinstance(action, Pause) and before == PAUSED:
                raise WrongState(f"broker {broker_id} is already paused", retriable=False)
            if isinstance(action, Resume) and before != PAUSED:
                raise self._is_not(PAUSED, broker_id)
            if action.LEAVES in (PAUSED, *ENDED) and (
                running is None or (isinstance(action, Pause) and before == STARTING)
            ):
                raise self._is_not(RUNNING, broker_id)
            if isinstance(action, Stop):
                self._stopping.add(broker_id)
            try:
                action.act(self)
            finally:
                self._stopping.discard(broker_id)
        answer: ChangedBroker = {"id": broker_id, "state": action.LEAVES or before}
        if isinstance(action, SkewClock):
            answer["clock_skew_ms"] = action.ms
        if action.LEAVES in (PAUSED, *ENDED):
            answer["session_timeout_ms"] = self._cluster.spec.session_timeout_ms
        if running is not None and action.LEAVES in ENDED:
            answer["is_session_shared"] = running.is_pooled
            if isinstance(action, Stop):
                could_ask = before not in (PAUSED, STARTING)
                shutdown = running.node.broker.controlled_shutdown
                answer["controlled_shutdown"] = _outcome_of(shutdown, could_ask)
        return answer

    def _fail_log_dir(self, action: FailLogDir) -> LogDirChange:
        """Make a log directory of a broker fail, and wait until the broker has handled the failure.

        In the response, ``halted`` means that the broker lost its last log directory and halts, as
        if it were killed. A paused broker halts when it is resumed. Raises RequestTimedOut.
        """
        (broker_id,) = self.broker_ids(action.broker)
        running, path = self._cluster.nodes.get(broker_id), action.log_dir
        if running is None:
            raise self._is_not(RUNNING, broker_id)
        action.act(self)
        broker = running.node.broker
        dirs = broker.replica_manager.log_dirs
        if not running.is_paused:
            self._await_log_dir(broker_id, lambda: not dirs.is_online(path))
        # A paused broker has not handled the earlier failures yet.
        self._failed_log_dirs[broker_id].add(path)
        lost = {*dirs.offline, *self._failed_log_dirs[broker_id]}
        halted = broker.config.halts_on_log_dir_failure or lost.issuperset(dirs.paths)
        if halted and not running.is_paused:
            nodes = self._cluster.nodes
            self._await_log_dir(broker_id, lambda: nodes.get(broker_id) is not running)
        return {
            "id": broker_id,
            "log_dir": path,
            "halted": halted,
            "state": self.state_of(broker_id),
            "session_timeout_ms": self._cluster.spec.session_timeout_ms,
            "is_session_shared": running.is_pooled,
        }

    def _await_log_dir(self, broker_id: int, is_done: Callable[[], bool]) -> None:
        self._closing.wait_until(
            lambda: is_done() or None,
            time.monotonic() + LOG_DIR_TIMEOUT_S,
            f"broker {broker_id} did not handle the failure within {LOG_DIR_TIMEOUT_S:g} s",
        )

    def add(self, broker_id: int | None, rack: str | None) -> AddedBroker:
        """Add a broker and start it; by default it gets the highest id plus 1.

        A broker that is dead in the dump may be added while it is not running: it gets the rack.
        Raises ZooKeeperUnavailable at once if ZooKeeper does not respond, and adds no broker. After
        another error of the start, the broker exists and can be started again.
        """
        with self._adding:
            if broker_id is None:
                broker_id = max(self._cluster.spec.broker_ids) + 1
            check_broker_id(broker_id)
            if rack is not None:
                check_rack_name(rack)
            connected_store(self._cluster)
            is_dumped = broker_id in self._dead_in_dump
            self._cluster.add_broker(broker_id, rack, may_exist=is_dumped)
            self._ended[broker_id] = ADDED
        try:
            return {**self._start(Start(broker_id)), "rack": rack}
        except KlammError as error:
            error.definite, error.retriable = False, False
            added = f"broker {broker_id} was added: klamm broker start {broker_id} starts it"
            error.hint = "; ".join(filter(None, (error.hint, added)))
            raise

    def _move_controller(self, action: MoveController) -> ControllerMove:
        """Delete /controller, and wait until a new controller has loaded the cluster's state.

        Raises KlammError if there is no controller, and RequestTimedOut if none is elected in time.
        """
        client = KafkaZkClient(self.store)
        before_id = client.get_controller_id()
        epoch = client.get_controller_epoch()
        before_epoch = 0 if epoch is None else epoch[0]
        if not client.path_exists(ControllerZNode.path):
            raise KlammError(
                "the cluster has no controller to move", hint=why_no_controller(self._cluster)
            )
        action.act(self)
        try:
            after = self._closing.wait_until(
                lambda: ready_controller(self._cluster, before_epoch),
                time.monotonic() + MOVE_TIMEOUT_S,
                f"/controller was deleted, but no broker was elected within {MOVE_TIMEOUT_S:g} s",
            )
        except RequestTimedOut as error:
            error.hint = why_no_controller(self._cluster)
            raise
        return {"from": {"id": before_id, "epoch": before_epoch}, "to": after}

    def _check_known(self, broker_id: int) -> None:
        known = self._cluster.spec.broker_ids
        if broker_id not in known:
            hint = f"brokers: {', '.join(map(str, known))}"
            with contextlib.suppress(UsageError):
                check_broker_id(broker_id)
                hint += f"; klamm broker add {broker_id} adds it"
            raise NotFound(f"broker {broker_id} does not exist", hint=hint)


_PERFORMERS: Final[Mapping[type[Action], Callable[[BrokerOperations, Any], Any]]] = {
    Start: BrokerOperations._start,
    FailLogDir: BrokerOperations._fail_log_dir,
    FailDisk: BrokerOperations._act_on_disks,
    SlowDisk: BrokerOperations._act_on_disks,
    HealDisks: BrokerOperations._act_on_disks,
    MoveController: BrokerOperations._move_controller,
    BrokerAction: BrokerOperations._act_on_broker,
    NetworkAction: BrokerOperations._act_on_network,
}
"""The methods for actions and all classes derived from them: they wait, and choose the answer."""


def _performer(action: type[Action]) -> Callable[[BrokerOperations, Any], Any]:
    found = [_PERFORMERS[kind] for kind in action.__mro__ if kind in _PERFORMERS]
    if not found:
        raise TypeError(f"{action.__name__} is no action on a broker or the network: add its row")
    return found[0]


def answer_of(action: type[Action]) -> Any:
    """Return the type of the value that ``BrokerOperations.perform`` returns for an action."""
    return get_type_hints(_performer(action))["return"]


def _outcome_of(shutdown: ControlledShutdownRequests, could_ask: bool) -> ShutdownOutcome:
    if shutdown.succeeded:
        outcome = "succeeded"
    elif could_ask and shutdown.is_enabled:
        outcome = "failed"
    else:
        outcome = "not attempted"
    remaining = [str(partition) for partition in shutdown.remaining]
    return {"outcome": outcome, "error": shutdown.error.name, "remaining": remaining}


def ready_controller(cluster: RealCluster, after_epoch: int) -> ElectedController | None:
    """Return the id and epoch of the active controller if it has loaded the state of the cluster.

    Otherwise, or if the controller's epoch is not greater than ``after_epoch``, return None.
    """
    controller = cluster.controller
    if controller is None or controller.context.epoch <= after_epoch:
        return None
    if controller.events.state is ControllerState.CONTROLLER_CHANGE:
        return None
    return {"id": controller.config.broker_id, "epoch": controller.context.epoch}


def controller_of_all(cluster: RealCluster) -> ElectedController | None:
    """Return the active controller if it has loaded the state of the cluster, else None.

    Also returns None if the controller does not yet consider all running brokers live.
    """
    ready = ready_controller(cluster, 0)
    running = None if ready is None else cluster.nodes.get(ready["id"])
    if running is None or running.node.controller is None:
        return None
    known = set(running.node.controller.context.live_or_shutting_down_broker_ids)
    return ready if known >= set(cluster.nodes) else None
