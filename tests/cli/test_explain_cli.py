"""`klamm explain`: its arguments, where it reads, what it prints."""

from __future__ import annotations

import gzip
import json
import os
import re
from datetime import datetime
from pathlib import Path

import pytest

from klamm.cli.main import main
from klamm.cluster.requests import AlterPartitionReassignmentsRequest
from klamm.cluster.types import TopicPartition
from klamm.world.clock import SIMULATION_START_MS
from klamm.world.explain.journal_text import time_zone
from tests.journal_bytes import journal_bytes
from tests.serving import Up, klamm_up
from tests.sim.reassignments import ask, brokers_up, reassign, with_topic
from tests.waiting import wait_until

Capture = pytest.CaptureFixture[str]


@pytest.fixture(scope="module")
def journal(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A journal with messages: a creation, a broker's death, a reassignment."""
    world = brokers_up(journal_messages=True)
    with_topic(world, (0, 1), (1, 2), topic="orders-eu")
    world.kill(1)
    world.run_for(10_000)
    wanted = {TopicPartition("orders-eu", 1): (3, 2), TopicPartition("nope", 0): (3, 2)}
    reassign(world, wanted)
    world.run_for(10_000)
    path = tmp_path_factory.mktemp("explain") / "journal.jsonl"
    path.write_bytes(journal_bytes(world.journal.rows))
    return path


def explain(journal: Path, capsys: Capture, *args: str) -> str:
    assert main(["explain", *args, "--journal", str(journal)]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return printed.out


def test_a_partition_as_text(journal: Path, capsys: Capture) -> None:
    text = explain(journal, capsys, "orders-eu-0")
    named, *lines = [line.strip() for line in text.splitlines()]
    with journal.open() as file:
        count = sum(1 for _ in file)
    assert re.fullmatch(
        f"Journal: {journal}, {count:,} rows from [0-9: -]{{19}} to [0-9: -]{{19}} {time_zone()}; "
        "no running klamm writes to this file",
        named,
    )
    assert lines[0].startswith("orders-eu-0: OnlinePartition, leader 0, leader epoch 1, isr 0,")
    assert "because broker 1 disappeared from /brokers/ids" in lines
    assert "/brokers/topics/orders-eu/partitions/0/state: set, version 1" in lines
    sections = [line for line in lines if line in ("Why", "What it did", "Rules", "Znodes written")]
    assert sections == ["Why", "What it did", "Rules", "Znodes written"]
    assert any(line.startswith("LEADER_AND_ISR for 1 partition to broker") for line in lines)
    assert any("[kafka/controller/ReplicaStateMachine.scala" in line for line in lines)


TWO_CHANGES = """
TIME, controller 0 epoch 1
  Why
    done by #17 TopicChange: The children of /brokers/topics changed.  (TIME)
    because topic orders-eu is new in ZooKeeper, 2 partitions
  What it did
    orders-eu-0 NonExistentPartition -> NewPartition  (1)
    orders-eu-0 on 0 NonExistentReplica -> NewReplica  (2)
    orders-eu-0 on 1 NonExistentReplica -> NewReplica  (2)
    orders-eu-0 NewPartition -> OnlinePartition (leader 0, isr 0,1, epoch 0)  (3)
    orders-eu-0 on 0 NewReplica -> OnlineReplica  (4)
    orders-eu-0 on 1 NewReplica -> OnlineReplica  (4)
  Rules
    1. RULE
    2. RULE
    3. RULE
    4. RULE
  Znodes written
    /brokers/topics/orders-eu/partitions/0/state: created, version 0
    NOTE
  Requests sent
    LEADER_AND_ISR for 1 partition to brokers 0, 2
    LEADER_AND_ISR for 2 partitions to broker 1
    UPDATE_METADATA for 2 partitions to brokers 0, 1, 2, 3
  Led to
    then #19 response of broker 0 to LEADER_AND_ISR  (TIME)
    then #20 response of broker 3 to UPDATE_METADATA  (TIME)
    then #21 response of broker 1 to LEADER_AND_ISR  (TIME)
    then #22 response of broker 0 to UPDATE_METADATA  (TIME)
    then #23 response of broker 2 to LEADER_AND_ISR  (TIME)
    and 2 more

TIME, controller 0 epoch 1
  Why
    done by #26 BrokerChange: The children of /brokers/ids changed.  (TIME)
    because broker 1 disappeared from /brokers/ids
  What it did
    isr removed orders-eu-0 on 1 (leader 0, isr 0, epoch 1)  (1)
    orders-eu-0 on 1 OnlineReplica -> OfflineReplica  (2)
  Rules
    1. RULE
    2. RULE
  Znodes written
    /brokers/topics/orders-eu/partitions/0/state: set, version 1
    NOTE
  Requests sent
    LEADER_AND_ISR for 1 partition to brokers 2 (x2), 0
    UPDATE_METADATA for 1 partition to brokers 0, 2, 3
    UPDATE_METADATA for 2 partitions to brokers 0, 2, 3
  Led to
"""


def test_the_whole_text_of_all_changes(journal: Path, capsys: Capture) -> None:
    _, status, *lines = explain(journal, capsys, "orders-eu-0", "--all").splitlines()
    assert status == (
        "orders-eu-0: OnlinePartition, leader 0, leader epoch 1, isr 0, state znode version 1, "
        "replicas 0 OnlineReplica, 1 OfflineReplica"
    )
    text = re.sub(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d\.\d{3}", "TIME", "\n".join(lines))
    text = re.sub(r"(\d\.) [A-Z].*\[kafka/controller/.*\]", r"\1 RULE", text)
    text = re.sub(r"(?m)^    Derived from the rows above.*", "    NOTE", text)
    assert f"{text}\n".startswith(TWO_CHANGES)


def test_all_changes_and_one_of_them(journal: Path, capsys: Capture) -> None:
    every = json.loads(explain(journal, capsys, "orders-eu-1", "--all", "--json"))
    names = [change["event"] for change in every["changes"]]
    assert names[:3] == ["TopicChange", "BrokerChange", "ZkPartitionReassignment"]
    assert every["standing"]["leader"] == 2
    first = every["changes"][0]
    at = datetime.fromtimestamp(first["t_ms"] / 1000)
    elapsed = f"{(first['t_ms'] - SIMULATION_START_MS) / 1000:.3f}s"
    lines = list(map(json.loads, journal.read_bytes().splitlines()))
    row = f"row {lines.index(first['steps'][-1]['row']) + 1}"
    for word in (at.isoformat(), at.strftime("%H:%M:%S"), elapsed, "epoch:0", row):
        shown = json.loads(explain(journal, capsys, "orders-eu-1", "--at", word, "--json"))
        (change,) = shown["changes"]
        assert (change["event_id"], change["event"]) == (first["event_id"], "TopicChange")
        assert shown["standing"]["leader"] == 1


def test_a_partition_that_only_an_earlier_run_knows_is_explained_with_a_warning(
    journal: Path, tmp_path: Path, capsys: Capture
) -> None:
    world = brokers_up(run_id="later")
    with_topic(world, (0, 1), topic="new")
    path = tmp_path / "journal.jsonl"
    path.write_bytes(journal.read_bytes() + journal_bytes(world.journal.rows))
    assert main(["explain", "orders-eu-0", "--journal", str(path)]) == 0
    printed = capsys.readouterr()
    assert printed.err == (
        "warning: orders-eu-0 does not exist in the last run in this journal; this is its state in "
        "an earlier run\n"
    )
    assert "orders-eu-0: OnlinePartition" in printed.out
    assert json.loads(explain(path, capsys, "new-0", "--json"))["is_of_earlier_run"] is False


def test_an_event_by_number_and_by_epoch(journal: Path, capsys: Capture) -> None:
    last = json.loads(explain(journal, capsys, "orders-eu-0", "--json"))["changes"][0]
    number = last["event_id"]
    asked = (str(number), f"#{number}", f"1#{number}")
    answers = [explain(journal, capsys, word, "--json") for word in asked]
    assert len(set(answers)) == 1
    (change,) = json.loads(answers[0])["changes"]
    assert change["event"] == "BrokerChange"
    assert {step["row"]["kind"] for step in change["steps"]} >= {"broker_offline", "isr_removed"}
    assert all(request["event_id"] == number for request in change["requests"])
    assert change["led_to"]
    text = explain(journal, capsys, f"#{number}")
    assert "broker offline broker 1" in text
    assert "Led to" in text


@pytest.mark.parametrize(
    ("args", "code", "said", "hint"),
    [
        (["orders-eu-9"], 1, "the journal has no partition orders-eu-9", "orders-eu: 0 to 1"),
        (["orders-0"], 1, "the journal has no partition orders-0", "did you mean orders-eu-0?"),
        (["x-0"], 1, "the journal has no partition x-0", "hint: topics: orders-eu\n"),
        (["#9999"], 1, "the journal has no event 9999", "events recorded: 1 to"),
        (["7#5"], 1, "the journal has no event 5 of controller epoch 7", "epochs recorded: 1 to"),
        (["orders"], 2, "'orders' is neither a partition nor an event", "orders-3"),
        (["5", "--all"], 2, "--all and --at apply to a partition", ""),
        (["orders-eu-0", "--at", "noon"], 2, "--at noon is not a valid time", "12:30:05"),
        (["orders-eu-0", "--at", "row 9999"], 2, "--at row 9999: the journal has only ", ""),
        (["orders-eu-0", "--at", "row 0"], 2, "--at row 0: rows are numbered from 1", ""),
        (["orders-eu-0", "--at", "25:00"], 2, "--at 25:00 is not a valid time", "12:30:05"),
        (["orders-eu-0", "--at", "0001-01-01"], 2, "--at 0001-01-01 is not a valid time", "12:30"),
        (
            ["orders-eu-0", "--at", "epoch:99"],
            1,
            "the journal has no change to orders-eu-0 that",
            "--all",
        ),
        (["orders-eu-0", "--server", "h:1"], 2, "give either --journal, or --server", ""),
    ],
)
def test_bad_input_is_one_line(
    journal: Path, capsys: Capture, args: list[str], code: int, said: str, hint: str
) -> None:
    assert main(["explain", *args, "--journal", str(journal)]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(f"error: {said}")
    assert hint in printed.err
    assert printed.err.count("\n") <= 2


def test_the_start_of_a_run_is_no_event(journal: Path, tmp_path: Path, capsys: Capture) -> None:
    start = b'{"v":1,"run_id":"r","t_ms":1,"seq":1,"controller":-1,"epoch":0,"kind":"run_start"}\n'
    path = tmp_path / "journal.jsonl"
    path.write_bytes(start + journal.read_bytes())
    assert main(["explain", "#0", "--journal", str(path)]) == 1
    told = "error: the journal has no event 0\nhint: events recorded: 1 to "
    assert capsys.readouterr().err.startswith(told)


def test_a_journal_that_another_program_wrote_again(
    journal: Path, tmp_path: Path, capsys: Capture
) -> None:
    again = tmp_path / "journal.jsonl"
    rows = map(json.loads, journal.read_bytes().splitlines())
    again.write_text("".join(f"{json.dumps(row)}\n" for row in rows))
    for subject in ("orders-eu-0", "#17"):
        _, expected = explain(journal, capsys, subject).split("\n", 1)
        assert explain(again, capsys, subject).split("\n", 1)[1] == expected


@pytest.mark.parametrize(
    "content", [b"", b"\0" * 99, b"\xff\0spoilt\n" * 20], ids=["empty", "zeros", "lines"]
)
def test_a_file_that_is_no_journal(tmp_path: Path, capsys: Capture, content: bytes) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(content)
    for subject in ("t-0", "#1"):
        assert main(["explain", subject, "--journal", str(path)]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert (error, hint[:26]) == (
            f"error: {path} has no journal rows",
            "hint: klamm up writes the ",
        )


def test_the_directory_of_a_journal_and_its_rotated_files(
    journal: Path, tmp_path: Path, capsys: Capture
) -> None:
    data = journal.read_bytes()
    half = data.index(b"\n", len(data) // 2) + 1
    old = tmp_path / f"journal.jsonl.{half:020}.gz"
    old.write_bytes(gzip.compress(data[:half]))
    (tmp_path / "journal.jsonl").write_bytes(data[half:])
    whole, *expected = explain(journal, capsys, "orders-eu-0", "--all").splitlines()
    for path in (tmp_path, tmp_path / "journal.jsonl"):
        origin, *shown = explain(path, capsys, "orders-eu-0", "--all").splitlines()
        assert origin == whole.replace(str(journal), f"{tmp_path}/journal.jsonl")
        assert shown == expected
    for command in (["explain", "orders-eu-0"], ["drill", "record"]):
        assert main([*command, "--journal", str(old)]) == 2
        error, hint = capsys.readouterr().err.splitlines()
        assert error == f"error: --journal does not read compressed files: {old}"
        assert "journal.jsonl or its directory" in hint


def test_no_journal(tmp_path: Path, capsys: Capture) -> None:
    assert main(["explain", "t-0", "--journal", str(tmp_path / "none")]) == 2
    assert capsys.readouterr().err.startswith(f"error: no such journal: {tmp_path}/none\n")
    assert main(["explain", "t-0", "--journal", str(tmp_path)]) == 2
    assert capsys.readouterr().err.startswith(f"error: no such journal: {tmp_path}/journal.jsonl\n")
    assert main(["explain", "t-0", "--data-dir", str(tmp_path)]) != 0
    assert capsys.readouterr().err.startswith("error: ")


@pytest.mark.slow
def test_of_a_running_cluster_and_after_its_end(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "2", "--journal-messages") as up:
        server = up.url.removeprefix("http://")
        new = ["--partitions", "1", "--replication-factor", "2"]
        up.ok("topics", "--bootstrap-server", server, "--create", "--topic", "t", *new)
        wait_until(
            lambda: "response of broker" in up.ok("explain", "t-0"), 20, "the brokers' answers"
        )
        by_server = up.ok("explain", "t-0", "--server", server)
        named, _, explained = by_server.partition("\n")
        assert named.startswith(f"Journal: {tmp_path}/journal.jsonl, ")
        assert named.endswith(f"; its cluster runs at {up.url}")
        by_file = up.ok("explain", "t-0").partition("\n")
        assert (by_file[0].endswith(f" runs at {up.url}"), by_file[2]) == (True, explained)
        at_server = up.json("explain", "t-0")["journal"]
        assert isinstance(at_server, dict) and at_server["cluster"] == up.url
        assert "requested by" in by_server
        assert "/brokers/topics/t/partitions/0/state: created, version 0" in by_server
        assert "LEADER_AND_ISR for 1 partition to brokers 0, 1" in by_server.replace("1, 0", "0, 1")
        left = (tmp_path / "server.json").read_text()
        up.end()
        assert_is_known_to_have_ended(up, tmp_path)
        # As kill -9 leaves it; another process may have the same id by now.
        address = json.loads(left) | {"pid": os.getpid()}
        (tmp_path / "server.json").write_text(json.dumps(address))
        assert_is_known_to_have_ended(up, tmp_path)


def assert_is_known_to_have_ended(up: Up, folder: Path) -> None:
    shown = up.run("explain", "t-0")
    assert (shown.returncode, "requested by" in shown.stdout) == (0, True)
    assert shown.stdout.splitlines()[0].endswith("; no running klamm writes to this file")
    warning = (
        f"warning: the cluster of {folder}/journal.jsonl has ended: this is its last state; "
        "--server or --data-dir selects another cluster\n"
    )
    assert shown.stderr == warning
    assert up.run("explain", "nowhere-0").stderr.startswith(f"{warning}error: the journal has no ")


def test_a_request_for_many_partitions_shows_some(tmp_path: Path, capsys: Capture) -> None:
    world = brokers_up()
    with_topic(world, *[(0, 1)] * 12)
    wanted = {TopicPartition("t", n): (1, 2) for n in range(12)}
    ask(world, AlterPartitionReassignmentsRequest(wanted))
    path = tmp_path / "journal.jsonl"
    path.write_bytes(journal_bytes(world.journal.rows))
    text = explain(path, capsys, "t-11", "--all")
    shown = "ApiPartitionReassignment(t-0, t-1, t-2, t-3, t-4 and 7 more)"
    assert re.search(f"done by #[0-9]+ {re.escape(shown)}: ", text)
    changes = json.loads(explain(path, capsys, "t-11", "--all", "--json"))["changes"]
    names = ",".join(f"t-{n}" for n in range(12))
    assert f"ApiPartitionReassignment({names})" in {change["event"] for change in changes}
    assert main(["journal", "tail", "-n", "10000", "--data-dir", str(tmp_path)]) == 0
    printed = capsys.readouterr().out
    assert shown in printed and names not in printed
