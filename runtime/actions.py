"""Actions on a cluster, one class each with its arguments, its documentation and its effect.

ACTIONS has the syntax of each action in drills, and its path in the HTTP API. Drills and recorded
scenarios run these classes, the HTTP server decodes them, and the command line sends them.
runtime/scenarios/steps.py has the actions that only scenarios use.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Final, NamedTuple, Protocol

import msgspec
from msgspec import Meta

from klamm.brokers.storage.faults import DiskFault, FaultKind
from klamm.cluster.errors import UsageError
from klamm.cluster.types import TopicPartition
from klamm.zk.store import Create, Delete, GetData, Store

if TYPE_CHECKING:
    from klamm.runtime.cluster import Cluster

CONTROLLER: Final = "controller"
DEAD: Final = "dead"
PAUSED: Final = "paused"
BrokerRef = int | str | TopicPartition
"""Reference to brokers: an id; in scenarios also CONTROLLER, all that earlier steps stopped (DEAD)
or paused (PAUSED), or the leader of a partition."""

RUNNING: Final = "running"
KILLED: Final = "killed"
STOPPED: Final = "stopped"


class ActionTarget(Protocol):
    """Target of actions: a running scenario, or the cluster of an HTTP server."""

    @property
    def cluster(self) -> Cluster:
        """The cluster."""
        ...

    @property
    def store(self) -> Store:
        """A session with the cluster's ZooKeeper."""
        ...

    def broker_ids(self, broker: BrokerRef) -> list[int]:
        """Resolve a reference to broker ids. Raises KlammError if it matches none."""
        ...

    def note_state(self, broker_id: int, state: str) -> None:
        """Record the state in which an action leaves a broker."""
        ...


class Action(msgspec.Struct, frozen=True):
    """An action on a cluster."""

    def act(self, target: Any) -> Any:
        """Execute the action. Raises KlammError if it is not possible.

        ``target``: an ActionTarget. An action that only scenarios use takes their ScenarioRunner,
        and may return the response of a tool or the controller.
        """
        raise NotImplementedError


class BrokerAction(Action, frozen=True):
    """An action on one or several brokers."""

    LEAVES: ClassVar[str | None] = None
    """State of the broker afterwards; None: unchanged."""

    broker: BrokerRef

    def act(self, target: ActionTarget) -> None:
        for broker_id in target.broker_ids(self.broker):
            if self.LEAVES is not None:
                target.note_state(broker_id, self.LEAVES)
            self.act_on(target, broker_id)

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        """Execute the action on one broker."""
        raise NotImplementedError


class Kill(BrokerAction, frozen=True):
    """Kill brokers. ZooKeeper removes their registrations when their sessions expire."""

    LEAVES = KILLED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id)


class Start(BrokerAction, frozen=True):
    """Start brokers. Each registers as soon as its former session has expired."""

    LEAVES = RUNNING

    wait: bool = True
    """False, for HTTP only: fail like Kafka while the former session is alive."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.start(broker_id)


class Stop(BrokerAction, frozen=True):
    """Shut brokers down in a controlled way: the controller moves their leaderships first."""

    LEAVES = STOPPED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.shut_down(broker_id)


class PowerOff(BrokerAction, frozen=True):
    """Kill brokers and cut the power of their machines: data that their logs had not flushed is
    lost from a randomly chosen offset onward."""

    LEAVES = KILLED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id, loses_unflushed=True)


class Pause(BrokerAction, frozen=True):
    """Freeze brokers and their controllers, as in a long garbage collection: no heartbeats are
    sent."""

    LEAVES = PAUSED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.pause(broker_id)


class Resume(BrokerAction, frozen=True):
    """Resume paused brokers."""

    LEAVES = RUNNING

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.resume(broker_id)


class BounceRegistration(BrokerAction, frozen=True):
    """Delete a broker's znode and create it again with the same data, in one transaction. The
    drill's session, which does not end, then owns the znode."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        path = f"/brokers/ids/{broker_id}"
        data = target.store.read([GetData(path)])[0].data
        target.store.write([[Delete(path)], [Create(path, data, ephemeral=True)]])


