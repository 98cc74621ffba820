"""Bounds the memory of large requests, as queued.max.request.bytes does in Kafka.

Mirrors org.apache.kafka.common.memory.SimpleMemoryPool. A request that is not large needs no
reservation: the number of connections bounds the memory of these.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Final

LARGE_BYTES: Final = 1 << 20
"""A request is large if it has more bytes."""
ARRIVAL_S: Final = 30.0
"""How long a large request may take to arrive, while it occupies memory."""
_TOTAL_BYTES: Final = 256 << 20


class RequestMemory:
    """Memory for the large requests of all connections; others wait. Use it on one event loop."""

    def __init__(self, max_request_bytes: int) -> None:
        self._free = max(_TOTAL_BYTES, max_request_bytes)
        self._changed = asyncio.Condition()

    @contextlib.asynccontextmanager
    async def reserved(self, size: int) -> AsyncIterator[None]:
        """Context manager of the memory of a request; it waits until that much is free."""
        if size <= LARGE_BYTES:
            yield
            return
        async with self._changed:
            await self._changed.wait_for(lambda: size <= self._free)
            self._free -= size
        try:
            yield
        finally:
            self._free += size
            async with self._changed:
                self._changed.notify_all()
