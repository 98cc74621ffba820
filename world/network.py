"""Faults of network links as values, and what they do to a message.

A link leads from one party to another, in one direction. The parties are the machines of brokers,
each with its broker and its controller, the clients, and ZooKeeper. Messages within a machine never
pass a link. world/transport.py applies the faults to messages, and each world applies those of
links with ZooKeeper to the brokers' sessions.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from enum import Enum
from itertools import permutations, product
from typing import Final

import msgspec

from klamm.cluster.constant_rate import ConstantRateRequest, ConstantRateResponse, RevokeRates
from klamm.cluster.data_requests import FetchRequest, FetchResponse, ProduceRequest, ProduceResponse
from klamm.cluster.requests import Address, Disconnected, Message

ZOOKEEPER: Final = "zookeeper"
CLIENTS: Final = "clients"
Party = int | str
"""The id of a broker, for its machine; ZOOKEEPER; or CLIENTS (producers, consumers and tools)."""
Link = tuple[Party, Party]

_WITH_RECORDS: Final = (FetchRequest, FetchResponse, ProduceRequest, ProduceResponse)
_UNAFFECTED: Final = (ConstantRateRequest, ConstantRateResponse, RevokeRates, Disconnected)
"""Bookkeeping of the simulation, which stands for many messages or for none."""


class Traffic(Enum):
    """A part of the messages on a link."""

    RECORDS = "records"
    """Fetch and Produce requests and their responses."""
    CONTROL = "control"
    """Requests between controllers and brokers, and their responses."""


class LinkFault(msgspec.Struct, frozen=True, kw_only=True):
    """A fault of some links.

    - ``links``: the links that have the fault; None for all links except those with ZooKeeper.
    - ``only``: the messages that are affected; None for all.
    - ``is_cut``: messages are lost.
    - ``is_clogged``: messages are held until the fault ends, then delivered in order.
    - ``delay_ms``: messages arrive later by this time, in order.
    - ``lag_ms``: on links from ZooKeeper, the lag of the server to which the link leads.
    - ``loss``, ``repetition``, ``reordering``: rates, from 0 to 1, if the fault ``is_degraded``.
    - ``isolated``: the brokers of an isolation, see ``isolation``.
    - ``text``: describes the fault to users.
    """

    links: frozenset[Link] | None = None
    only: Traffic | None = None
    is_cut: bool = False
    is_clogged: bool = False
    delay_ms: float = 0.0
    lag_ms: float = 0.0
    loss: float = 0.0
    repetition: float = 0.0
    reordering: float = 0.0
    is_degraded: bool = False
    isolated: tuple[int, ...] = ()
    text: str = ""

    def concerns(self, link: Link, traffic: Traffic | None) -> bool:
        """Return True if the fault affects such messages on a link."""
        if self.only is not None and self.only is not traffic:
            return False
        return ZOOKEEPER not in link if self.links is None else link in self.links


def effect_of(
    faults: Iterable[LinkFault], link: Link, traffic: Traffic | None = None
) -> LinkFault | None:
    """Return the combined effect of ``faults`` on a message, or None if there is no effect.

    Delays add up; of several rates the highest counts."""
    found = [fault for fault in faults if fault.concerns(link, traffic)]
    if not found or link[0] == link[1]:
        return None  # messages within a machine pass no link
    return LinkFault(
        is_cut=any(fault.is_cut for fault in found),
        is_clogged=any(fault.is_clogged for fault in found),
        delay_ms=sum(fault.delay_ms for fault in found),
        lag_ms=max(fault.lag_ms for fault in found),
        loss=max(fault.loss for fault in found),
        repetition=max(fault.repetition for fault in found),
        reordering=max(fault.reordering for fault in found),
    )


def one_way(sources: Iterable[Party], destinations: Iterable[Party]) -> frozenset[Link]:
    """Return the links from each source to each destination."""
    return frozenset(link for link in product(sources, destinations) if link[0] != link[1])


def between(groups: Iterable[Collection[Party]]) -> frozenset[Link]:
    """Return the links between parties of different groups, in both directions."""
    return frozenset(link for one, other in permutations(groups, 2) for link in one_way(one, other))


def check_links(
    sources: tuple[object, ...],
    destinations: tuple[object, ...],
    groups: tuple[tuple[object, ...], ...],
    only: Traffic | None,
) -> None:
    """Raise ValueError unless either sources and destinations are given, or at least two groups.

    It is also raised for a party that is named twice, and for links that cannot exist. A party may
    be a reference to a broker: two different references to one broker are not noticed."""
    is_one_way = bool(sources and destinations)
    is_split = len(groups) > 1 and all(groups)
    if is_one_way == is_split or bool(sources or destinations) == is_split:
        raise ValueError("give either 'from' and 'to', or at least two groups in 'between'")
    named = [party for group in (*groups, sources, destinations) for party in group]
    twice = [str(party) for party in named if named.count(party) > 1]
    if twice:
        raise ValueError(f"{twice[0]} is named twice")
    if ZOOKEEPER in named and CLIENTS in named:
        raise ValueError("clients have no connections to zookeeper")
    if ZOOKEEPER in named and only is not None:
        raise ValueError("'only' does not apply to links with zookeeper")


def links_text(groups: Iterable[Iterable[object]], is_two_way: bool, only: Traffic | None) -> str:
    """Describe links to users."""
    texts = [",".join(map(str, group)) for group in groups]
    text = (" | " if is_two_way else " -> ").join(texts)
    return text if only is None else f"{text} (only {only.value})"


def isolation(isolated: Iterable[int], broker_ids: Iterable[int]) -> LinkFault:
    """Return the fault by which these brokers and all others do not replicate from each other."""
    group = tuple(sorted(isolated))
    others = [id_ for id_ in broker_ids if id_ not in group]
    return LinkFault(
        links=between((group, others)), only=Traffic.RECORDS, is_cut=True, isolated=group
    )


def party_of(address: Address) -> Party:
    """Return the party to which an actor belongs."""
    return CLIENTS if address.role == "client" else address.id


def traffic_of(message: Message) -> Traffic | None:
    """Return the part of the traffic to which a message belongs, or None for the remaining part."""
    if isinstance(message.body, _WITH_RECORDS):
        return Traffic.RECORDS
    roles = {message.source.role, message.destination.role}
    return Traffic.CONTROL if roles == {"broker", "controller"} else None


def is_affected(message: Message) -> bool:
    """Return True if faults of links apply to messages of this type."""
    return not isinstance(message.body, _UNAFFECTED)
