"""Finds ZooKeeper's transaction logs and snapshots, missing zxids, and overlaps between logs.

Works with file names, first bytes and ranges of zxids, and does not read transactions. A zxid is
ZooKeeper's epoch << 32 | counter; the counter has no gaps within an epoch.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.counting import counted
from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.zk import snapshot_file, txn_log

VERSION_DIRECTORY: Final = "version-2"
_EPOCH_BITS: Final = 32
_LOG_NAME: Final = re.compile(r"log\.[0-9a-f]{1,16}")
_SNAPSHOT_NAME: Final = re.compile(r"snapshot\.[0-9a-f]{1,16}(\.gz|\.snappy)?")
_PACKED: Final = (snapshot_file.GZIP_MAGIC, snapshot_file.SNAPPY_MAGIC)
_HEAD_BYTES: Final = 64 * 1024


def is_txn_log(path: Path, head: bytes) -> bool:
    """Return whether a file is a transaction log, which may be empty. ``head``: its first bytes."""
    if head.startswith(txn_log.MAGIC):
        return True
    return bool(_LOG_NAME.fullmatch(path.name)) and not head.strip(b"\0")


def is_snapshot(path: Path, head: bytes) -> bool:
    """Return whether a file is a snapshot, which may be compressed. ``head``: its first bytes."""
    return head.startswith(snapshot_file.MAGIC) or (
        bool(_SNAPSHOT_NAME.fullmatch(path.name)) and head.startswith(_PACKED)
    )


class ZooKeeperFiles(NamedTuple):
    """Transaction logs and snapshots, each file once."""

    logs: tuple[Path, ...]
    snapshots: tuple[Path, ...]


def find_zookeeper_files(paths: Iterable[Path]) -> ZooKeeperFiles:
    """Find logs and snapshots. A path is a file, a directory, or the parent of ``version-2``.

    Raises UsageError for a path that does not exist or a directory without such files,
    EnvironmentProblem for a file that is neither a log nor a snapshot or has an unknown version.
    """
    logs: dict[Path, Path] = {}
    snapshots: dict[Path, Path] = {}
    for path in _files(paths):
        head = _head(path)
        if is_snapshot(path, head):
            snapshots.setdefault(path.resolve(), path)
        else:
            txn_log.check_txn_log(path, head)
            logs.setdefault(path.resolve(), path)
    return ZooKeeperFiles(tuple(logs.values()), tuple(snapshots.values()))


def _files(paths: Iterable[Path]) -> Iterable[Path]:
    for path in paths:
        if not path.is_dir():
            if not path.exists():
                raise UsageError(f"{path} does not exist")
            yield path
            continue
        inner = path / VERSION_DIRECTORY
        folder = inner if inner.is_dir() else path
        found = [
            child
            for child in sorted(folder.iterdir())
            if _LOG_NAME.fullmatch(child.name) or _SNAPSHOT_NAME.fullmatch(child.name)
        ]
        if not found:
            raise UsageError(
                f"{path} has no ZooKeeper transaction logs",
                hint="look in the server's dataLogDir/version-2 (log.*) and dataDir/version-2 "
                "(snapshot.*)",
            )
        yield from found


def _head(path: Path) -> bytes:
    try:
        with path.open("rb") as file:
            return file.read(_HEAD_BYTES)
    except OSError as error:
        raise EnvironmentProblem(f"{path} cannot be read: {error.strerror}") from error


class ZxidRange(NamedTuple):
    """A range of consecutive transactions in a file. ``offset``: first byte of the range."""

    first_zxid: int
    last_zxid: int
    file: str
    offset: int


class Gap(NamedTuple):
    """A range of transactions that are missing from all files.

    - ``file``, ``offset``: file and byte offset of the first transaction after the gap.
    - ``is_between``: the files contain earlier transactions, or a snapshot replaces them. If false,
      the gap is at the beginning of the logs.
    """

    file: str
    offset: int
    first_zxid: int
    last_zxid: int
    is_between: bool

    @property
    def text(self) -> str:
        """Text for the user with the zxids and the number of the missing transactions."""
        count = self.last_zxid - self.first_zxid + 1
        last = f" to 0x{self.last_zxid:x}" if count > 1 else ""
        return f"zxid 0x{self.first_zxid:x}{last}: {counted(count, 'transaction')}"


def has_overlap(ranges: Iterable[ZxidRange]) -> bool:
    """Return whether the same transaction occurs more than once."""
    last = -1
    for zxids in sorted(ranges):
        if zxids.first_zxid <= last:
            return True
        last = zxids.last_zxid
    return False


def find_gaps(ranges: Iterable[ZxidRange], start_zxid: int | None) -> list[Gap]:
    """Return the ranges of missing transactions, in order.

    ``start_zxid``: zxid of the snapshot that replaces earlier logs. If it is None and the logs do
    not begin with the first transaction of an epoch, the earlier transactions of that epoch count
    as missing. Missing transactions at the end of an epoch cannot be detected.
    """
    gaps = []
    last = -1 if start_zxid is None else start_zxid
    for zxids in sorted(ranges):
        first = zxids.first_zxid
        begins_epoch = last >> _EPOCH_BITS != first >> _EPOCH_BITS
        expected = (first >> _EPOCH_BITS << _EPOCH_BITS) + 1 if begins_epoch else last + 1
        if first > expected:
            gaps.append(Gap(zxids.file, zxids.offset, expected, first - 1, last >= 0))
        last = max(last, zxids.last_zxid)
    return gaps


def start_snapshot(snapshots: Sequence[Path], first_zxid: int | None) -> Path | None:
    """Choose the snapshot that replaces the transactions before ``first_zxid``.

    Returns the oldest snapshot that contains all these transactions, or else the newest snapshot.
    ``first_zxid`` is None if there are no logs.
    """
    by_zxid = sorted(snapshots, key=snapshot_file.snapshot_zxid)
    if not by_zxid:
        return None
    if first_zxid is not None:
        for path in by_zxid:
            if snapshot_file.snapshot_zxid(path) >= first_zxid - 1:
                return path
    return by_zxid[-1]
