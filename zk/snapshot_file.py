"""Reads ZooKeeper's snapshots (version-2/snapshot.*): the tree as it was about a zxid.

A snapshot is fuzzy: changes after its zxid may be in it, so transactions after that zxid are to be
applied again, whether they find their znodes or not. Mirrors
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
    """A znode. ``ephemeral_owner``: a session, or 0; times in ms."""

    data: bytes | None
    czxid: int
    mzxid: int
    ctime_ms: int
    mtime_ms: int
    version: int
    ephemeral_owner: int


class SnapshotEntry(NamedTuple):
    """A znode and where it stands: ``offset`` in bytes (of what is in the gzip file)."""

    offset: int
    path: str
    node: SnapshotNode


def read_entries(path: Path) -> Iterator[SnapshotEntry]:
    """The znodes of a snapshot, none of them kept.

    Raises EnvironmentProblem if the file is no snapshot, or damaged; of a wrong checksum after the
    last znode: what came until then is not to be trusted.
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
            f"{path} is compressed by snappy, which is not read",
            hint="ZooKeeper writes others with -Dzookeeper.snapshot.compression.method=gz",
        )
    if not data.startswith(MAGIC):
        raise EnvironmentProblem(
            f"{path} is no ZooKeeper snapshot", hint="plain and gzip snapshots are read"
        )
    return JuteReader(data, len(MAGIC))


def _skip_sessions(reader: JuteReader) -> None:
    """Pass over the sessions and the ACLs, which come before the znodes."""
    version = reader.int32()
    if version != VERSION:
        raise JuteError(f"version {version}, where {VERSION} is known")
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
        raise JuteError(f"checksum {seal:x}, not {sealed:x}")


def _node(reader: JuteReader) -> SnapshotNode:
    data = reader.buffer()
    reader.int64()
    czxid, mzxid, ctime_ms, mtime_ms = (reader.int64() for _ in range(4))
    version, _, _ = reader.int32(), reader.int32(), reader.int32()
    owner = reader.int64()
    reader.int64()
    # A container and a znode with a time to live are marked here; clients see 0.
    is_session = owner != _CONTAINER and owner >> _TTL_SHIFT != -1
    return SnapshotNode(data, czxid, mzxid, ctime_ms, mtime_ms, version, owner if is_session else 0)


def snapshot_zxid(path: Path) -> int:
    """The zxid in a name such as snapshot.4e61 or snapshot.4e61.gz; -1 if there is none."""
    word = path.name.removeprefix(PREFIX).partition(".")[0]
    try:
        return int(word, 16)
    except ValueError:
        return -1
