"""A real ZooKeeper server in a child process, run from the jars of the PySpark wheel.

The server listens on loopback only, has no admin server and no limit on connections, and writes its
logs with fsync. It is killed when the parent process ends, even if that process was killed with
kill -9 (see zk/supervisor.py). This file must not import pyspark. Mirrors
bin/zookeeper-server-start.sh with config/zookeeper.properties.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Self

from klamm.cluster.errors import ZooKeeperUnavailable
from klamm.zk.java import find_java
from klamm.zk.ports import HOST, PORT_TRIES, free_port, require_free
from klamm.zk.waiting import wait_until

LOG_NAME = "zookeeper.log"
_CONFIG_NAME = "zoo.cfg"
_LOG_CONFIG_NAME = "log4j2.properties"
_LOCK_NAME = ".lock"
SUPERVISOR = Path(__file__).with_name("supervisor.py")
PROBE_TIMEOUT_S = 1.0
NOT_SERVING = "This ZooKeeper instance is not currently serving requests"
"""Response of a server without a quorum to every four-letter word."""
STOP_TIMEOUT_S = 10.0
# If the parent of a server was killed a moment ago, the server needs some time to end.
LOCK_TIMEOUT_S = 2.0

# The jars that the server loads, out of 280 in the wheel.
_JARS = (
    "zookeeper-[0-9]*.jar",
    "zookeeper-jute-*.jar",
    "netty-buffer-[0-9]*.jar",
    "netty-codec-base-*.jar",
    "netty-common-*.jar",
    "netty-handler-[0-9]*.jar",
    "netty-resolver-[0-9]*.jar",
    "netty-transport-[0-9]*.jar",
    "netty-transport-classes-epoll-*.jar",
    "netty-transport-native-unix-common-*.jar",
    "slf4j-api-*.jar",
    "log4j-api-*.jar",
    "log4j-core-*.jar",
    "log4j-slf4j2-impl-*.jar",
    "metrics-core-*.jar",
    "snappy-java-*.jar",
)

_LOG_CONFIG = """\
appender.out.type = Console
appender.out.name = out
appender.out.layout.type = PatternLayout
appender.out.layout.pattern = %d{ISO8601} %p %c{1}: %m%notEmpty{: %rEx{1}}%n%rEx{12}
rootLogger.level = INFO
rootLogger.appenderRef.out.ref = out
# What comes after the reason when the server gives up.
logger.exit.name = org.apache.zookeeper.util.ServiceUtils
logger.exit.level = OFF
# A line for each four-letter word, and one for each refused request.
logger.words.name = org.apache.zookeeper.server.NIOServerCnxn
logger.words.level = WARN
logger.refused.name = org.apache.zookeeper.server.PrepRequestProcessor
logger.refused.level = WARN
"""


class EmbeddedZooKeeper:
    """One embedded ZooKeeper server: ``with EmbeddedZooKeeper() as server: server.connect_string``.

    - ``data_dir``: data directory, which is kept, and locked against use by a second server. If
      None, a temporary directory is used, which ``close`` removes.
    - ``port``: client port. If None, a free port is chosen, and kept across ``kill`` and ``start``.
    - ``tick_time_ms``: ZooKeeper's tickTime, the granularity of session expiry.
    - ``quorum``: additional settings for a member of an ensemble (zk/ensemble.py). In an ensemble,
      ``start`` does not wait for the other members.

    Methods raise ZooKeeperUnavailable or JavaNotFound on failure.
    """

    def __init__(
        self,
        data_dir: str | os.PathLike[str] | None = None,
        port: int | None = None,
        *,
        tick_time_ms: int = 500,
        min_session_timeout_ms: int = 1_000,
        max_session_timeout_ms: int = 60_000,
        heap_mb: int = 512,
        fsync: bool = True,
        start_timeout_s: float = 30.0,
        quorum: Mapping[str, str] | None = None,
    ) -> None:
        self._temporary = data_dir is None
        self._data_dir = None if data_dir is None else Path(data_dir).resolve()
        self._port = port
        self._settings = {
            # All other settings have ZooKeeper's defaults.
            "clientPortAddress": HOST,
            "tickTime": str(tick_time_ms),
            "minSessionTimeout": str(min_session_timeout_ms),
            "maxSessionTimeout": str(max_session_timeout_ms),
            "maxClientCnxns": "0",
            "admin.enableServer": "false",
            "forceSync": "yes" if fsync else "no",
            "4lw.commands.whitelist": "conf,mntr,srvr",
            **(quorum or {}),
        }
        self._main = "ZooKeeperServerMain" if quorum is None else "quorum.QuorumPeerMain"
        self.is_paused = self.is_starting = False
        self._heap_mb = heap_mb
        self._start_timeout_s = start_timeout_s
        self._supervisor: subprocess.Popen[bytes] | None = None

    @property
    def port(self) -> int:
        """Client port, which was either given or chosen by ``start``."""
        assert self._port is not None, "not started yet"
        return self._port

    @property
    def connect_string(self) -> str:
        """Connect string ``127.0.0.1:port``, to which a chroot may be appended."""
        return f"{HOST}:{self.port}"

    @property
    def data_dir(self) -> Path:
        """Data directory, with snapshots and logs in ``version-2``.

        This is the given directory, or the one that ``start`` created.
        """
        assert self._data_dir is not None, "not started yet"
        return self._data_dir

    @property
    def log_path(self) -> Path:
        """Log file of the server, to which every start appends."""
        return self.data_dir / LOG_NAME

    @property
    def is_running(self) -> bool:
        """True if the server's process is running."""
        supervisor = self._supervisor
        return supervisor is not None and supervisor.poll() is None

    @property
    def has_crashed(self) -> bool:
        """True if the server's process has ended unexpectedly."""
        supervisor = self._supervisor
        return supervisor is not None and supervisor.poll() is not None

    def start(self) -> Self:
        """Start the server, and wait until it accepts requests.

        After ``kill``, the server is restarted with the same data and port. Raises
        ZooKeeperUnavailable or JavaNotFound if the server cannot be started.
        """
        assert not self.is_running, "already started"
        self.kill()  # cleans up after a server that has crashed
        java, class_path = find_java().executable, _class_path()
        created = self._data_dir is None
        try:
            if self._data_dir is None:
                self._data_dir = Path(tempfile.mkdtemp(prefix="klamm-zookeeper-")).resolve()
            self._data_dir.mkdir(parents=True, exist_ok=True)
            for _ in range(PORT_TRIES):
                chosen = self._port is None
                port = free_port() if self._port is None else self._port
                require_free(port)
                self._port = port
                failure = self._launch(java, class_path)
                if failure is None:
                    return self
                self.kill()
                if not (chosen and "Address already in use" in failure):
                    break
                self._port = None
            hint = None if created and self._temporary else f"its log is {self.log_path}"
            raise ZooKeeperUnavailable(f"ZooKeeper did not start: {failure}", hint=hint)
        except BaseException as error:
            place = (isinstance(error, OSError) and error.filename) or self._data_dir
            self.kill()
            if created:
                self.close()
            if isinstance(error, OSError):
                reason = f"{error.strerror}: {place}" if place else error.strerror
                raise ZooKeeperUnavailable(f"ZooKeeper did not start: {reason}") from error
            raise

    def kill(self) -> None:
        """Kill the server abruptly. Data and port are kept for the next ``start``."""
        supervisor, self._supervisor = self._supervisor, None
        self.is_paused = False
        if supervisor is None:
            return
        assert supervisor.stdin is not None
        supervisor.stdin.close()
        with suppress(subprocess.TimeoutExpired):
            supervisor.wait(STOP_TIMEOUT_S)
        # The server too, in case its supervisor was killed before it could kill the server.
        with suppress(ProcessLookupError, ZooKeeperUnavailable):
            os.killpg(supervisor.pid, signal.SIGKILL)
            with _locked(self.data_dir):
                pass  # the server has ended when it releases the lock
        supervisor.wait()

    def crash(self) -> None:
        """Kill the server's process to simulate a crash, so that ``has_crashed`` becomes True."""
        if self._supervisor is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._supervisor.pid, signal.SIGKILL)
            self._supervisor.wait()

    def pause(self) -> None:
        """Freeze the server: connections stay open, but requests get no response."""
        self._signal(signal.SIGUSR1)
        self.is_paused = True

    def resume(self) -> None:
        """Let a frozen server continue."""
        self._signal(signal.SIGUSR2)
        self.is_paused = False

    def _signal(self, number: signal.Signals) -> None:
        supervisor = self._supervisor
        assert supervisor is not None, "not started"
        supervisor.send_signal(number)

    def close(self) -> None:
        """Kill the server and remove a temporary data directory. May be called twice."""
        self.kill()
        if self._temporary and self._data_dir is not None:
            shutil.rmtree(self._data_dir)
            self._data_dir = None

    def __enter__(self) -> Self:
        return self if self.is_running else self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _launch(self, java: Path, class_path: str) -> str | None:
        """Start the server process and wait until it serves requests.

        Return None on success, otherwise the reason for the failure.
        """
        with _locked(self.data_dir) as lock, self.log_path.open("ab") as log:
            log_start = log.tell()
            self.is_starting = True
            self._supervisor = subprocess.Popen(
                [sys.executable, "-I", "-S", str(SUPERVISOR), *self._command(java, class_path)],
                stdin=subprocess.PIPE,
                stdout=log,
                stderr=log,
                bufsize=0,
                cwd=self.data_dir,
                env={**os.environ, "LC_ALL": "C.UTF-8"},
                pass_fds=[lock],
                # Ctrl-C in a terminal must only reach the parent, which may still need the server.
                start_new_session=True,
            )
        try:
            return self._wait_until_serving(self._supervisor, log_start)
        finally:
            self.is_starting = False

    def _command(self, java: Path, class_path: str) -> list[str]:
        """Write the config files to the data directory, and return the server's command line."""
        import javaproperties

        config = {**self._settings, "dataDir": str(self.data_dir), "clientPort": str(self.port)}
        config_path = self.data_dir / _CONFIG_NAME
        config_path.write_text(javaproperties.dumps(config, timestamp=False), encoding="ascii")
        log_config_path = self.data_dir / _LOG_CONFIG_NAME
        log_config_path.write_text(_LOG_CONFIG, encoding="ascii")
        return [
            str(java),
            f"-Xmx{self._heap_mb}m",
            "-XX:+ExitOnOutOfMemoryError",
            # By default, a server that waits for a quorum only looks for one once a minute.
            "-Dzookeeper.fastleader.maxNotificationInterval=1000",
            f"-Dlog4j2.configurationFile={log_config_path.as_uri()}",
            "-Dlog4j2.disableJmx=true",
            "-Dzookeeper.jmx.log4j.disable=true",
            "-cp",
            class_path,
            f"org.apache.zookeeper.server.{self._main}",
            str(config_path),
        ]

    def _wait_until_serving(
        self, supervisor: subprocess.Popen[bytes], log_start: int
    ) -> str | None:
        def has_ended() -> bool:
            return supervisor.poll() is not None

        serves = wait_until(lambda: has_ended() or self._serves(), self._start_timeout_s)
        last = _last_words(self.log_path, log_start)
        if has_ended():
            return last
        if serves:
            return None
        return f"no response within {self._start_timeout_s:g} s; last log line: {last}"

    def _serves(self) -> bool:
        """Return True if this server, and not another server, responds on the port."""
        try:
            answer = four_letter_word(self.port, "conf")
        except OSError:
            return False
        if self._main != "ZooKeeperServerMain" and answer.startswith(NOT_SERVING):
            return True
        return f"dataDir={self.data_dir / 'version-2'}" in answer.splitlines()


