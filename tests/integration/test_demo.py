"""The demo as people run it: without Java, interrupted, and on a cluster that is tampered with."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from klamm.cli.main import main
from klamm.world.journal.journal import read_journal
from tests.serving import without_slowness
from tests.unit.report.pages import loaded, read_page
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND = (sys.executable, "-m", "klamm", "demo")
DEADLINE_S = 400
RULE = "OfflinePartitionLeaderElectionStrategy(false)"


def is_served(connect_string: str) -> bool:
    """Whether somebody listens there."""
    host, port = connect_string.split(":")
    probe = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 1)"
    done = subprocess.run([sys.executable, "-c", probe, host, port], stderr=subprocess.DEVNULL)
    return done.returncode == 0


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(DEADLINE_S)
def test_everything_agrees_after_two_losses_where_no_java_is_installed(
    tmp_path: Path, environ_without_java: dict[str, str]
) -> None:
    env = {**environ_without_java, "XDG_CACHE_HOME": str(tmp_path / "cache")}
    done = subprocess.run(
        [*COMMAND, "--json", "--data-dir", str(tmp_path / "demo")],
        cwd=ROOT,
        env=env,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=DEADLINE_S,
    )
    assert (done.returncode, without_slowness(done.stderr)) == (0, ""), done.stdout
    told = json.loads(done.stdout)
    assert told["agrees"] and told["disagreements"] == []
    assert told["elapsed_s"] < DEADLINE_S
    steps = [step["facts"] for step in told["steps"]]
    zookeeper, brokers, orders, payments, audit, _, lost, taken_over, *rest = steps
    healed, checked, replayed, spark = rest
    assert brokers["racks"] == {"rack-a": [0, 3], "rack-b": [1, 4], "rack-c": [2, 5]}
    for times in (orders, payments, audit):
        assert 0 <= times["written_ms"] <= times["online_ms"]
    assert audit["online_ms"] <= audit["answered_ms"]
    for loss in (lost, taken_over):
        assert loss["elections"]
        assert {election["from"] for election in loss["elections"]} == {loss["killed"]}
        assert {election["rule"] for election in loss["elections"]} == {RULE}
        assert all(e["to"] in e["isr"] and e["to"] != e["from"] for e in loss["elections"])
    assert len(lost["elections"]) == 6
    assert lost["killed"] != brokers["controller"] == taken_over["killed"]
    assert taken_over["controller"] not in (lost["killed"], taken_over["killed"])
    assert taken_over["controller_epoch"] == taken_over["previous_controller_epoch"] + 1
    assert 0 < taken_over["elected_ms"] <= taken_over["ready_ms"]
    assert sorted(healed["restarted"]) == sorted((lost["killed"], taken_over["killed"]))
    assert (checked["brokers"], checked["partitions"], checked["replicas"]) == (6, 21, 63)
    assert (spark["partitions"], spark["replicas"]) == (21, 63)
    assert not is_served(zookeeper["zookeeper"])
    rows = read_journal(tmp_path / "demo" / "journal.jsonl")
    assert (replayed["violations"], replayed["counts"]["events"]) == ({}, len(rows))
    assert replayed["counts"]["partitions"] == 21
    page = read_page(Path(replayed["page"]).read_text(encoding="utf-8"))
    assert page.only("p", "verdict").text == "No violations found."
    assert loaded(page) == []
    controllers = next(t for t in page.all("table") if "Controllers" in t.only("caption").text)
    assert [row.all("td")[1].text for row in controllers.only("tbody").all("tr")] == [
        str(brokers["controller"]),
        str(taken_over["controller"]),
    ]
    assert {row.cluster_id for row in rows} == {brokers["cluster_id"]}
    assert "controller.log" in os.listdir(tmp_path / "demo" / "logs" / "broker-0")


@pytest.mark.slow
@pytest.mark.parametrize(
    ("title", "number", "code"),
    [
        ("1. ", signal.SIGINT, 130),
        ("6. ", signal.SIGTERM, 143),
        ("10. ", signal.SIGINT, 130),
    ],
)
def test_an_interrupted_demo_leaves_nothing(
    tmp_path: Path, title: str, number: signal.Signals, code: int
) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        assert demo.stdout is not None and demo.stderr is not None
        served = next(line for line in demo.stdout if "ZooKeeper listens on" in line)
        if title != "1. ":
            next(line for line in demo.stdout if line.startswith(title))
        demo.send_signal(number)
        rest = demo.stdout.read()
        errors = demo.stderr.read()
    said = "Interrupted" if number == signal.SIGINT else "Ended by SIGTERM"
    assert (demo.returncode, errors.splitlines()[-1]) == (code, said)
    assert not is_served(served.split()[-1].rstrip("."))
    # The page stays if the demo had printed its path before the signal arrived.
    assert [str(path) for path in tmp_path.iterdir()] == re.findall(r"in a browser: (.+)", rest)
    assert "Everything agrees" not in rest


@pytest.mark.slow
@pytest.mark.spark
def test_an_interrupt_while_spark_starts_leaves_no_java(tmp_path: Path) -> None:
    env = {**os.environ, "TMPDIR": str(tmp_path)}
    with subprocess.Popen(
        COMMAND, cwd=ROOT, env=env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as demo:
        wait_until(lambda: list(tmp_path.glob("klamm-spark-*/spark.log")), DEADLINE_S)
        demo.send_signal(signal.SIGINT)
        _, errors = demo.communicate(timeout=60)
    assert (demo.returncode, errors.splitlines()[-1]) == (130, "Interrupted")
    # The page was printed before.
    assert [path.suffix for path in tmp_path.iterdir()] == [".html"]
    names_it = f"TMPDIR={tmp_path}".encode()
    running = (environ_of(process) for process in Path("/proc").glob("[0-9]*"))
    assert not any(names_it in environ for environ in running)


def environ_of(process: Path) -> list[bytes]:
    """The environment of a process; nothing if it is gone or another user's."""
    with contextlib.suppress(OSError):
        return (process / "environ").read_bytes().split(b"\0")
    return []


def test_a_directory_that_holds_something_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "precious").touch()
    assert main(["demo", "--data-dir", str(tmp_path)]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err == (
        f"error: --data-dir {tmp_path} is not empty\n"
        "hint: give a new directory, or omit --data-dir\n"
    )
    assert [path.name for path in tmp_path.iterdir()] == ["precious"]


@pytest.mark.parametrize("brokers", ["2", "41", "many"])
def test_a_number_of_brokers_that_cannot_be_is_refused(
    brokers: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["demo", "--brokers", brokers]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("error: Invalid value for '--brokers': ")
