"""What the commands for a running cluster ask of its API, and what they print."""

from __future__ import annotations

from typing import Any, Final

import msgspec
import pytest

from klamm.cli.client import SERVER_VARIABLE
from klamm.cli.main import main
from klamm.cluster.errors import WrongState
from tests.scripted_api import BROKER, Script, scripted_api

KILLED: Final = {"id": 1, "state": "killed", "session_timeout_ms": 6000, "is_session_shared": False}
SHARED: Final = {**KILLED, "is_session_shared": True}
LOST_DIR: Final = {**KILLED, "log_dir": "d0", "halted": False, "state": "running"}
NO_SHUTDOWN: Final[dict[str, Any]] = {"outcome": "succeeded", "error": "NONE", "remaining": []}
STOPPED: Final = {"id": 1, "state": "stopped", "controlled_shutdown": NO_SHUTDOWN}


def started(took_ms: int = 40, **more: object) -> dict[str, Any]:
    return {"id": 1, "state": "running", "took_ms": took_ms, **more}


def session(state: str, *, registered: bool) -> dict[str, Any]:
    return {"id": 1, "state": state, "registered": registered, "session": "0x5", **TIMEOUT}


TIMEOUT: Final = {"session_timeout_ms": 6000}


@pytest.mark.parametrize(
    ("words", "script", "bodies", "printed"),
    [
        (
            "broker kill 1",
            {"POST /brokers/1/kill": KILLED},
            [None],
            "broker 1 is killed; its session expires within about 6000 ms",
        ),
        (
            "broker kill 1",
            {"POST /brokers/1/kill": SHARED},
            [None],
            "broker 1 is killed; its registration is deleted",
        ),
        (
            "broker power-off 1",
            {"POST /brokers/1/power-off": KILLED},
            [None],
            "broker 1 is powered off; its session expires within about 6000 ms",
        ),
        (
            "broker skew-clock 1 --ms -250",
            {"POST /brokers/1/skew-clock": {"id": 1, "state": "running", "clock_skew_ms": -250}},
            [{"ms": -250}],
            "the clock of broker 1 is skewed by -250 ms",
        ),
        (
            "broker skew-clock 1 --ms 0",
            {"POST /brokers/1/skew-clock": {"id": 1, "state": "running", "clock_skew_ms": 0}},
            [{"ms": 0}],
            "the clock of broker 1 is no longer skewed",
        ),
        (
            "broker stop 1",
            {"POST /brokers/1/stop": STOPPED},
            [None],
            "broker 1 is stopped",
        ),
        (
            "broker pause 1",
            {"POST /brokers/1/pause": {"id": 1, "state": "paused", "session_timeout_ms": 900}},
            [None],
            "broker 1 is paused; its session expires within about 900 ms",
        ),
        (
            "broker resume 1",
            {"POST /brokers/1/resume": {"id": 1, "state": "running"}},
            [None],
            "broker 1 is resumed",
        ),
        (
            "broker start 1 --no-wait",
            {"POST /brokers/1/start": started()},
            [{"wait": False}],
            "broker 1 is registered (after 40 ms)",
        ),
        (
            "broker start 1",
            {
                "GET /brokers/1": session("stopped", registered=False),
                "POST /brokers/1/start": started(),
            },
            [None, {"wait": True}],
            "broker 1 is registered (after 40 ms)",
        ),
        (
            "broker fail-log-dir 1 d0",
            {"POST /brokers/1/fail-log-dir": LOST_DIR},
            [{"log_dir": "d0"}],
            "log directory d0 of broker 1 has failed",
        ),
        (
            "broker fail-log-dir 1 d0",
            {"POST /brokers/1/fail-log-dir": {**LOST_DIR, "halted": True, "state": "halted"}},
            [{"log_dir": "d0"}],
            "log directory d0 of broker 1 has failed; it was the last: the broker has halted, "
            "its session expires within about 6000 ms",
        ),
        (
            "broker fail-log-dir 1 d0",
            {"POST /brokers/1/fail-log-dir": {**LOST_DIR, "halted": True, "state": "paused"}},
            [{"log_dir": "d0"}],
            "log directory d0 of broker 1 has failed; it is the last: the broker halts as soon as "
            "it is resumed",
        ),
        (
            "controller move",
            {"POST /controller/move": {"from": {"id": 1, "epoch": 4}, "to": {"id": 2, "epoch": 5}}},
            [None],
            "controller: broker 1 (epoch 4) -> broker 2 (epoch 5)",
        ),
        (
            "zk servers",
            {
                "GET /zookeeper": {
                    "servers": [{"id": 1, "address": "h:21", "state": "leader"}],
                }
            },
            [None],
            "Server  Address  State\n1       h:21     leader",
        ),
        (
            "zk kill leader",
            {"POST /zookeeper/leader/kill": {"id": 3, "before": "leader", "state": "down"}},
            [None],
            "ZooKeeper server 3: leader -> down",
        ),
        (
            "zk start 2",
            {"POST /zookeeper/2/start": {"id": 2, "before": "down", "state": "follower"}},
            [None],
            "ZooKeeper server 2: down -> follower",
        ),
        (
            "zk pause follower",
            {"POST /zookeeper/follower/pause": {"id": 2, "before": "follower", "state": "paused"}},
            [None],
            "ZooKeeper server 2: follower -> paused",
        ),
        (
            "zk resume 2",
            {"POST /zookeeper/2/resume": {"id": 2, "before": "paused", "state": "follower"}},
            [None],
            "ZooKeeper server 2: paused -> follower",
        ),
    ],
)
def test_one_request_and_its_answer(
    words: str,
    script: Script,
    bodies: list[Any],
    printed: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for more in ([], ["--json"]):
        with scripted_api(script) as api:
            monkeypatch.setenv(SERVER_VARIABLE, api.address)
            assert main([*words.split(), *more]) == 0
        assert api.asked == list(zip(script, bodies, strict=True))
        out, err = capsys.readouterr()
        assert err == ""
        if more:
            [*_, answer] = script.values()
            assert msgspec.json.decode(out) == answer
        else:
            assert out == f"{printed}\n"


@pytest.mark.parametrize(
    ("racks", "added_rack", "said"),
    [
        ({0: None, 1: None}, None, ""),
        ({0: "a", 1: "b"}, "c", ""),
        (
            {0: "a", 1: "b"},
            None,
            "warning: broker 7 has no rack, but brokers 0, 1 have one: until all or none of the "
            "running brokers have a rack, topics can only be created with --replica-assignment\n"
            "hint: klamm broker stop 7, then add another broker with --rack\n",
        ),
        (
            {0: None, 2: "b"},
            "a",
            "warning: broker 7 has a rack, but broker 0 has none: until all or none of the "
            "running brokers have a rack, topics can only be created with --replica-assignment\n"
            "hint: klamm broker stop 7, then add another broker without --rack\n",
        ),
    ],
)
def test_a_broker_is_added(
    racks: dict[int, str | None],
    added_rack: str | None,
    said: str,
    capsys: pytest.CaptureFixture[str],
) -> None:
    brokers = [
        {**BROKER, "id": id_, "rack": rack} for id_, rack in {**racks, 7: added_rack}.items()
    ]
    script = {
        "POST /brokers": {**started(), "id": 7, "rack": added_rack},
        "GET /brokers": {"brokers": brokers, "live": [0, 1, 7]},
    }
    rack = [] if added_rack is None else ["--rack", added_rack]
    with scripted_api(script) as api:
        assert main(["broker", "add", "7", *rack, "--server", api.address]) == 0
        assert main(["broker", "add", *rack, "--server", api.address]) == 0
    bodies = [body for request, body in api.asked if request == "POST /brokers"]
    assert bodies == [{"id": 7, "rack": added_rack}, {"id": None, "rack": added_rack}]
    assert capsys.readouterr() == ("broker 7 is registered\n" * 2, said * 2)


def test_a_broker_that_was_dead_in_the_dump_has_no_rack(
    capsys: pytest.CaptureFixture[str],
) -> None:
    brokers = [{**BROKER, "id": id_, "rack": rack} for id_, rack in ((0, "a"), (2, "b"), (1, None))]
    script = {
        "GET /brokers/1": session("not started", registered=False),
        "POST /brokers/1/start": started(),
        "GET /brokers": {"brokers": brokers, "live": [0, 2]},
    }
    with scripted_api(script) as api:
        assert main(["broker", "start", "1", "--server", api.address]) == 0
    warning, hint = capsys.readouterr().err.splitlines()[-2:]
    assert warning.startswith("warning: broker 1 has no rack, but brokers 0, 2 have one: until ")
    assert hint == "hint: klamm broker stop 1, then add broker 1 with --rack"


@pytest.mark.parametrize(
    ("broker", "said"),
    [
        (session("stopping", registered=True), "waiting for broker 1 to stop\n"),
        (
            session("killed", registered=True),
            "waiting for ZooKeeper to expire session 0x5 of broker 1 (timeout 6000 ms)\n",
        ),
        (session("running", registered=True), ""),
        (session("paused", registered=True), ""),
        (session("starting", registered=True), ""),
        (session("killed", registered=False), ""),
    ],
)
def test_what_a_start_is_certain_to_wait_for_is_said_at_once(
    broker: dict[str, Any], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    script = {"GET /brokers/1": broker, "POST /brokers/1/start": started()}
    with scripted_api(script) as api:
        assert main(["broker", "start", "1", "--server", api.address]) == 0
    assert capsys.readouterr() == ("broker 1 is registered (after 40 ms)\n", said)


def test_a_refusal_of_the_server_is_printed_with_its_hint(
    capsys: pytest.CaptureFixture[str],
) -> None:
    refusal = WrongState("broker 1 is not running", hint="its state is 'stopped'")
    with scripted_api({"POST /brokers/1/kill": refusal}) as api:
        assert main(["broker", "kill", "1", "--server", api.address]) == 1
    said = "error: broker 1 is not running\nhint: its state is 'stopped'\n"
    assert capsys.readouterr() == ("", said)
