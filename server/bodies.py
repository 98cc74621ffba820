"""Bodies of requests to the HTTP API: their base type, and the bodies of actions.

The calls of Kafka's Admin are in admin_calls.py, producers and consumers in client_bodies.py.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.cluster.integers import Count
from klamm.runtime.actions import BROKER, ActionKind, BrokerRef

_WITH_IDS: Final = {
    BrokerRef: int,
    BrokerRef | None: int | None,
    tuple[BrokerRef, ...]: tuple[Count, ...],
}
"""Types of broker references in actions, and the types of ids in bodies that replace them."""


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all types in requests: unknown fields are an error.

    Types that occur only in answers accept unknown fields, so that clients can read the answers
    of newer servers.
    """


class NoFields(RequestBody, frozen=True):
    """Empty body of a request, or empty query."""


class DiskFaultState(msgspec.Struct, frozen=True, omit_defaults=True):
    """An armed fault of the disk of a broker's log directory, or of the journal. ``kind``: as in
    FailDisk, or "slow" with ``bytes_per_s``."""

    kind: str
    broker: int | None = None
    log_dir: str | None = None
    journal: bool = False
    bytes_per_s: int | None = None


class DiskFaults(msgspec.Struct, frozen=True):
    """Answer of POST /disks/fail, /disks/slow and /disks/heal: all armed faults."""

    disk_faults: list[DiskFaultState]


def body_of(kind: ActionKind) -> type[msgspec.Struct] | None:
    """Return the type of an action's body: the arguments that are not in its path.

    None if all arguments are in the path. Brokers are ids, not references like "leader of t-0".
    """
    in_path = ("broker",) if str(kind.path).startswith(BROKER) else ()
    fields = [
        (field.name, _WITH_IDS.get(field.type, field.type), msgspec.field(default=field.default))
        for field in msgspec.structs.fields(kind.action)
        if field.name not in in_path
    ]
    if not fields:
        return None
    namespace = {"__doc__": kind.action.__doc__}
    if hasattr(kind.action, "__post_init__"):
        namespace["__post_init__"] = kind.action.__post_init__
    return msgspec.defstruct(
        kind.action.__name__, fields, bases=(RequestBody,), namespace=namespace, frozen=True
    )
