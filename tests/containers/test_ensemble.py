"""docker-compose.yml's profile ensemble: klamm on three servers that lose a leader and quorum."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from klamm.zk.embedded import four_letter_word
from tests.containers.compose import Project
from tests.containers.conftest import free_port
from tests.containers.load import Load, count_records, create_topic, is_live, is_lost
from tests.serving import klamm_up
from tests.waiting import wait_until

SERVICES = ("zookeeper-1", "zookeeper-2", "zookeeper-3")
SESSION_TIMEOUT_S = 3.0

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]


@pytest.fixture(scope="module")
def ensemble() -> Iterator[tuple[Project, dict[str, int]]]:
    """The three servers, and their ports, which stay when a container starts again."""
    ports: dict[str, int] = {}
    for service in SERVICES:
        ports[service] = free_port(ports.values())
    names = {f"KLAMM_ZOOKEEPER_{n}_PORT": str(ports[f"zookeeper-{n}"]) for n in (1, 2, 3)}
    with Project(*SERVICES, **names) as project:
        yield project, ports


def modes(ports: dict[str, int]) -> dict[str, str]:
    """{service: leader or follower} of those servers that serve."""
    found = {}
    for service, port in ports.items():
        try:
            answer = four_letter_word(port, "srvr")
        except OSError:
            continue
        if "Mode: " in answer:
            found[service] = answer.partition("Mode: ")[2].split()[0]
    return found


def leader_of(ports: dict[str, int]) -> str:
    """Return the leading service; there must be one."""
    return next(service for service, mode in modes(ports).items() if mode == "leader")


def connect_string(ports: dict[str, int], chroot: str) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports.values()) + chroot


def wait_for_all(ports: dict[str, int]) -> None:
    """Wait until one server leads and two follow."""
    wait_until(
        lambda: sorted(modes(ports).values()) == ["follower", "follower", "leader"],
        60,
        "three servers that serve",
    )


def test_the_leader_of_the_ensemble_is_killed(
    ensemble: tuple[Project, dict[str, int]], tmp_path: Path
) -> None:
    project, ports = ensemble
    wait_for_all(ports)
    where = ("--zookeeper", connect_string(ports, "/leader"))
    timeout = ("--session-timeout-ms", str(int(SESSION_TIMEOUT_S * 1000)))
    with klamm_up(tmp_path, "--brokers", "3", *where, *timeout) as up:
        with Load(up, seconds=6) as load:
            old = leader_of(ports)
            project.container(old).kill()
            wait_until(lambda: "leader" in modes(ports).values(), 30, "another leader")
            assert leader_of(ports) != old
            wait_until(lambda: is_live(up), SESSION_TIMEOUT_S + 5, "the cluster to be live")
        assert load.acknowledged == load.sent == count_records(up)
        create_topic(up, "by-two-servers")
    project.container(old).start()
    wait_for_all(ports)


def test_quorum_is_lost_and_regained(
    ensemble: tuple[Project, dict[str, int]], tmp_path: Path
) -> None:
    project, ports = ensemble
    wait_for_all(ports)
    where = ("--zookeeper", connect_string(ports, "/quorum"))
    timeout = ("--session-timeout-ms", str(int(SESSION_TIMEOUT_S * 1000)))
    with klamm_up(tmp_path, "--brokers", "3", *where, *timeout) as up:
        with Load(up, seconds=8) as load:
            killed = [project.container(service) for service in SERVICES[:2]]
            for container in killed:
                container.kill()
            wait_until(lambda: is_lost(up), 30, "the loss of quorum to be noticed")
            assert modes(ports) == {}
            for container in killed:
                container.start()
            wait_until(lambda: len(modes(ports)) >= 2, 60, "quorum")
            wait_until(lambda: is_live(up), SESSION_TIMEOUT_S + 5, "the cluster to be live")
        assert load.acknowledged == load.sent == count_records(up)
        create_topic(up, "after")
    wait_for_all(ports)
