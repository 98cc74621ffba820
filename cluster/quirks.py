"""One named switch per known bug of Kafka 2.8.2; all off by default.

A quirk turned on makes klamm wrong in the way real Kafka 2.8.2 is wrong. The value is passed in,
so two controllers of one cluster may differ.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError


class Quirks(msgspec.Struct, frozen=True, kw_only=True):
    """Which bugs of 2.8.2 are present. Field ``kafka_NNNNN`` is the switch of KAFKA-NNNNN, and
    ``cmak_NNN`` that of a bug in which CMAK has a part.

    Of each docstring the first paragraph says what Kafka 2.8.2 does, the second what klamm does
    without the quirk; docs/deviations.md shows them.
    """

    kafka_8249: bool = False
    """A topic is deleted while partitions of it are reassigned, and the entries of the
    reassignment stay for ever.

    The deletion waits until the reassignment has ended, and the topic is served until then."""
    kafka_9087: bool = False
    """A future log without records is to be filled from the high watermark on when the controller
    names its replica: it does not begin there, and the move never goes on.

    It is filled from where it ends."""
    kafka_9478: bool = False
    """Entries put into /admin/reassign_partitions while it exists are never seen, and keep it there
    for ever; so does an entry that names a broker twice or a list without entries.

    Every change is seen: each entry is acted on or taken away, and the znode goes with the last."""
    kafka_10149: bool = False
    """While any partition of the cluster is reassigned, no leadership is rebalanced.

    Only the partitions that are reassigned are passed over."""
    kafka_12315: bool = False
    """A request batch is not cleared when the controller moves mid-event; it never sends again.

    The batch is cleared then, and at every election."""
    kafka_12493: bool = False
    """Replicas that somebody changes in a topic znode are ignored until the controller writes over
    them, or until a failover takes them over, without any data being moved.

    They are written back at once: only a reassignment changes them."""
    kafka_13091: bool = False
    """The high watermark stays where it is when a replica that is behind leaves the ISR, until
    somebody fetches or produces: with acks=all the last record waits until it times out.

    It moves on as soon as the smaller ISR is granted."""
    kafka_13225: bool = False
    """A dead broker that hosted nothing stays in the metadata of the others while any partition
    is offline.

    Every death is told to every live broker."""
    kafka_13461: bool = False
    """After a failed login in a live session the controller resigns, finds its own /controller,
    believes to be active and does nothing.

    A live session goes on; a /controller that is its own after it resigned is deleted, and an
    election follows."""
    kafka_13572: bool = False
    """Any request to delete a topic takes the imbalance of topics still being deleted off the
    count again, which goes below zero.

    It is taken off once."""
    kafka_13972: bool = False
    """A replica that was being added is told to go, by a cancel or an override, with the leader
    epoch that it has already: its broker refuses, and keeps it.

    The leader epoch is raised before anything else is done."""
    kafka_14140: bool = False
    """AlterIsr lets a dead or shutting-down replica back into the ISR.

    The proposal is refused with OPERATION_NOT_ATTEMPTED; the leader asks again later."""
    kafka_14154: bool = False
    """A zombie controller answers an AlterIsr from its stale cache.

    A leader that is ahead of the controller's cache is answered NOT_CONTROLLER."""
    kafka_14424: bool = False
    """A cancel goes back to replicas of which none can lead, and a reassignment is completed with
    such: the partition stays without a leader.

    The cancel is refused with INVALID_REPLICA_ASSIGNMENT; the reassignment waits."""
    kafka_14808: bool = False
    """An override drops the replica that leads: the partition is without a leader though it is
    shown as online.

    The leader is moved first; if it cannot be, the override is refused with
    INVALID_REPLICA_ASSIGNMENT."""
    kafka_15608: bool = False
    """A leader that moves to another log directory forgets its leader epoch if it has written
    nothing in it: a follower of an epoch in between is refused, and falls out of the ISR.

    The epoch moves with the records."""
    cmak_878: bool = False
    """A tool that knows no topic ids writes a topic znode without it: nobody notices, and the next
    controller gives the topic another id, which is not that of its logs.

    The id is written back at once. A topic that loses it while there is no controller gets another
    one."""
    hazard_c1: bool = False
    """A request for the preferred leader of a partition that never had one fails the event or the
    failover, and stays: every later controller fails too.

    The partition is passed over, and the request is taken away."""
    hazard_c2: bool = False
    """One malformed znode fails the whole event or failover; what is not JSON counts as empty or
    absent and is written over.

    The znode is set apart, left as it is, logged, journalled and shown by `klamm status`; all
    else is served."""
    hazard_c4: bool = False
    """A state znode found after a lost reply is not adopted: the partition is stuck.

    It is read back, and adopted if it holds what was to be written."""
    hazard_c5: bool = False
    """A fenced AlterIsr is answered UNKNOWN_SERVER_ERROR and the controller does not resign; nor
    does it after a fenced controlled shutdown.

    It is answered NOT_CONTROLLER, and the controller resigns."""
    hazard_c6: bool = False
    """A state change that fails is only logged, and the batch it leaves dirty blocks all later
    ones.

    The batch is cleared, and the event ends with the error."""
    hazard_c7: bool = False
    """At a controlled shutdown the broker is told to stop following with the leader epoch that it
    knows already: it refuses, and goes on.

    It is told after the leader epoch was raised."""
    hazard_c8: bool = False
    """A topic whose znode was deleted by hand leaves its states and reassignments in memory: one
    made again under the same name is not served, and a request to delete it stays.

    All of it is forgotten, and the request is taken away."""
    hazard_c9: bool = False
    """A controller that crashes between storing a cancel or an override and stopping the replicas
    it drops leaves them in the ISR, or leading, for ever.

    The next controller takes them out."""
    hazard_c10: bool = False
    """A notice of a failed log directory puts replicas online that are not: all of a broker that
    died since, and those of a directory that failed before.

    A live broker is asked for all of its replicas, and those that were offline stay so until it
    answers NONE."""
    hazard_c11: bool = False
    """An entry of /admin/reassign_partitions without replicas is begun: the topic znode says from
    then on that the partition loses all its replicas, and no controller ever completes it.

    The entry is refused with INVALID_REPLICA_ASSIGNMENT and taken away. A partition that is left so
    keeps its replicas."""


NO_QUIRKS: Final = Quirks()
KAFKA_2_8_2: Final = Quirks(**{field: True for field in Quirks.__struct_fields__})
NAMES: Final = {
    f.replace("hazard_", "").upper() if f.startswith("hazard_") else f.replace("_", "-").upper(): f
    for f in Quirks.__struct_fields__
}
"""Printed name (``KAFKA-13225``, ``C4``) to field."""


def parse_quirks(words: Sequence[str]) -> Quirks:
    """Quirks from words such as ``2.8.2``, ``KAFKA-13225`` or ``C4``.

    Raises UsageError for a word that names no quirk.
    """
    chosen: dict[str, bool] = {}
    for word in words:
        if word == "2.8.2":
            return KAFKA_2_8_2
        field = NAMES.get(word.upper())
        if field is None:
            raise UsageError(
                f"unknown quirk {word}", hint=f"use 2.8.2 or one of {', '.join(NAMES)}"
            )
        chosen[field] = True
    return Quirks(**chosen)