def four_letter_word(port: int, word: str, timeout_s: float = PROBE_TIMEOUT_S) -> str:
    """Send a four-letter word (``conf``, ``mntr`` or ``srvr``) to a server on loopback.

    Return the server's response. Raises OSError if the connection fails.
    """
    with socket.create_connection((HOST, port), timeout_s) as connection:
        connection.sendall(word.encode())
        with connection.makefile("rb") as answer:
            return answer.read().decode(errors="replace")


@contextmanager
def _locked(data_dir: Path) -> Iterator[int]:
    """Context manager: lock a data directory and yield the descriptor of the lock file.

    The lock is held as long as any process that inherits the descriptor is alive. Two servers in
    one directory would corrupt each other's logs. Raises ZooKeeperUnavailable if the directory is
    already locked.
    """
    descriptor = os.open(data_dir / _LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o644)
    try:
        if not wait_until(lambda: _try_lock(descriptor), LOCK_TIMEOUT_S):
            raise ZooKeeperUnavailable(
                f"another ZooKeeper server is running in {data_dir}",
                hint="stop it, or choose another directory",
            )
        yield descriptor
    finally:
        os.close(descriptor)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _class_path() -> str:
    spec = find_spec("pyspark")
    if spec is None or spec.origin is None:
        raise ZooKeeperUnavailable(
            "the pyspark wheel, which contains ZooKeeper, is not installed",
            hint="pip install 'klamm[zookeeper]', or name a running server: --zookeeper host:port",
        )
    folder = Path(spec.origin).parent / "jars"
    jars = [str(jar) for pattern in _JARS for jar in sorted(folder.glob(pattern))]
    if not jars:
        raise ZooKeeperUnavailable(
            f"no ZooKeeper jars in {folder}",
            hint="install pyspark from its wheel, or name a running server: --zookeeper host:port",
        )
    return os.pathsep.join(jars)


def _last_words(log_path: Path, start: int) -> str:
    """Return the last ERROR message in the log after byte ``start``, or else the last line."""
    text = log_path.read_bytes()[start:].decode(errors="replace")
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line.partition(" ERROR ")[2] for line in lines if " ERROR " in line]
    return (errors or lines or ["nothing was logged"])[-1]
