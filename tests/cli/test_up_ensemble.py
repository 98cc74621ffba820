"""klamm up with ZooKeeper servers that are killed in turn, or emptied."""

from __future__ import annotations

import shutil
import urllib.request
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.zk.embedded import EmbeddedZooKeeper
from tests.serving import Up, klamm, klamm_up, processes_naming
from tests.waiting import wait_until


def api(up: Up, path: str, method: str = "GET") -> dict[str, Any]:
    """What the HTTP API answers."""
    request = urllib.request.Request(up.url + path, method=method)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return msgspec.json.decode(answer.read(), type=dict[str, Any])


def is_lost(up: Up) -> bool:
    return bool(api(up, "/status")["zookeeper"]["is_stale"])


@pytest.mark.slow
@pytest.mark.timeout(240)
def test_an_ensemble_loses_its_leader_and_its_quorum(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "2", "--zookeeper-servers", "3") as up:
        server = ("--bootstrap-server", up.url.removeprefix("http://"))
        create = ("--create", "--partitions", "2", "--replication-factor", "2", "--topic")
        assert "leader -> down" in up.ok("zk", "kill", "leader")
        assert "Created topic a." in up.ok("topics", *server, *create, "a")
        killed = api(up, "/zookeeper/follower/kill", "POST")["id"]
        wait_until(lambda: is_lost(up), 30, "the lost quorum")
        # The last server steps down only after it has missed its followers for a while.
        wait_until(
            lambda: "no quorum" in {one["state"] for one in api(up, "/zookeeper")["servers"]},
            30,
            "a server without quorum",
        )
        for action in (("kill", "leader"), ("resume", str(killed))):
            refused = up.run("zk", *action)
            assert (refused.returncode, refused.stdout) == (1, "")
            assert refused.stderr.count("\n") == 2  # error and hint
        assert api(up, f"/zookeeper/{killed}/start", "POST")["id"] == killed
        wait_until(lambda: not is_lost(up), 60, "the quorum")
        assert api(up, "/topics")["topics"] == ["a"]
        kept = ("does not respond", "is back")
        told = [line for line in up.end().splitlines() if any(word in line for word in kept)]
        assert "does not respond: the cluster waits for it" in told[-2]
        assert "is back after" in told[-1]
    assert not processes_naming(str(tmp_path))
    refused = klamm(tmp_path, "up", "--brokers", "2", "--port", "0")
    assert refused.returncode == 2
    assert "has the data of 3 ZooKeeper servers, not of 1" in refused.stderr


@pytest.mark.slow
def test_an_emptied_zookeeper_ends_klamm_up_and_says_so(tmp_path: Path) -> None:
    with (
        EmbeddedZooKeeper(tmp_path / "zk") as server,
        klamm_up(
            tmp_path / "data",
            *("--brokers", "2", "--session-timeout-ms", "2000"),
            *("--zookeeper", f"{server.connect_string}/k"),
        ) as up,
    ):
        server.kill()
        shutil.rmtree(server.data_dir / "version-2")
        server.start()
        output = up.wait()
        assert up.process.returncode == 1
        error, hint = output.splitlines()[-2:]
        assert error.startswith(f"error: ZooKeeper at {server.connect_string}/k ")
        assert "has lost data" in error or "came back without its data" in error
        assert hint.startswith("hint: it was emptied, or restored from an older backup")
