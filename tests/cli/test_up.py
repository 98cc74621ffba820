"""klamm up in a separate process, and every command that talks to it."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from itertools import dropwhile
from pathlib import Path

import msgspec
import pexpect
import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.world.explain.journal_text import time_zone
from klamm.zk.ports import free_port
from tests.serving import (
    KLAMM,
    ROOT,
    Up,
    environ_for,
    klamm,
    klamm_up,
    on_terminal,
    processes_naming,
    start_klamm,
)
from tests.waiting import wait_until


@pytest.fixture(scope="module")
def up(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Up]:
    """Three brokers that the tests of this file share; each leaves all of them running."""
    data_dir = tmp_path_factory.mktemp("up")
    with klamm_up(
        data_dir, "--brokers", "3", "--racks", "a,b,c", "--session-timeout-ms", "10000"
    ) as running:
        yield running


def one_line_and_hint(done: subprocess.CompletedProcess[str]) -> str:
    return error_line(done.stderr)


def error_line(printed: str) -> str:
    """The error's line, after what a start has said; a second one may only be a hint."""
    first, *rest = dropwhile(
        lambda line: line.startswith(("Starting ", "Connecting ")), printed.splitlines()
    )
    assert first.startswith("error: ")
    assert len(rest) <= 1 and all(line.startswith("hint: ") for line in rest)
    return first


def request(up: Up, method: str, path: str, headers: dict[str, str]) -> int:
    """The status of a request with other headers than a client of klamm's sends."""
    connection = http.client.HTTPConnection(up.url.removeprefix("http://"), timeout=10)
    try:
        connection.request(method, path, headers=headers)
        return connection.getresponse().status
    finally:
        connection.close()


def test_status_as_text_and_as_json(up: Up) -> None:
    status = up.json("status")
    assert status["url"] == up.url
    assert status["data_dir"] == str(up.data_dir)
    controller, brokers = status["controller"], status["brokers"]
    assert isinstance(controller, dict) and isinstance(brokers, list)
    assert [(b["id"], b["rack"], b["state"], b["live"]) for b in brokers] == [
        (0, "a", "running", True),
        (1, "b", "running", True),
        (2, "c", "running", True),
    ]
    text = up.ok("status")
    assert f"broker {controller['controller_id']}, epoch {controller['epoch']}" in text
    assert str(status["cluster_id"]) in text


def test_topics_through_bootstrap_server(up: Up) -> None:
    server = ("--bootstrap-server", up.url.removeprefix("http://"))
    create = ("--create", "--topic", "t", "--partitions", "4", "--replication-factor", "3")
    assert up.ok("topics", *server, *create) == "Created topic t.\n"
    again = up.run("topics", *server, *create)
    assert again.returncode == 1
    assert again.stdout == "Error while executing topic command : Topic 't' already exists.\n"
    assert "t" in up.ok("topics", *server, "--list").splitlines()
    assert up.ok("topics", *server, "--alter", "--topic", "t", "--partitions", "6") == ""
    described = up.ok("topics", *server, "--describe", "--topic", "t").splitlines()
    assert "PartitionCount: 6\tReplicationFactor: 3" in described[0]
    assert len(described) == 7
    assert not [line for line in described if "none" in line]


def test_kafkas_tools_find_the_server_as_other_commands_do(up: Up) -> None:
    address = up.url.removeprefix("http://")
    up.ok("topics", "--create", "--topic", "found", "--partitions", "1")
    places = {"--bootstrap-server": address, "--server": up.url, "--data-dir": str(up.data_dir)}
    for place in ((), *places.items()):
        assert "found" in up.ok("topics", *place, "--list").splitlines()
        assert up.ok("reassign-partitions", *place, "--list")
        assert "found-0" in up.ok("log-dirs", *place, "--describe")
        assert "found" in up.ok("configs", *place, "--describe", "--topic", "found")
        election = ("--election-type", "preferred", "--all-topic-partitions")
        up.ok("leader-election", *place, *election)
    assert up.ok("preferred-replica-election", "--server", up.url)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("klamm.cli.client.DEFAULT_PORT", int(address.rpartition(":")[2]))
        for bootstrap in (up.url, "127.0.0.1", "http://127.0.0.1", f"{address},other:9092"):
            listed = up.ok("topics", "--bootstrap-server", bootstrap, "--list")
            assert "found" in listed.splitlines()
    elsewhere = klamm(up.data_dir / "none", "topics", "--list", KLAMM_SERVER=address)
    assert "found" in elsewhere.stdout.splitlines()
    nowhere = klamm(up.data_dir / "none", "topics", "--list")
    assert nowhere.returncode == 1
    assert one_line_and_hint(nowhere).startswith("error: no running klamm found: --server is not")
    wrong = klamm(up.data_dir / "none", "topics", "--nonsense")
    assert "nonsense is not a recognized option" in wrong.stderr
    both = up.run("topics", "--server", up.url, "--zookeeper", "localhost:1", "--list")
    assert (both.returncode, "cannot be combined" in both.stderr) == (2, True)


