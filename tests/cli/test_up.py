"""klamm up as a process of its own, and every command that talks to it."""

from __future__ import annotations

import http.client
import os
import pty
import select
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from tests.serving import KLAMM, ROOT, Up, environ_for, klamm, klamm_up, processes_naming
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
    """The error's line; a second one may only be a hint."""
    first, *rest = done.stderr.splitlines()
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
    assert "klamm does not implement Kafka's wire protocol" in stderr


@pytest.mark.slow
def test_kill_and_start_inside_the_session_timeout(up: Up) -> None:
    assert "killed" in up.ok("broker", "kill", "1")
    refused = up.run("broker", "start", "1", "--no-wait")
    assert refused.returncode == 1
    line = one_line_and_hint(refused)
    assert "Error while creating ephemeral at /brokers/ids/1, node already exists and owner" in line
    assert "does not match current session" in line
    started = up.run("broker", "start", "1")
    assert started.returncode == 0, started.stderr
    assert "waiting until it expires" in started.stderr
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
    assert paused.returncode == 2
    assert one_line_and_hint(paused) == "error: broker 2 is paused"
    up.ok("broker", "resume", "2")
    added = up.json("broker", "add", "--rack", "b")
    assert added == {"id": 3, "state": "running", "took_ms": added["took_ms"], "rack": "b"}
    twice = up.run("broker", "add", "3")
    assert one_line_and_hint(twice) == "error: broker 3 already exists"
    assert "hint: klamm status shows all brokers" in twice.stderr
    unknown = up.run("broker", "kill", "99")
    assert unknown.returncode == 2
    assert one_line_and_hint(unknown) == "error: broker 99 does not exist"


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
    process = subprocess.Popen(
        [*KLAMM, *command],
        cwd=ROOT,
        env=environ_for(up.data_dir),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
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
    assert (process.returncode, stderr) == (130, "")


def test_watch_on_a_terminal_gives_the_screen_back(up: Up) -> None:
    master, slave = pty.openpty()
    process = subprocess.Popen(
        [*KLAMM, "watch"],
        cwd=ROOT,
        env={**environ_for(up.data_dir), "TERM": "xterm", "COLUMNS": "120", "LINES": "40"},
        stdin=slave,
        stdout=slave,
        stderr=slave,
    )
    os.close(slave)
    seen = b""

    def shown(word: bytes) -> bool:
        nonlocal seen
        if select.select([master], [], [], 0)[0]:
            try:
                seen += os.read(master, 1 << 16)
            except OSError:  # the other side is closed
                return word in seen
        return word in seen

    try:
        wait_until(lambda: shown(b"Last events"), 20)
        for word in (b"ZooKeeper", b"Controller", b"(controller)", b"Under-replicated"):
            assert word in seen
        process.send_signal(signal.SIGINT)
        wait_until(lambda: shown(b"\x1b[?1049l") and process.poll() is not None, 20)
    finally:
        if process.poll() is None:
            process.kill()
        process.wait()
        os.close(master)
    assert process.returncode == 130
    assert b"Traceback" not in seen


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
    assert one_line_and_hint(refused) == f"error: port {port} of 127.0.0.1 is in use"
    assert not data_dir.exists()


def test_a_data_directory_serves_one_cluster(up: Up) -> None:
    refused = up.run("up", "--brokers", "1", "--port", "0")
    assert refused.returncode == 1
    assert f"process {up.process.pid} ({up.url}) runs in {up.data_dir}" in one_line_and_hint(
        refused
    )
    assert up.json("status")["url"] == up.url


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (("--brokers", "0"), "0 brokers are out of range"),
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
    tmp_path: Path, args: tuple[str, ...], message: str
) -> None:
    refused = klamm(tmp_path / "data", "up", "--port", "0", *args)
    assert refused.returncode == 2
    assert message in one_line_and_hint(refused)
    assert refused.stdout == ""


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
    assert plain[1:3] == ["Brokers registered: 1/2", "Brokers registered: 2/2"]
    assert plain[3].startswith("Controller elected: broker ")
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
        assert up.end().splitlines()[0] == f"ZooKeeper found: {chroot}/a/b"
    root = f"/{chroot.rpartition('/')[2]}/a/b"
    assert zookeeper_client.get_children(f"{root}/brokers/ids") == []
    assert zookeeper_client.exists(f"{root}/klamm")
