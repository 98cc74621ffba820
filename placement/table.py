"""Effect of an assignment on brokers: leaders, followers, and takeovers after a failure.

Must not format for people: cli/ does. The takeover is the offline election of
kafka/controller/Election.scala if every other replica is alive and in sync.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

Table = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """One broker's part of an assignment: partition ids, ascending."""

    broker_id: int
    leads: tuple[int, ...]
    follows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Takeover:
    """Leaders after the failure of `dead`.

    `new_leaders`: partitions by new leader, both ascending. `leaderless`: partitions without one.
    """

    dead: int
    new_leaders: dict[int, tuple[int, ...]]
    leaderless: tuple[int, ...]


def broker_shares(table: Table, broker_ids: Iterable[int]) -> tuple[BrokerShare, ...]:
    """Return each broker's share, in the order of `broker_ids`, including empty ones."""
    leads: dict[int, list[int]] = {}
    follows: dict[int, list[int]] = {}
    for partition in sorted(table):
        replicas = table[partition]
        for leader in replicas[:1]:
            leads.setdefault(leader, []).append(partition)
        for follower in replicas[1:]:
            follows.setdefault(follower, []).append(partition)
    return tuple(
        BrokerShare(id_, tuple(leads.get(id_, ())), tuple(follows.get(id_, ())))
        for id_ in broker_ids
    )


def first_live_replica(replicas: Sequence[int], dead: Collection[int]) -> int | None:
    """Return the first replica, in assignment order, that is not in `dead`; None if all are."""
    return next((replica for replica in replicas if replica not in dead), None)


def takeovers(table: Table, broker_ids: Iterable[int]) -> tuple[Takeover, ...]:
    """Return, for each broker, the leaders after its failure alone."""
    return tuple(
        _takeover(table, share.broker_id, share.leads) for share in broker_shares(table, broker_ids)
    )


def _takeover(table: Table, dead: int, led: tuple[int, ...]) -> Takeover:
    taken: dict[int, list[int]] = {}
    leaderless: list[int] = []
    for partition in led:
        successor = first_live_replica(table[partition], (dead,))
        if successor is None:
            leaderless.append(partition)
        else:
            taken.setdefault(successor, []).append(partition)
    new_leaders = {broker_id: tuple(taken[broker_id]) for broker_id in sorted(taken)}
    return Takeover(dead, new_leaders, tuple(leaderless))
