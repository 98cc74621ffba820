"""Tools that speak to ZooKeeper directly end when it is lost midway, and say so in one line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from klamm.cli import connect
from klamm.cli.main import main
from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.kazoo_pipeline import within
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Exists
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("servers_hurry")
TOOLS = {
    "list": ["topics", "--list"],
    "unsecure": ["zk", "unsecure"],
    "dump": ["zk", "dump"],
}


@pytest.fixture(scope="module")
def server() -> Iterator[EmbeddedZooKeeper]:
    with EmbeddedZooKeeper() as server:
        yield server


def is_silent(session: KazooSession) -> bool:
    """True if no answer comes."""
    try:
        KazooStore(session, within(0.2)).read([Exists("/")])
    except ZooKeeperUnavailable:
        return True
    return False


@pytest.mark.slow
@pytest.mark.parametrize("tool", TOOLS)
def test_a_tool_ends_when_zookeeper_is_lost_midway(
    server: EmbeddedZooKeeper,
    tool: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """The server hangs, and for the last tool dies, as soon as the tool has its session."""

    class LostSession(KazooSession):
        def __init__(self, *args: Any, **options: Any) -> None:
            super().__init__(*args, **options)
            if tool == "dump":
                server.kill()
            else:
                server.pause()
                wait_until(lambda: is_silent(self))

    monkeypatch.setattr(connect, "KazooSession", LostSession)
    monkeypatch.setattr(connect, "SESSION_TIMEOUT_MS", 2_000)
    monkeypatch.setattr(connect, "LOST_LIMIT_MS", 500)
    try:
        code = main([*TOOLS[tool], "--zookeeper", server.connect_string])
    finally:
        if server.is_running:
            server.resume()
    printed = capsys.readouterr()
    assert (code, printed.out) == (1, "")
    first, hint = printed.err.splitlines()
    assert first == "error: the connection to ZooKeeper was lost for more than 0.5 s"
    assert hint.startswith("hint: the last write may have taken effect")
