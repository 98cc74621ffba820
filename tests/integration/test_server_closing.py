"""server/closing.py: waiting ends with a value, an error, the time, or the server."""

from __future__ import annotations

import asyncio
import threading
import time
from concurrent.futures import Future

import pytest

from klamm.cluster.errors import KlammError, RequestTimedOut
from klamm.server.closing import Closing


def test_a_result_or_its_error() -> None:
    closing, done, failed = Closing(), Future[int](), Future[int]()
    done.set_result(3)
    failed.set_exception(KlammError("no"))
    assert closing.result_of(done, None) == 3
    with pytest.raises(KlammError, match="no"):
        closing.result_of(failed, None)
    closing.set()
    assert closing.result_of(done, None) == 3


def test_a_wait_ends_at_its_time_limit() -> None:
    with pytest.raises(TimeoutError):
        Closing().result_of(Future(), 0.01)
    with pytest.raises(RequestTimedOut, match="nothing came"):
        Closing().wait_until(lambda: None, time.monotonic(), "nothing came")


def test_waits_end_when_the_server_shuts_down() -> None:
    closing = Closing()
    assert not closing.is_set
    closing.set()
    closing.set()
    assert closing.is_set
    with pytest.raises(KlammError, match="klamm is shutting down"):
        closing.result_of(Future(), None)
    with pytest.raises(KlammError, match="klamm is shutting down"):
        closing.wait_until(lambda: None, time.monotonic() + 60, "")


def test_a_condition_that_comes_true() -> None:
    values = iter([None, None, 7])
    assert Closing().wait_until(lambda: next(values), time.monotonic() + 10, "") == 7


# -- without a thread


async def awaited(closing: Closing, future: Future[int], timeout_s: float = 60.0) -> int:
    async with asyncio.timeout(10):
        return await closing.awaited(future, timeout_s)


def test_a_result_or_its_error_is_awaited() -> None:
    async def script() -> None:
        closing, done, failed, late = Closing(), Future[int](), Future[int](), Future[int]()
        done.set_result(3)
        failed.set_exception(KlammError("no"))
        assert await awaited(closing, done) == 3
        with pytest.raises(KlammError, match="no"):
            await awaited(closing, failed)
        asyncio.get_running_loop().call_later(0.01, late.set_result, 4)
        assert await awaited(closing, late) == 4

    asyncio.run(script())


@pytest.mark.parametrize("is_running", [True, False])
def test_time_is_up_for_what_is_awaited(is_running: bool) -> None:
    future = Future[int]()
    if is_running:
        future.set_running_or_notify_cancel()
    with pytest.raises(TimeoutError):
        asyncio.run(awaited(Closing(), future, 0.01))
    assert future.cancelled() != is_running


@pytest.mark.parametrize("is_early", [True, False])
def test_the_server_ends_while_or_before_something_is_awaited(is_early: bool) -> None:
    closing, future, after = Closing(), Future[int](), Future[int]()

    async def script() -> None:
        if is_early:
            closing.set()
        else:
            threading.Timer(0.01, closing.set).start()
        with pytest.raises(KlammError, match="klamm is shutting down"):
            await awaited(closing, future)
        with pytest.raises(KlammError, match="klamm is shutting down"):
            await awaited(closing, after)

    asyncio.run(script())
    assert future.cancelled() and after.cancelled()
    closing.set()
