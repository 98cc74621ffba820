"""Actions that only drills and recorded scenarios use, one class for each.

Those that are also in the HTTP API are in actions.py and network_actions.py.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import KlammError, UsageError, WrongState
from klamm.cluster.requests import (
    AlterPartitionReassignmentsRequest,
    AlterPartitionReassignmentsResponse,
    ApiError,
    ElectLeadersRequest,
    ElectLeadersResponse,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.interrupts import temporary_folder
from klamm.lab.actions.action import KILLED, Action, BrokerAction
from klamm.lab.actions.network_actions import HealNetwork
from klamm.lab.actions.target import ScenarioTarget
from klamm.lab.conditions.condition import Condition
from klamm.lab.drivers.turns import STEP_TIMEOUT_MS
from klamm.lab.value_types import (
    Duration,
    ElectedPartitions,
    Partition,
    Partitions,
    Paths,
    Replicas,
    Size,
    Znodes,
    ZooKeeperServer,
)
from klamm.tools.command_result import CommandResult
from klamm.world.cluster import brokers_of
from klamm.world.preloading import preload_replicas
from klamm.world.views.brokers import has_control_requests, is_shutting_down
from klamm.zk.ensemble import WHOLE_ENSEMBLE
from klamm.zk.store import ANY_VERSION, Create, Delete, SetData
from klamm.zk.znodes import TopicZNode

_REQUESTS_TIMEOUT_MS: Final = 60_000.0
"""Time limit that is longer than the timeout of a control request."""
_SHUTDOWN_TIMEOUT_MS: Final = 180_000.0
"""Time limit that is longer than a controlled shutdown with all its retries."""


class BringUp(Action, frozen=True):
    """Start brokers one by one, each after the previous broker has registered and is idle."""

    broker_ids: tuple[int, ...]

    def act(self, run: ScenarioTarget) -> None:
        for count, broker_id in enumerate(self.broker_ids, 1):
            run.cluster.start(broker_id)
            if not run.wait_for(Condition("brokers", self.broker_ids[:count])):
                raise KlammError(f"broker {broker_id} did not register")
            run.driver.quiesce()


class RunTool(Action, frozen=True):
    """Run one of Kafka's tools, with its arguments as on klamm's command line. `{zk}` and
    `{bootstrap}` stand for the drill's cluster, `{file:NAME}` for a file of the step's `files`."""

    HAS_RESULT = True

    tool: str
    args: tuple[str, ...]
    files: Mapping[str, str] = {}

    def act(self, run: ScenarioTarget) -> CommandResult:
        if not self.files:
            return run.tools(self.tool, self.args, run.driver)
        with temporary_folder("klamm-scenario-") as folder:
            paths = {}
            for name, content in self.files.items():
                path = folder / name
                path.write_text(content)
                paths[f"{{file:{name}}}"] = str(path)
            args = [paths.get(arg, arg) for arg in self.args]
            return run.tools(self.tool, args, run.driver)


class CreateZnode(Action, frozen=True):
    """Create znodes manually. Text is written unchanged, null as no data, other values as JSON."""

    znodes: Znodes
    is_sequential: bool = False
    """Whether the znodes get a ten-digit suffix."""

    def act(self, run: ScenarioTarget) -> None:
        for path, data in self.znodes.items():
            run.write(Create(path, data, sequential=self.is_sequential))


def znode_data(value: Any) -> bytes | None:
    """Return the data of a znode to write: text unchanged, null as None, other values as JSON."""
    if value is None:
        return None
    return (value if isinstance(value, str) else json.dumps(value)).encode()


class SetZnode(Action, frozen=True):
    """Overwrite znodes manually, regardless of their versions."""

    znodes: Znodes

    def act(self, run: ScenarioTarget) -> None:
        for path, data in self.znodes.items():
            run.write(SetData(path, data))


class DeleteZnode(Action, frozen=True):
    """Delete znodes manually, regardless of their versions."""

    paths: Paths

    def act(self, run: ScenarioTarget) -> None:
        for path in self.paths:
            run.write(Delete(path, ANY_VERSION))


class SetTopicPartitions(Action, frozen=True):
    """Write partitions of a topic's znode manually: new ones, which the controller creates, or
    other replicas of existing ones, which it replaces by the old ones (`--quirks KAFKA-12493`:
    which the next controller takes over)."""

    replicas: Mapping[Partition, Replicas]

    def act(self, run: ScenarioTarget) -> None:
        topics: dict[str, dict[str, tuple[int, ...]]] = {}
        for tp, ids in self.replicas.items():
            topics.setdefault(tp.topic, {})[str(tp.partition)] = ids
        for topic, partitions in topics.items():
            path = TopicZNode.path(topic)
            node = run.view.read_json(path)
            if node is None or not isinstance(node.get("partitions"), dict):
                raise KlammError(f"cannot set partitions: znode {path} is missing or malformed")
            node["partitions"].update(partitions)
            run.write(SetData(path, json.dumps(node).encode()))


class KillAll(Action, frozen=True):
    """Kill the process of the whole cluster, as kill -9 of `klamm up` does. ZooKeeper, files and
    the drill's clients survive; logs in memory are lost (use `segments: true`)."""

    def act(self, run: ScenarioTarget) -> None:
        if (produced := run.produced()) and run.cluster.spec.segments is None:
            raise WrongState(
                f"kill_all loses the records of {produced[0]}: the logs of this cluster are in"
                " memory",
                hint="cluster: {segments: true} keeps them in files",
            )
        running = tuple(run.cluster.nodes)
        run.cluster.kill_all()
        for broker_id in running:
            run.note_state(broker_id, KILLED)


