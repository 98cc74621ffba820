"""Fixtures for all tests: one real ZooKeeper server a session, one chroot of it a test."""

from __future__ import annotations

import itertools
import os
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from zk.embedded import EmbeddedZooKeeper

COUNTED = ("crash points:", "lost connections:")
"""How the names of the properties begin with which tests count."""
_chroot_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell's background job inherits that it is ignored."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Print how many crash points and lost connections were tried, by what was disturbed."""
    for kind in COUNTED:
        counts: Counter[str] = Counter()
        for report in terminalreporter.getreports("passed"):
            for name, value in report.user_properties:
                if name.startswith(kind):
                    counts[name] += value
        for name, count in counts.items():
            terminalreporter.write_line(f"{name}: {count}")
        if counts:
            terminalreporter.write_line(f"{kind} {counts.total()} in all")


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper]:
    """A server that all tests share: use ``chroot``, and start your own one to kill it."""
    with EmbeddedZooKeeper() as server:
        yield server


@pytest.fixture(scope="session")
def zookeeper_client(zookeeper: EmbeddedZooKeeper) -> Iterator[KazooClient]:
    """A plain kazoo session at the server's root, to look on independently of klamm's store."""
    client = KazooClient(hosts=zookeeper.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper, zookeeper_client: KazooClient) -> str:
    """``host:port/test-N``, where /test-N exists, is empty, and belongs to this test alone."""
    path = f"/test-{next(_chroot_numbers)}"
    zookeeper_client.create(path)
    return zookeeper.connect_string + path


@pytest.fixture
def environ_without_java(tmp_path: Path) -> dict[str, str]:
    """This environment on a machine without Java: all of PATH's commands but java's."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for command in Path(folder or ".").glob("*"):
            link = commands / command.name
            if not command.name.startswith("java") and not link.is_symlink():
                link.symlink_to(command)
    return {**os.environ, "PATH": str(commands), "JAVA_HOME": ""}
