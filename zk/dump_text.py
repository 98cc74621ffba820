"""Parses the output of `klamm zk dump`. Error messages contain line numbers.

docs/rehearsal.md describes the format. zk/dump_store.py offers a parsed dump as a Store, and
zk/load_plan.py plans how to load it into ZooKeeper.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
import sys
from pathlib import Path
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError
from klamm.zk.data_tree import is_valid
from klamm.zk.dump import DumpedZNode
from klamm.zk.snapshot_file import GZIP_MAGIC
from klamm.zk.znodes import BrokerIdsZNode, ControllerZNode

_decode_dump = msgspec.json.Decoder(list[DumpedZNode]).decode
_HINT: Final = "create one with klamm zk dump"
_UTF16: Final = (b"\xff\xfe", b"\xfe\xff")
_AT_BYTE: Final = re.compile(r" \(byte (\d+)\)$")
_AT_INDEX: Final = re.compile(r" - at `\$\[(\d+)\](.*)`$")
_NEXT_VALUE: Final = re.compile(r"[\s,\[]*")
# ZooKeeper marks containers and TTL znodes in the field of the ephemeral owner.
_CONTAINER_OWNER: Final = 1 << 63
_TTL_MARK: Final = 0xFF << 56


def read_dump(path: Path) -> list[DumpedZNode]:
    """Read the znodes of a dump from a file, or from standard input if ``path`` is ``-``.

    Raises UsageError if the file cannot be read or is not a dump.
    """
    is_stdin = str(path) == "-"
    try:
        text = sys.stdin.buffer.read() if is_stdin else path.read_bytes()
    except OSError as error:
        raise UsageError(f"cannot read the dump {path}: {error.strerror}") from None
    try:
        return parse_dump(text)
    except UsageError as error:
        raise UsageError(
            f"{'standard input' if is_stdin else path} is {error.message}", hint=error.hint
        ) from None


def parse_dump(text: bytes) -> list[DumpedZNode]:
    """Parse the znodes of a dump. Raises UsageError, with the line number, for invalid text."""
    _check_encoding(text)
    try:
        znodes = _decode_dump(text)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise _syntax_error(text, error) from None
    if not znodes:
        raise _error("it contains no znodes")
    line_of: dict[str, int] = {}
    for index, znode in enumerate(znodes):
        reason = _nonsense(znode)
        if reason is None and line_of.setdefault(znode.path, index) != index:
            first = _line_of_znode(text, line_of[znode.path])
            reason = f"duplicate znode {znode.path}, which is also in line {first}"
        if reason is not None:
            raise _error(f"line {_line_of_znode(text, index)}: {reason}")
    return znodes


def data_of(znode: DumpedZNode) -> bytes | None:
    """Return the data of a znode, or None for null data and for unreadable znodes."""
    if isinstance(znode.base64, str):
        return base64.b64decode(znode.base64)
    return znode.data.encode() if isinstance(znode.data, str) else None


def owner_of(znode: DumpedZNode) -> int:
    """Return the id of the session that owns the znode, or 0 if the znode is not ephemeral."""
    owner = znode.ephemeral_owner
    number = int(owner, 16) if isinstance(owner, str) else 0
    is_session = number != _CONTAINER_OWNER and number & _TTL_MARK != _TTL_MARK
    return number if is_session else 0


def is_ephemeral(znode: DumpedZNode) -> bool:
    """Return True if the znode is ephemeral.

    If the dump has no ``ephemeral_owner``, a znode is ephemeral if Kafka creates that path as an
    ephemeral znode.
    """
    if znode.ephemeral_owner is not msgspec.UNSET:
        return owner_of(znode) != 0
    is_broker = znode.path.rpartition("/")[0] == BrokerIdsZNode.path
    return is_broker or znode.path == ControllerZNode.path


def is_unreadable(znode: DumpedZNode) -> bool:
    """Return True if the znode's data is missing because `klamm zk dump` could not read it."""
    return znode.unreadable is not msgspec.UNSET


def _check_encoding(text: bytes) -> None:
    if not text.strip():
        raise UsageError("not a dump: it is empty", hint=_HINT)
    if text.startswith(GZIP_MAGIC):
        raise UsageError("not a dump: it is compressed", hint="gunzip it first")
    if text.startswith(_UTF16):
        raise UsageError("not a dump: it is UTF-16", hint="a dump is UTF-8 text")
    try:
        text.decode()
    except UnicodeDecodeError as error:
        line = _line_at(text, error.start)
        raise _error(f"line {line}: invalid UTF-8", "a dump is UTF-8 text") from None


def _syntax_error(text: bytes, error: Exception) -> UsageError:
    message = str(error)
    if (found := _AT_BYTE.search(message)) is not None:
        return _error(f"line {_line_at(text, int(found[1]))}: {_AT_BYTE.sub('', message)}")
    if (found := _AT_INDEX.search(message)) is not None:
        field = f", {found[2].lstrip('.')}" if found[2] else ""
        line = _line_of_znode(text, int(found[1]))
        return _error(f"line {line}{field}: {_AT_INDEX.sub('', message)}")
    if "truncated" in message:
        line = _line_at(text, len(text.rstrip()) - 1)
        return _error(f"line {line}: unexpected end", "the dump is truncated: create it again")
    return _error(message)


def _nonsense(znode: DumpedZNode) -> str | None:
    if not is_valid(znode.path):
        return f"{znode.path!r} is not a valid znode path"
    if isinstance(znode.base64, str):
        if znode.data is not msgspec.UNSET:
            return f"{znode.path} has both data and base64"
        try:
            base64.b64decode(znode.base64, validate=True)
        except (binascii.Error, ValueError) as error:
            return f"invalid base64 data of {znode.path}: {error}"
    if isinstance(znode.ephemeral_owner, str):
        try:
            int(znode.ephemeral_owner, 16)
        except ValueError:
            return f"the ephemeral_owner of {znode.path} is not a number"
    return None


def _line_at(text: bytes, position: int) -> int:
    return text.count(b"\n", 0, position) + 1


def _line_of_znode(text: bytes, index: int) -> int:
    """Return the line on which the ``index``-th element of a JSON array begins."""
    whole, scan = text.decode(), json.JSONDecoder().raw_decode
    position = 0
    for _ in range(index):
        gap = _NEXT_VALUE.match(whole, position)
        try:
            _, position = scan(whole, position if gap is None else gap.end())
        except ValueError:
            break
    gap = _NEXT_VALUE.match(whole, position)
    return whole.count("\n", 0, position if gap is None else gap.end()) + 1


def _error(reason: str, hint: str = _HINT) -> UsageError:
    return UsageError(f"not a dump: {reason}", hint=hint)
