"""`klamm status` and `klamm watch` of a server: where the cluster runs, and what is new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.cli.main import main
from klamm.server.journal_tail import MAX_BYTES
from tests.scripted_api import BROKER, STATUS, scripted_api
from tests.waiting import replace_sleep

SERVERS = [
    {"id": n, "address": f"h:{n}", "state": state} for n, state in ((1, "leader"), (2, "down"))
]
HEAD = "Cluster:     c at u, data in d\n"
REST = """\
Controller:  none
             Topics, partitions and replicas are shown once a controller is elected

Broker  Rack  State  Live  Role  Partitions  Leads  Under-replicated
"""


def zookeeper(**changes: Any) -> dict[str, Any]:
    return {**STATUS["zookeeper"], **changes}


@pytest.mark.parametrize(
    ("changes", "lines"),
    [
        ({}, "ZooKeeper:   zk:1 (connected, embedded)\n"),
        (
            {"zookeeper": zookeeper(embedded=False, state="DISCONNECTED", is_stale=True)},
            "ZooKeeper:   zk:1 (disconnected)\n"
            "             ZooKeeper is unreachable; the values below are the last known ones\n",
        ),
        (
            {"zookeeper": zookeeper(servers=SERVERS)},
            "ZooKeeper:   zk:1 (connected, embedded)\n             servers: 1 leader, 2 down\n",
        ),
        (
            {"zookeeper": zookeeper(servers=SERVERS[:1])},
            "ZooKeeper:   zk:1 (connected, embedded)\n",
        ),
        (
            {"bootstrap_servers": ["h:1", "h:2"], "security_protocol": "SSL"},
            "Clients:     --bootstrap-server h:1,h:2 (security.protocol=SSL)\n"
            "ZooKeeper:   zk:1 (connected, embedded)\n",
        ),
    ],
)
def test_where_a_cluster_runs(
    changes: dict[str, Any], lines: str, capsys: pytest.CaptureFixture[str]
) -> None:
    values = {**STATUS, **changes}
    with scripted_api({"GET /status": values}) as api:
        assert main(["status", "--server", api.address]) == 0
        assert capsys.readouterr() == (HEAD + lines + REST, "")
        assert main(["status", "--server", api.address, "--json"]) == 0
    assert msgspec.json.decode(capsys.readouterr().out) == values


def test_what_prevents_elections_follows_the_controller(capsys: pytest.CaptureFixture[str]) -> None:
    journal = {"is_writable": False, "failure": "No space", "failed_for_ms": 1200}
    failovers = {"failed": 2, "failure": "no znode", "pause_ms": 2500}
    values = {**STATUS, "journal": journal, "failovers": failovers}
    with scripted_api({"GET /status": values}) as api:
        assert main(["status", "--server", api.address]) == 0
    shown = capsys.readouterr().out
    controller, table = REST.split("\n\n")
    assert shown.endswith(
        f"{controller}\n"
        "Journal:     No space, for 1.2 s; no controller is elected until the journal is writable\n"
        "Failovers:   the last 2 failed; the next attempt is in 2.5 s: no znode\n"
        f"\n{table}"
    )


CONTROLLER: dict[str, Any] = {
    **{"controller_id": 1, "is_active": True, "active_controller_id": 1, "epoch": 4},
    **{"epoch_zk_version": 4, "state": "IDLE", "event_queue_size": 2, "requests_waiting": {}},
    **{"live_brokers": {}, "shutting_down_brokers": [], "topics": 1},
    **{"partitions": {"OnlinePartition": 3}, "replicas": {}, "offline_partitions": 1},
    **{"preferred_replica_imbalance": 0, "topics_to_be_deleted": [], "deletions": []},
    **{"partitions_being_reassigned": 0, "reassignments": [], "malformed": {}},
}
ELECTED = {
    **STATUS,
    "controller": CONTROLLER,
    "partitions_without_live_leader": 1,
    "brokers": [BROKER, {**BROKER, "id": 1, "state": "killed"}],
}


def row(topic: str, event: int | None = None) -> dict[str, Any]:
    """A row of the journal about a topic."""
    given = {"kind": "topic_created", "t_ms": 1, "controller": 1, "epoch": 4, "detail": topic}
    return given if event is None else {**given, "event_id": event}


def page(place: int, *rows: dict[str, Any]) -> dict[str, Any]:
    return {"rows": list(rows), "next": place, "damaged": []}


def test_watch_prints_new_rows_and_changes_of_the_summary(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    sleeps: list[float] = []

    def sleep(wait_s: float) -> None:
        sleeps.append(wait_s)
        if len(sleeps) == 4:
            raise KeyboardInterrupt

    replace_sleep(monkeypatch, sleep)
    failing = {**STATUS, "failovers": {"failed": 2, "failure": "no znode", "pause_ms": 1}}
    stale = {**ELECTED, "zookeeper": zookeeper(is_stale=True)}
    script = {
        "GET /status": [failing, ELECTED, ELECTED, stale],
        "GET /journal?last=200": page(10, row("a")),
        "GET /journal?after=10": page(20, row("b"), row("c")),
        "GET /journal?after=20": page(20),
    }
    with scripted_api(script) as api:
        assert main(["watch", "--interval", "0.5", "--server", api.address]) == 130
    out, err = capsys.readouterr()
    assert sleeps == [0.5] * 4 and err == "Interrupted\n"
    told = [line for line in out.splitlines() if line.startswith("==")]
    assert told == [
        "== no controller (no znode); brokers 0/0 running",
        "== controller 1 epoch 4; brokers 1/2 running; queue 2; partitions: 3 OnlinePartition; "
        "offline 1, 1 without a live leader",
        "== ZooKeeper is unreachable; last known controller 1 epoch 4; brokers 1/2 running; "
        "queue 2; partitions: 3 OnlinePartition; offline 1, 1 without a live leader",
    ]
    created = [line.split()[-1] for line in out.splitlines() if "topic created" in line]
    assert created == ["a", "b", "c"]
    assert out.index("topic created a") < out.index("== no controller")


def test_watch_skips_rows_that_are_too_many(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        if sleeps.pop():
            raise KeyboardInterrupt

    sleeps = [True, False]
    replace_sleep(monkeypatch, interrupt)
    many = [row("x" * (MAX_BYTES // 4)) for _ in range(2)]
    script = {
        "GET /status": STATUS,
        "GET /journal?last=200": [page(10, row("a")), page(30, row("z"))],
        "GET /journal?after=10": page(20, *many),
    }
    with scripted_api(script) as api:
        assert main(["watch", "--server", api.address]) == 130
    out = capsys.readouterr().out
    assert "xx" not in out and "topic created z" in out
