"""The only broker properties that placement uses: id and rack.

Mirrors kafka/admin/BrokerMetadata.scala, kafka/admin/RackAwareMode.scala and
AdminZkClient.getBrokerMetadatas.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from klamm.cluster.errors import AdminOperationError


class BrokerMetadata(NamedTuple):
    """A broker that can host replicas. `rack` is None if the broker has no rack."""

    id: int
    rack: str | None = None


class RackAwareMode(Enum):
    """How placement uses racks.

    DISABLED ignores racks, ENFORCED requires that all brokers or none have a rack, and SAFE uses
    racks only if every broker has one.
    """

    DISABLED = "disabled"
    ENFORCED = "enforced"
    SAFE = "safe"


def broker_metadatas(
    brokers: Iterable[BrokerMetadata], mode: RackAwareMode = RackAwareMode.ENFORCED
) -> tuple[BrokerMetadata, ...]:
    """Return the brokers by ascending id, with or without racks according to `mode`.

    Raises AdminOperationError if racks are enforced and only some brokers have a rack. Mirrors
    AdminZkClient.getBrokerMetadatas.
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
