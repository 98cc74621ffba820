"""What klamm broker says of a broker that ends otherwise than one may think."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest

from klamm.cli.broker import rack_warning, shutdown_text
from klamm.cluster.journal import Kind
from klamm.server.states import ShutdownOutcome
from klamm.world.journal.journal import read_journal
from tests.serving import KLAMM, Up, environ_for, klamm_up
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three brokers with two log directories each, that do not wait long for a controller."""
    with klamm_up(
        tmp_path_factory.mktemp("up"),
        *("--brokers", "3", "--session-timeout-ms", "4000"),
        *("--config", "controlled.shutdown.retry.backoff.ms=100", "--config", "log.dirs=d0,d1"),
    ) as running:
        yield running


@pytest.mark.slow
def test_a_failed_controlled_shutdown_is_reported(up: Up) -> None:
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    up.ok("topics", *server, "--create", "--topic", "led", "--replica-assignment", "2:1,2:1")
    assert up.ok("broker", "stop", "1") == "broker 1 is stopped\n"
    assert up.run("broker", "pause", "1").stderr == (
        "error: broker 1 is not running\nhint: its state is 'stopped'\n"
    )
    assert up.ok("network", "isolate", "0", "2") == (
        "brokers 0, 2 are isolated, but no running broker is cut off from another; "
        "not running: broker 1\n"
    )
    assert up.ok("network", "heal") == "brokers 0, 2 are no longer isolated\n"
    stopped = up.run("broker", "stop", "2")
    assert (stopped.returncode, stopped.stderr) == (0, "")
    assert stopped.stdout == (
        "broker 2 is stopped; its controlled shutdown failed: it still led led-0, led-1\n"
    )
    up.ok("broker", "start", "2")
    answer = up.json("broker", "stop", "2")
    assert answer["controlled_shutdown"] == {
        "outcome": "failed",
        "error": "NONE",
        "remaining": ["led-0", "led-1"],
    }
    up.ok("broker", "start", "1")
    up.ok("broker", "pause", "1")
    said = up.ok("broker", "stop", "1")
    assert said == (
        "broker 1 is stopped without a controlled shutdown: "
        "the controller elects other leaders only now\n"
    )
    up.ok("broker", "start", "1")
    up.ok("broker", "start", "2")


@pytest.mark.slow
def test_a_killed_controller_still_leads_until_its_session_expires(up: Up) -> None:
    controller = up.json("controller", "move")["to"]
    assert isinstance(controller, dict)
    killed = str(controller["id"])
    up.ok("topics", "--create", "--topic", "its", "--replica-assignment", killed)
    up.ok("broker", "kill", killed)
    text = up.ok("status")
    assert "Controller:  none" in text
    led = rf"Broker {killed} is dead but leads ([\w-]+, )*its-0[^:]*: the next controller elects"
    assert re.search(led, text), text
    wait_until(lambda: "is dead but leads" not in up.ok("status"), 20)
    up.ok("broker", "start", killed)