class UpAgain(Action, frozen=True):
    """Restart the whole cluster with the same data and seed: first all brokers, and once they are
    registered, the controllers."""

    def act(self, run: ScenarioTarget) -> None:
        if not run.wait_for(Condition("brokers", [])):
            raise KlammError("brokers of the killed process are still registered")
        if running := sorted(run.cluster.nodes):
            # Checked before any broker starts: its controller would never become a candidate.
            raise KlammError(f"broker {running[0]} is already running")
        run.cluster.begin_start_all()
        # A controller elected earlier would consider the missing brokers dead.
        broker_ids = sorted(run.cluster.spec.broker_ids)
        have_all_registered = run.wait_for(Condition("brokers", broker_ids))
        for broker_id in filter(run.cluster.spec.is_candidate, sorted(run.cluster.nodes)):
            run.cluster.begin_candidacy(broker_id)
        run.states.clear()
        if not have_all_registered:
            raise KlammError("not all brokers have registered again")


class ActOnZooKeeper(Action, frozen=True):
    """Act on one of the scenario's ZooKeeper servers (an id, ``leader`` or ``follower``), or on all
    of them. The actions are in zk/ensemble.py."""

    ON_KAFKA = False

    action: str
    server: ZooKeeperServer = ""

    def act(self, run: ScenarioTarget) -> None:
        ensemble = run.driver.ensemble
        if ensemble is None:
            raise UsageError(
                "the cluster has no private ensemble of ZooKeeper servers",
                hint="run the drill with --real",
            )
        if self.action in WHOLE_ENSEMBLE:
            WHOLE_ENSEMBLE[self.action].do(ensemble)
        else:
            ensemble.act(self.action, ensemble.find(self.server))


class Reassign(Action, frozen=True):
    """Ask the controller to move partitions to other replicas."""

    HAS_RESULT = True

    replicas: Mapping[Partition, Replicas | None]
    """None cancels a reassignment."""

    def act(self, run: ScenarioTarget) -> CommandResult:
        response = run.driver.operator.ask(AlterPartitionReassignmentsRequest(self.replicas))
        assert isinstance(response, AlterPartitionReassignmentsResponse)
        return _answer(response.error, response.partitions)


class CancelReassignment(Action, frozen=True):
    """Ask the controller to cancel reassignments of partitions."""

    HAS_RESULT = True

    partitions: Partitions

    def act(self, run: ScenarioTarget) -> CommandResult:
        return Reassign(dict.fromkeys(self.partitions)).act(run)


class ElectLeaders(Action, frozen=True):
    """Ask the controller to elect leaders for partitions.

    ``partitions``: None for all partitions that need an election.
    """

    HAS_RESULT = True

    election_type: ElectionType
    partitions: ElectedPartitions

    def act(self, run: ScenarioTarget) -> CommandResult:
        request = ElectLeadersRequest(self.election_type, self.partitions, int(STEP_TIMEOUT_MS))
        response = run.driver.operator.ask(request)
        assert isinstance(response, ElectLeadersResponse)
        return _answer(ApiError(response.error), response.partitions)


class Produce(Action, frozen=True):
    """Queue this number of records in the drill's producer (idempotent, acks=all). It sends them
    while the next steps run, and a consumer reads them. At the end of the drill the consumer must
    have read every acknowledged record once and in order."""

    records: Mapping[Partition, Annotated[int, Meta(ge=1, le=1_000_000)]]

    def act(self, run: ScenarioTarget) -> None:
        for tp, count in self.records.items():
            run.check_may_produce(tp)
            run.driver.clients.produce(tp, count)