class FailLogDir(BrokerAction, frozen=True):
    """Make a log directory of a broker fail: one of log.dirs in the cluster's config."""

    log_dir: str

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.fail_log_dir(broker_id, self.log_dir)


class FailDisk(Action, frozen=True):
    """Inject a disk fault into a broker's log directory, by default into all of them, or with
    `journal: true` into the journal. `kind`: `enospc`, the disk is full; `eio`, every operation
    fails; `short-write`, only part of a write reaches the file; `fsync`, fsync fails and part of
    the unsynced data is lost. `after_bytes`: bytes written before the fault starts. `times`:
    failures before the disk works again. Logs in memory (no segments) fail at once."""

    kind: FaultKind
    broker: BrokerRef | None = None
    log_dir: str | None = None
    journal: bool = False
    after_bytes: Annotated[int, Meta(ge=0)] = 0
    times: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        if (self.broker is None) != self.journal or (self.journal and self.log_dir is not None):
            raise ValueError("name a broker, optionally with its log_dir, or set journal")

    def act(self, target: ActionTarget) -> None:
        fault = DiskFault(self.kind, after_bytes=self.after_bytes, times=self.times)
        if self.broker is None:
            target.cluster.disks.fail_journal(fault)
            return
        for broker_id in target.broker_ids(self.broker):
            target.cluster.disks.fail(broker_id, self.log_dir, fault)


class SlowDisk(BrokerAction, frozen=True):
    """Limit the rate of replica copies to and from a broker's log directory, by default all of
    them."""

    bytes_per_s: Annotated[int, Meta(ge=1, lt=2**63 - 1)]
    log_dir: str | None = None

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.disks.slow(broker_id, self.log_dir, self.bytes_per_s)


class HealDisks(Action, frozen=True):
    """End all disk faults. A failed log directory stays offline until its broker is restarted."""

    def act(self, target: ActionTarget) -> None:
        target.cluster.disks.heal()


class Isolate(Action, frozen=True):
    """Cut these brokers off from the others: records are replicated inside both groups, not
    between them. ZooKeeper, the controller and clients reach all brokers. Replaces any earlier
    isolation."""

    isolated: tuple[BrokerRef, ...]

    def act(self, target: ActionTarget) -> None:
        isolated = {broker_id for ref in self.isolated for broker_id in target.broker_ids(ref)}
        if isolated.issuperset(target.cluster.spec.broker_ids):
            raise UsageError(
                "all brokers of the cluster cannot be isolated: no other broker is left",
                hint="leave at least one broker out",
            )
        target.cluster.transport.isolated = tuple(sorted(isolated))


class MoveController(Action, frozen=True):
    """Delete /controller, so that another controller is elected."""

    def act(self, target: ActionTarget) -> None:
        from klamm.zk.kafka_zk_client import (
            KafkaZkClient,  # imported late: commands need no client
        )

        KafkaZkClient(target.store).delete("/controller")


class ActionKind(NamedTuple):
    """``example``: a step of a drill. ``path``: of the POST request; None: not in the HTTP API.

    For a path that begins with BROKER, the body has the other arguments."""

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
        FailLogDir, "fail_log_dir: {broker: 1, dir: d1}", f"{BROKER}fail-log-dir"
    ),
    "fail_disk": ActionKind(
        FailDisk, "fail_disk: {broker: 1, dir: d1, kind: enospc}", "/disks/fail"
    ),
    "slow_disk": ActionKind(SlowDisk, "slow_disk: {broker: 1, bytes_per_s: 1000}", "/disks/slow"),
    "heal_disks": ActionKind(HealDisks, "heal_disks", "/disks/heal"),
    "isolate": ActionKind(Isolate, "isolate: [2]", "/network"),
    "move_controller": ActionKind(MoveController, "move_controller", "/controller/move"),
}
"""All actions except those only for scenarios, by their names in drills."""


def request_of(action: Action) -> tuple[str, dict[str, Any] | None]:
    """Return path and body of the HTTP request for an action."""
    path = next(str(kind.path) for kind in ACTIONS.values() if kind.action is type(action))
    body = msgspec.to_builtins(action)
    if path.startswith(BROKER):
        path = path.format(id=body.pop("broker"))
    return path, body or None
