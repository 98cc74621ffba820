"""A leader's state of one follower: its position, and when it last reached the log end.

Partition uses these values to decide about the ISR and the high watermark. Mirrors
kafka.cluster.Replica.
"""

from __future__ import annotations

from typing import Final

import msgspec

from klamm.cluster.data_requests import UNKNOWN_OFFSET, FetchPartition

NEVER_MS: Final = float("-inf")


class RemoteReplica(msgspec.Struct, gc=False, array_like=True):
    """A follower that has fetched at this leader epoch. Times are in monotonic milliseconds.

    - ``log_end_offset``, ``last_fetched_epoch``, ``log_start_offset``: the follower's position and
      the start of the follower's log at its last fetch.
    - ``caught_up_ms``: the latest time at which the follower had all records of the leader.
    - ``fetched_ms``, ``leader_end_at_fetch``: time of the last fetch, and the leader's log end
      at that time.
    - ``owes_fetch``: the follower was sent records and has not acknowledged them by a fetch.
    - ``sent_high_watermark``, ``sent_log_start_offset``: the last values sent to the follower.
    - ``keeps_up``: the follower appends the same constant-rate workload as the leader, so it stays
      at the leader's log end without fetching (brokers/constant_rate/).
    """

    replica_id: int
    caught_up_ms: float
    fetched_ms: float = NEVER_MS
    leader_end_at_fetch: int = UNKNOWN_OFFSET
    log_end_offset: int = UNKNOWN_OFFSET
    last_fetched_epoch: int = UNKNOWN_OFFSET
    owes_fetch: bool = False
    sent_high_watermark: int = 0
    sent_log_start_offset: int = 0
    keeps_up: bool = False
    log_start_offset: int = 0

    def record_fetch(self, asked: FetchPartition, leader_end_offset: int, now_ms: float) -> None:
        """Update the follower's position from a fetch.

        If the fetch starts at or after the leader's log end at the time of the previous fetch, the
        follower had all records at that time. If the fetch offset is the same as in the previous
        fetch, the leader's last response, and the values in it, may have been lost.
        """
        if asked.fetch_offset >= leader_end_offset:
            self.caught_up_ms = max(self.caught_up_ms, now_ms)
        elif asked.fetch_offset >= self.leader_end_at_fetch:
            self.caught_up_ms = max(self.caught_up_ms, self.fetched_ms)
        if asked.fetch_offset == self.log_end_offset:
            self.sent_high_watermark = self.sent_log_start_offset = 0
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_ms = now_ms
        self.log_end_offset = asked.fetch_offset
        self.last_fetched_epoch = asked.last_fetched_epoch
        self.log_start_offset = asked.log_start_offset
        self.owes_fetch = False

    def record_arrival(self, leader_end_offset: int, now_ms: float) -> None:
        """Record the arrival of a copy that replaces many fetches of a Kafka follower.

        If the follower's next fetch starts at or after the leader's current log end, the follower
        is considered to have caught up at ``now_ms``.
        """
        self.leader_end_at_fetch = leader_end_offset
        self.fetched_ms = now_ms


RemoteReplicas = tuple[RemoteReplica, ...]


class _Packed(msgspec.Struct, frozen=True, gc=False, array_like=True):
    """Packed state of the followers of one partition.

    If the followers differ only in their fetch times, ``followers`` contains these times, and the
    other values are stored once. Otherwise ``followers`` contains the whole state of each follower.
    """

    followers: dict[int, float] | RemoteReplicas
    log_end_offset: int = UNKNOWN_OFFSET
    last_fetched_epoch: int = UNKNOWN_OFFSET
    log_start_offset: int = 0
    sent_high_watermark: int = 0
    sent_log_start_offset: int = 0

    def unpacked(self) -> RemoteReplicas:
        if not isinstance(self.followers, dict):
            return self.followers
        end = self.log_end_offset
        return tuple(
            RemoteReplica(
                replica_id=replica_id,
                caught_up_ms=fetched_ms,
                fetched_ms=fetched_ms,
                leader_end_at_fetch=end,
                log_end_offset=end,
                last_fetched_epoch=self.last_fetched_epoch,
                log_start_offset=self.log_start_offset,
                owes_fetch=False,
                sent_high_watermark=self.sent_high_watermark,
                sent_log_start_offset=self.sent_log_start_offset,
            )
            for replica_id, fetched_ms in self.followers.items()
        )


_encode: Final = msgspec.msgpack.Encoder().encode
_decode: Final = msgspec.msgpack.Decoder(_Packed).decode


def pack_followers(remotes: RemoteReplicas) -> bytes:
    """Pack one or more followers into bytes that need a fifth of the memory."""
    last = remotes[-1]
    resting = _Packed(
        {remote.replica_id: remote.fetched_ms for remote in remotes},
        last.log_end_offset,
        last.last_fetched_epoch,
        last.log_start_offset,
        last.sent_high_watermark,
        last.sent_log_start_offset,
    )
    return _encode(resting if resting.unpacked() == remotes else _Packed(remotes))


def unpack_followers(packed: bytes) -> RemoteReplicas:
    """Return the followers that ``pack_followers`` has packed."""
    return _decode(packed).unpacked()
