"""Fetch sessions (KIP-227): a consumer's fetch names only the partitions that have changed.

A session remembers the partitions of a consumer, and what the consumer knows about them. Followers
need no sessions: they fetch on notification. Mirrors kafka.server.{FetchManager, FetchSessionCache,
FetchSession}.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Final

import msgspec

from klamm.cluster.api_errors import Errors
from klamm.cluster.data_requests import (
    FINAL_EPOCH,
    INITIAL_EPOCH,
    NO_SESSION,
    NO_SESSION_ID,
    UNKNOWN_OFFSET,
    FetchedPartition,
    FetchPartition,
    FetchRequest,
    FetchResponse,
)
from klamm.cluster.types import TopicPartition

EVICTION_MS: Final = 120_000.0
"""A session that has not been used for so long makes room for another (a constant in Kafka)."""
_LAST_ID: Final = 2**31 - 1

Fetched = Mapping[TopicPartition, FetchedPartition]


class _Cached(msgspec.Struct):
    """A partition of a session: the consumer's position, and the values that were sent last."""

    asked: FetchPartition
    high_watermark: int = UNKNOWN_OFFSET
    log_start_offset: int = UNKNOWN_OFFSET

    def take(self, fetched: FetchedPartition) -> bool:
        """Store the values of a response; return True if they are news to the consumer."""
        is_news = (
            fetched.error is not Errors.NONE
            or bool(fetched.records)
            or fetched.diverging is not None
            or fetched.high_watermark != self.high_watermark
            or fetched.log_start_offset != self.log_start_offset
        )
        # After an error the partition is sent again, even if nothing else has changed.
        is_error = fetched.error is not Errors.NONE
        self.high_watermark = UNKNOWN_OFFSET if is_error else fetched.high_watermark
        self.log_start_offset = fetched.log_start_offset
        return is_news


class FetchSession(msgspec.Struct):
    """One session. Times are in monotonic milliseconds. ``epoch``: that of the next request.

    ``partitions``: those with news in the last response come last, so that all get their turn.
    """

    id: int
    partitions: dict[TopicPartition, _Cached]
    created_ms: float
    used_ms: float
    epoch: int = INITIAL_EPOCH + 1

    def update(self, request: FetchRequest) -> None:
        """Apply the partitions that a request adds, changes and forgets."""
        for tp, asked in request.partitions.items():
            cached = self.partitions.get(tp)
            if cached is None:
                self.partitions[tp] = _Cached(asked)
            else:
                cached.asked = asked
        for tp in request.forgotten:
            self.partitions.pop(tp, None)

    def take_news(self, fetched: Fetched) -> Fetched:
        """Return the partitions of a response that are news to the consumer."""
        news = {}
        for tp, one in fetched.items():
            cached = self.partitions.get(tp)
            if cached is not None and cached.take(one):
                news[tp] = one
                self.partitions[tp] = self.partitions.pop(tp)
        return news


class FetchSessions:
    """The fetch sessions of one broker, ``max_sessions`` at most."""

    def __init__(self, max_sessions: int) -> None:
        self._max_sessions = max_sessions
        self._sessions: dict[int, FetchSession] = {}

    def __len__(self) -> int:
        return len(self._sessions)

    def begin(
        self, request: FetchRequest, now_ms: float
    ) -> tuple[FetchRequest, FetchSession | None] | FetchResponse:
        """Return a request with all partitions of its session, and the session if there is one.

        Return the response instead if the session or its epoch is unknown.
        """
        session_id, epoch = request.metadata
        if epoch in (INITIAL_EPOCH, FINAL_EPOCH):
            self._sessions.pop(session_id, None)
            return request, None
        session = self._sessions.get(session_id)
        if session is None:
            return FetchResponse({}, error=Errors.FETCH_SESSION_ID_NOT_FOUND)
        if session.epoch != epoch:
            return FetchResponse({}, error=Errors.INVALID_FETCH_SESSION_EPOCH)
        session.update(request)
        if not session.partitions:
            del self._sessions[session_id]
            return msgspec.structs.replace(request, metadata=NO_SESSION), None
        session.used_ms = now_ms
        session.epoch = _next(epoch)
        partitions = {tp: cached.asked for tp, cached in session.partitions.items()}
        return msgspec.structs.replace(request, partitions=partitions), session

    def respond(
        self, request: FetchRequest, session: FetchSession | None, fetched: Fetched, asked_ms: float
    ) -> FetchResponse:
        """Return the response to a request that ``begin`` has returned.

        The response to a full fetch opens a session, if there is room. ``asked_ms``: when the
        request arrived.
        """
        if session is None:
            is_full = request.metadata.epoch == INITIAL_EPOCH
            session_id = self._open(request, fetched, asked_ms) if is_full else NO_SESSION_ID
            return FetchResponse(fetched, session_id=session_id)
        if session.epoch != _next(request.metadata.epoch):
            invalid = Errors.INVALID_FETCH_SESSION_EPOCH  # another request came in the meantime
            return FetchResponse({}, error=invalid, session_id=session.id)
        return FetchResponse(session.take_news(fetched), session_id=session.id)

    def _open(self, request: FetchRequest, fetched: Fetched, now_ms: float) -> int:
        size = len(fetched)
        if len(self._sessions) >= self._max_sessions and not self._evict(size, now_ms):
            return NO_SESSION_ID
        new_id = secrets.randbelow(_LAST_ID) + 1
        while new_id in self._sessions:
            new_id = secrets.randbelow(_LAST_ID) + 1
        partitions = {tp: _Cached(request.partitions[tp]) for tp in fetched}
        session = self._sessions[new_id] = FetchSession(new_id, partitions, now_ms, now_ms)
        session.take_news(fetched)
        return new_id

    def _evict(self, size: int, now_ms: float) -> bool:
        """Make room for a session of ``size`` partitions, if another is idle, or old and smaller.

        Mirrors FetchSessionCache.tryEvict.
        """
        oldest = min(self._sessions.values(), key=lambda one: (one.used_ms, one.id), default=None)
        if oldest is None:
            return False
        if now_ms - oldest.used_ms > EVICTION_MS:
            del self._sessions[oldest.id]
            return True
        old = (one for one in self._sessions.values() if one.used_ms - one.created_ms > EVICTION_MS)
        smallest = min(old, key=lambda one: (len(one.partitions), one.id), default=None)
        if smallest is None or len(smallest.partitions) >= size:
            return False
        del self._sessions[smallest.id]
        return True


def _next(epoch: int) -> int:
    """Return the epoch after ``epoch``, which is neither initial nor final."""
    return 1 if epoch == 2**31 - 1 else epoch + 1
