"""server/closing.py: waiting ends with a value, an error, the time, or the server."""

from __future__ import annotations

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


def test_time_is_up() -> None:
    with pytest.raises(TimeoutError):
        Closing().result_of(Future(), 0.01)
    with pytest.raises(RequestTimedOut, match="nothing came"):
        Closing().wait_until(lambda: None, time.monotonic(), "nothing came")


def test_the_server_ends() -> None:
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