def test_commands_that_read_zookeeper_find_that_of_the_running_klamm(
    up: Up, tmp_path: Path
) -> None:
    for where in ((), ("--server", up.url)):
        (ids,) = msgspec.json.decode(up.ok("zk", "dump", "/brokers/ids/0", *where))
        assert ids["path"] == "/brokers/ids/0"
    pools = tmp_path / "pools.yaml"
    pools.write_text("pools:\n  all: [0]\ntopics:\n  none: all\n")
    assert up.ok("pools", "check", "--pools", str(pools)).startswith("0 violations, ")
    assert up.json("pools", "plan", "--pools", str(pools), "--server", up.url)["not_planned"] == []


def test_an_error_of_kafkas_tool_is_json_too(up: Up) -> None:
    refused = up.run("topics", "--delete", "--topic", "missing", "--json")
    assert refused.returncode == 1
    error = msgspec.json.decode(refused.stderr)
    report = msgspec.json.decode(refused.stdout)
    assert ("error" in report, report["exit_code"], error["exit_code"]) == (False, 1, 1)
    assert "missing" in error["error"]["message"]


def test_bootstrap_server_is_not_kafkas_protocol(up: Up) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        listener.settimeout(20)
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        command = [*KLAMM, "topics", "--bootstrap-server", address, "--list"]
        with subprocess.Popen(
            command,
            cwd=ROOT,
            env=environ_for(up.data_dir),
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            connection, _ = listener.accept()
            with connection:
                connection.recv(4)
            _, stderr = process.communicate(timeout=30)
    assert process.returncode == 1
    assert "use the HTTP address that klamm up prints" in stderr


@pytest.mark.slow
def test_kill_and_start_inside_the_session_timeout(up: Up) -> None:
    assert "killed" in up.ok("broker", "kill", "1")
    refused = up.run("broker", "start", "1", "--no-wait")
    assert refused.returncode == 1
    line = one_line_and_hint(refused)
    assert line == "error: broker 1 cannot register: its previous session has not expired"
    started = up.run("broker", "start", "1")
    assert started.returncode == 0, started.stderr
    assert re.fullmatch(
        r"waiting for ZooKeeper to expire session \S+ of broker 1 \(timeout \d+ ms\)\n",
        started.stderr,
    )
    assert "broker 1 is registered" in started.stdout
    brokers = up.json("status")["brokers"]
    assert isinstance(brokers, list)
    assert brokers[1]["state"] == "running"


@pytest.mark.slow
def test_stop_start_pause_resume_add(up: Up) -> None:
    assert up.json("broker", "stop", "2")["state"] == "stopped"
    assert one_line_and_hint(up.run("broker", "kill", "2")) == "error: broker 2 is not running"
    assert up.run("broker", "start", "2").stderr == ""
    up.ok("broker", "pause", "2")
    paused = up.run("broker", "start", "2")
    assert paused.returncode == 1
    assert one_line_and_hint(paused) == "error: broker 2 is paused"
    up.ok("broker", "resume", "2")
    added = up.json("broker", "add", "--rack", "b")
    assert added == {"id": 3, "state": "running", "took_ms": added["took_ms"], "rack": "b"}
    twice = up.run("broker", "add", "3")
    assert one_line_and_hint(twice) == "error: broker 3 already exists"
    assert "hint: klamm status lists all brokers" in twice.stderr
    unknown = up.run("broker", "kill", "99")
    assert unknown.returncode == 1
    assert one_line_and_hint(unknown) == "error: broker 99 does not exist"


@pytest.mark.parametrize(
    "words",
    [
        *(f"broker {verb} 99" for verb in ("kill", "stop", "start", "pause", "resume")),
        "broker power-off 99",
        "broker fail-log-dir 99 d0",
        "network isolate 99",
        "disk fail --broker 99 --kind eio",
        "disk slow --broker 99 --bytes-per-s 1",
    ],
)
def test_a_mistyped_broker_gets_a_hint_that_lists_the_brokers(up: Up, words: str) -> None:
    refused = up.run(*words.split())
    assert (refused.returncode, refused.stdout) == (1, "")
    assert re.fullmatch(
        r"error: broker 99 does not exist\nhint: brokers: 0, 1, 2(, 3)?; klamm broker add 99 adds "
        r"it\n",
        refused.stderr,
    )
    refused = up.run(*words.split(), "--json")
    hint = msgspec.json.decode(refused.stderr)["error"]["hint"]
    assert (refused.returncode, hint[:16]) == (1, "brokers: 0, 1, 2")


def test_controller_move_raises_the_epoch(up: Up) -> None:
    moved = up.json("controller", "move")
    before, after = moved["from"], moved["to"]
    assert isinstance(before, dict) and isinstance(after, dict)
    assert after["epoch"] == before["epoch"] + 1
    assert "-> broker" in up.ok("controller", "move")


def test_journal_tail_from_file_and_from_server_agree(up: Up) -> None:
    up.ok("controller", "move")
    from_file = up.ok("journal", "tail", "-n", "5", "--json").splitlines()
    from_server = up.ok("journal", "tail", "-n", "5", "--json", "--server", up.url).splitlines()
    # The cluster goes on meanwhile: both are the end of what the file held at their time.
    rows = up.ok("journal", "tail", "-n", "1000", "--json").splitlines()
    for tail in (from_file, from_server):
        end = rows.index(tail[-1]) + 1
        assert tail == rows[end - 5 : end]
    assert all(msgspec.json.decode(line)["v"] == 1 for line in from_file)
    assert "controller ready" in up.ok("journal", "tail", "-n", "20")


@pytest.mark.parametrize("command", [("journal", "tail", "-f"), ("watch",)])
def test_following_shows_what_happens_and_ends_with_ctrl_c(up: Up, command: tuple[str]) -> None:
    process = start_klamm(up.data_dir, *command)
    try:
        assert process.stdout is not None
        assert process.stdout.readline()
        moved = up.json("controller", "move")["to"]
        assert isinstance(moved, dict)
        wanted = f"controller {moved['id']} epoch {moved['epoch']}"
        for line in process.stdout:
            if wanted in line:
                break
        process.send_signal(signal.SIGINT)
        _, stderr = process.communicate(timeout=20)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert (process.returncode, stderr) == (130, "Interrupted\n")


def test_watch_uses_the_width_of_the_terminal_and_gives_the_screen_back(up: Up) -> None:
    title = f"Last events ({time_zone()})"
    with on_terminal(up.data_dir, "watch", "--interval", "0.1", columns=150) as watch:
        for columns in (150, 80):
            watch.setwinsize(40, columns)
            for _ in range(2):
                watch.expect_exact(f"╭─ {title} {'─' * (columns - 5 - len(title))}╮")
            page = plain(watch.before).splitlines()
            assert any(line.endswith(f"╭─ klamm {'─' * (columns - 10)}╮") for line in page)
            [heading] = [line for line in page if "Under-replicated" in line]
            assert columns - 4 <= len(heading) <= columns
            events = [line for line in page if re.match(r"│ \d\d:", line)]
            assert events and {len(line) for line in events} == {columns}
        watch.setwinsize(40, 40)
        for _ in range(2):
            watch.expect_exact(f"╭─ {title} {'─' * (35 - len(title))}╮")
        narrow = plain(watch.before)
        assert re.search(r"(?m)^ +Broker +State +Leads *$", narrow), narrow
        assert re.search(r"(?m)^ +\d +running \(controller\) +\d+ *($|╭)", narrow), narrow
        watch.sendintr()
        watch.expect_exact("\x1b[?1049l")
        watch.expect(pexpect.EOF)
        assert plain(watch.before) == "Interrupted\n"
        watch.close()
        assert watch.exitstatus == 130


def plain(printed: str) -> str:
    """What a terminal printed, without its control sequences and without an erased line."""
    text = re.sub(r"\x1b\[\??[0-9;]*[A-JL-Za-z]", "", printed.replace("\r\n", "\n"))
    return re.sub(r"[^\n]*\r\x1b\[K", "", text)


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 200),
        ({"Host": "localhost"}, 200),
        ({"Host": "evil.example"}, 403),
        ({"Host": "127.0.0.1.evil.example:80"}, 403),
        ({"Origin": "http://evil.example"}, 403),
        ({"Origin": "null"}, 403),
    ],
)
def test_host_and_origin_are_checked(up: Up, headers: dict[str, str], status: int) -> None:
    assert request(up, "GET", "/status", headers) == status


