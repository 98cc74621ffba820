"""Reader of ZooKeeper's snapshots (version-2/snapshot.*), which hold the tree at about a zxid.

A snapshot is fuzzy: it may contain changes after its zxid. Later transactions must be applied
again, even if their znodes already exist or are already gone. Mirrors
org.apache.zookeeper.server.persistence.FileSnap and server.DataTree.deserialize.
"""

from __future__ import annotations

import gzip
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

from klamm.cluster.errors import EnvironmentProblem
from klamm.zk.jute import JuteError, JuteReader

MAGIC: Final = b"ZKSN"
VERSION: Final = 2
PREFIX: Final = "snapshot."
GZIP_MAGIC: Final = b"\x1f\x8b"
SNAPPY_MAGIC: Final = b"\x82SNAPPY\0"
_END: Final = "/"
_CONTAINER: Final = -(1 << 63)
_TTL_SHIFT: Final = 56


class SnapshotNode(NamedTuple):
    """A znode of a snapshot. ``ephemeral_owner``: a session id, or 0; times in ms."""

    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    ephemeral_owner: int


class SnapshotEntry(NamedTuple):
    """A znode with its position: ``offset`` in bytes, in a gzip file after decompression."""

    offset: int
    path: str
    node: SnapshotNode


def read_entries(path: Path) -> Iterator[SnapshotEntry]:
    """Yield the znodes of a snapshot.

    Raises EnvironmentProblem if the file is not a snapshot, or damaged. A wrong checksum is
    detected after the last znode; the znodes yielded before must not be trusted then.
    """
    reader = _open(path)
    try:
        _skip_sessions(reader)
        yield from _entries(reader)
    except (JuteError, UnicodeDecodeError) as error:
        raise EnvironmentProblem(f"{path} is a damaged snapshot: {error}") from error


def _open(path: Path) -> JuteReader:
    data = path.read_bytes()
    if data.startswith(GZIP_MAGIC):
        try:
            data = gzip.decompress(data)
        except (EOFError, OSError, zlib.error) as error:
            raise EnvironmentProblem(f"{path} is a damaged gzip file: {error}") from error
    if data.startswith(SNAPPY_MAGIC):
        raise EnvironmentProblem(
            f"{path} is compressed with snappy, which is not supported",
            hint="use -Dzookeeper.snapshot.compression.method=gz in ZooKeeper",
        )
    if not data.startswith(MAGIC):
        raise EnvironmentProblem(
            f"{path} is not a ZooKeeper snapshot", hint="plain and gzip snapshots are supported"
        )
    return JuteReader(data, len(MAGIC))


def _skip_sessions(reader: JuteReader) -> None:
    """Skip the sessions and the ACLs before the znodes."""
    version = reader.int32()
    if version != VERSION:
        raise JuteError(f"unsupported version {version}, expected {VERSION}")
    reader.int64()
    for _ in range(reader.count()):
        reader.int64()
        reader.int32()
    for _ in range(reader.count()):
        reader.int64()
        reader.skip_acls()


def _entries(reader: JuteReader) -> Iterator[SnapshotEntry]:
    while True:
        offset = reader.position
        name = reader.text()
        if name == _END:
            break
        yield SnapshotEntry(offset, name or "/", _node(reader))
    sealed = reader.adler32()
    seal = reader.int64()
    if seal != sealed:
        raise JuteError(f"wrong checksum {seal:x}, expected {sealed:x}")


def _node(reader: JuteReader) -> SnapshotNode:
    data = reader.buffer()
    reader.int64()
    czxid, mzxid, ctime_ms, mtime_ms = (reader.int64() for _ in range(4))
    version, _, _ = reader.int32(), reader.int32(), reader.int32()
    owner = reader.int64()
    reader.int64()
    # Container and TTL znodes are marked in this field; clients see 0.
    is_session = owner != _CONTAINER and owner >> _TTL_SHIFT != -1
    return SnapshotNode(data, czxid, mzxid, ctime_ms, mtime_ms, version, owner if is_session else 0)


def snapshot_zxid(path: Path) -> int:
    """Return the zxid in a file name such as snapshot.4e61 or snapshot.4e61.gz; -1 without one."""
    word = path.name.removeprefix(PREFIX).partition(".")[0]
    try:
        return int(word, 16)
    except ValueError:
        return -1
