"""Where a consumer is in a partition, and what it has to find out before it may fetch.

Values only. Mirrors FetchPosition and FetchStates of
org.apache.kafka.clients.consumer.internals.SubscriptionState.
"""

from __future__ import annotations

from typing import Final, NamedTuple

import msgspec

from cluster.types import NO_EPOCH


class Position(NamedTuple):
    """The ``offset`` of the next record, and the leader epoch of the one before it (-1: unknown).

    ``validated_epoch``: the leader epoch at which the log is known to hold what is before it.
    """

    offset: int
    epoch: int = NO_EPOCH
    validated_epoch: int = NO_EPOCH

    def must_be_validated(self, leader_epoch: int) -> bool:
        """True if there is a newer leader, which may have cut its log below the position."""
        return self.epoch != NO_EPOCH and leader_epoch > self.validated_epoch


NOWHERE: Final = Position(-1)


class AwaitReset(msgspec.Struct, frozen=True):
    """The position is to be asked for: where is this time (-1: the end, -2: the start)?"""

    timestamp_ms: int
    position: Position = NOWHERE


class AwaitValidation(msgspec.Struct, frozen=True):
    """The leader is another: does its log hold what is before the position?"""

    position: Position


class Fetching(msgspec.Struct, frozen=True):
    """What follows the position may be fetched."""

    position: Position


PartitionState = AwaitReset | AwaitValidation | Fetching