def test_a_port_in_use_is_one_line_and_nothing_is_written(up: Up, tmp_path: Path) -> None:
    port = up.url.rpartition(":")[2]
    data_dir = tmp_path / "data"
    refused = klamm(data_dir, "up", "--brokers", "1", "--port", port)
    assert refused.returncode == 1
    assert one_line_and_hint(refused) == f"error: port {port} on 127.0.0.1 is in use"
    assert not data_dir.exists()


def test_the_port_of_the_embedded_zookeeper_is_chosen_and_shown(up: Up, tmp_path: Path) -> None:
    taken = connect_string(up).rpartition(":")[2]
    words = ("up", "--brokers", "1", "--port", "0", "--zookeeper-port", taken)
    refused = klamm(tmp_path / "data", *words)
    assert refused.returncode == 1
    assert one_line_and_hint(refused) == f"error: port {taken} is in use"
    assert "hint: choose another port with --zookeeper-port, or stop " in refused.stderr
    assert not (tmp_path / "data").exists()
    port = str(free_port())
    with klamm_up(tmp_path, "--brokers", "1", "--zookeeper-port", port) as other:
        assert f"ZooKeeper started: 127.0.0.1:{port}\n" in other.output()
        assert f"ZooKeeper:   127.0.0.1:{port} (connected, embedded)" in other.ok("status")
        assert connect_string(other) == f"127.0.0.1:{port}"


