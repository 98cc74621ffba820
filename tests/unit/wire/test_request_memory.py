"""Memory of large requests: who waits for it, who does not, and that all of it comes back."""

from __future__ import annotations

import asyncio

import pytest

from klamm.wire.request_memory import LARGE_BYTES, RequestMemory

TOTAL_BYTES = 256 << 20


@pytest.mark.parametrize("is_cut_off", [False, True])
async def test_a_large_request_waits_until_others_have_left_enough(is_cut_off: bool) -> None:
    memory, entered = RequestMemory(LARGE_BYTES), list[str]()
    ends = {name: asyncio.Event() for name in ("first", "second", "third")}

    async def handle(name: str, size: int) -> None:
        async with memory.reserved(size):
            entered.append(name)
            await ends[name].wait()
            if is_cut_off:
                raise ConnectionError

    tasks = []
    sizes = {"first": TOTAL_BYTES - 1, "second": TOTAL_BYTES, "third": LARGE_BYTES + 1}
    for name, size in sizes.items():
        tasks.append(asyncio.create_task(handle(name, size)))
        await asyncio.sleep(0)
    async with memory.reserved(LARGE_BYTES):
        entered.append("small")
    for name in ends:
        ends[name].set()
    async with asyncio.timeout(10):
        await asyncio.gather(*tasks, return_exceptions=True)
    assert entered == ["first", "small", "second", "third"]


async def test_a_request_of_the_largest_size_fits_and_one_that_gives_up_leaves_no_trace() -> None:
    memory = RequestMemory(2 * TOTAL_BYTES)
    async with memory.reserved(2 * TOTAL_BYTES):
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0), memory.reserved(2 * TOTAL_BYTES):
                pytest.fail("there was no memory left")
    async with asyncio.timeout(10), memory.reserved(2 * TOTAL_BYTES):
        pass
