"""Broker properties that placement uses: id and rack.

Must not know endpoints, sessions or logs. Mirrors kafka/admin/BrokerMetadata.scala,
kafka/admin/RackAwareMode.scala and AdminZkClient.getBrokerMetadatas.
"""

from __future__ import annotations

from collections.abc import Iterable
from enum import Enum
from typing import NamedTuple

from klamm.cluster.errors import AdminOperationError


class BrokerMetadata(NamedTuple):
    """A broker that can host replicas. `rack` is None if the broker has none."""

    id: int
    rack: str | None = None


class RackAwareMode(Enum):
    """Use of racks: ignored, required of all brokers, or used only if every broker has one."""

    DISABLED = "disabled"
    ENFORCED = "enforced"
    SAFE = "safe"


def broker_metadatas(
    brokers: Iterable[BrokerMetadata], mode: RackAwareMode = RackAwareMode.ENFORCED
) -> tuple[BrokerMetadata, ...]:
    """Return the brokers by ascending id, their racks kept or dropped according to `mode`.

    Raises AdminOperationError if racks are enforced and only some brokers have one.
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
