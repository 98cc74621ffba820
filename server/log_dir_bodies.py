"""What travels as JSON about log directories between the API of a running cluster and its clients.

As bodies.py, of which it is a part.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import msgspec

from admin.failures import Failure
from admin.log_dirs_command import LogDirDescription, ReplicaInfo
from admin.reassignments.reassign_admin import ReplicaLogDirs
from admin.reassignments.reassignment_json import TopicPartitionReplica
from brokers.bandwidth.model import UNLIMITED
from brokers.storage.faults import DiskFault, FaultKind
from cluster.api_errors import Errors
from cluster.integers import Count
from server.bodies import Partition, RequestBody


class Replica(Partition, frozen=True):
    """One replica of a partition."""

    broker: Count

    @property
    def replica(self) -> TopicPartitionReplica:
        """The replica as everybody else knows it."""
        return TopicPartitionReplica(self.topic, self.partition, self.broker)


class FailLogDir(RequestBody, frozen=True):
    """Body of POST /brokers/N/fail-log-dir."""

    log_dir: str


class FailDisk(RequestBody, frozen=True):
    """Body of POST /disks/fail: the disk of a broker's log directory, of all of them without
    ``log_dir``, or of the journal with ``journal``. Other fields as in DiskFault."""

    kind: FaultKind
    broker: int | None = None
    log_dir: str | None = None
    journal: bool = False
    after_bytes: int = 0
    times: int | None = None

    def __post_init__(self) -> None:
        if (self.broker is None) != self.journal or (self.journal and self.log_dir is not None):
            raise ValueError("name a broker, optionally with its log_dir, or set journal")
        if self.after_bytes < 0 or (self.times is not None and self.times < 1):
            raise ValueError("after_bytes must be at least 0, and times at least 1")

    @property
    def fault(self) -> DiskFault:
        """Return the requested fault."""
        return DiskFault(self.kind, after_bytes=self.after_bytes, times=self.times)


class SlowDisk(RequestBody, frozen=True):
    """Body of POST /disks/slow. ``log_dir`` None: all of the broker's."""

    broker: int
    bytes_per_s: int
    log_dir: str | None = None

    def __post_init__(self) -> None:
        if not 0 < self.bytes_per_s < UNLIMITED:
            raise ValueError("bytes_per_s must be at least 1")


class DiskFaultState(msgspec.Struct, frozen=True, omit_defaults=True):
    """An armed fault of the disk of a broker's log directory, or of the journal. ``kind``: as in
    FailDisk, or "slow" with ``bytes_per_s``."""

    kind: str
    broker: int | None = None
    log_dir: str | None = None
    journal: bool = False
    bytes_per_s: int | None = None


class DiskFaults(msgspec.Struct, frozen=True):
    """Answer of POST /disks/fail, /disks/slow and /disks/heal: all armed faults."""

    disk_faults: list[DiskFaultState]


class Brokers(RequestBody, frozen=True):
    """Body of POST /log-dirs/describe. None: those that live."""

    brokers: tuple[Count, ...] | None = None


class ReplicaLog(Partition, frozen=True, forbid_unknown_fields=False):
    """A replica in a directory: bytes, how far its end is behind, whether it is a future one."""

    size_bytes: int
    offset_lag: int
    is_future: bool


class LogDir(msgspec.Struct, frozen=True):
    """A directory; ``error`` is the Java class of what is wrong with it."""

    path: str
    error: str | None
    replicas: list[ReplicaLog]


class BrokerLogDirs(msgspec.Struct, frozen=True):
    """The directories of a broker."""

    broker: int
    log_dirs: list[LogDir]


class LogDirs(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs/describe."""

    brokers: list[BrokerLogDirs]

    @classmethod
    def of(cls, found: Mapping[int, Mapping[str, LogDirDescription]]) -> LogDirs:
        """From what brokers say, sorted."""
        return cls(
            [
                BrokerLogDirs(
                    broker, [_log_dir(path, found[broker][path]) for path in sorted(found[broker])]
                )
                for broker in sorted(found)
            ]
        )

    def by_broker(self) -> dict[int, dict[str, LogDirDescription]]:
        """Back again."""
        return {
            broker.broker: {
                log_dir.path: LogDirDescription(
                    log_dir.error,
                    {
                        one.key: ReplicaInfo(one.size_bytes, one.offset_lag, one.is_future)
                        for one in log_dir.replicas
                    },
                )
                for log_dir in broker.log_dirs
            }
            for broker in self.brokers
        }


class Replicas(RequestBody, frozen=True):
    """Body of POST /log-dirs/replicas."""

    replicas: tuple[Replica, ...]

    @classmethod
    def of(cls, replicas: Iterable[TopicPartitionReplica]) -> Replicas:
        """From a tool's replicas."""
        return cls(tuple(Replica(*replica) for replica in replicas))


class ReplicaPlace(Replica, frozen=True, forbid_unknown_fields=False):
    """The directory of a replica and, while it moves, the one that it moves to."""

    current: str | None = None
    future: str | None = None


class ReplicaPlaces(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs/replicas."""

    replicas: list[ReplicaPlace]

    @classmethod
    def of(cls, found: Mapping[TopicPartitionReplica, ReplicaLogDirs]) -> ReplicaPlaces:
        """From what brokers say, sorted."""
        return cls([ReplicaPlace(*replica, *found[replica]) for replica in sorted(found)])

    def by_replica(self) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        """Back again."""
        return {one.replica: ReplicaLogDirs(one.current, one.future) for one in self.replicas}


class WantedLogDir(Replica, frozen=True):
    """Which directory a replica is to have."""

    log_dir: str


class AlterLogDirs(RequestBody, frozen=True):
    """Body of POST /log-dirs."""

    replicas: tuple[WantedLogDir, ...]


class ReplicaFailure(Replica, frozen=True, forbid_unknown_fields=False):
    """Why a replica was refused."""

    code: str
    message: str | None = None


class ReplicaFailures(msgspec.Struct, frozen=True):
    """Answer of POST /log-dirs: the replicas that were refused, sorted."""

    failures: list[ReplicaFailure]

    @classmethod
    def of(cls, failures: Mapping[TopicPartitionReplica, Failure]) -> ReplicaFailures:
        """From what brokers say."""
        return cls(
            [
                ReplicaFailure(*replica, failures[replica].error.name, failures[replica].message)
                for replica in sorted(failures)
            ]
        )

    def by_replica(self) -> dict[TopicPartitionReplica, Failure]:
        """Back again."""
        return {one.replica: Failure(Errors[one.code], one.message) for one in self.failures}


def _log_dir(path: str, found: LogDirDescription) -> LogDir:
    return LogDir(
        path,
        found.error,
        [
            ReplicaLog(*tp, one.size_bytes, one.offset_lag, one.is_future)
            for tp, one in sorted(found.replicas.items())
        ],
    )
