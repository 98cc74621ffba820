"""A cluster of Kafka 2.8.2 brokers on a real ZooKeeper: one process for each broker.

The counterpart of world/real/cluster.py. klamm's own clients reach the brokers over TCP.
klamm's controller can drive the brokers; it is a process, too.
"""

from __future__ import annotations

import shutil
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

import msgspec

from klamm.brokers.logs.log_journal import LogJournal
from klamm.cluster.disk_faults import DiskFault
from klamm.cluster.errors import EnvironmentProblem, RequestTimedOut, UsageError, WrongState
from klamm.cluster.requests import Address, AlterReplicaLogDirsRequest, Message, Request, Response
from klamm.cluster.status import ActiveDiskFault
from klamm.cluster.types import EndPoint
from klamm.controller.request_sender import RequestTap
from klamm.placement.pools import Pools
from klamm.wire.client_connections import ClientConnections
from klamm.world.clock import MachineClocks
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import MemoryJournal
from klamm.world.kafka.processes import BrokerProcess, ControllerProcess, SupervisedProcess
from klamm.world.live.live_host import LiveHost
from klamm.world.transport import RequestClient
from klamm.zk.ports import HOST, free_port
from klamm.zk.store import GetChildren, GetData, ResultCode
from klamm.zk.waiting import wait_until
from klamm.zk.znodes import BrokerIdsZNode, ControllerZNode

_FIRST_CONTROLLER_ID: Final = 1000
_MAX_CONTROLLERS: Final = 100
START_TIMEOUT_S: Final = 120.0
_SESSION_MARGIN_S: Final = 10.0
_STOP_TIMEOUT_S: Final = 120.0
_ASK_TIMEOUT_S: Final = 10.0
_SELF: Final = Address("client", 3)
_SMALL: Final = {
    # Threads and buffers for a cluster on one machine.
    "num.io.threads": "3",
    "num.network.threads": "2",
    "background.threads": "2",
    "log.cleaner.dedupe.buffer.size": "2097152",
}


def controller_ids(broker_ids: Sequence[int]) -> range:
    """Return ids for klamm's controllers, which are brokers, too: each has the next one.

    They are so many that the session of one has expired before its id is used again.
    ``broker_ids``: the brokers of the cluster, which have none of them."""
    first = max(_FIRST_CONTROLLER_ID, max(broker_ids) + 1)
    return range(first, first + _MAX_CONTROLLERS)


class KafkaDisks:
    """The log directories of the brokers, which fail when they are renamed.

    ``log_dirs``: the folders of each broker's log directories, keyed by broker id and name."""

    def __init__(self, log_dirs: Mapping[tuple[int, str], Path]) -> None:
        self._log_dirs = log_dirs
        self._away: dict[Path, Path] = {}

    def remove(self, broker_id: int, log_dir: str) -> None:
        """Rename a log directory: the broker's next operation on its files fails."""
        path = self._log_dirs[broker_id, log_dir]
        if path not in self._away:
            self._away[path] = path.rename(path.with_name(f"{path.name}.away"))

    @property
    def broker_ids(self) -> frozenset[int]:
        """Ids of the brokers with a removed log directory."""
        return frozenset(broker_id for broker_id, _ in self._removed())

    def restore(self, broker_id: int) -> None:
        """Put the log directories of a broker back, before it starts again."""
        for (owner, _), path in self._log_dirs.items():
            if owner == broker_id and path in self._away:
                shutil.rmtree(path, ignore_errors=True)
                self._away.pop(path).rename(path)

    def describe(self) -> list[ActiveDiskFault]:
        """Return the log directories that have been removed."""
        return [
            {"broker": id_, "log_dir": name, "kind": "removed"} for id_, name in self._removed()
        ]

    def _removed(self) -> list[tuple[int, str]]:
        return [key for key, path in self._log_dirs.items() if path in self._away]

    def heal(self) -> None:
        """Do nothing: a failed log directory stays offline until its broker is restarted."""

    def fail(self, broker_id: int, log_dir: str | None, fault: DiskFault) -> None:
        """Raise UsageError, because klamm cannot inject faults into Kafka's files."""
        raise UsageError("disk faults require klamm's own brokers")

    def slow(self, broker_id: int, log_dir: str | None, bytes_per_s: int) -> None:
        """Raise UsageError, because klamm cannot slow Kafka's disks down."""
        raise UsageError("slow disks require klamm's own brokers")

    def fail_journal(self, fault: DiskFault) -> None:
        """Raise UsageError, because Kafka's controller has no journal."""
        raise UsageError("faults of the journal require klamm's own brokers")


