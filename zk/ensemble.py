"""Embedded ZooKeeper servers in child processes: a single server, or an ensemble with a quorum.

Each server of an ensemble has a directory, a ``myid`` file and three ports on loopback: for
clients, for the quorum and for leader election. zk/embedded.py runs each server.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final, NamedTuple, Self

from klamm.cluster.counting import parse_whole_number
from klamm.cluster.errors import NotFound, UsageError, WrongState, ZooKeeperUnavailable
from klamm.zk.embedded import NOT_SERVING, EmbeddedZooKeeper, four_letter_word
from klamm.zk.ports import HOST, free_port, require_free
from klamm.zk.waiting import wait_until

SIZES: Final = (1, 3, 5)
"""Supported numbers of servers: odd, because 4 servers tolerate no more failures than 3."""
LEADER: Final = "leader"
FOLLOWER: Final = "follower"
_LEADING: Final = (LEADER, "standalone")
DOWN: Final = "down"
STARTING: Final = "starting"
PAUSED: Final = "paused"
RUNNING: Final = "running"
NO_QUORUM: Final = "no quorum"
NO_ANSWER: Final = "no answer"
QUORUM_TIMEOUT_S: Final = 30.0
_SIZE_FILE: Final = "servers"
_HEAP_MB: Final = 256
_START_TRIES: Final = 3
_QUORUM_SETTINGS: Final = {
    # In ticks of half a second: how long a server may take to join, and how far it may lag. The
    # second limit also determines how soon a hung leader is replaced.
    "initLimit": "20",
    "syncLimit": "6",
}


def require_size(size: int) -> None:
    """Raise UsageError unless an ensemble can have this number of servers."""
    if size not in SIZES:
        raise UsageError(
            f"an ensemble cannot have {size} ZooKeeper servers",
            hint=f"choose {', '.join(map(str, SIZES))}",
        )


class ServerState(NamedTuple):
    """State of one server of an ensemble: its role, or why it has no role."""

    id: int
    address: str
    state: str


class EmbeddedEnsemble:
    """Ensemble of embedded servers: ``with EmbeddedEnsemble(data_dir, 3) as ensemble``.

    ``servers`` is keyed by server id, starting at 1. A single server uses ``data_dir`` directly,
    like EmbeddedZooKeeper. ``first_port`` is the client port of server 1; the other servers use the
    following ports. If ``first_port`` is None, any free ports are used. Thread-safe.
    """

    def __init__(self, data_dir: Path, size: int, first_port: int | None = None) -> None:
        require_size(size)
        self.size = size
        self.servers: dict[int, EmbeddedZooKeeper] = {}
        self.lock = threading.RLock()
        """Lock that is held while servers are started or stopped."""
        self._data_dir = data_dir
        self._client_ports = () if first_port is None else range(first_port, first_port + size)

    @property
    def majority(self) -> int:
        """Number of servers needed for a quorum."""
        return self.size // 2 + 1

    @property
    def connect_string(self) -> str:
        """Connect string with all servers' addresses, to which a chroot may be appended."""
        return ",".join(server.connect_string for server in self.servers.values())

    def start(self) -> Self:
        """Start all servers, and wait until one of them is the leader.

        Raises UsageError if the directory was used with another number of servers, and
        ZooKeeperUnavailable if the servers cannot be started or a given port is in use.
        """
        for port in self._client_ports:
            require_free(port, "choose another port with --zookeeper-port")
        check_size(self._data_dir, self.size)
        for tries_left in reversed(range(_START_TRIES)):
            self.servers = self._new_servers()
            try:
                self._on_all(EmbeddedZooKeeper.start)
                self.await_quorum()
                return self
            except BaseException as error:
                self.close()
                if not (
                    tries_left and isinstance(error, ZooKeeperUnavailable) and _is_clash(error)
                ):
                    raise
        raise AssertionError("unreachable")

    def await_quorum(self) -> None:
        """Wait until the servers have a leader. Raises ZooKeeperUnavailable after the timeout."""
        if not wait_until(lambda: self.leader_id() is not None, QUORUM_TIMEOUT_S):
            states = ", ".join(f"{s.id}: {s.state}" for s in self.states())
            raise ZooKeeperUnavailable(
                f"no ZooKeeper server was elected leader in {QUORUM_TIMEOUT_S:g} s ({states})",
                hint=f"their logs are in {self._data_dir}",
            )

    # -- single servers

    def state(self, server_id: int) -> str:
        """Return a server's role (leader, follower or standalone), or why the server has none."""
        server = self.servers[server_id]
        if server.is_paused:
            return PAUSED
        if not server.is_running:
            return DOWN
        if server.is_starting:
            return STARTING
        try:
            answer = four_letter_word(server.port, "srvr")
        except OSError:
            return NO_ANSWER
        modes = [line.removeprefix("Mode: ") for line in answer.splitlines() if "Mode: " in line]
        if modes:
            return modes[0]
        return NO_QUORUM if answer.startswith(NOT_SERVING) else NO_ANSWER

    def states(self) -> list[ServerState]:
        """Ask all servers for their states, in order of server id."""
        return [
            ServerState(id_, server.connect_string, self.state(id_))
            for id_, server in self.servers.items()
        ]

    def leader_id(self) -> int | None:
        """Return the id of the leader (or the only server), or None if there is no leader now."""
        return next((s.id for s in self.states() if s.state in _LEADING), None)

    def find(self, wanted: str) -> int:
        """Return the id of the server described by ``wanted``: an id, ``leader`` or ``follower``.

        Raises NotFound if there is no such server, UsageError if ``wanted`` is no such word, and
        WrongState if no server has the role now.
        """
        server_id = parse_whole_number(wanted)
        if server_id is not None:
            if server_id not in self.servers:
                raise NotFound(
                    f"there is no ZooKeeper server {wanted}",
                    hint=f"ZooKeeper servers: {', '.join(map(str, self.servers))}",
                )
            return server_id
        if wanted not in (LEADER, FOLLOWER):
            raise UsageError(
                f"'{wanted}' is not a ZooKeeper server", hint="give a server id, leader or follower"
            )
        states = self.states()
        roles = _LEADING if wanted == LEADER else (FOLLOWER,)
        found = next((server.id for server in states if server.state in roles), None)
        if found is None:
            seen = ", ".join(f"{server.id}: {server.state}" for server in states)
            role = "the leader" if wanted == LEADER else "a follower"
            raise WrongState(
                f"no ZooKeeper server is {role} now ({seen})", hint="name a server by its id"
            )
        return found

    def act(self, action: str, server_id: int) -> None:
        """Carry out an action of SINGLE_SERVER.

        Raises WrongState if the server's state does not allow it, and ZooKeeperUnavailable if the
        server cannot be started.
        """
        with self.lock:
            server, row = self.servers[server_id], SINGLE_SERVER[action]
            state = PAUSED if server.is_paused else RUNNING if server.is_running else DOWN
            if state not in row.requires:
                raise WrongState(
                    f"cannot {action} ZooKeeper server {server_id}: its state is "
                    f"'{self.state(server_id)}'",
                    hint=f"the server must be {' or '.join(row.requires)}",
                )
            row.do(server)

    def crash(self, server_id: int) -> None:
        """Kill a server's process as if the server had crashed; `klamm up` then restarts it."""
        with self.lock:
            self.servers[server_id].crash()

    def lose_quorum(self) -> None:
        """Kill the leader and as many other servers as necessary for the quorum to be lost."""
        with self.lock:
            running = [id_ for id_, server in self.servers.items() if server.is_running]
            leader_id = self.leader_id()
            running.sort(key=lambda id_: id_ != leader_id)
            for id_ in running[: max(0, len(running) - self.majority + 1)]:
                self.servers[id_].kill()

    def regain_quorum(self) -> None:
        """Start all servers that are down, resume all frozen servers, and wait for a leader.

        Raises ZooKeeperUnavailable if a server cannot be started or no leader is elected.
        """
        with self.lock:
            for server in self.servers.values():
                if server.is_paused:
                    server.resume()
            self._on_all(lambda server: None if server.is_running else server.start())
        self.await_quorum()

    def close(self) -> None:
        """Kill all servers. The data directories are kept. May be called twice."""
        self._on_all(EmbeddedZooKeeper.close)

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    def _on_all(self, do: Callable[[EmbeddedZooKeeper], object]) -> None:
        """Call ``do`` for all servers in parallel. When all calls have ended, raise any failure."""
        if not self.servers:
            return
        with ThreadPoolExecutor(len(self.servers), "zookeeper-servers") as pool:
            done = [pool.submit(do, server) for server in self.servers.values()]
        for future in done:
            future.result()

    def _new_servers(self) -> dict[int, EmbeddedZooKeeper]:
        if self.size == 1:
            return {1: EmbeddedZooKeeper(self._data_dir, *self._client_ports)}
        # Drawn together: a server listens on its quorum port only while it is the leader, so that a
        # port that two servers share may be in use only when one of them is restarted.
        ports, n = [*self._client_ports], self.size
        while len(ports) < 3 * n:
            if (port := free_port()) not in ports:
                ports.append(port)
        clients, quorum, elections = ports[:n], ports[n : 2 * n], ports[2 * n :]
        settings: Mapping[str, str] = _QUORUM_SETTINGS | {
            f"server.{id_}": f"{HOST}:{quorum_port}:{election_port}"
            for id_, (quorum_port, election_port) in enumerate(
                zip(quorum, elections, strict=True), 1
            )
        }
        servers = {}
        for id_, port in enumerate(clients, 1):
            folder = self._data_dir / f"server-{id_}"
            folder.mkdir(exist_ok=True)
            (folder / "myid").write_text(f"{id_}\n")
            servers[id_] = EmbeddedZooKeeper(folder, port, heap_mb=_HEAP_MB, quorum=settings)
        return servers


