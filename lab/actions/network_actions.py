"""Actions on the network of a cluster: faults of links and of requests (others: actions.py)."""

from __future__ import annotations

from typing import Annotated, ClassVar, Final

import msgspec
from msgspec import Meta

from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import WrongState
from klamm.cluster.request_faults import KAFKAS_ERRORS, RequestFault, check_request_fault
from klamm.lab.actions.action import Action, ActionTarget, BrokerAction, BrokerRef, Times
from klamm.lab.value_types import Form, mark
from klamm.world.network import (
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

DelayMs = Annotated[int, Meta(ge=1, le=600_000, description="Delay in milliseconds.")]
OTHERS: Final = "others"
"""In the arguments of a network fault: all brokers that the fault does not name otherwise."""
Parties = Annotated[tuple[BrokerRef, ...], mark(Form.PARTIES)]
"""What the links of a network fault connect: brokers, OTHERS, ZOOKEEPER or CLIENTS."""
Groups = Annotated[tuple[Parties, ...], Meta(min_length=2)]
IsolatedBrokers = Annotated[tuple[BrokerRef, ...], mark(Form.ISOLATED_BROKERS)]


class NetworkAction(Action, frozen=True):
    """An action on the network; the HTTP API answers it with the faults that are active then."""


class LinkAction(NetworkAction, frozen=True, kw_only=True):
    """A fault of the links `from` parties `to` parties, or between groups of parties."""

    ON_KAFKA = False
    WHAT: ClassVar[str]
    """The fault, in descriptions."""
    REFUSES_ZOOKEEPER: ClassVar[str] = ""
    """Why links with ZooKeeper cannot have the fault; empty if they can."""
    NEEDS_LINKS: ClassVar[bool] = True
    """False if the fault affects all messages with records if no links are given."""

    sources: Parties = msgspec.field(default=(), name="from")
    destinations: Parties = msgspec.field(default=(), name="to")
    between: Groups = ()
    only: Annotated[
        Traffic | None,
        Meta(
            description="Which messages: `records` (Fetch and Produce) or `control` (requests of "
            "controllers to brokers and of brokers to controllers); by default, all."
        ),
    ] = None

    def __post_init__(self) -> None:
        if not (self._has_links or self.NEEDS_LINKS):
            if self.only:
                raise ValueError("'only' requires links: name the groups that they connect")
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
        transport = target.cluster.transport
        kept = (one for one in transport.faults if not (one.is_degraded and fault.is_degraded))
        transport.faults = (*kept, fault)

    def fault(self) -> LinkFault:
        """Return the fault, without its links."""
        raise NotImplementedError

    @property
    def what(self) -> str:
        """The kind of fault and its amounts."""
        return self.WHAT

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
            return f"{self.what}: all messages with records"
        return f"{self.what}: {links_text(self._groups(), bool(self.between), self.only)}"


def _named_parties(target: ActionTarget, given: Parties) -> list[Party]:
    named: list[Party] = [str(party) for party in given if party in (ZOOKEEPER, CLIENTS)]
    refs = [party for party in given if party not in (OTHERS, ZOOKEEPER, CLIENTS)]
    return named + [id_ for ref in refs for id_ in target.broker_ids(ref)]


class Cut(LinkAction, frozen=True, kw_only=True):
    """Cut network links: messages are lost until the network is healed. A broker stands for its
    machine, with its controller.

    `from` and `to` cut the links in one direction, `between` splits two or more groups from each
    other. Parties are brokers, `others` (all brokers that are not named), `clients` and
    `zookeeper`; a group is a list of parties (drills and Python also take a party without
    brackets)."""

    PATH = "/network/cut"
    WHAT = "cut"

    def fault(self) -> LinkFault:
        return LinkFault(is_cut=True)


class Clog(LinkAction, frozen=True, kw_only=True):
    """Hold messages of links; deliver them in order when the network is healed. Not for links with
    ZooKeeper.

    The links are given as for `cut`."""

    PATH = "/network/clog"
    WHAT = "clogged"
    REFUSES_ZOOKEEPER = "links with zookeeper cannot be clogged: cut them"

    def fault(self) -> LinkFault:
        return LinkFault(is_clogged=True)


class Delay(LinkAction, frozen=True, kw_only=True):
    """Deliver the messages of network links later, in order. Delays of the same link add up. Links
    with ZooKeeper: simulated only.

    The links are given as for `cut`. From ZooKeeper, replies and watch events are late."""

    PATH = "/network/delay"
    WHAT = "delayed"

    ms: DelayMs

    @property
    def what(self) -> str:
        return f"{self.WHAT} by {self.ms} ms"

    @property
    def is_simulated_only(self) -> bool:
        return any(ZOOKEEPER in group for group in self._groups())

    def fault(self) -> LinkFault:
        return LinkFault(delay_ms=self.ms)


Probability = Annotated[float, Meta(ge=0.0, le=1.0, description="Probability, from 0 to 1.")]


class DegradeNetwork(LinkAction, frozen=True, kw_only=True):
    """Lose, repeat and reorder messages of network links. By default, all messages that carry
    records are affected. On connections of clients, a loss breaks the connection, and nothing is
    repeated or reordered. Replaces the rates of an earlier degradation.

    The links are given as for `cut`."""

    PATH = "/network/degrade"
    WHAT = "degraded"
    REFUSES_ZOOKEEPER = "connections to zookeeper lose and reorder nothing: cut them"
    NEEDS_LINKS = False

    loss: Probability = 0.0
    repetition: Probability = 0.0
    reordering: Probability = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if not (self.loss or self.repetition or self.reordering):
            raise ValueError("one of 'loss', 'repetition' and 'reordering' must be greater than 0")

    @property
    def what(self) -> str:
        rates = {"loss": self.loss, "repetition": self.repetition, "reordering": self.reordering}
        shown = ", ".join(f"{name} {rate:g}" for name, rate in rates.items() if rate)
        return f"{self.WHAT} ({shown})"

    def fault(self) -> LinkFault:
        return LinkFault(
            loss=self.loss, repetition=self.repetition, reordering=self.reordering, is_degraded=True
        )


class FailRequests(NetworkAction, frozen=True, kw_only=True):
    """Let requests of clients fail: give one of `error`, `drop`, `cut` and `delay_ms`. By default,
    requests to all brokers fail."""

    PATH = "/network/fail-requests"
    ON_KAFKA = False

    api: Annotated[
        str | None, Meta(description="Kafka's name of an API, e.g. Fetch; by default, all.")
    ] = None
    client: Annotated[
        str | None,
        Meta(description="Client id of one of Kafka's own clients; by default, all clients."),
    ] = None
    broker: BrokerRef | None = None
    error: Annotated[
        str | None,
        Meta(
            description="Refuse requests with this error, e.g. NOT_LEADER_OR_FOLLOWER (all: see "
            f"{KAFKAS_ERRORS}), so that they have no other effect."
        ),
    ] = None
    drop: Annotated[bool, Meta(description="Lose requests.")] = False
    cut: Annotated[bool, Meta(description="Lose requests, and break their connections.")] = False
    delay_ms: DelayMs | None = None
    times: Times | None = None

    def __post_init__(self) -> None:
        check_request_fault(self.api, self.client, self.error, self.drop, self.cut, self.delay_ms)

    def act(self, target: ActionTarget) -> None:
        brokers = None if self.broker is None else frozenset(target.broker_ids(self.broker))
        error = Errors[self.error] if self.error else None
        fault = RequestFault(
            self.api, self.client, brokers, self.times, error, self.cut, self.delay_ms or 0
        )
        target.cluster.transport.request_faults.append(fault)


class LagZookeeper(BrokerAction, frozen=True):
    """Let a broker read from a ZooKeeper follower that applies each transaction later than the
    leader, until the network is healed. What a broker reads never goes back; it gets a watch event
    before it reads the change, and it sees its own writes at once. Simulated only."""

    SIMULATED_ONLY = True

    ms: DelayMs

    def act_on(self, target: ActionTarget, broker_id: int) -> None:
        fault = LinkFault(
            links=one_way([ZOOKEEPER], [broker_id]),
            lag_ms=self.ms,
            text=f"lag of {self.ms} ms: {ZOOKEEPER} -> {broker_id}",
        )
        target.cluster.transport.faults = (*target.cluster.transport.faults, fault)


class Isolate(NetworkAction, frozen=True):
    """Isolate brokers: stop replication between them and all other brokers. ZooKeeper, the
    controller and clients still reach all brokers. Replaces any earlier isolation.

    The same as `cut: {between: [[2], [others]], only: records}`."""

    PATH = "/network"
    ON_KAFKA = False

    isolated: IsolatedBrokers

    def act(self, target: ActionTarget) -> None:
        isolated = {broker_id for ref in self.isolated for broker_id in target.broker_ids(ref)}
        everyone = target.cluster.spec.broker_ids
        if isolated.issuperset(everyone):
            raise WrongState(
                "cannot isolate all brokers of the cluster: no other broker would be left",
                hint="leave at least one broker out",
                retriable=False,
            )
        transport = target.cluster.transport
        kept = tuple(fault for fault in transport.faults if not fault.isolated)
        transport.faults = (*kept, isolation(isolated, everyone)) if isolated else kept


class HealNetwork(NetworkAction, frozen=True):
    """End all faults of the network and of requests, and deliver the messages on clogged links."""

    PATH = "/network/heal"

    def act(self, target: ActionTarget) -> None:
        target.cluster.transport.heal()
