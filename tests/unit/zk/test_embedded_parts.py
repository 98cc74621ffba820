"""Parts of zk/embedded.py that need no Java, and addresses of ZooKeeper."""

from __future__ import annotations

import signal
import socketserver
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from klamm.cluster.errors import UsageError, ZooKeeperUnavailable
from klamm.zk import embedded
from klamm.zk.embedded import (
    LOG_NAME,
    NOT_SERVING,
    SUPERVISOR,
    EmbeddedZooKeeper,
    _last_words,
    _locked,
    four_letter_word,
)
from klamm.zk.kazoo_session import parse_address
from klamm.zk.ports import free_port
from tests.waiting import wait_until


@pytest.mark.parametrize(
    ("address", "servers", "chroot"),
    [
        ("h:1", "h:1", ""),
        ("h:1/", "h:1", ""),
        ("h:1/a", "h:1", "/a"),
        ("h:1,g:2/a/b/", "h:1,g:2", "/a/b"),
    ],
)
def test_an_address_has_servers_and_a_chroot(address: str, servers: str, chroot: str) -> None:
    found, path = parse_address(address)
    assert (found, path.path) == (servers, chroot)


@pytest.mark.parametrize(
    ("address", "said"),
    [
        ("h:1/a//b", "not a ZooKeeper chroot: '/a//b' is not a valid znode path"),
        ("h:1/a/../b", "not a ZooKeeper chroot: '/a/../b' is not a valid znode path"),
        ("h:1/\udc80", "not a ZooKeeper chroot: '/\\udc80' is not a valid znode path"),
        ("h :1", "not a ZooKeeper address: 'h :1'"),
        ("g:1,a..b:2", "not a ZooKeeper address: 'g:1,a..b:2'"),
        (f"{'x' * 64}:1", f"not a ZooKeeper address: '{'x' * 64}:1'"),
        ("h:x", "not a ZooKeeper address: 'h:x'"),
    ],
)
def test_an_invalid_address_is_refused(address: str, said: str) -> None:
    with pytest.raises(UsageError) as refused:
        parse_address(address)
    assert refused.value.message.startswith(said)


@pytest.mark.parametrize(
    ("log", "start", "words"),
    [
        ("", 0, "nothing was logged"),
        ("  \n\n", 0, "nothing was logged"),
        ("a\nb\n\n", 0, "b"),
        ("1 INFO x: a\n1 ERROR x: bad\n1 INFO x: b\n", 0, "x: bad"),
        ("1 ERROR x: first\n1 ERROR x: last\n", 0, "x: last"),
        ("1 ERROR x: old\n1 INFO x: new\n", 15, "1 INFO x: new"),
    ],
)
def test_the_last_error_in_the_log_of_a_server_is_shown(
    tmp_path: Path, log: str, start: int, words: str
) -> None:
    path = tmp_path / LOG_NAME
    path.write_text(log)
    assert _last_words(path, start) == words


class Answering(socketserver.ThreadingTCPServer):
    """Answers ``conf`` with a text."""

    daemon_threads = True
    answer = ""


class Word(socketserver.BaseRequestHandler):
    server: Answering

    def handle(self) -> None:
        if self.request.recv(4) == b"conf":
            self.request.sendall(self.server.answer.encode())


@pytest.fixture
def answering() -> Iterator[Answering]:
    with Answering(("127.0.0.1", 0), Word) as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "alone", "member"),
    [
        ("clientPort=1\ndataDir={}/version-2\n", True, True),
        ("dataDir={}/version-2/other\n", False, False),
        ("dataDir=/other/version-2\n", False, False),
        (f"{NOT_SERVING}\n", False, True),
        ("", False, False),
    ],
)
def test_only_the_server_that_was_started_counts_as_serving(
    tmp_path: Path, answering: Answering, answer: str, alone: bool, member: bool
) -> None:
    answering.answer, port = answer.replace("{}", str(tmp_path)), answering.server_address[1]
    assert four_letter_word(port, "conf") == answering.answer
    assert EmbeddedZooKeeper(tmp_path, port)._serves() is alone
    assert EmbeddedZooKeeper(tmp_path, port, quorum={})._serves() is member


def test_a_port_without_a_server_does_not_serve(tmp_path: Path, answering: Answering) -> None:
    port = answering.server_address[1]
    answering.server_close()
    assert not EmbeddedZooKeeper(tmp_path, port)._serves()


