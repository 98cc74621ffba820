"""`klamm status` and `klamm watch` of a server: where the cluster runs, and what is new."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from klamm.cli.main import main
from klamm.server.journal_tail import MAX_BYTES
from tests.scripted_api import BROKER, CONTROLLER, STATUS, scripted_api
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


ELECTED = {
    **STATUS,
    "controller": CONTROLLER,
    "partitions_without_live_leader": 1,
    "brokers": [BROKER, {**BROKER, "id": 1, "state": "killed"}],
}


HEALTHY = {
    **STATUS,
    "controller": CONTROLLER,
    "partitions_without_live_leader": 0,
    "brokers": [{**BROKER, "id": id_, "under_replicated": 0} for id_ in (0, 1, 2)],
}
DELETION = {
    **{"topic": "t", "waits_for_brokers": [], "waits_for_log_dirs_of": []},
    "waits_for_reassignment": False,
}


def of_brokers(**changes: Any) -> dict[str, Any]:
    """Brokers 0 and 2 with these changes, and broker 1 without."""
    brokers = HEALTHY["brokers"]
    return {"brokers": [{**brokers[0], **changes}, brokers[1], {**brokers[2], **changes}]}


def of_controller(**changes: Any) -> dict[str, Any]:
    return {"controller": {**CONTROLLER, **changes}}


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"zookeeper": zookeeper(is_stale=True)}, "ZooKeeper is unreachable"),
        ({"controller": None}, "no controller is elected"),
        ({"partitions_without_live_leader": 1}, "1 partition without a live leader"),
        (of_controller(partitions_being_reassigned=2000), "2,000 partitions being reassigned"),
        (of_controller(deletions=[DELETION]), "1 topic being deleted"),
        (of_brokers(under_replicated=2), "4 partitions under-replicated"),
        (of_brokers(state="killed", live=False), "brokers 0,2 are killed"),
        (of_brokers(live=False), "brokers 0,2 are not registered"),
        (
            {"failed_log_dirs": [{"broker": 1, "log_dir": "d1"}]},
            "log directory d1 of broker 1 has failed",
        ),
        ({"isolated_brokers": [1]}, "broker 1 is isolated"),
    ],
)
def test_status_waits_until_the_cluster_is_healthy(
    changes: dict[str, Any],
    reason: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    sleeps: list[float] = []
    replace_sleep(monkeypatch, sleeps.append)
    sick = {**HEALTHY, **changes}
    with scripted_api({"GET /status": [sick, sick, HEALTHY]}) as api:
        assert main(["status", "--wait", "60", "--server", api.address]) == 0
        assert "Controller:  broker 1" in capsys.readouterr().out
        assert len(api.asked) == 3 and len(sleeps) == 2
    with scripted_api({"GET /status": sick}) as api:
        assert main(["status", "--wait", "0", "--server", api.address]) == 11
    out, err = capsys.readouterr()
    assert out == ""
    assert err.splitlines() == [
        f"error: the cluster is not healthy after 0 s: {reason}",
        "hint: klamm status shows what is pending",
    ]


def test_the_status_of_a_healthy_cluster_is_the_same_with_wait(
    capsys: pytest.CaptureFixture[str],
) -> None:
    printed = []
    with scripted_api({"GET /status": HEALTHY}) as api:
        for more in ([], ["--wait", "0"]):
            assert main(["status", "--json", *more, "--server", api.address]) == 0
            printed.append(capsys.readouterr())
    assert printed[0] == printed[1]
    with scripted_api({"GET /status": ELECTED}) as api:
        assert main(["status", "--wait", "0", "--json", "--server", api.address]) == 11
    error = msgspec.json.decode(capsys.readouterr().err)
    assert (error["exit_code"], error["error"]["message"]) == (
        11,
        "the cluster is not healthy after 0 s: 1 partition without a live leader; "
        "2 partitions under-replicated; broker 1 is killed",
    )


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