def connect_string(up: Up) -> str:
    zookeeper = up.json("status")["zookeeper"]
    assert isinstance(zookeeper, dict)
    return str(zookeeper["connect"])


def test_a_data_directory_serves_one_cluster(up: Up) -> None:
    for port in ("0", up.url.rpartition(":")[2]):
        refused = up.run("up", "--brokers", "1", "--port", port)
        assert refused.returncode == 1
        said = one_line_and_hint(refused)
        assert f"process {up.process.pid} ({up.url}) is running in {up.data_dir}" in said
    assert up.json("status")["url"] == up.url


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--brokers", "0"), "a cluster cannot have 0 brokers"),
        (("--brokers", "1", "--zookeeper-port", "65536"), "--zookeeper-port 65536 is not a valid"),
        (
            ("--brokers", "1", "--zookeeper-port", "65534", "--zookeeper-servers", "3"),
            "--zookeeper-port 65534 is not a valid port",
        ),
        (
            ("--brokers", "1", "--zookeeper-port", "2181", "--zookeeper", "h:2181"),
            "give either --zookeeper or --zookeeper-port, but not both",
        ),
        (("--brokers", "3", "--controllers", "4"), "--controllers 4: out of range for 3 brokers"),
        (("--brokers", "3", "--config", "num.partition=3"), "unknown config num.partition"),
        (
            ("--brokers", "3", "--config", "num.partitions=x"),
            "Invalid value x for configuration",
        ),
        (("--brokers", "3", "--config", "num.partitions"), "--config num.partitions"),
        (("--brokers", "3", "--quirks", "2.9"), "unknown quirk 2.9"),
        (("--brokers", "3", "--journal-retention-bytes", "-5"), "for '--journal-retention-bytes'"),
        (("--brokers", "3", "--journal-retention-ms", "-2"), "for '--journal-retention-ms'"),
        (("--brokers", "3", "--host", "0.0.0.0"), "a token is required"),
        (("--brokers", "3", "--state-change-level", "LOUD"), "LOUD: unknown level"),
        (("--brokers", "3", "--zookeeper", "nonsense:port"), "not a ZooKeeper address"),
        (("--brokers", "3", "--frobnicate"), "No such option: --frobnicate"),
        ((), "Missing option '--brokers'"),
    ],
)
def test_a_wrong_command_line_is_one_line(
    tmp_path: Path, args: tuple[str, ...], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["up", "--port", "0", "--data-dir", str(tmp_path / "data"), *args]) == 2
    printed = capsys.readouterr()
    assert message in error_line(printed.err)
    assert printed.out == ""


def test_without_a_server_the_error_names_all_three_ways(tmp_path: Path) -> None:
    refused = klamm(tmp_path, "status")
    assert refused.returncode == 1
    line = one_line_and_hint(refused)
    for way in ("--server", "KLAMM_SERVER", str(tmp_path / "server.json")):
        assert way in line


