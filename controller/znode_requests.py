"""Reads the znodes with which tools send requests: elections and reassignments.

A malformed znode counts as one without requests. With the quirk malformed_znode_fails_the_event,
the event fails where Kafka 2.8.2 throws an exception.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Generic, NamedTuple, TypeVar

from klamm.zk.znodes import MalformedZNode, UnparsableJson

if TYPE_CHECKING:
    from klamm.controller.kafka_controller import KafkaController

T = TypeVar("T")


class Requests(NamedTuple, Generic[T]):
    """The decoded requests of a znode, and the znode's version."""

    entries: T
    version: int


def read_requests(
    controller: KafkaController, path: str, decode: Callable[[bytes | None], T], none: T
) -> Requests[T] | None:
    """Read a znode with requests. Return None if it is missing, and ``none`` if it is malformed.

    ``decode`` raises UnparsableJson if Kafka treats the znode as empty, and MalformedZNode if Kafka
    throws an exception. A malformed znode is quarantined, or, with the quirk, MalformedZNode is
    raised.
    """
    found = controller.zk.get_data_and_stat(path)
    if found is None:
        return None
    data, stat = found
    try:
        return Requests(decode(data), stat.version)
    except UnparsableJson as error:
        malformed = MalformedZNode(str(error), None)
    except MalformedZNode as error:
        if controller.quirks.malformed_znode_fails_the_event:
            raise error.at(path) from None
        malformed = error
    controller.quarantine_malformed([malformed.at(path)])
    return Requests(none, stat.version)
