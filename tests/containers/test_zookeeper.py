"""docker-compose.yml's ZooKeeper: klamm's requirements, and the core of the suite against it."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from testcontainers.core.docker_client import DockerClient

from klamm.zk.embedded import four_letter_word
from tests.containers.compose import ROOT, Project
from tests.containers.load import count_records, create_topic, is_live
from tests.serving import klamm_up

pytestmark = [pytest.mark.containers, pytest.mark.timeout(300)]

CORE = {
    "store conformance": ["tests/conformance/test_store.py", "-k", "kazoo"],
    "watch conformance": ["tests/conformance/test_watches.py", "-k", "kazoo"],
    "reconnecting": ["tests/conformance/test_reconnect.py", "-k", "kazoo"],
    "recorded scenarios": [
        "tests/integration/test_scenarios.py",
        "-k",
        "real and (controller_kill or leader_kill or reassign_move_all or delete_recreate)",
    ],
    "controller failover": ["tests/integration/test_deposed_controllers.py"],
    "server lifecycle": ["tests/integration/test_server_lifecycle.py", "-m", "not slow"],
}


def test_zookeeper_comes_up_and_has_what_klamm_uses(container_zookeeper: str) -> None:
    # srvr is the one command that the official image answers; kazoo's server_version asks envi.
    answer = four_letter_word(int(container_zookeeper.rpartition(":")[2]), "srvr")
    version = answer.partition("Zookeeper version: ")[2].split("-")[0]
    assert tuple(map(int, version.split(".")))[:2] >= (3, 6), "MultiRead needs 3.6"
    client = KazooClient(hosts=container_zookeeper, timeout=1.0)
    client.start(timeout=30)
    try:
        client.create("/used", b"null is not empty")
        client.create("/used/ephemeral", ephemeral=True)
        assert client.get("/used")[0] == b"null is not empty"
    finally:
        client.stop()
        client.close()


def test_the_session_timeouts_of_klamm_are_granted(container_zookeeper: str) -> None:
    client = KazooClient(hosts=container_zookeeper, timeout=1.0)
    client.start(timeout=30)
    try:
        assert client._session_timeout == 1000.0
    finally:
        client.stop()
        client.close()


def test_klamm_up_on_the_container(container_chroot: str, tmp_path: Path) -> None:
    where = ("--zookeeper", container_chroot, "--session-timeout-ms", "3000")
    with klamm_up(tmp_path, "--brokers", "3", *where) as up:
        create_topic(up, "orders")
        up.ok("produce", "--topic", "orders", "--records", "500", "--idempotent")
        assert count_records(up, "orders") == 500
        assert is_live(up)
        assert up.ok("topics", "--zookeeper", container_chroot, "--list").split() == ["orders"]
        assert "klamm has ended" in up.end()
    assert up.process.returncode == 130
    client = KazooClient(hosts=container_chroot)
    client.start()
    try:
        assert client.get_children("/brokers/ids") == []
        assert client.get_children("/brokers/topics") == ["orders"]
    finally:
        client.stop()
        client.close()


@pytest.mark.parametrize("part", CORE)
def test_the_core_of_the_suite_passes_on_the_container(container_zookeeper: str, part: str) -> None:
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *CORE[part]],
        cwd=ROOT,
        env={**os.environ, "KLAMM_TEST_ZOOKEEPER": container_zookeeper},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stdout[-5000:]
    assert " passed" in done.stdout


def test_nothing_of_a_project_is_left_after_down() -> None:
    with Project("zookeeper") as project:
        # Compose creates the volumes of every profile at once.
        volumes = left_of(project)["volumes"]
        assert volumes > 0
        assert left_of(project) == {"containers": 1, "networks": 1, "volumes": volumes}
        project.services, project.wait = ["zookeeper-1"], False
        project.start()
        assert left_of(project)["containers"] == 2
    assert left_of(project) == {"containers": 0, "networks": 0, "volumes": 0}


def left_of(project: Project) -> dict[str, int]:
    """Count the containers, networks and volumes of a project."""
    client = DockerClient().client
    label = {"label": f"com.docker.compose.project={project.name}"}
    return {
        "containers": len(client.containers.list(all=True, filters=label)),
        "networks": len(client.networks.list(filters=label)),
        "volumes": len(client.volumes.list(filters=label)),
    }
