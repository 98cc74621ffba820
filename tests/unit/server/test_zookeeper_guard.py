"""server/zookeeper_guard.py on played servers: what it starts again, and when it gives up."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from klamm.cluster.errors import KlammError, ZooKeeperUnavailable
from klamm.server import zookeeper_guard
from klamm.server.zookeeper_guard import ZooKeeperGuard
from tests.played_zookeeper import GARBAGE, PlayedServer, played_ensemble
from tests.waiting import wait_until

THREE = ("follower", "leader", "follower")


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    for interval in ("_LOOK_INTERVAL_S", "_ASK_INTERVAL_S", "_RETRY_INTERVAL_S"):
        monkeypatch.setattr(zookeeper_guard, interval, 0.01)
    caplog.set_level(logging.INFO)


class Guarded(NamedTuple):
    """A guard, the servers of its ensemble by id, and the failures that it has reported."""

    guard: ZooKeeperGuard
    servers: dict[int, PlayedServer]
    failures: list[KlammError]


@contextmanager
def guarded(folder: Path, *roles: str, hang_s: float = 60.0) -> Iterator[Guarded]:
    failures: list[KlammError] = []
    with played_ensemble(folder, roles or THREE) as (ensemble, servers):
        guard = ZooKeeperGuard(ensemble, failures.append, hang_s)
        try:
            yield Guarded(guard, servers, failures)
        finally:
            guard.close()


def fail() -> None:
    raise ZooKeeperUnavailable("no start")


def test_a_server_that_ends_is_started_and_one_that_was_killed_is_not(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(tmp_path) as (guard, servers, _):
        assert guard.act("3", "kill") == {"id": 3, "before": "follower", "state": "down"}
        servers[2].crash()
        wait_until(lambda: servers[2].is_running)
        wait_until(lambda: "is running again: sessions reconnect" in caplog.text)
        assert guard.act("leader", "pause") == {"id": 2, "before": "leader", "state": "paused"}
        states = ["follower", "paused", "down"]
        wait_until(lambda: [one.state for one in guard.last_known()] == states)
        assert [one.state for one in guard.describe()["servers"]] == states
        addresses = [server.connect_string for server in servers.values()]
        assert [one.address for one in guard.last_known()] == addresses
    assert servers[3].calls == ["kill"]
    assert servers[2].calls == ["crash", "start", "pause"]
    assert f"ZooKeeper at {servers[2].connect_string} has ended: restarting it" in caplog.text


def test_a_server_that_hangs_is_killed_and_started(tmp_path: Path) -> None:
    with guarded(tmp_path, hang_s=0.1) as (guard, servers, failures):
        servers[1].role = ""  # without a quorum, it answers
        servers[3].role = GARBAGE
        servers[3].starts.append(lambda: setattr(servers[3], "role", "follower"))
        wait_until(lambda: servers[3].calls == ["crash", "start"])
        wait_until(lambda: guard.states[2].state == "follower")
        assert (servers[1].calls, failures) == ([], [])


def test_a_server_that_cannot_start_is_tried_three_times(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    with guarded(tmp_path) as (_, servers, failures):
        servers[1].starts += [fail] * 3
        servers[1].crash()
        wait_until(lambda: "; the other servers continue" in caplog.text)
        assert servers[1].calls == ["crash", "start", "start", "start"]
        assert failures == []
        servers[3].starts += [fail, fail]
        servers[3].crash()
        wait_until(lambda: servers[3].is_running)
        servers[2].starts += [fail] * 3
        servers[2].crash()
        wait_until(lambda: failures)
    # A server that was given up is left alone.
    assert servers[1].calls.count("start") == 3
    assert caplog.text.count("; the other servers continue") == 1
    [failure] = failures
    where = servers[2].connect_string
    assert failure.message == f"ZooKeeper at {where} has ended and cannot be restarted: no start"
    assert failure.hint == (
        f"its log is {servers[2].log_path}; to continue, run klamm up with the same data directory"
    )


def test_a_server_that_keeps_ending_is_given_up(tmp_path: Path) -> None:
    with guarded(tmp_path, "standalone") as (_, servers, failures):
        for _ in range(4):
            assert failures == []
            servers[1].crash()
            wait_until(lambda: servers[1].is_running or failures)
    assert "it ended 4 times, each within 30 s of its start" in failures[0].message
    assert servers[1].calls.count("start") == 3


def test_a_server_that_ran_long_enough_is_started_as_often_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(zookeeper_guard, "STEADY_S", -1.0)
    with guarded(tmp_path, "standalone") as (_, servers, failures):
        for _ in range(5):
            servers[1].crash()
            wait_until(lambda: servers[1].is_running)
        assert failures == []


def test_a_server_that_ran_long_once_is_given_up_if_it_then_keeps_ending(tmp_path: Path) -> None:
    with guarded(tmp_path, "standalone") as (guard, servers, failures):
        guard._watched[1].started_s -= 31
        for _ in range(5):
            servers[1].crash()
            wait_until(lambda: servers[1].is_running or failures)
    assert (len(failures), servers[1].calls.count("start")) == (1, 3)


def test_the_end_does_not_wait_for_a_server_that_starts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    killed = threading.Event()

    def start_forever() -> None:
        killed.wait(60)
        fail()

    with guarded(tmp_path, "standalone") as (_, servers, failures):
        monkeypatch.setattr(servers[1], "kill", killed.set)
        servers[1].starts.append(start_forever)
        servers[1].crash()
        wait_until(lambda: "start" in servers[1].calls)
    assert killed.is_set() and failures == []