class ServerAction(NamedTuple):
    """An action on one server or on all: what it does, its text for the docs, the states that it
    requires (of one of them, if it is on all), and the state that it leaves."""

    do: Callable[[Any], object]
    about: str
    requires: tuple[str, ...]
    leaves: str


SINGLE_SERVER: Final[Mapping[str, ServerAction]] = {
    "kill": ServerAction(
        EmbeddedZooKeeper.kill,
        "Kill a ZooKeeper server (leader, follower or an id); it stays down until it is started.",
        (RUNNING, PAUSED),
        DOWN,
    ),
    "start": ServerAction(
        EmbeddedZooKeeper.start,
        "Start a killed ZooKeeper server with its existing data.",
        (DOWN,),
        RUNNING,
    ),
    "pause": ServerAction(
        EmbeddedZooKeeper.pause,
        "Freeze a ZooKeeper server: its connections stay open, but it does not respond.",
        (RUNNING,),
        PAUSED,
    ),
    "resume": ServerAction(
        EmbeddedZooKeeper.resume, "Resume a frozen ZooKeeper server.", (PAUSED,), RUNNING
    ),
}
"""Actions on one server, keyed by name."""
WHOLE_ENSEMBLE: Final[Mapping[str, ServerAction]] = {
    "lose_quorum": ServerAction(
        EmbeddedEnsemble.lose_quorum,
        "Kill ZooKeeper servers, leader first, until the quorum is lost.",
        (RUNNING,),
        DOWN,
    ),
    "regain_quorum": ServerAction(
        EmbeddedEnsemble.regain_quorum,
        "Start or resume all ZooKeeper servers; wait for a leader.",
        (DOWN, PAUSED),
        RUNNING,
    ),
}
"""Actions on all servers, keyed by name."""


