"""`klamm up` as a separate process, seen from outside: HTTP, /proc, files, locks and ports.

Shared by bench/chaos.py and bench/kill9.py. It imports no klamm module, so that a bug of klamm
cannot hide itself: it only relies on docs/http-api.md and the names of a few files.
"""

from __future__ import annotations

import contextlib
import fcntl
import http.client
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, Self
from urllib.parse import urlsplit

ROOT = Path(__file__).parents[1]
COMMAND = (sys.executable, "-m", "klamm", "up")
ADDRESS_FILE = "server.json"
LOCKS = ("klamm.lock", "zookeeper/**/.lock")
ZOOKEEPER_MAIN = "org.apache.zookeeper.server"
HTTP_TIMEOUT_S = 90.0
REUSE_WITHIN_S = 2.0
NO_ANSWER = 0
"""The status of a request that got none: the connection was refused, broke or timed out."""
_POLL_S = 0.02

Json = Any


class Answer(NamedTuple):
    """The status and the decoded body of an answer; ``text`` is the body as it was received."""

    status: int
    body: Json
    text: bytes = b""

    @property
    def is_ok(self) -> bool:
        """Whether the request succeeded."""
        return self.status == 200

    @property
    def message(self) -> str:
        """The error's text; empty for a success."""
        if isinstance(self.body, dict) and isinstance(self.body.get("error"), dict):
            return str(self.body["error"].get("message"))
        return "" if self.is_ok else self.text[:200].decode(errors="replace")


class Api:
    """Client of the HTTP API at one address. Thread-safe; collects forbidden answers.

    ``faults``: one line for every answer of 500 and every body that is not JSON.
    """

    def __init__(self, url: str) -> None:
        parts = urlsplit(url)
        self.host, self.port = parts.hostname or "", parts.port or 0
        self.faults: list[str] = []
        self.answers = self.unanswered = 0
        self._connections = threading.local()
        self._opened: list[http.client.HTTPConnection] = []

    def get(self, path: str, timeout_s: float = HTTP_TIMEOUT_S) -> Answer:
        """Send a GET request."""
        return self._ask("GET", path, None, timeout_s)

    def post(self, path: str, body: Json = None, timeout_s: float = HTTP_TIMEOUT_S) -> Answer:
        """Send a POST request with a JSON body."""
        return self._ask("POST", path, {} if body is None else body, timeout_s)

    def close(self) -> None:
        """Close the connections of all threads, which must not send requests any more."""
        for connection in self._opened:
            connection.close()

    def _ask(self, method: str, path: str, body: Json, timeout_s: float) -> Answer:
        connection: http.client.HTTPConnection | None
        connection = getattr(self._connections, "open", None)
        if connection is None:
            connection = http.client.HTTPConnection(self.host, self.port)
            self._connections.open = connection
            self._opened.append(connection)
        # The server closes idle connections, perhaps while a request is on its way: that request
        # may not be sent again, so no idle connection is used.
        if time.monotonic() - getattr(self._connections, "used_s", 0.0) > REUSE_WITHIN_S:
            connection.close()
        connection.timeout = timeout_s
        if connection.sock is not None:
            connection.sock.settimeout(timeout_s)
        data = None if body is None else json.dumps(body)
        try:
            connection.request(method, path, data, {"Content-Type": "application/json"})
            response = connection.getresponse()
            text = response.read()
        except (OSError, http.client.HTTPException) as error:
            connection.close()
            self.unanswered += 1
            return Answer(NO_ANSWER, None, f"{type(error).__name__}: {error}".encode())
        self._connections.used_s = time.monotonic()
        self.answers += 1
        return self._checked(method, path, response, text)

    def _checked(
        self, method: str, path: str, response: http.client.HTTPResponse, text: bytes
    ) -> Answer:
        body: Json = None
        if response.status == 500:
            self.faults.append(f"{method} {path}: 500 {text[:200].decode(errors='replace')}")
        if (response.headers.get("Content-Type") or "").startswith("application/json"):
            try:
                body = json.loads(text)
            except ValueError as error:
                self.faults.append(f"{method} {path}: the body is no JSON: {error}")
        return Answer(response.status, body, text)


