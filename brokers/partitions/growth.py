"""How the log of a leader, and that of a follower, grows by a law: values alone.

How what has grown becomes records is in settling.py. Kafka has nothing like it.
"""

from __future__ import annotations

import msgspec

from brokers.partitions.remote_replica import NEVER_MS
from cluster.constant_rate import Law, Offer
from cluster.requests import Address


class LeaderGrowth(msgspec.Struct, gc=False):
    """The log of a leader that took a producer's rate.

    ``followers``: those that said that they grow by the law, too. ``is_acknowledged``: all that
    count for the high watermark do, and the followers and the producer were told so.
    ``told_offset``: below it the producer knows what was acknowledged. ``number``: of its wish.
    ``settled_ms``: up to when what has grown is in the log.
    ``fed``: the followers whose traffic is counted; None before any is.
    """

    law: Law
    producer: Address
    number: int
    told_offset: int
    followers: tuple[int, ...] = ()
    is_acknowledged: bool = False
    settled_ms: float = NEVER_MS
    fed: tuple[int, ...] | None = None


class FollowerGrowth(msgspec.Struct, gc=False):
    """The log of a follower that took its leader's offer. ``is_acknowledged``: the high watermark
    grows by the law, too."""

    offer: Offer
    is_acknowledged: bool = False