class ProduceConstantly(Action, frozen=True):
    """Produce to partitions (acks=all) at this constant rate in records per second until the drill
    ends. While the cluster is stable this needs no messages, so that long simulations are fast. At
    the end no acknowledged record may be lost. Simulated only."""

    SIMULATED_ONLY = True

    records_per_s: Mapping[Partition, Annotated[float, Meta(ge=0.0, le=1_000_000.0)]]

    def act(self, run: ScenarioTarget) -> None:
        for tp in self.records_per_s:
            run.check_may_produce(tp)
        run.driver.produce_constantly(self.records_per_s)


class Preload(Action, frozen=True):
    """Add this amount of data to all replicas of partitions, in records of 1000 bytes, as if it had
    been produced long ago. Not possible after a step has produced to the partitions."""

    ON_KAFKA = False

    sizes: Mapping[Partition, Size]

    def act(self, run: ScenarioTarget) -> None:
        for tp, size_bytes in self.sizes.items():
            self._preload(run, tp, size_bytes)

    def _preload(self, run: ScenarioTarget, tp: TopicPartition, size_bytes: int) -> None:
        cluster = run.cluster
        if tp in run.produced():
            problem = f"cannot preload {tp}: an earlier step produces to it"
            raise WrongState(problem, hint="preload it first")
        run.driver.call_client(
            lambda _: preload_replicas(brokers_of(cluster), tp, size_bytes, cluster.clock)
        )


class Wait(Action, frozen=True):
    """Wait for a duration in ms, s or min."""

    duration_ms: Duration = msgspec.field(name="duration")

    def act(self, run: ScenarioTarget) -> None:
        run.driver.run_for(self.duration_ms)


class Advance(Action, frozen=True):
    """Run this number of simulation steps. A simulation step runs a broker or controller up to its
    next ZooKeeper operation, delivers messages, or advances the clock. The next step of the drill
    can therefore begin while work is in progress. Simulated only."""

    SIMULATED_ONLY = True

    steps: Annotated[int, Meta(ge=1, le=1_000_000)]

    def act(self, run: ScenarioTarget) -> None:
        run.driver.advance(self.steps)


class BreakSession(BrokerAction, frozen=True):
    """Break the ZooKeeper sessions or the ZooKeeper connections of brokers.

    ``how``: a key of SESSION_FAULTS in world/simulated/world.py."""

    SIMULATED_ONLY = True

    how: str

    def act_on(self, run: Any, broker_id: int) -> None:
        run.driver.break_session(broker_id, self.how)


class HealAll(Action, frozen=True):
    """End every fault: heal network and disks, resume paused brokers, start brokers that are not
    running, and restart brokers with a failed log directory."""

    def act(self, run: ScenarioTarget) -> None:
        cluster = run.cluster
        HealNetwork().act(run)
        cluster.disks.heal()
        cluster.clocks.heal()
        for broker_id in sorted(cluster.nodes):
            cluster.resume(broker_id)
        run.driver.quiesce()
        run.driver.run_until(lambda: not is_shutting_down(cluster), _SHUTDOWN_TIMEOUT_MS)
        # A broker that was paused during its registration may halt now.
        run.driver.quiesce()
        for broker_id in sorted(cluster.failed_log_dir_broker_ids):
            cluster.kill(broker_id)
        for broker_id in cluster.spec.broker_ids:
            if broker_id not in cluster.nodes:
                cluster.start(broker_id)
        run.states.clear()
        # A request that the network has lost is sent again after its timeout.
        run.driver.run_until(lambda: not has_control_requests(cluster), _REQUESTS_TIMEOUT_MS)


def _answer(error: ApiError, partitions: Mapping[TopicPartition, ApiError]) -> CommandResult:
    """Format a controller's response like a tool's output: one line for each error.

    The exit code is 1 if there are errors."""
    if error.error is not Errors.NONE:
        refusals = [_worded(error)]
    else:
        refusals = [
            f"{tp}: {_worded(refusal)}"
            for tp, refusal in partitions.items()
            if refusal.error is not Errors.NONE
        ]
    return CommandResult("", "".join(f"{line}\n" for line in refusals), 1 if refusals else 0)


def _worded(error: ApiError) -> str:
    return error.error.name + (f": {error.message}" if error.message else "")