@pytest.mark.slow
def test_a_broker_without_power_and_one_that_is_cut_off(tmp_path: Path) -> None:
    """What both lose, the ISR has: what was acknowledged is read in the end.

    The controller keeps its power: if it is back before the next one has read who lives, nobody
    knows that its records are missing (docs/running.md).
    """
    values = (
        *("replica.lag.time.max.ms=1500", "replica.socket.timeout.ms=1000"),
        "controlled.shutdown.retry.backoff.ms=1000",
    )
    configs = [word for config in values for word in ("--config", config)]
    with klamm_up(
        tmp_path,
        *("--brokers", "3", "--controllers", "1", "--session-timeout-ms", "4000", "--segments"),
        *configs,
    ) as up:
        server = ("--bootstrap-server", up.url.removeprefix("http://"))
        up.ok("topics", *server, "--create", "--topic", "t", "--replica-assignment", "1:0:2")
        up.ok("network", "isolate", "0")
        reconnected = "broker 2 is isolated; broker 0 is reconnected\n"
        assert up.ok("network", "isolate", "2") == reconnected
        assert "Isolated: broker 2 (klamm network heal)" in up.ok("status")
        up.ok("produce", "--topic", "t", "--records", "100")
        wait_until(lambda: up.json("status")["brokers"][1]["under_replicated"] == 1, 20)
        assert up.ok("network", "heal") == "broker 2 is no longer isolated\n"
        assert up.ok("network", "heal") == "the network has no faults\n"
        wait_until(lambda: up.json("status")["brokers"][1]["under_replicated"] == 0, 20)
        assert up.ok("broker", "power-off", "1").startswith("broker 1 is powered off; its session ")
        text = up.ok("status")
        assert re.search(r"(?m)^1 .* powered off +yes ", text)
        assert (
            "Broker 1 is dead but leads t-0: the controller elects other leaders when the "
            "broker's session expires, after at most 4000 ms"
        ) in text
        assert "Offline:     0 partitions; 1 without a live leader; " in text
        leads = [{"broker": 1, "partition_count": 1, "partitions": ["t-0"]}]
        assert up.json("status")["dead_leaders"] == leads
        up.ok("broker", "start", "1")
        assert "is dead but leads" not in up.ok("status")
        everything = ("--from-beginning", "--max-messages", "100", "--timeout-ms", "20000")
        read = up.ok("consume", "--topic", "t", *everything)
        assert len(read.splitlines()) == 100
        rows = read_journal(tmp_path / "journal.jsonl")
        repaired = [row for row in rows if row.kind == Kind.LOG_REPAIRED]
        assert {(row.topic, row.partition, row.replica) for row in repaired} == {("t", 0, 1)}
        refused = up.run("network", "isolate", "7")
        assert (refused.returncode, refused.stderr.splitlines()) == (
            1,
            [
                "error: broker 7 does not exist",
                "hint: brokers: 0, 1, 2; klamm broker add 7 adds it",
            ],
        )
        refused = up.run("network", "isolate", "0", "1", "2")
        assert (refused.returncode, refused.stderr.splitlines()[0]) == (
            1,
            "error: cannot isolate all brokers of the cluster: no other broker would be left",
        )
        assert "Isolated" not in up.ok("status")
        cut = "cut: 1 -> others (only control)\n"
        assert up.ok("network", "cut", "--one-way", "--only", "control", "1", "others") == cut
        assert "Network cut: 1 -> others (only control) (klamm network heal)" in up.ok("status")
        refused = up.run("network", "cut", "1", "0,1")
        assert (refused.returncode, refused.stderr.splitlines()[0]) == (
            2,
            "error: 1 is named twice",
        )
        assert up.ok("network", "heal") == f"ended: {cut}"
        start_while_it_is_stopped(up, server)


def start_while_it_is_stopped(up: Up, server: tuple[str, str]) -> None:
    """Start a broker while it still tries to hand over its leaderships."""
    up.ok("topics", *server, "--create", "--topic", "led", "--replica-assignment", "1:2")
    up.ok("broker", "stop", "2")
    command = [*KLAMM, "broker", "stop", "1"]
    with subprocess.Popen(
        command, env=environ_for(up.data_dir), stdout=subprocess.PIPE, text=True
    ) as stop:
        wait_until(lambda: re.search(r"(?m)^1 .* stopping ", up.ok("status")))
        started = up.run("broker", "start", "1")
        said, _ = stop.communicate(timeout=10)
    assert started.stderr == "waiting for broker 1 to stop\n"
    assert (stop.returncode, started.returncode) == (0, 0)
    assert said.startswith("broker 1 is stopped; its controlled shutdown failed: ")
    assert started.stdout.startswith("broker 1 is registered (after ")
    wait_until(lambda: re.search(r"(?m)^1 .* running +yes ", up.ok("status")))


def test_words_for_every_end_of_a_controlled_shutdown() -> None:
    failed: ShutdownOutcome = {"outcome": "failed", "error": "NONE", "remaining": []}
    assert shutdown_text({**failed, "outcome": "succeeded"}) == ""
    assert shutdown_text(failed).endswith("failed: no controller responded")
    stale: ShutdownOutcome = {**failed, "error": "STALE_BROKER_EPOCH"}
    assert shutdown_text(stale).endswith("failed: the controller responded with STALE_BROKER_EPOCH")
    many: ShutdownOutcome = {**failed, "remaining": [f"t-{n}" for n in range(12)]}
    assert shutdown_text(many).endswith(
        "it still led " + ", ".join(many["remaining"][:10]) + " and 2 more"
    )


