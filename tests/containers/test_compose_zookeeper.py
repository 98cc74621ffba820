"""docker-compose.yml: the official ZooKeeper image comes up healthy and serves klamm's needs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient
from testcontainers.compose import DockerCompose

ROOT = Path(__file__).parents[2]

pytestmark = [pytest.mark.containers, pytest.mark.slow, pytest.mark.timeout(300)]


def why_no_docker() -> str | None:
    """Why containers cannot run here; None if they can."""
    if shutil.which("docker") is None:
        return "no docker command"
    for command in ("version --format {{.Server.Version}}", "compose version"):
        done = subprocess.run(["docker", *command.split()], capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return f"docker {command.split()[0]} failed: {said[0]}"
    return None


@pytest.fixture
def compose_zookeeper(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """``host:port`` of the file's ZooKeeper, on a port that Docker chooses."""
    reason = why_no_docker()
    if reason is not None:
        pytest.skip(reason)
    monkeypatch.setenv("KLAMM_ZOOKEEPER_PORT", "0")
    monkeypatch.setenv("COMPOSE_PROJECT_NAME", "klamm-test")
    with DockerCompose(ROOT, wait=True) as compose:
        host, port = compose.get_service_host_and_port("zookeeper", 2181)
        yield f"{host}:{port}"


def test_zookeeper_comes_up_and_has_what_klamm_uses(compose_zookeeper: str) -> None:
    client = KazooClient(hosts=compose_zookeeper, timeout=1.0)
    client.start(timeout=30)
    try:
        client.create("/klamm", b"null is not empty")
        client.create("/klamm/ephemeral", ephemeral=True)
        assert client.get("/klamm")[0] == b"null is not empty"
        assert client.server_version() >= (3, 6), "MultiRead needs 3.6"
    finally:
        client.stop()
        client.close()
