"""The environments (worlds) in which drills run: a simulation, a real ZooKeeper, or Kafka.

On a real ZooKeeper, also that of Kafka's brokers, every drill gets a separate chroot, which is
removed at the end. A chroot that is used by a Kafka cluster is refused.
"""

from __future__ import annotations

import contextlib
import secrets
import time
from collections.abc import Iterator
from dataclasses import replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Self

from klamm.cluster.errors import StoreError, UsageError
from klamm.cluster.journal import JOURNAL_FILE
from klamm.lab.drivers.driver import ScenarioDriver
from klamm.lab.drivers.real_driver import RealDriver
from klamm.lab.drivers.simulated_driver import SimulatedDriver
from klamm.world.cluster_spec import ClusterSpec
from klamm.world.journal.journal import FileJournal, MemoryJournal
from klamm.world.real.cluster import RealCluster
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.embedded import EmbeddedZooKeeper
from klamm.zk.ensemble import EmbeddedEnsemble
from klamm.zk.guard import RunInfo, check_may_run_in, create_marker
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_session import KazooSession
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.security import UNSECURED, ZooKeeperSecurity
from klamm.zk.store import SessionEvent, SessionState


class World(StrEnum):
    """Where drills run: which brokers and which controller, and whether ZooKeeper is real."""

    SIMULATION = "simulation"
    ZOOKEEPER = "zookeeper"
    """klamm's controllers and simulated brokers on a real ZooKeeper."""
    KAFKA = "kafka"
    """Brokers of Kafka 2.8.2, under their own controller."""
    KAFKA_WITH_KLAMM = "kafka-with-klamm"
    """Brokers of Kafka 2.8.2, under klamm's controller."""

    @property
    def has_kafka(self) -> bool:
        """True if the brokers are Kafka's."""
        return self in (World.KAFKA, World.KAFKA_WITH_KLAMM)


ZOOKEEPER_FOLDER: Final = "zookeeper"
_SESSION_TIMEOUT_MS: Final = 30_000


class Worlds:
    """Context manager for a series of drills; ``open`` starts a separate cluster (world) for each.

    ``folder`` receives a directory for each drill, with the drill's journal, and the data of the
    embedded ZooKeeper. ``zookeeper`` is the ``host:port/chroot`` of an existing ZooKeeper. On
    entry, raises NotKlamm if a Kafka cluster uses that chroot, ZooKeeperUnavailable if no server
    responds, and UsageError if the connect string is malformed or Kafka cannot use the folder.
    """

    def __init__(
        self,
        folder: Path,
        klamm_version: str,
        *,
        world: World,
        zookeeper: str | None = None,
        security: ZooKeeperSecurity = UNSECURED,
    ) -> None:
        self.world = world
        # Processes that get paths in it have other working directories.
        self._folder = folder.absolute()
        self._version = klamm_version
        self._zookeeper = zookeeper
        self._security = security
        self._connect_string = ""
        self._opened = 0
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Self:
        if self.world.has_kafka and "," in str(self._folder):
            raise UsageError(
                f"Kafka's log.dirs cannot contain a directory with a comma: {self._folder}",
                hint="choose another --data-dir",
            )
        with self._stack:
            if self.world is World.SIMULATION:
                pass
            elif self._zookeeper is None:
                server = EmbeddedZooKeeper(self._folder / ZOOKEEPER_FOLDER)
                self._connect_string = self._stack.enter_context(server.start()).connect_string
            else:
                _check_place(self._session(self._zookeeper))
                self._connect_string = self._zookeeper
            self._stack = self._stack.pop_all()
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    @contextlib.contextmanager
    def open(self, spec: ClusterSpec, name: str) -> Iterator[ScenarioDriver]:
        """Context manager that opens a world for one drill, and finally writes the drill's journal.

        A real cluster gets an ensemble of its own if its spec has ZooKeeper servers.
        """
        self._opened += 1
        out = self._folder / f"{self._opened}-{name}"
        out.mkdir()
        with contextlib.ExitStack() as stack:
            if self.world.has_kafka:
                # kio, for Kafka's protocol, takes 0.3 s to import.
                from klamm.lab.drivers.kafka_driver import KafkaDriver
                from klamm.world.kafka.cluster import KafkaCluster

                chroot = stack.enter_context(self._own_chroot(self._connect_string))
                has_klamm = self.world is World.KAFKA_WITH_KLAMM
                cluster = KafkaCluster(spec, chroot, out, has_klamm=has_klamm)
                stack.callback(cluster.close)
                cluster.open()
                yield KafkaDriver(cluster)
            elif self.world is World.ZOOKEEPER:
                ensemble, where = None, self._connect_string
                if spec.zookeeper_servers:
                    ensemble = EmbeddedEnsemble(out / ZOOKEEPER_FOLDER, spec.zookeeper_servers)
                    where = stack.enter_context(ensemble).connect_string
                chroot = stack.enter_context(self._own_chroot(where))
                journal = MemoryJournal()
                stack.callback(save_journal, journal, out)
                segments = None if spec.segments is None else out / spec.segments
                placed = replace(spec, zookeeper_security=self._security, segments=segments)
                real = stack.enter_context(RealCluster(placed, chroot, journal))
                yield RealDriver(real, journal, ensemble)
            else:
                world = SimulatedWorld(spec, has_memory_disk=True)
                stack.callback(save_journal, world.journal, out)
                yield SimulatedDriver(world)

    def _session(self, address: str) -> KazooSession:
        return KazooSession(address, _SESSION_TIMEOUT_MS, security=self._security)

    @contextlib.contextmanager
    def _own_chroot(self, connect_string: str) -> Iterator[str]:
        """Context manager that creates a chroot, and removes it and new parents at the end.

        It has klamm's marker, unless the brokers are Kafka's. If the connection is lost by then,
        the chroot is not removed.
        """
        name = f"drill-{secrets.token_hex(6)}"
        run = RunInfo(name, time.time_ns() // 1_000_000, self._version)
        with contextlib.closing(self._session(connect_string)) as session:
            states = [SessionState.CONNECTED]
            session.add_listener(
                lambda event: (
                    states.append(event.state) if isinstance(event, SessionEvent) else None
                )
            )
            client = KafkaZkClient(KazooStore(session))
            created = session.create_chroot()
            while True:
                try:
                    client.create(f"/{name}")
                    break
                except StoreError:
                    if client.path_exists("/"):
                        raise
                # Another run has just removed the parents, which it had created.
                created = session.create_chroot()
            try:
                chroot = f"{connect_string.rstrip('/')}/{name}"
                if not self.world.has_kafka:
                    with contextlib.closing(self._session(chroot)) as inner:
                        create_marker(KafkaZkClient(KazooStore(inner)), run)
                yield chroot
            finally:
                if states[-1] is SessionState.CONNECTED:
                    client.delete_recursive(f"/{name}")
                    session.delete_chroot(created)


def save_journal(kept: MemoryJournal, out: Path) -> None:
    """Write a journal to a file in the directory ``out``."""
    with contextlib.closing(FileJournal(out / JOURNAL_FILE)) as journal:
        journal.append(kept.rows)
        journal.flush()


def _check_place(opened: KazooSession) -> None:
    """Raise NotKlamm if a Kafka cluster uses the chroot."""
    with contextlib.closing(opened) as session:
        check_may_run_in(KafkaZkClient(KazooStore(session)))
