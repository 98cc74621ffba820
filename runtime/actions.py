"""Actions on a cluster: one class per action, with its arguments, documentation and effect.

ACTIONS maps each action to its syntax in drills and its path in the HTTP API. Drills and recorded
scenarios execute these classes, the HTTP server decodes requests into them, and the command line
sends them to the server. Actions that only scenarios use are in runtime/scenarios/steps.py.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Final, NamedTuple

import msgspec
from msgspec import Meta

from klamm.brokers.storage.faults import DiskFault, FaultKind
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import WrongState
from klamm.runtime.action_target import (
    KILLED,
    PAUSED,
    POWERED_OFF,
    RUNNING,
    STOPPED,
    ActionTarget,
    BrokerRef,
)
from klamm.runtime.network import (
    CLIENTS,
    ZOOKEEPER,
    Link,
    LinkFault,
    Party,
    Traffic,
    between,
    check_links,
    isolation,
    links_text,
    one_way,
)
from klamm.runtime.request_faults import RequestFault, check_request_fault
from klamm.zk.store import Create, Delete, GetData

OTHERS: Final = "others"
"""In the arguments of a network fault: all brokers that the fault does not name otherwise."""
Parties = Annotated[tuple[BrokerRef, ...], Meta(description="parties")]
"""What the links of a network fault connect: brokers, OTHERS, ZOOKEEPER or CLIENTS."""


class Action(msgspec.Struct, frozen=True):
    """An action on a cluster."""

    SIMULATED_ONLY: ClassVar[bool] = False

    @property
    def is_simulated_only(self) -> bool:
        """True if only a simulated cluster can execute the action."""
        return self.SIMULATED_ONLY

    def act(self, target: Any) -> Any:
        """Execute the action. Raises KlammError if the action is not possible.

        ``target`` is an ActionTarget, or the ScenarioRunner for an action that only scenarios use.
        Such an action may return the response of a tool or of the controller.
        """
        raise NotImplementedError


class BrokerAction(Action, frozen=True):
    """An action on one or more brokers."""

    LEAVES: ClassVar[str | None] = None
    """The broker's state after the action; None if the action does not change the state."""

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
    """Start brokers. Each registers once the session of its previous process has expired."""

    LEAVES = RUNNING

    wait: bool = True
    """If false, fail like Kafka if the previous session is still alive. Only for the HTTP API."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.start(broker_id)


class Stop(BrokerAction, frozen=True):
    """Controlled shutdown: the controller moves leadership away from brokers before they stop."""

    LEAVES = STOPPED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.shut_down(broker_id)


class PowerOff(BrokerAction, frozen=True):
    """Kill brokers and cut the power of their machines: data that their logs had not flushed is
    lost from a randomly chosen offset onward."""

    LEAVES = POWERED_OFF

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.kill(broker_id, loses_unflushed=True)


class Pause(BrokerAction, frozen=True):
    """Freeze brokers and their controllers, as in a long garbage collection pause: they send no
    heartbeats."""

    LEAVES = PAUSED

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.pause(broker_id)


class Resume(BrokerAction, frozen=True):
    """Resume paused brokers."""

    LEAVES = RUNNING

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.resume(broker_id)


class BounceRegistration(BrokerAction, frozen=True):
    """Delete a broker's registration and create it again at once, with the same data. The new znode
    is owned by the drill's session, so it remains when the broker's session expires."""

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        path = f"/brokers/ids/{broker_id}"
        data = target.store.read([GetData(path)])[0].data
        target.store.write([[Delete(path)], [Create(path, data, ephemeral=True)]])


class FailLogDir(BrokerAction, frozen=True):
    """Make a log directory of a broker fail. The directory must be listed in log.dirs."""

    log_dir: str

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.fail_log_dir(broker_id, self.log_dir)


class FailDisk(Action, frozen=True):
    """Inject a disk fault into a broker's log directory (by default, into all of them), or, with
    `journal: true`, into the journal. `kind` is `enospc` (the disk is full), `eio` (every operation
    fails), `short-write` (only part of a write reaches the file) or `fsync` (fsync fails, and part
    of the unsynced data is lost). `after_bytes`: bytes written before the fault starts. `times`:
    number of failures before the disk works again. In-memory logs fail at once."""

    kind: FaultKind
    broker: BrokerRef | None = None
    log_dir: str | None = None
    journal: bool = False
    after_bytes: Annotated[int, Meta(ge=0)] = 0
    times: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        if (self.broker is None) != self.journal or (self.journal and self.log_dir is not None):
            raise ValueError("give either a broker (and optionally a dir) or journal: true")

    def act(self, target: ActionTarget) -> None:
        fault = DiskFault(self.kind, after_bytes=self.after_bytes, times=self.times)
        if self.broker is None:
            target.cluster.disks.fail_journal(fault)
            return
        for broker_id in target.broker_ids(self.broker):
            target.cluster.disks.fail(broker_id, self.log_dir, fault)


class SlowDisk(BrokerAction, frozen=True):
    """Limit the rate of replica copies to and from a broker's log directory (by default, all of
    them)."""

    bytes_per_s: Annotated[int, Meta(ge=1, lt=2**63 - 1)]
    log_dir: str | None = None

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.disks.slow(broker_id, self.log_dir, self.bytes_per_s)


class HealDisks(Action, frozen=True):
    """End all disk faults. A failed log directory stays offline until its broker is restarted."""

    def act(self, target: ActionTarget) -> None:
        target.cluster.disks.heal()


class LinkAction(Action, frozen=True, kw_only=True):
    """A fault of the links `from` parties `to` parties, or between groups of parties."""

    WHAT: ClassVar[str]
    """The fault, in descriptions."""
    REFUSES_ZOOKEEPER: ClassVar[str] = ""
    """Why links with ZooKeeper cannot have the fault; empty if they can."""
    NEEDS_LINKS: ClassVar[bool] = True
    """False if the fault affects all messages with records if no links are given."""

    sources: Parties = msgspec.field(default=(), name="from")
    destinations: Parties = msgspec.field(default=(), name="to")
    between: tuple[Parties, ...] = ()
    only: Traffic | None = None

    def __post_init__(self) -> None:
        if not (self._has_links or self.NEEDS_LINKS or self.only):
            return
        check_links(self.sources, self.destinations, self.between, self.only)
        if self.REFUSES_ZOOKEEPER and any(ZOOKEEPER in group for group in self._groups()):
            raise ValueError(self.REFUSES_ZOOKEEPER)

    def act(self, target: ActionTarget) -> None:
        fault = msgspec.structs.replace(
            self.fault(),
            links=self._links(target) if self._has_links else None,
            only=self.only if self._has_links else Traffic.RECORDS,
            text=self._text(),
        )
        target.cluster.check_link_fault(fault)
        transport = target.cluster.transport
        kept = (one for one in transport.faults if not (one.is_degraded and fault.is_degraded))
        transport.faults = (*kept, fault)

    def fault(self) -> LinkFault:
        """Return the fault, without its links."""
        raise NotImplementedError

    @property
    def _has_links(self) -> bool:
        return any((self.sources, self.destinations, self.between))

    def _groups(self) -> tuple[Parties, ...]:
        return self.between or (self.sources, self.destinations)

    def _links(self, target: ActionTarget) -> frozenset[Link]:
        """Return the links. Raises KlammError if a broker does not exist."""
        named = [_named_parties(target, group) for group in self._groups()]
        everyone = sorted(target.cluster.spec.broker_ids)
        rest = [id_ for id_ in everyone if not any(id_ in group for group in named)]
        groups = [
            [*group, *rest] if OTHERS in given else group
            for given, group in zip(self._groups(), named, strict=True)
        ]
        if not all(groups):
            raise WrongState("no broker is left for 'others'", hint="leave at least one out")
        return between(groups) if self.between else one_way(*groups)

    def _text(self) -> str:
        if not self._has_links:
            return f"{self.WHAT}: all messages with records"
        return f"{self.WHAT}: {links_text(self._groups(), bool(self.between), self.only)}"


def _named_parties(target: ActionTarget, given: Parties) -> list[Party]:
    named: list[Party] = [str(party) for party in given if party in (ZOOKEEPER, CLIENTS)]
    refs = [party for party in given if party not in (OTHERS, ZOOKEEPER, CLIENTS)]
    return named + [id_ for ref in refs for id_ in target.broker_ids(ref)]


class Cut(LinkAction, frozen=True, kw_only=True):
    """Cut network links: messages are lost. `from` and `to` cut them in one direction, `between`
    splits two or more groups from each other. Parties are brokers, `others` (all brokers that are
    not named), `clients` and `zookeeper`; a group is a party or a list. A broker stands for its
    machine, with its controller. `only: records` cuts Fetch and Produce, `only: control` the
    requests of controllers to brokers and of brokers to controllers."""

    WHAT = "cut"

    def fault(self) -> LinkFault:
        return LinkFault(is_cut=True)


class Clog(LinkAction, frozen=True, kw_only=True):
    """Clog network links, given as for `cut`: messages are held, and delivered in order when the
    network is healed. Not for links with ZooKeeper."""

    WHAT = "clogged"
    REFUSES_ZOOKEEPER = "links with zookeeper cannot be clogged: use cut or delay"

    def fault(self) -> LinkFault:
        return LinkFault(is_clogged=True)


class Delay(LinkAction, frozen=True, kw_only=True):
    """Deliver the messages of network links, given as for `cut`, later by `ms` milliseconds, in
    order. Delays of the same link add up. From ZooKeeper, replies and watch events are late. Links
    with ZooKeeper: simulated only."""

    WHAT = "delayed"

    ms: Annotated[int, Meta(ge=1, le=600_000)]

    @property
    def is_simulated_only(self) -> bool:
        return any(ZOOKEEPER in group for group in self._groups())

    def fault(self) -> LinkFault:
        return LinkFault(delay_ms=self.ms)


Rate = Annotated[float, Meta(ge=0.0, le=1.0)]


class DegradeNetwork(LinkAction, frozen=True, kw_only=True):
    """Lose, repeat and reorder messages of network links, with these probabilities (0 to 1). The
    links are given as for `cut`; without any, all messages that carry records are affected. On
    connections of clients, a loss breaks the connection, and nothing is repeated or reordered.
    Replaces any earlier `degrade_network`."""

    WHAT = "degraded"
    REFUSES_ZOOKEEPER = "connections to zookeeper lose and reorder nothing: use cut or delay"
    NEEDS_LINKS = False

    loss: Rate = 0.0
    repetition: Rate = 0.0
    reordering: Rate = 0.0

    def fault(self) -> LinkFault:
        return LinkFault(
            loss=self.loss, repetition=self.repetition, reordering=self.reordering, is_degraded=True
        )


class FailRequests(Action, frozen=True, kw_only=True):
    """Let requests of clients fail: those of an `api`, of a `client` (a client id, which only
    Kafka's own clients have) and to a `broker`; by default, of and to all. They are refused with an
    `error`, such as NOT_LEADER_OR_FOLLOWER, and have no other effect; or they are lost (`drop`), or
    lost with their connection (`cut`), or reach the broker later by `delay_ms`. `times`: number of
    requests that fail; by default all, until `heal_network`."""

    api: str | None = None
    client: str | None = None
    broker: BrokerRef | None = None
    error: str | None = None
    drop: bool = False
    cut: bool = False
    delay_ms: Annotated[int, Meta(ge=1, le=600_000)] | None = None
    times: Annotated[int, Meta(ge=1)] | None = None

    def __post_init__(self) -> None:
        check_request_fault(self.api, self.error, self.drop, self.cut, self.delay_ms)

    def act(self, target: ActionTarget) -> None:
        brokers = None if self.broker is None else frozenset(target.broker_ids(self.broker))
        error = Errors[self.error] if self.error else None
        fault = RequestFault(
            self.api, self.client, brokers, self.times, error, self.cut, self.delay_ms or 0
        )
        target.cluster.transport.request_faults.add(fault)


class LagZookeeper(BrokerAction, frozen=True):
    """Let brokers read from a ZooKeeper follower that applies each transaction `ms` milliseconds
    later than the leader, until `heal_network`. What a broker reads never goes back; it gets a
    watch event before it reads the change, and it sees its own writes at once. Simulated only."""

    SIMULATED_ONLY: ClassVar[bool] = True

    ms: Annotated[int, Meta(ge=1, le=600_000)]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        fault = LinkFault(
            links=one_way([ZOOKEEPER], [broker_id]),
            lag_ms=self.ms,
            text=f"lag of {self.ms} ms: {ZOOKEEPER} -> {broker_id}",
        )
        target.cluster.check_link_fault(fault)
        target.cluster.transport.faults = (*target.cluster.transport.faults, fault)


class SkewClock(BrokerAction, frozen=True):
    """Set the time of day on brokers' machines forward by `ms` milliseconds (back, if negative),
    until `heal_all`. Timers, which use monotonic time, are not affected."""

    ms: Annotated[int, Meta(ge=-86_400_000, le=86_400_000)]

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        target.cluster.clocks[broker_id].skew_ms = self.ms


class Isolate(Action, frozen=True):
    """Isolate these brokers: they and the others replicate no records from each other. ZooKeeper,
    the controller and clients still reach all brokers. Replaces any earlier isolation. The same as
    `cut: {between: [2, others], only: records}`."""

    isolated: tuple[BrokerRef, ...]

    def act(self, target: ActionTarget) -> None:
        isolated = {broker_id for ref in self.isolated for broker_id in target.broker_ids(ref)}
        everyone = target.cluster.spec.broker_ids
        if isolated.issuperset(everyone):
            raise WrongState(
                "cannot isolate all brokers of the cluster: no other broker would be left",
                hint="leave at least one broker out",
            )
        transport = target.cluster.transport
        kept = tuple(fault for fault in transport.faults if not fault.isolated)
        transport.faults = (*kept, isolation(isolated, everyone)) if isolated else kept


class HealNetwork(Action, frozen=True):
    """End all faults of the network and of requests, and deliver the messages on clogged links."""

    def act(self, target: ActionTarget) -> None:
        target.cluster.transport.heal()


class MoveController(Action, frozen=True):
    """Delete /controller, so that a new controller is elected."""

    def act(self, target: ActionTarget) -> None:
        from klamm.zk.kafka_zk_client import (
            KafkaZkClient,  # imported late: commands need no client
        )

        KafkaZkClient(target.store).delete("/controller")


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
        FailLogDir, "fail_log_dir: {broker: 1, dir: d1}", f"{BROKER}fail-log-dir"
    ),
    "fail_disk": ActionKind(
        FailDisk, "fail_disk: {broker: 1, dir: d1, kind: enospc}", "/disks/fail"
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
"""The actions, keyed by their names in drills, except those in runtime/scenarios/steps.py."""


def request_of(action: Action) -> tuple[str, dict[str, Any] | None]:
    """Return the path and the body of the HTTP request for an action."""
    path = next(str(kind.path) for kind in ACTIONS.values() if kind.action is type(action))
    body = msgspec.to_builtins(action)
    if path.startswith(BROKER):
        path = path.format(id=body.pop("broker"))
    return path, body or None