def test_a_server_starts_with_the_configured_command_line_and_settings(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(
        tmp_path, 9, tick_time_ms=700, heap_mb=64, fsync=False, quorum={"initLimit": "20"}
    )
    command = server._command(Path("/java"), "a.jar:b.jar")
    assert command[:2] == ["/java", "-Xmx64m"]
    assert command[-4:] == [
        *("-cp", "a.jar:b.jar", "org.apache.zookeeper.server.quorum.QuorumPeerMain"),
        str(tmp_path / "zoo.cfg"),
    ]
    assert dict(line.split("=", 1) for line in (tmp_path / "zoo.cfg").read_text().splitlines()) == {
        **{"clientPortAddress": "127.0.0.1", "clientPort": "9", "dataDir": str(tmp_path)},
        **{"tickTime": "700", "minSessionTimeout": "1000", "maxSessionTimeout": "60000"},
        **{"maxClientCnxns": "0", "admin.enableServer": "false", "forceSync": "no"},
        **{"4lw.commands.whitelist": "conf,mntr,srvr", "initLimit": "20"},
    }
    alone = EmbeddedZooKeeper(tmp_path, 9)._command(Path("/java"), "a.jar")
    assert alone[1] == "-Xmx512m"
    assert alone[-2] == "org.apache.zookeeper.server.ZooKeeperServerMain"
    assert "forceSync=yes\n" in (tmp_path / "zoo.cfg").read_text()


def test_a_directory_is_locked_until_its_holder_ends(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "LOCK_TIMEOUT_S", 0.05)
    with _locked(tmp_path):
        with pytest.raises(ZooKeeperUnavailable) as held, _locked(tmp_path):
            pass
        assert held.value.message == f"another ZooKeeper server is running in {tmp_path}"
    with _locked(tmp_path), pytest.raises(ZeroDivisionError):
        raise ZeroDivisionError
    with _locked(tmp_path):
        pass


ENDS_WITH_7 = """
import signal, sys
signal.signal(signal.SIGTERM, lambda *_: sys.exit(7))
signal.alarm(30)
print("ready", flush=True)
signal.pause()
"""


def catches(pid: int, number: signal.Signals) -> bool:
    """Whether a process has a handler for a signal."""
    lines = Path(f"/proc/{pid}/status").read_text().splitlines()
    (mask,) = [line.split()[1] for line in lines if line.startswith("SigCgt:")]
    return bool(int(mask, 16) >> (number - 1) & 1)


def test_a_supervisor_passes_sigterm_on_and_ends_with_the_status_of_its_command() -> None:
    command = [sys.executable, "-I", "-S", str(SUPERVISOR), sys.executable, "-c", ENDS_WITH_7]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as supervisor:
        assert supervisor.stdout is not None and supervisor.stdout.readline() == b"ready\n"
        wait_until(lambda: catches(supervisor.pid, signal.SIGTERM), 5)
        supervisor.terminate()
        assert supervisor.wait(20) == 7


def test_a_server_that_was_not_started_can_be_killed_and_closed() -> None:
    server = EmbeddedZooKeeper()
    assert (server.is_running, server.has_crashed, server.is_paused) == (False, False, False)
    server.kill()
    server.close()


def test_missing_jars_are_an_error_that_names_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(embedded, "find_spec", lambda _: None)
    with pytest.raises(ZooKeeperUnavailable, match=r"the pyspark wheel, .* is not installed") as no:
        embedded._class_path()
    assert no.value.hint is not None and "pip install 'klamm[zookeeper]'" in no.value.hint
    spec = SimpleNamespace(origin=str(tmp_path / "__init__.py"))
    monkeypatch.setattr(embedded, "find_spec", lambda _: spec)
    with pytest.raises(ZooKeeperUnavailable, match=f"no ZooKeeper jars in {tmp_path}/jars"):
        embedded._class_path()
    (tmp_path / "jars").mkdir()
    for name in ("zookeeper-3.9.jar", "zookeeper-jute-3.9.jar", "other-1.jar"):
        (tmp_path / "jars" / name).touch()
    found = [Path(path).name for path in embedded._class_path().split(":")]
    assert found == ["zookeeper-3.9.jar", "zookeeper-jute-3.9.jar"]


PORT_TAKEN = """\
#!/bin/sh
for config; do :; done
grep ^clientPort= "$config"
echo "1 ERROR x: Address already in use"
exit 1
"""


@pytest.mark.parametrize("is_given", [True, False])
def test_only_a_port_that_was_not_given_is_replaced_if_the_server_finds_it_in_use(
    is_given: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    java, given = tmp_path / "java", free_port()
    java.write_text(PORT_TAKEN)
    java.chmod(0o755)
    monkeypatch.setattr(embedded, "find_java", lambda: SimpleNamespace(executable=java))
    monkeypatch.setattr(embedded, "PORT_TRIES", 3)
    server = EmbeddedZooKeeper(tmp_path / "data", given if is_given else None)
    with pytest.raises(ZooKeeperUnavailable, match="did not start: x: Address already in use"):
        server.start()
    log = server.log_path.read_text().splitlines()
    tried = [line for line in log if line.startswith("clientPort=")]
    assert tried == [f"clientPort={given}"] if is_given else len(tried) == len({*tried}) == 3