def test_a_server_that_does_not_answer_is_one_line(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = f"127.0.0.1:{listener.getsockname()[1]}"
    refused = klamm(tmp_path, "status", "--server", address)
    assert refused.returncode == 1
    assert one_line_and_hint(refused) == (
        f"error: no klamm server responds at http://{address}: Connection refused"
    )


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 0)])
def test_a_signal_ends_everything(tmp_path: Path, number: int, code: int) -> None:
    with klamm_up(tmp_path, "--brokers", "2") as up:
        assert processes_naming(str(tmp_path))
        output = up.end(number)
    assert up.process.returncode == code
    plain = [line for line in output.splitlines() if not line.startswith("ZooKeeper started")]
    assert plain[0] == "Starting ZooKeeper"
    assert plain[1:4] == ["Starting 2 brokers", *(f"Brokers registered: {n}/2" for n in (1, 2))]
    assert plain[4].startswith("Controller elected: broker ")
    assert plain[-1] == "klamm has ended"
    assert "\x1b" not in output
    assert not (tmp_path / "server.json").exists()
    assert not processes_naming(str(tmp_path))
    assert klamm(tmp_path, "journal", "tail", "-n", "1").returncode == 0


@pytest.mark.slow
def test_killed_it_leaves_no_java_and_its_data_serve_the_next(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "2", "--session-timeout-ms", "1500") as up:
        cluster_id = up.json("status")["cluster_id"]
        server = up.url.removeprefix("http://")
        up.ok(
            *("topics", "--bootstrap-server", server, "--create", "--topic", "kept"),
            *("--partitions", "2", "--replication-factor", "2"),
        )
        up.process.kill()
        up.process.wait()
        stale = up.run("status")
        assert stale.returncode == 1
        assert f"(process {up.process.pid}) has ended" in one_line_and_hint(stale)
    wait_until(lambda: not processes_naming(str(tmp_path)), 20, "java to be gone")
    with klamm_up(tmp_path, "--brokers", "2", "--session-timeout-ms", "1500") as up:
        assert up.json("status")["cluster_id"] == cluster_id
        server = up.url.removeprefix("http://")
        assert up.ok("topics", "--bootstrap-server", server, "--list") == "kept\n"
        assert "Waiting for the sessions of an earlier run" in up.end()


def test_a_live_kafkas_zookeeper_is_refused(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    root = f"/{chroot.rpartition('/')[2]}"
    zookeeper_client.create(f"{root}/brokers/ids/7", b"{}", makepath=True)
    zookeeper_client.create(f"{root}/controller", b"{}")
    refused = klamm(tmp_path, "up", "--brokers", "1", "--port", "0", "--zookeeper", chroot)
    assert refused.returncode == 1
    assert "belongs to the Kafka cluster" in one_line_and_hint(refused)
    assert sorted(zookeeper_client.get_children(root)) == ["brokers", "controller"]
    assert zookeeper_client.get_children(f"{root}/brokers") == ["ids"]


@pytest.mark.slow
def test_a_token_an_external_zookeeper_and_quirks(
    chroot: str, zookeeper_client: KazooClient, tmp_path: Path
) -> None:
    data_dir = tmp_path / "data"
    with klamm_up(
        data_dir,
        *("--brokers", "3", "--controllers", "1", "--zookeeper", f"{chroot}/a/b"),
        *("--token", "s3cret", "--quirks", "KAFKA-13225,c2", "--seed", "7"),
    ) as up:
        status = up.json("status")
        zookeeper = status["zookeeper"]
        assert isinstance(zookeeper, dict)
        assert zookeeper == {
            "connect": f"{chroot}/a/b",
            "state": "CONNECTED",
            "is_stale": False,
            "embedded": False,
            "servers": [],
            "malformed": {},
        }
        elsewhere = klamm(tmp_path / "elsewhere", "status", "--server", up.url)
        assert elsewhere.returncode == 1
        assert one_line_and_hint(elsewhere) == "error: the bearer token is missing or wrong"
        assert request(up, "GET", "/metrics", {}) == 401
        assert request(up, "GET", "/metrics", {"Authorization": "Bearer s3cret"}) == 200
        assert "Created topic t." in up.ok(
            *("topics", "--bootstrap-server", up.url.removeprefix("http://"), "--create"),
            *("--topic", "t"),
        )
        start = msgspec.json.decode(
            up.ok("journal", "tail", "-n", "1000", "--json").splitlines()[0]
        )
        detail = msgspec.json.decode(start["detail"])
        assert (detail["quirks"], detail["seed"]) == (["KAFKA-13225", "C2"], 7)
        assert not processes_naming(str(data_dir / "zookeeper"))
        assert up.end().splitlines()[:2] == [
            f"Connecting to ZooKeeper: {chroot}/a/b",
            f"ZooKeeper found: {chroot}/a/b",
        ]
    root = f"/{chroot.rpartition('/')[2]}/a/b"
    assert zookeeper_client.get_children(f"{root}/brokers/ids") == []
    assert zookeeper_client.exists(f"{root}/klamm")