class KafkaCluster(LiveHost):
    """The brokers of one run, and klamm's controller if ``has_klamm``. All methods may block.

    ``folder`` gets a folder for each process. ``open`` starts everything, ``close`` ends it.
    ``controllers``: those of klamm that have been started; the last one is active."""

    def __init__(
        self, spec: ClusterSpec, connect_string: str, folder: Path, *, has_klamm: bool
    ) -> None:
        super().__init__(spec, connect_string)
        self.clocks = MachineClocks(self.clock)
        self.request_taps: list[RequestTap] = []
        self.log_journal = LogJournal(MemoryJournal(), self.clock, spec.run_id)
        ports = {broker_id: free_port() for broker_id in spec.broker_ids}
        self._ports = dict(ports)
        self._controller_ids = controller_ids(spec.broker_ids)
        own = frozenset(self._controller_ids if has_klamm else ())
        self.spec = replace(
            spec,
            end_points={id_: (EndPoint(HOST, port),) for id_, port in ports.items()},
            pools=Pools({}, (), without_replicas=own),
        )
        names = spec.broker_config.log_dirs if "log.dirs" in spec.config else ("data",)
        self._log_dirs = {
            (id_, name): folder / f"broker-{id_}" / name.lstrip("/")
            for id_ in spec.broker_ids
            for name in names
        }
        self.disks = KafkaDisks(self._log_dirs)
        self._processes = {
            id_: BrokerProcess(id_, port, folder / f"broker-{id_}", self._properties(id_))
            for id_, port in ports.items()
        }
        self._folder = folder
        self._connections = ClientConnections(
            self.transport, lambda id_: EndPoint(HOST, self._ports[id_])
        )
        self.controller_context = None  # it is in another process
        for id_ in spec.broker_ids:
            self.transport.register(Address("broker", id_), self._send_to_broker)
            self.transport.register(Address("controller", id_), self._connections.send)
        self.controllers = [self._new_controller(self._controller_ids[0])] if has_klamm else []
        self._client = RequestClient(_SELF)

    def _properties(self, broker_id: int) -> dict[str, str]:
        spec = self.spec
        rack = spec.racks.get(broker_id)
        dirs = (str(path) for (id_, _), path in self._log_dirs.items() if id_ == broker_id)
        return {
            **_SMALL,
            **spec.config,
            "broker.id": str(broker_id),
            "reserved.broker.max.id": str(self._controller_ids[-1]),
            **({} if rack is None else {"broker.rack": rack}),
            "listeners": f"PLAINTEXT://{HOST}:{self._ports[broker_id]}",
            "zookeeper.connect": self.connect_string,
            "zookeeper.session.timeout.ms": str(spec.session_timeout_ms),
            "log.dirs": ",".join(dirs),
        }

    def _new_controller(self, controller_id: int) -> ControllerProcess:
        spec, folder = self.spec, self._folder / f"controller-{controller_id}"
        options = ["--session-timeout-ms", str(spec.session_timeout_ms)]
        if spec.racks:
            options += ["--rack", "controller"]
        for name, value in spec.config.items():
            if name != "log.dirs":
                options += ["--config", f"{name}={value}"]
        port = self._ports[controller_id] = free_port()
        self.transport.register(Address("controller", controller_id), self._connections.send)
        return ControllerProcess(controller_id, self.connect_string, port, folder, options)

    # -- starting and ending

    def open(self) -> None:
        """Start all brokers at the same time, then klamm's controller; wait for all of them.

        The first controller candidate of the spec starts first, so that it is elected. Raises
        EnvironmentProblem if a process does not start."""
        first = next(filter(self.spec.is_candidate, self.spec.broker_ids))
        self._start(self._processes[first])
        others = [one for id_, one in self._processes.items() if id_ != first]
        for process in others:
            process.start()
        for process in others:
            self._await(process)
        for controller in self.controllers:
            self._start(controller)

    def move_controller(self) -> None:
        """Let another controller of klamm take over, then end the former one."""
        former, following = self.controllers[-1], len(self.controllers) % len(self._controller_ids)
        controller = self._new_controller(self._controller_ids[following])
        self.controllers.append(controller)
        self._start(controller)
        former.end()

    def _start(self, process: BrokerProcess | ControllerProcess) -> None:
        process.start()
        self._await(process)

    def close(self) -> None:
        """End all processes; idempotent."""
        processes = [*self._processes.values(), *self.controllers]
        for process in processes:
            process.begin_end()
        for process in processes:
            process.end()
        self._connections.close()
        self._close_host()

    def _await(self, process: SupervisedProcess) -> None:
        if not wait_until(lambda: process.has_started, START_TIMEOUT_S):
            raise EnvironmentProblem(f"{process.name} did not start within {START_TIMEOUT_S:.0f} s")

    # -- the interface of Cluster

    @property
    def nodes(self) -> Mapping[int, BrokerProcess]:
        """The running brokers, keyed by id."""
        return {id_: one for id_, one in self._processes.items() if one.is_running}

    @property
    def errors(self) -> Sequence[str]:
        """Nothing, because Kafka's brokers only log their internal errors."""
        return ()

    def start(self, broker_id: int) -> None:
        """Start a broker, without waiting until it is registered.

        First waits until its former process has ended and that process's session has expired: a
        broker of Kafka 2.8.2 ends at once if another session has registered its id."""
        process = self._processes[broker_id]
        if broker_id in self.nodes and not process.is_stopping:
            raise WrongState(f"broker {broker_id} is already running")
        if not process.await_end(_STOP_TIMEOUT_S):
            raise EnvironmentProblem(f"Kafka broker {broker_id} did not stop")
        timeout_s = self.spec.session_timeout_ms / 1000 + _SESSION_MARGIN_S
        if not wait_until(lambda: broker_id not in self.registered_ids(), timeout_s):
            raise WrongState(f"broker {broker_id} is still registered by an earlier session")
        self.disks.restore(broker_id)
        process.start()

    def begin_start_all(self) -> None:
        """Start every broker that is not running."""
        for broker_id in self.spec.broker_ids:
            if broker_id not in self.nodes:
                self.start(broker_id)

    def begin_candidacy(self, broker_id: int) -> None:
        """Do nothing: every broker of Kafka takes part in elections."""

    def kill(self, broker_id: int, *, loses_unflushed: bool = False) -> None:
        """Kill a broker (SIGKILL). Its session expires after the session timeout."""
        self._running(broker_id).end()

    def kill_all(self) -> None:
        """Kill all running brokers."""
        for broker_id in tuple(self.nodes):
            self.kill(broker_id)

    def shut_down(self, broker_id: int) -> None:
        """Begin a controlled shutdown (SIGTERM), without waiting for its end."""
        self._running(broker_id).begin_stop()

    def pause(self, broker_id: int) -> None:
        """Freeze a broker (SIGSTOP)."""
        self._running(broker_id).pause()

    def resume(self, broker_id: int) -> None:
        """Let a frozen broker continue (SIGCONT)."""
        self._running(broker_id).resume()

    @property
    def paused_broker_ids(self) -> frozenset[int]:
        """Ids of the frozen brokers."""
        return frozenset(id_ for id_, one in self.nodes.items() if one.is_paused)

    def fail_log_dir(self, broker_id: int, path: str) -> None:
        """Rename a log directory. The broker notices it at its next operation on these files."""
        self._running(broker_id)
        self.disks.remove(broker_id, path)

    @property
    def failed_log_dir_broker_ids(self) -> frozenset[int]:
        """Ids of the running brokers with a removed log directory."""
        return self.disks.broker_ids & self.nodes.keys()

    def _running(self, broker_id: int) -> BrokerProcess:
        if broker_id not in self.nodes:
            raise WrongState(f"broker {broker_id} is not running")
        return self._processes[broker_id]

    # -- what is seen from outside

    def registered_ids(self) -> list[int]:
        """Return the ids in /brokers/ids, without klamm's controllers."""
        found = self.own_session.store().read([GetChildren(BrokerIdsZNode.path)])[0].children
        return sorted({*map(int, found or ())}.intersection(self.spec.broker_ids))

    def has_controller(self) -> bool:
        """Return True if /controller exists."""
        found = self.own_session.store().read([GetData(ControllerZNode.path)])
        return found[0].code is ResultCode.OK

    def ask(self, broker_id: int, request: Request) -> Response:
        """Send a request to a broker and wait for its response. Raises RequestTimedOut."""
        answer = self._client.send(self.transport, Address("broker", broker_id), request)
        try:
            response = answer.result(_ASK_TIMEOUT_S)
        except TimeoutError:
            raise RequestTimedOut(f"broker {broker_id} did not respond") from None
        assert isinstance(response, Response), "not a response"
        return response

    def _send_to_broker(self, message: Message) -> None:
        """Send a request to a broker, which knows the cluster's log directories by their paths."""
        body = message.body
        if isinstance(body, AlterReplicaLogDirsRequest):
            broker_id = message.destination.id
            paths = {
                tp: str(self._log_dirs.get((broker_id, name), name))
                for tp, name in body.log_dirs.items()
            }
            message = msgspec.structs.replace(message, body=AlterReplicaLogDirsRequest(paths))
        self._connections.send(message)
