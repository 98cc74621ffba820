"""Fixtures of the container tests: compose projects, each shared by the tests of a file."""

from __future__ import annotations

import itertools
import socket
import subprocess
from collections.abc import Collection, Iterator

import pytest

from tests.containers.compose import Project

FREE_PORTS = range(20_000, 32_000)
"""Below the ephemeral ports, which outgoing connections take."""
_chroots = itertools.count(1)


@pytest.fixture(scope="session", autouse=True)
def docker_there() -> None:
    """Skip without an engine; tests/containers/run.py fails if an engine was available."""
    try:
        Project().get_containers()
    except subprocess.CalledProcessError as error:
        pytest.skip(f"docker compose ps: {error.stderr.decode().strip()}")


@pytest.fixture(scope="session")
def zookeeper_project() -> Iterator[Project]:
    """The service zookeeper, for tests that leave it running."""
    with Project("zookeeper") as project:
        yield project


@pytest.fixture(scope="session")
def container_zookeeper(zookeeper_project: Project) -> str:
    """``host:port`` of the shared ZooKeeper."""
    host, port = zookeeper_project.get_service_host_and_port("zookeeper", 2181)
    return f"{host}:{port}"


@pytest.fixture
def container_chroot(container_zookeeper: str) -> str:
    """An unused chroot of the shared ZooKeeper, which klamm creates."""
    return f"{container_zookeeper}/containers-{next(_chroots)}"


@pytest.fixture
def restartable_zookeeper() -> Iterator[tuple[Project, str]]:
    """A ZooKeeper to break, and its address: the port stays when the container starts again."""
    port = free_port()
    with Project("zookeeper", KLAMM_ZOOKEEPER_PORT=str(port)) as project:
        yield project, f"127.0.0.1:{port}"


def free_port(taken: Collection[int] = ()) -> int:
    """A free port that is none of ``taken``. Docker would choose another one at every start."""
    for port in FREE_PORTS:
        with socket.socket() as probe:
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                continue
        if port not in taken:
            return port
    raise AssertionError("no free port")
