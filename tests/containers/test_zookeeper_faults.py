"""`klamm up` on a ZooKeeper container that is paused, killed, or comes back without its data."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.zk.embedded import four_letter_word
from tests.containers.compose import Project
from tests.containers.load import (
    Load,
    count_records,
    create_topic,
    is_live,
    is_lost,
    status_of,
)
from tests.serving import klamm_up
from tests.waiting import wait_until

SESSION_TIMEOUT_S = 3.0
BACK_WITHIN_S = SESSION_TIMEOUT_S + 5.0
"""Time limit for controller and brokers to be live after ZooKeeper's return."""
BROKERS = ("--brokers", "3", "--session-timeout-ms", str(int(SESSION_TIMEOUT_S * 1000)))

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


def test_a_pause_beyond_the_session_loses_no_acknowledged_record(
    restartable_zookeeper: tuple[Project, str], tmp_path: Path
) -> None:
    project, address = restartable_zookeeper
    with klamm_up(tmp_path, *BROKERS, "--zookeeper", f"{address}/k") as up:
        with Load(up, seconds=8) as load:
            project.container("zookeeper").pause()
            wait_until(lambda: is_lost(up), 30, "ZooKeeper to be lost")
            project.container("zookeeper").unpause()
            wait_until(lambda: is_live(up), BACK_WITHIN_S, "the cluster to be live again")
        assert load.acknowledged == load.sent
        assert count_records(up) == load.sent
        # On a busy machine a session may expire once more.
        wait_until(lambda: is_live(up), BACK_WITHIN_S, "the cluster to be live")
        create_topic(up, "after")


def test_a_kill_and_a_restart_under_load_lose_no_acknowledged_record(
    restartable_zookeeper: tuple[Project, str], tmp_path: Path
) -> None:
    project, address = restartable_zookeeper
    with klamm_up(tmp_path, *BROKERS, "--zookeeper", f"{address}/k") as up:
        with Load(up, seconds=8) as load:
            project.container("zookeeper").kill()
            wait_until(lambda: is_lost(up), 30, "ZooKeeper to be lost")
            project.container("zookeeper").start()
            wait_until(lambda: serves(address), 60, "ZooKeeper to serve again")
            wait_until(lambda: is_live(up), BACK_WITHIN_S, "the cluster to be live again")
        assert load.acknowledged == load.sent
        assert count_records(up) == load.sent
        # On a busy machine a session may expire once more.
        wait_until(lambda: is_live(up), BACK_WITHIN_S, "the cluster to be live")
        create_topic(up, "after")


def test_a_restart_keeps_topics_and_the_cluster_id(
    restartable_zookeeper: tuple[Project, str], tmp_path: Path
) -> None:
    project, address = restartable_zookeeper
    with klamm_up(tmp_path, *BROKERS, "--zookeeper", f"{address}/k") as up:
        create_topic(up, "kept")
        cluster_id = status_of(up)["cluster_id"]
        up.end()
    project.container("zookeeper").restart()
    project.start()  # waits until it is healthy
    with klamm_up(tmp_path, *BROKERS, "--zookeeper", f"{address}/k") as up:
        assert status_of(up)["cluster_id"] == cluster_id
        wait_until(lambda: status_of(up)["controller"]["topics"] == 1, what="the topic")


def serves(address: str) -> bool:
    """True if the server has a mode, which it has once it serves."""
    try:
        return "Mode: " in four_letter_word(int(address.rpartition(":")[2]), "srvr")
    except OSError:
        return False


def test_an_emptied_server_ends_klamm_with_the_reason(
    restartable_zookeeper: tuple[Project, str], tmp_path: Path
) -> None:
    project, address = restartable_zookeeper
    with klamm_up(tmp_path, *BROKERS, "--zookeeper", f"{address}/k") as up:
        create_topic(up, "lost")
        project.stop()
        project.start()
        printed = up.wait(120)
    assert up.process.returncode == 1
    error = next(line for line in printed.splitlines() if line.startswith("error: "))
    assert error.startswith(f"error: ZooKeeper at {address}/k"), printed
    assert "has lost data: its last zxid is" in error or "came back without its data" in error
