"""Actions on a cluster: one class per action, with its arguments, documentation and effect.

ACTIONS maps each action to its syntax in drills and its path in the HTTP API. Drills and recorded
scenarios execute these classes, the HTTP server decodes requests into them, and the command line
sends them to the server. Actions on the network are in network_actions.py, and actions that only
scenarios use in lab/actions/steps.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from klamm.cluster.disk_faults import DiskFault, FaultKind
from klamm.cluster.errors import WrongState
from klamm.cluster.status import PAUSED, RUNNING
from klamm.lab.actions.action import (
    KILLED,
    POWERED_OFF,
    STOPPED,
    Action,
    ActionTarget,
    BrokerAction,
    BrokerRef,
    Times,
)
from klamm.lab.actions.network_actions import (
    Clog,
    Cut,
    DegradeNetwork,
    Delay,
    FailRequests,
    HealNetwork,
    Isolate,
    LagZookeeper,
)
from klamm.zk.store import Create, Delete, GetData, ResultCode

MAX_SKEW_MS: Final = 86_400_000
_MOST_BYTES: Final = 10**12
LogDirs = Annotated[
    str | None, Meta(description="One of the broker's log.dirs; by default, all of them.")
]


class Kill(BrokerAction, frozen=True):
    """Kill a broker as kill -9 does: its session stays until ZooKeeper expires it."""

    LEAVES = KILLED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id)


class Start(BrokerAction, frozen=True):
    """Start a broker again. It registers once the session of its previous process has expired."""

    LEAVES = RUNNING

    wait: bool = True
    """If false, fail like Kafka if the previous session is still alive. Only for the HTTP API."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.start(broker_id)


class Stop(BrokerAction, frozen=True):
    """Stop a broker with a controlled shutdown: the controller first elects other leaders."""

    LEAVES = STOPPED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.shut_down(broker_id)


class PowerOff(BrokerAction, frozen=True):
    """Power off the machine of a broker, so that the broker's unflushed data is lost. The data is
    lost from a randomly chosen offset onward."""

    LEAVES = POWERED_OFF
    ON_KAFKA = False

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id, loses_unflushed=True)


class Pause(BrokerAction, frozen=True):
    """Freeze a broker, its controller and its heartbeats, as a long garbage collection does."""

    LEAVES = PAUSED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.pause(broker_id)


class Resume(BrokerAction, frozen=True):
    """Resume a paused broker."""

    LEAVES = RUNNING

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.resume(broker_id)


class BounceRegistration(BrokerAction, frozen=True):
    """Delete a broker's registration and create it again at once, with the same data. The new znode
    is owned by the drill's session, so it remains when the broker's session expires."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        path = f"/brokers/ids/{broker_id}"
        found = target.store.read([GetData(path)])[0]
        if found.code is not ResultCode.OK:
            raise WrongState(f"broker {broker_id} is not registered")
        target.store.write([[Delete(path)], [Create(path, found.data, ephemeral=True)]])


class FailLogDir(BrokerAction, frozen=True):
    """Make a log directory of a broker fail: the replicas in it go offline."""

    log_dir: Annotated[str, Meta(description="One of the broker's log.dirs.")]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.fail_log_dir(broker_id, self.log_dir)


class FailDisk(Action, frozen=True):
    """Make the disk of a broker's log directories, or of the journal, fail until the disks are
    healed. A log directory goes offline at the next operation that fails, or at once if its logs
    are in memory (without segments)."""

    ON_KAFKA = False

    kind: Annotated[
        FaultKind,
        Meta(
            description="How the disk fails: it is full (`enospc`), every operation fails (`eio`), "
            "only a part of each write reaches the file (`short-write`), or every fsync fails and "
            "a part of the unsynced data is lost (`fsync`)."
        ),
    ]
    broker: BrokerRef | None = None
    log_dir: LogDirs = None
    journal: Annotated[bool, Meta(description="Make the disk that holds the journal fail.")] = False
    after_bytes: Annotated[
        int,
        Meta(ge=0, le=_MOST_BYTES, description="Bytes that can still be written before the fault."),
    ] = 0
    times: Times | None = None

    def __post_init__(self) -> None:
        if self.log_dir is not None and self.broker is None:
            raise ValueError("'log_dir' requires 'broker'")
        if (self.broker is None) != self.journal:
            raise ValueError("give either 'broker' or 'journal'")

    def act(self, target: ActionTarget) -> None:
        fault = DiskFault(self.kind, after_bytes=self.after_bytes, times=self.times)
        if self.broker is None:
            target.cluster.disks.fail_journal(fault)
            return
        for broker_id in target.broker_ids(self.broker):
            target.cluster.disks.fail(broker_id, self.log_dir, fault)


class SlowDisk(BrokerAction, frozen=True):
    """Limit how fast replicas are copied to and from a broker's log directories. A follower that
    cannot keep up leaves the ISR after replica.lag.time.max.ms."""

    ON_KAFKA = False

    bytes_per_s: Annotated[int, Meta(ge=1, le=_MOST_BYTES, description="Maximum rate in bytes/s.")]
    log_dir: LogDirs = None

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.disks.slow(broker_id, self.log_dir, self.bytes_per_s)


class HealDisks(Action, frozen=True):
    """End all disk faults. A failed log directory stays offline until its broker is restarted."""

    def act(self, target: ActionTarget) -> None:
        target.cluster.disks.heal()


class SkewClock(BrokerAction, frozen=True):
    """Set the time of day on a broker's machine forward or back. Its timers are not affected."""

    ON_KAFKA = False

    ms: Annotated[
        int,
        Meta(
            ge=-MAX_SKEW_MS,
            le=MAX_SKEW_MS,
            description="Milliseconds; negative: back. 0 ends the skew.",
        ),
    ]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.clocks[broker_id].skew_ms = self.ms


