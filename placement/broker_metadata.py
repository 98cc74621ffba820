"""Brokers as placement sees them, by id and rack, and ids and ranges of ids as text.

Mirrors kafka/admin/BrokerMetadata.scala and AdminZkClient.getBrokerMetadatas.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.cluster.errors import AdminOperationError
from klamm.cluster.integers import INT32_MAX

MAX_BROKERS: Final = 10_000
_IDS: Final = re.compile(r"(0|[1-9][0-9]{0,9})(?:-(0|[1-9][0-9]{0,9}))?")


class BrokerMetadata(NamedTuple):
    """A broker that can host replicas. `rack` is None if the broker has no rack."""

    id: int
    rack: str | None = None


def broker_metadatas(
    brokers: Iterable[BrokerMetadata], *, ignores_racks: bool = False
) -> tuple[BrokerMetadata, ...]:
    """Return the brokers by ascending id, without racks if `ignores_racks`.

    Raises AdminOperationError if only some brokers have a rack, unless `ignores_racks`. Mirrors
    AdminZkClient.getBrokerMetadatas with RackAwareMode.Disabled or RackAwareMode.Enforced.
    """
    ordered = sorted(brokers, key=lambda broker: broker.id)
    if ignores_racks:
        return tuple(BrokerMetadata(broker.id) for broker in ordered)
    with_rack = sum(broker.rack is not None for broker in ordered)
    if 0 < with_rack < len(ordered):
        raise AdminOperationError(
            "Not all brokers have rack information. Add --disable-rack-aware in command line"
            " to make replica assignment without rack information."
        )
    return tuple(ordered)


def broker_ids(text: str) -> range:
    """Return the ids that an id such as 7 or a range such as 1-9 stands for. Raises ValueError."""
    match = _IDS.fullmatch(text)
    if match is None:
        raise ValueError(f"'{text}' is not a broker id")
    first, last = int(match[1]), int(match[2] or match[1])
    if last < first:
        raise ValueError(f"the range {text} is descending")
    if last > INT32_MAX:
        raise ValueError(f"broker id {last} exceeds the maximum of {INT32_MAX}")
    if last - first >= MAX_BROKERS:
        raise ValueError(f"the range {text} has more than {MAX_BROKERS} brokers")
    return range(first, last + 1)
