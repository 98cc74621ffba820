"""Reader for ZooKeeper's snapshot files (version-2/snapshot.*), which contain the znode tree.

A snapshot is fuzzy: it may contain some changes made after the snapshot's zxid. When the later
transactions are applied to it, a created znode may already exist, and a deleted znode may already
be missing. Mirrors org.apache.zookeeper.server.persistence.FileSnap and
server.DataTree.deserialize.
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
    """A znode in a snapshot. ``ephemeral_owner`` is 0 if the znode is persistent."""

    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    ephemeral_owner: int


class SnapshotEntry(NamedTuple):
    """A znode with its position in the file.

    ``offset`` is in bytes; in a gzip file, it is the offset after decompression.
    """

    offset: int
    path: str
    node: SnapshotNode


def read_entries(path: Path) -> Iterator[SnapshotEntry]:
    """Yield the znodes of a snapshot.

    Raises EnvironmentProblem if the file is damaged or is not a snapshot. A wrong checksum is only
    detected after the last znode, so do not rely on the znodes before the iteration ends.
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
            hint="start ZooKeeper with -Dzookeeper.snapshot.compression.method=gz",
        )
    if not data.startswith(MAGIC):
        raise EnvironmentProblem(
            f"{path} is not a ZooKeeper snapshot",
            hint="uncompressed and gzip snapshots are supported",
        )
    return JuteReader(data, len(MAGIC))


def _skip_sessions(reader: JuteReader) -> None:
    """Skip the sessions and the ACLs, which precede the znodes in a snapshot."""
    version = reader.int32()
    if version != VERSION:
        raise JuteError(f"version {version} is not supported, expected {VERSION}")
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
    """Return the zxid in a file name such as snapshot.4e61.gz, or -1 if the name has no zxid."""
    word = path.name.removeprefix(PREFIX).partition(".")[0]
    try:
        return int(word, 16)
    except ValueError:
        return -1
