"""Bodies of requests to the HTTP API: their base type, and those about disks.

The calls of Kafka's Admin are in admin_calls.py, producers and consumers in client_bodies.py.
"""

from __future__ import annotations

import msgspec

from brokers.bandwidth.model import UNLIMITED
from brokers.storage.faults import DiskFault, FaultKind


class RequestBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all types that requests consist of: a field without a meaning here is an error.

    Types that only answers have accept unknown fields, so that clients can read those of newer
    servers.
    """


class NoFields(RequestBody, frozen=True):
    """Body of a request without fields, query of a request without parameters."""


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
