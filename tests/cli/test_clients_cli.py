"""klamm produce and klamm consume on a running cluster, as people use them."""

from __future__ import annotations

import re
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

from klamm.cli.client import ServerClient
from klamm.cli.client_text import not_acknowledged_lines, offsets_lines, rate_text
from klamm.cli.consume import _records
from klamm.cli.main import main
from klamm.server.client_bodies import NotAcknowledged, Offsets, ProducerStatus, ReadRecord
from tests.serving import Up, klamm_up, start_klamm
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three brokers that keep files, with topics of one and of three partitions on all of them."""
    config = ("--segments", "--config", "auto.leader.rebalance.enable=false")
    folder = tmp_path_factory.mktemp("up")
    with klamm_up(folder, "--brokers", "3", "--session-timeout-ms", "5000", *config) as up:
        server = ("--bootstrap-server", up.url.removeprefix("http://"))
        up.ok("topics", *server, "--create", "--topic", "one", "--replica-assignment", "2:1:0")
        everywhere = ("--replica-assignment", "0:1:2,1:2:0,2:0:1")
        up.ok("topics", *server, "--create", "--topic", "t", *everywhere)
        yield up


def process(up: Up, *args: str) -> subprocess.Popen[str]:
    """A command that runs on, with a pipe as its input."""
    return start_klamm(up.data_dir, *args, stdin=subprocess.PIPE)


def parsed(output: str) -> list[dict[str, Any]]:
    """Records printed with --json."""
    return [msgspec.json.decode(line) for line in output.splitlines()]


def consumed(output: str) -> list[tuple[int, int]]:
    """(partition, offset) of records printed with --json."""
    return [(one["partition"], one["offset"]) for one in parsed(output)]


@pytest.mark.slow
def test_what_is_produced_is_consumed(up: Up) -> None:
    said = up.ok("produce", "--topic", "t", "--records", "1000", "--record-size", "50")
    assert said.startswith("1000 records acknowledged, 0 failed; ")
    read = up.ok("consume", "--topic", "t", "--from-beginning", "--max-messages", "1000", "--json")
    records = consumed(read)
    assert len(set(records)) == 1000 and {partition for partition, _ in records} == {0, 1, 2}
    part = up.run(
        "consume", "--topic", "t", "--partition", "0", "--offset", "5", "--timeout-ms", "1"
    )
    first = part.stdout.splitlines()[0]
    assert first == f"0\t5\tleader epoch 0\t{'k' * 50}"
    assert part.stderr == f"Processed a total of {len(part.stdout.splitlines())} messages\n"
    later = up.run("consume", "--topic", "t", "--from-time", "2999-01-01", "--timeout-ms", "600")
    assert (later.returncode, later.stdout) == (0, "")


@pytest.mark.slow
def test_lines_of_the_input_with_keys_go_where_kafka_puts_them(up: Up) -> None:
    before = up.json("produce", "--topic", "t", "--records", "1")
    assert before["acknowledged"] == 1
    with process(up, "produce", "--topic", "t", "--key-separator", ":", "--json") as running:
        lines = "21:1\na-little-bit-long-string:2\nfoobar:3\n21:4"
        output, errors = running.communicate(lines, timeout=60)
    assert running.returncode == 0, (output, errors)
    status = msgspec.json.decode(output)
    counts = {one["partition"]: one["end"] - one["start"] for one in status["offsets"]}
    read = up.ok("consume", "--topic", "t", "--from-beginning", "--timeout-ms", "1000", "--json")
    keyed = [(r["partition"], r["key"], r["value"]) for r in parsed(read) if r["key"] is not None]
    assert sorted(keyed) == [
        (0, "21", "1"),
        (0, "21", "4"),
        (0, "foobar", "3"),
        (2, "a-little-bit-long-string", "2"),
    ]
    # -973932308, -985981536 and -790332482 are their hashes in Kafka's own UtilsTest.
    assert counts == {0: 3, 2: 1}
    with process(up, "produce", "--topic", "t", "--key-separator", ":") as running:
        _, errors = running.communicate("a:1\nno key\n", timeout=60)
    assert running.returncode == 2
    assert "error: No key found on line number 2: no key" in errors


@pytest.mark.slow
def test_the_timeout_of_a_consumer_begins_again_with_each_record(up: Up) -> None:
    up.ok("topics", "--create", "--topic", "paced", "--replica-assignment", "0:1:2")
    up.ok("produce", "--topic", "paced", "--records", "1")
    client = ServerClient(up.url)
    number = client.post("/consumers", {"topic": "paced", "start": "beginning"})["id"]
    records = _records(client, f"/consumers/{number}", timeout_ms=700)
    first = next(records)
    assert isinstance(first, ReadRecord) and first.offset == 0
    seen_s = time.monotonic()
    wait_until(lambda: time.monotonic() - seen_s >= 0.3)
    resumed_s = time.monotonic()
    assert list(records) == []
    assert time.monotonic() - resumed_s >= 0.7


@pytest.mark.slow
def test_a_leader_that_dies_loses_nothing_that_was_acknowledged(up: Up) -> None:
    lines = [f"{number}\n" for number in range(2000)]
    with process(up, "produce", "--topic", "one", "--idempotent", "--json") as running:
        assert running.stdin is not None
        running.stdin.writelines(lines[:1000])
        running.stdin.flush()
        wait_until(lambda: len(up.ok("consume", "--topic", "one", *LOOK)) > 0, 30, "a record")
        up.ok("broker", "kill", "2")
        output, errors = running.communicate("".join(lines[1000:]), timeout=90)
    assert running.returncode == 0, errors
    status = msgspec.json.decode(output)
    assert (status["acknowledged"], status["undecided"], status["in_doubt"]) == (2000, 0, 0)
    assert {one["leader_epoch"] for one in status["offsets"]} == {0, 1}
    read = up.ok(
        "consume", "--topic", "one", "--from-beginning", "--max-messages", "2000", "--json"
    )
    assert [one["value"] for one in parsed(read)] == [line.strip() for line in lines]
    assert consumed(read) == [(0, offset) for offset in range(2000)]
    more = up.run("consume", "--topic", "one", *LOOK, "--offset", "1999", "--partition", "0")
    assert more.returncode == 2, "two beginnings"
    up.ok("broker", "start", "2")


LOOK = ("--from-beginning", "--max-messages", "1", "--timeout-ms", "500")


@pytest.mark.slow
def test_without_a_leader_it_says_which_partition_and_who_lives(up: Up) -> None:
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    up.ok("topics", *server, "--create", "--topic", "alone", "--replica-assignment", "2")
    up.ok("broker", "stop", "2")
    describe = ("topics", *server, "--describe", "--topic", "alone")
    wait_until(lambda: "Leader: none" in up.ok(*describe), 20, "brokers to know it")
    done = up.run("produce", "--topic", "alone", "--records", "5", "--timeout-ms", "5000")
    assert done.returncode == 1
    assert done.stdout.splitlines()[0].startswith("0 records acknowledged, 5 failed; ")
    assert "partition 0: failed: Expiring 5 record(s) for alone-0:" in done.stdout
    assert done.stderr == "waiting: alone-0 has no leader (brokers alive: 0, 1)\n"
    up.ok("broker", "start", "2")
    assert up.run("produce", "--topic", "alone", "--records", "5").returncode == 0
    up.ok("broker", "pause", "2")  # It has the request and sends no response: all are in doubt.
    done = up.run("produce", "--topic", "alone", "--records", "5", "--timeout-ms", "2000", "--json")
    up.ok("broker", "resume", "2")
    status = msgspec.json.decode(done.stdout)
    assert (done.returncode, status["failed"], status["in_doubt"]) == (1, 0, 5)


@pytest.mark.slow
def test_an_interrupt_ends_both_with_a_summary(up: Up) -> None:
    with (
        process(up, "produce", "--topic", "t", "--records", "100000", "--rate", "50") as producer,
        process(up, "consume", "--topic", "t") as consumer,
    ):
        assert consumer.stdout is not None
        assert consumer.stdout.readline(), "which the producer has sent"
        for running in (producer, consumer):
            running.send_signal(signal.SIGINT)
        said, problems = producer.communicate(timeout=30)
        _, summary = consumer.communicate(timeout=30)
    assert (producer.returncode, consumer.returncode) == (130, 130)
    assert " records acknowledged, 0 failed" in said and problems == "Interrupted\n"
    assert re.fullmatch(r"Processed a total of \d+ messages\n", summary)


@pytest.mark.slow
def test_a_klamm_that_goes_leaves_both_with_what_they_know(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "1") as mine:
        server = ("--bootstrap-server", mine.url.removeprefix("http://"))
        mine.ok("topics", *server, "--create", "--topic", "t", "--replica-assignment", "0")
        many = ("--records", "100000", "--rate", "50", "--json")
        with (
            process(mine, "produce", "--topic", "t", *many) as producer,
            process(mine, "consume", "--topic", "t", "--from-beginning") as consumer,
        ):
            assert consumer.stdout is not None
            for _ in range(100):  # two seconds: by now the producer has heard of the first ones
                assert consumer.stdout.readline()
            mine.end(signal.SIGKILL)
            said, why = producer.communicate(timeout=30)
            _, summary = consumer.communicate(timeout=30)
    status = msgspec.json.decode(said)
    assert status["acknowledged"] > 0
    assert status["sent"] == status["acknowledged"] + status["in_doubt"]
    assert (producer.returncode, consumer.returncode) == (1, 1)
    error = msgspec.json.decode(why)["error"]
    assert error["message"].startswith(f"the klamm server at {mine.url} has ended: ")
    assert re.match(r"Processed a total of [1-9]\d* messages\nerror: the klamm server at ", summary)


@pytest.mark.slow
def test_lines_have_a_rate_and_do_not_go_with_generated_records(up: Up) -> None:
    with process(up, "produce", "--topic", "t", "--rate", "10", "--json") as running:
        output, _ = running.communicate("a\n" * 15 + "b", timeout=60)
    status = msgspec.json.decode(output)
    assert status["acknowledged"] == 16 and status["took_ms"] > 1_200
    with process(up, "produce", "--topic", "t", "--records", "3") as running:
        output, errors = running.communicate("a\n", timeout=60)
    assert (running.returncode, output) == (2, "")
    assert errors.startswith("error: --records is given, but standard input")


@pytest.mark.slow
def test_what_cannot_be_is_said_in_a_line_with_a_hint(up: Up) -> None:
    for args, code, said in (
        (("produce", "--topic", "absent", "--records", "1"), 1, "topic absent does not exist"),
        (("produce", "--topic", "a b", "--records", "1"), 1, 'Topic name "a b" is illegal, it'),
        (("produce", "--topic", "t", "--partition", "9"), 1, "topic t has no partition 9"),
        (("produce", "--topic", "t", "--acks", "2"), 2, "--acks 2"),
        (
            ("produce", "--topic", "t", "--acks", "1", "--idempotent"),
            1,
            "Must set acks to all in order to use the idempotent producer.",
        ),
        (("consume", "--topic", "t", "--offset", "3"), 2, "The partition is required"),
        (
            ("consume", "--topic", "t", "--from-time", "noon"),
            2,
            "--from-time noon is not a valid time",
        ),
        (
            ("consume", "--topic", "t", "--partition", "0", "--offset", "999999999"),
            1,
            "Fetch position 999999999 is out of range for partition t-0",
        ),
    ):
        done = up.run(*args)
        assert done.returncode == code, (args, done.stderr)
        assert done.stderr.replace("Processed a total of 0 messages\n", "").startswith(
            f"error: {said}"
        )


@pytest.mark.parametrize(
    ("args", "said"),
    [
        (
            ("produce", "--records", "1", "--key-separator", ":"),
            "give either --records or --key-separator",
        ),
        (("produce", "--record-size", "7"), "--record-size requires --records"),
        (("produce", "--key-separator", ""), "--key-separator is empty"),
        (
            ("consume", "--from-time", "1969-12-31T23:59:59Z"),
            "--from-time 1969-12-31T23:59:59Z is ",
        ),
        (
            ("consume", "--from-time", "1969-12-31T23:59:59.900Z"),
            "--from-time 1969-12-31T23:59:59.900Z is ",
        ),
        (("consume", "--from-time", "9" * 19), f"--from-time {'9' * 19} is not a valid time"),
        (("consume", "--from-time", "9" * 9_999), "--from-time 999"),
    ],
)
def test_options_that_would_be_ignored_are_refused(
    args: tuple[str, ...], said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*args, "--topic", "t", "--server", "localhost:1"]) == 2
    printed = capsys.readouterr()
    assert printed.out == "" and printed.err.startswith(f"error: {said}")
    assert "\nhint: " in printed.err


def test_a_slow_rate_is_not_zero() -> None:
    assert [rate_text(rate) for rate in (0, 0.456, 9.96, 12.3, 123_456.7)] == [
        "0",
        "0.46",
        "10",
        "12",
        "123457",
    ]


def test_long_answers_are_cut_short() -> None:
    offsets = [Offsets(partition=n, leader_epoch=3, start=5, end=9) for n in range(25)]
    lines = offsets_lines(offsets)
    assert lines[0] == "  partition 0: offsets 5 to 8, leader epoch 3"
    assert (len(lines), lines[-1]) == (21, "  and 5 more")
    lost = NotAcknowledged(1, record_count=4, error="NONE", text="why", is_in_doubt=True)
    status = ProducerStatus(8, 0, 0, 8, 0, [], [lost, lost], ["t-1 has no leader"])
    assert not_acknowledged_lines(status) == [
        "  partition 1: in doubt: why (8 records)",
        "  t-1 has no leader",
    ]