def check_size(data_dir: Path, size: int) -> None:
    """Record the number of servers in the data directory, or check it against the recorded number.

    Raises UsageError if the numbers differ, and ZooKeeperUnavailable if the directory is unusable.
    """
    path = data_dir / _SIZE_FILE
    try:
        data_dir.mkdir(parents=True, exist_ok=True)
        found = 1 if (data_dir / "version-2").exists() else None
        if path.exists():
            found = int(path.read_text())
        if found is None and size > 1:
            draft = path.with_suffix(".draft")
            draft.write_text(f"{size}\n")
            os.replace(draft, path)
    except (OSError, ValueError) as error:
        raise ZooKeeperUnavailable(f"{data_dir} cannot be used: {error}") from error
    if found not in (None, size):
        raise UsageError(
            f"{data_dir} has the data of {_servers(found)}, not of {_servers(size)}",
            hint=f"use --zookeeper-servers {found}, or another data directory",
        )


def _servers(count: int | None) -> str:
    return f"{count} ZooKeeper server{'' if count == 1 else 's'}"


def _is_clash(error: BaseException) -> bool:
    """Return True if the error may mean that another process took one of the servers' ports.

    A server that cannot bind its quorum port starts anyway, so the only symptom can be that no
    leader is elected.
    """
    return isinstance(error, ZooKeeperUnavailable) and (
        "in use" in error.message or "elected" in error.message
    )
