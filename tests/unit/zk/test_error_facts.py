"""Whether an outcome is definite, and a retry may help, are facts of each error."""

from __future__ import annotations

import pytest

from klamm.cluster.errors import RequestTimedOut, SessionExpired, StoreError, ZooKeeperUnavailable
from klamm.zk.kazoo_pipeline import Completion, unless_lost, within
from klamm.zk.store import ResultCode
from klamm.zk.znode_client import NodeExists, store_error

UNANSWERED = (ResultCode.CONNECTIONLOSS, ResultCode.OPERATIONTIMEOUT, ResultCode.SESSIONEXPIRED)


@pytest.mark.parametrize("code", [code for code in ResultCode if code is not ResultCode.OK])
def test_an_operation_without_an_answer_may_have_taken_place(code: ResultCode) -> None:
    error = store_error(code, "/a")
    assert error.definite is (code not in UNANSWERED)
    assert error.retriable is (code in UNANSWERED)


def test_the_class_of_an_error_is_that_of_its_code() -> None:
    assert type(store_error(ResultCode.SESSIONEXPIRED, "/a")) is SessionExpired
    assert type(store_error(ResultCode.NODEEXISTS, "/a")) is NodeExists
    assert type(store_error(ResultCode.BADVERSION, "/a")) is StoreError


@pytest.mark.parametrize("wait", [within(0.001), unless_lost(0.001, lambda: False)])
def test_a_server_that_did_not_answer_in_time_may_still_do_it(wait: object) -> None:
    with pytest.raises(ZooKeeperUnavailable) as raised:
        wait(Completion())  # type: ignore[operator]
    assert not raised.value.definite
    assert raised.value.retriable


def test_only_the_time_without_a_connection_counts() -> None:
    completion = Completion()
    looks = iter([True] * 11)  # ten looks take a second

    def is_connected() -> bool:
        if next(looks, False):
            return True
        completion.finish()
        return False

    unless_lost(1.0, is_connected)(completion)
    assert completion.done


def test_an_instance_knows_better_than_its_class() -> None:
    assert StoreError("x").definite and not StoreError("x", definite=False).definite
    assert not RequestTimedOut("x").definite and RequestTimedOut("x", definite=True).definite
    assert not StoreError("x").retriable and StoreError("x", retriable=True).retriable