class Up:
    """One `klamm up` on a data directory that stays; ``arguments`` are those of the command."""

    def __init__(self, data_dir: Path, arguments: Sequence[str], output: Path) -> None:
        self.data_dir = data_dir
        self.output = output
        kept = {name: value for name, value in os.environ.items() if not name.startswith("KLAMM_")}
        with output.open("ab") as file:
            self.process = subprocess.Popen(
                [*COMMAND, "--data-dir", str(data_dir), *arguments],
                cwd=ROOT,
                env={**kept, "PYTHONUNBUFFERED": "1"},
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                # Ctrl-C in a terminal goes to the harness, which then ends the cluster in order.
                start_new_session=True,
            )
        self.started_s = time.monotonic()
        self.api: Api | None = None

    @property
    def pid(self) -> int:
        """The process id of `klamm up`."""
        return self.process.pid

    def url(self) -> str | None:
        """The address this process has published; None before that."""
        with contextlib.suppress(OSError, ValueError):
            address = json.loads((self.data_dir / ADDRESS_FILE).read_bytes())
            if address["pid"] == self.pid:
                return str(address["url"])
        return None

    def wait_until_serving(self, timeout_s: float) -> Api:
        """Wait until /status is answered. Raises RuntimeError with the last output otherwise."""
        deadline_s = time.monotonic() + timeout_s
        while time.monotonic() < deadline_s:
            if self.process.poll() is not None:
                raise RuntimeError(f"klamm up ended with {self.process.returncode}: {self.tail()}")
            url = self.url()
            if url is not None:
                self.api = self.api or Api(url)
                if self.api.get("/status", 10.0).is_ok:
                    return self.api
            time.sleep(_POLL_S)
        raise RuntimeError(f"klamm up did not serve within {timeout_s:g} s: {self.tail()}")

    def tail(self, lines: int = 3) -> str:
        """The last lines of its output."""
        text = self.output.read_text(errors="replace").strip().splitlines()
        return " | ".join(text[-lines:])

    def zookeeper_pids(self) -> list[int]:
        """The processes of its embedded ZooKeeper servers."""
        return [pid for pid in descendants(self.pid) if _is_zookeeper(pid)]

    def kill(self) -> None:
        """kill -9, and reap it."""
        self.process.kill()
        self.process.wait()

    def end(self, timeout_s: float = 30.0) -> int | None:
        """Send SIGINT and wait; return the exit code, None if it had to be killed."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGINT)
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            return None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self.process.poll() is None:
            self.end()
        if self.api is not None:
            self.api.close()


def output_of(data_dir: Path) -> Path:
    """Where the output of a `klamm up` on this data directory is kept: beside it."""
    return data_dir.with_name(f"{data_dir.name}-up.log")


def remove(data_dir: Path) -> None:
    """Remove a data directory and the output that belongs to it."""
    shutil.rmtree(data_dir, ignore_errors=True)
    output_of(data_dir).unlink(missing_ok=True)


# Processes


def descendants(pid: int) -> list[int]:
    """Return the descendants of ``pid`` from /proc."""
    children: dict[int, list[int]] = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError, ValueError):
                stat = (entry / "stat").read_text()
                # The command's name stands in parentheses and may contain blanks.
                parent = int(stat.rpartition(")")[2].split()[1])
                children.setdefault(parent, []).append(int(entry.name))
    found: list[int] = []
    waiting = [pid]
    while waiting:
        below = children.get(waiting.pop(), [])
        found += below
        waiting += below
    return found


def _is_zookeeper(pid: int) -> bool:
    """Whether it is a ZooKeeper server, not its supervisor."""
    with contextlib.suppress(OSError):
        return "java" in os.readlink(f"/proc/{pid}/exe") and ZOOKEEPER_MAIN in command_line(pid)
    return False


def command_line(pid: int) -> str:
    """The command line of a process; empty if it is gone."""
    with contextlib.suppress(OSError):
        raw = Path(f"/proc/{pid}/cmdline").read_bytes()
        return raw.replace(b"\0", b" ").decode(errors="replace")
    return ""


def processes_naming(word: str) -> list[str]:
    """Return pid and command line of every process with ``word``, except ancestors."""
    own = _own_line()
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) not in own:
            line = command_line(int(entry.name))
            if word in line:
                found.append(f"{entry.name} {line[:120]}")
    return found


def _own_line() -> set[int]:
    """This process and those above it, whose command lines may name anything."""
    pid, found = os.getpid(), set()
    while pid > 0 and pid not in found:
        found.add(pid)
        stat = Path(f"/proc/{pid}/stat").read_text()
        pid = int(stat.rpartition(")")[2].split()[1])
    return found


class Usage(NamedTuple):
    """Resource usage of a process, and the size of its journal and logs."""

    rss_mb: float
    threads: int
    descriptors: int
    zookeeper_rss_mb: float
    journal_mb: float
    logs_mb: float


def usage_of(up: Up) -> Usage | None:
    """Sample /proc and the data directory; None if the process is gone."""
    try:
        status = _status_of(up.pid)
        descriptors = len(os.listdir(f"/proc/{up.pid}/fd"))
    except OSError:
        return None
    zookeeper_mb = 0.0
    for zookeeper in up.zookeeper_pids():
        with contextlib.suppress(OSError, KeyError):
            zookeeper_mb += _status_of(zookeeper)["VmRSS"] / 1024
    return Usage(
        rss_mb=status.get("VmRSS", 0) / 1024,
        threads=status.get("Threads", 0),
        descriptors=descriptors,
        zookeeper_rss_mb=zookeeper_mb,
        journal_mb=sum(_size(path) for path in up.data_dir.glob("journal*")) / 1e6,
        logs_mb=_size(up.data_dir / "logs") / 1e6,
    )


def _size(path: Path) -> int:
    with contextlib.suppress(OSError):
        if path.is_dir():
            return sum(_size(inner) for inner in path.iterdir())
        return path.stat().st_size
    return 0


def _status_of(pid: int) -> dict[str, int]:
    values = {}
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        name, _, value = line.partition(":")
        words = value.split()
        if name in ("VmRSS", "Threads") and words:
            values[name] = int(words[0])
    return values


# What must be free after a process is gone


def held_locks(data_dir: Path) -> list[str]:
    """Return the held lock files of a data directory."""
    held = []
    for path in (path for pattern in LOCKS for path in data_dir.glob(pattern)):
        with contextlib.suppress(FileNotFoundError), _opened(path) as descriptor:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                held.append(path.relative_to(data_dir).as_posix())
    return held


@contextlib.contextmanager
def _opened(path: Path) -> Iterator[int]:
    descriptor = os.open(path, os.O_RDWR)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def leftovers(data_dir: Path, ports: Iterable[int]) -> list[str]:
    """Return what an ended `klamm up` still holds: processes, locks, ports."""
    left = [f"process {one}" for one in processes_naming(str(data_dir))]
    left += [f"lock {name}" for name in held_locks(data_dir)]
    return left + [f"port {port}" for port in ports if not is_port_free(port)]


def is_port_free(port: int) -> bool:
    """Whether a server can listen on a port of loopback."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
            probe.listen(1)
        except OSError:
            return False
    return True


def free_port() -> int:
    """Return a port below the ephemeral range, so that no client connection takes it."""
    for port in range(20_000 + os.getpid() % 5_000, 32_000):
        if is_port_free(port):
            return port
    raise RuntimeError("no free port")
