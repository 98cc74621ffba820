"""Effect of an assignment on brokers: leaders, followers, and new leaders after a failure.

cli/ formats the output. The new leaders are those that the offline election of
kafka/controller/Election.scala chooses if every other replica is alive and in sync.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

PlacementTable = Mapping[int, Sequence[int]]


@dataclass(frozen=True, slots=True)
class BrokerShare:
    """Partitions that one broker leads, and those that it follows, both in ascending order."""

    broker_id: int
    leads: tuple[int, ...]
    follows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Takeover:
    """New leaders of the partitions that broker `dead` led before it failed.

    `new_leaders` maps each new leader to its new partitions; leaders and partitions are in
    ascending order. `leaderless` are the partitions that no replica can lead.
    """

    dead: int
    new_leaders: dict[int, tuple[int, ...]]
    leaderless: tuple[int, ...]


def broker_shares(table: PlacementTable, broker_ids: Iterable[int]) -> tuple[BrokerShare, ...]:
    """Return the partitions of each broker, in the order of `broker_ids`.

    Brokers without partitions are included.
    """
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


def takeovers(table: PlacementTable, broker_ids: Iterable[int]) -> tuple[Takeover, ...]:
    """Return, for each broker, the new leaders if only this broker fails."""
    return tuple(
        _takeover(table, share.broker_id, share.leads) for share in broker_shares(table, broker_ids)
    )


def _takeover(table: PlacementTable, dead: int, led: tuple[int, ...]) -> Takeover:
    taken: dict[int, list[int]] = {}
    leaderless: list[int] = []
    for partition in led:
        successor = next((replica for replica in table[partition] if replica != dead), None)
        if successor is None:
            leaderless.append(partition)
        else:
            taken.setdefault(successor, []).append(partition)
    new_leaders = {broker_id: tuple(taken[broker_id]) for broker_id in sorted(taken)}
    return Takeover(dead, new_leaders, tuple(leaderless))
