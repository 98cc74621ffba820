"""What placement knows of a broker: its id and its rack.

Must not know endpoints, sessions or logs. Mirrors kafka/admin/BrokerMetadata.scala,
kafka/admin/RackAwareMode.scala and AdminZkClient.getBrokerMetadatas.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from klamm.cluster.errors import AdminOperationError


class BrokerMetadata(NamedTuple):
    """A broker as a place for replicas. `rack` is None when the broker names none."""

    id: int
    rack: str | None = None


class RackAwareMode(Enum):
    """How much racks count: not at all, always, or only when every broker has one."""

    DISABLED = "disabled"
    ENFORCED = "enforced"
    SAFE = "safe"


def broker_metadatas(
    brokers: Iterable[BrokerMetadata], mode: RackAwareMode = RackAwareMode.ENFORCED
) -> tuple[BrokerMetadata, ...]:
    """The brokers to place on, by ascending id, their racks kept or dropped as `mode` says.

    Raises AdminOperationError when racks are enforced and only some brokers have one.
    Mirrors AdminZkClient.getBrokerMetadatas.
    """
    ordered = sorted(brokers, key=lambda broker: broker.id)
    with_rack = sum(broker.rack is not None for broker in ordered)
    only_some = 0 < with_rack < len(ordered)
    if mode is RackAwareMode.ENFORCED and only_some:
        raise AdminOperationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line"
            " to make replica assignment without rack information."
        )
    if mode is RackAwareMode.DISABLED or only_some:
        return tuple(BrokerMetadata(broker.id) for broker in ordered)
    return tuple(ordered)