class MoveController(Action, frozen=True):
    """Delete /controller to force a controller election; the same broker may win again."""

    def act(self, target: ActionTarget) -> None:
        # imported late: commands need no client
        from klamm.zk.kafka_zk_client import KafkaZkClient
        from klamm.zk.znodes import ControllerZNode

        KafkaZkClient(target.store).delete(ControllerZNode.path)


class ActionKind(NamedTuple):
    """How an action is written in drills, and its path in the HTTP API.

    ``example``: the action as a step of a drill. ``path``: path of its POST request, or None if the
    HTTP API does not offer the action. If the path begins with BROKER (``/brokers/{id}/``), the
    broker id is part of the path, and the request body holds the remaining arguments.
    """

    action: type[Action]
    example: str
    path: str | None = None


BROKER: Final = "/brokers/{id}/"
ACTIONS: Final[Mapping[str, ActionKind]] = {
    "kill": ActionKind(Kill, "kill: 1", f"{BROKER}kill"),
    "start": ActionKind(Start, "start: [1, 2]", f"{BROKER}start"),
    "stop": ActionKind(Stop, "stop: leader of t-0", f"{BROKER}stop"),
    "power_off": ActionKind(PowerOff, "power_off: leader of t-0", f"{BROKER}power-off"),
    "pause": ActionKind(Pause, "pause: controller", f"{BROKER}pause"),
    "resume": ActionKind(Resume, "resume: 0", f"{BROKER}resume"),
    "bounce_registration": ActionKind(BounceRegistration, "bounce_registration: 2"),
    "fail_log_dir": ActionKind(
        FailLogDir, "fail_log_dir: {broker: 1, log_dir: d1}", f"{BROKER}fail-log-dir"
    ),
    "fail_disk": ActionKind(
        FailDisk, "fail_disk: {broker: 1, log_dir: d1, kind: enospc}", "/disks/fail"
    ),
    "slow_disk": ActionKind(SlowDisk, "slow_disk: {broker: 1, bytes_per_s: 1000}", "/disks/slow"),
    "heal_disks": ActionKind(HealDisks, "heal_disks", "/disks/heal"),
    "cut": ActionKind(Cut, "cut: {from: 1, to: zookeeper}", "/network/cut"),
    "clog": ActionKind(Clog, "clog: {from: controller, to: 2}", "/network/clog"),
    "delay": ActionKind(Delay, "delay: {from: zookeeper, to: 1, ms: 200}", "/network/delay"),
    "fail_requests": ActionKind(
        FailRequests,
        "fail_requests: {api: Produce, error: NOT_LEADER_OR_FOLLOWER, times: 3}",
        "/network/fail-requests",
    ),
    "lag_zookeeper": ActionKind(LagZookeeper, "lag_zookeeper: {broker: 1, ms: 500}"),
    "skew_clock": ActionKind(
        SkewClock, "skew_clock: {broker: 1, ms: 60000}", f"{BROKER}skew-clock"
    ),
    "degrade_network": ActionKind(
        DegradeNetwork,
        "degrade_network: {loss: 0.1, repetition: 0.1, reordering: 0.3}",
        "/network/degrade",
    ),
    "isolate": ActionKind(Isolate, "isolate: [2]", "/network"),
    "heal_network": ActionKind(HealNetwork, "heal_network", "/network/heal"),
    "move_controller": ActionKind(MoveController, "move_controller", "/controller/move"),
}
"""The actions, keyed by their names in drills, except those in lab/actions/steps.py."""


def request_of(action: Action) -> tuple[str, dict[str, Any] | None]:
    """Return the path and the body of the HTTP request for an action."""
    path = next(str(kind.path) for kind in ACTIONS.values() if kind.action is type(action))
    body = msgspec.to_builtins(action)
    if path.startswith(BROKER):
        path = path.format(id=body.pop("broker"))
    return path, body or None