@pytest.mark.slow
def test_a_failure_of_the_last_log_directory_is_reported(up: Up) -> None:
    assert up.ok("broker", "fail-log-dir", "0", "d1") == (
        "log directory d1 of broker 0 has failed\n"
    )
    assert "brings them back):\n  broker 0, log directory d1\n" in f"{up.ok('status')}\n"
    assert up.json("status")["failed_log_dirs"] == [{"broker": 0, "log_dir": "d1"}]
    assert up.ok("broker", "fail-log-dir", "0", "d0") == (
        "log directory d0 of broker 0 has failed; it was the last: the broker has halted, "
        "its session expires within about 4000 ms\n"
    )
    up.ok("broker", "start", "0")
    assert up.json("status")["failed_log_dirs"] == []
    assert up.ok("disk", "heal") == "there were no disk faults\n"
    up.ok("broker", "fail-log-dir", "0", "d1")
    up.ok("broker", "pause", "0")
    answer = up.json("broker", "fail-log-dir", "0", "d0")
    assert (answer["halted"], answer["state"]) == (True, "paused")
    up.ok("broker", "resume", "0")
    wait_until(lambda: "Broker 0 failed: all log directories" in up.ok("status"), 20)
    assert re.search(r"(?m)^Broker 0 failed: .* \(klamm broker start 0\)$", up.ok("status"))
    up.ok("disk", "slow", "--broker", "1", "--bytes-per-s", "1000")
    assert up.ok("disk", "heal").splitlines() == [
        "healed: broker 1, log directory d0: slow, 1000 bytes/s",
        "healed: broker 1, log directory d1: slow, 1000 bytes/s",
        "broker 0 is still failed: klamm broker start 0",
    ]
    up.ok("broker", "start", "0")


@pytest.mark.slow
def test_a_paused_target_holds_a_reassignment_for_all_to_see(tmp_path: Path) -> None:
    plan = tmp_path / "plan.json"
    plan.write_text('{"partitions": [{"topic": "t", "partition": 0, "replicas": [0, 2]}]}')
    file = ("--reassignment-json-file", str(plan))
    size = ("--brokers", "3", "--controllers", "2", "--session-timeout-ms", "12000")
    with klamm_up(tmp_path / "up", *size) as up:
        server = ("--bootstrap-server", up.url.removeprefix("http://"))
        up.ok("topics", *server, "--create", "--topic", "t", "--replica-assignment", "0:1")
        up.ok("broker", "pause", "2")
        up.ok("reassign-partitions", *server, *file, "--execute")
        listed = "t-0: replicas: 0,2,1. adding: 2. removing: 1."
        assert listed in up.ok("reassign-partitions", *server, "--list")
        assert "waits in phase A2 for broker 2 to join the ISR" in up.ok("explain", "t-0")

        def is_expired() -> bool:
            brokers = msgspec.convert(up.json("status")["brokers"], list[dict[str, object]])
            return brokers[2]["live"] is False

        wait_until(is_expired, 30)
        assert listed in up.ok("reassign-partitions", *server, "--list")
        up.ok("controller", "move")
        assert listed in up.ok("reassign-partitions", *server, "--list")
        up.ok("broker", "resume", "2")
        done = "Reassignment of partition t-0 is complete."
        wait_until(lambda: done in up.ok("reassign-partitions", *server, *file, "--verify"), 30)


@pytest.mark.parametrize(
    ("racks", "added", "said", "advice"),
    [
        (["a", "b", None], 2, "broker 2 has no rack, but brokers 0, 1 have one", "stop 2, with"),
        (["a", "b", None, "a"], 3, "broker 2 has no rack, but brokers 0, 1, 3 ", "stop 2, with"),
        (["a", None], 0, "broker 0 has a rack, but broker 1 has none", "stop 0, without"),
        (["a", None], 1, "broker 1 has no rack, but broker 0 has one", "stop 1, with"),
        (["a", "b"], 1, "", ""),
    ],
)
def test_a_warning_says_that_only_some_brokers_have_a_rack(
    racks: list[str | None], added: int, said: str, advice: str
) -> None:
    lines = rack_warning(added, dict(enumerate(racks)))
    stop, _, option = advice.partition(", ")
    expected = f"hint: klamm broker {stop}, then add another broker {option} --rack"
    assert [line.startswith(f"warning: {said}") for line in lines] == [True, False] * bool(said)
    assert lines[1:] == [expected] * bool(said)
