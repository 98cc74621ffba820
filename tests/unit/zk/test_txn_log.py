"""The transaction log that a real ZooKeeper 3.5.9 wrote, whole and damaged."""

from __future__ import annotations

import gzip
import struct
import zlib
from collections import Counter
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem
from klamm.zk.jute import JuteError, JuteReader
from klamm.zk.snapshot_file import read_entries, snapshot_zxid
from klamm.zk.txn_log import (
    Txn,
    TxnDamage,
    TxnOp,
    TxnType,
    ZxidStretch,
    cut_txn_log,
    read_stretches,
    read_txn_log,
)

DATA = Path(__file__).parents[2] / "data" / "kafka_logs" / "trace" / "zookeeper" / "version-2"
LOG = DATA / "log.1"


def transactions(path: Path) -> list[Txn]:
    return [txn for txn in read_txn_log(path) if isinstance(txn, Txn)]


def damages(path: Path) -> list[TxnDamage]:
    return [txn for txn in read_txn_log(path) if isinstance(txn, TxnDamage)]


def test_every_transaction_is_read() -> None:
    found = list(read_txn_log(LOG))
    assert [txn.zxid for txn in found if isinstance(txn, Txn)] == list(range(1, 1329))
    assert len(found) == 1328


def test_changes_of_all_kinds_are_distinguished() -> None:
    counts = Counter((op.type.name, txn.is_multi) for txn in transactions(LOG) for op in txn.ops)
    assert counts == {
        ("ERROR", False): 441,
        ("DELETE", False): 265,
        ("CREATE", False): 200,
        ("CHECK", True): 123,
        ("CREATE_SESSION", False): 110,
        ("SET_DATA", True): 108,
        ("CLOSE_SESSION", False): 107,
        ("CREATE", True): 85,
        ("SET_DATA", False): 34,
        ("ERROR", True): 17,
        ("DELETE", True): 9,
    }


def test_an_election_of_a_controller_is_one_multi() -> None:
    election = next(
        txn
        for txn in transactions(LOG)
        if txn.is_multi and any(op.path.endswith("/controller_epoch") for op in txn.ops)
    )
    create, set_data = election.ops
    assert (create.type, create.is_ephemeral) == (TxnType.CREATE, True)
    assert b'"brokerid"' in (create.data or b"")
    assert (set_data.type, set_data.data, set_data.version) == (TxnType.SET_DATA, b"1", 1)


def test_a_refused_multi_holds_an_error_and_may_hold_the_changes_before_it() -> None:
    rejected = [txn for txn in transactions(LOG) if txn.is_multi and txn.is_rejected]
    shapes = Counter(tuple(op.type for op in txn.ops) for txn in rejected)
    assert shapes[TxnType.CHECK, TxnType.ERROR] + shapes[TxnType.ERROR, TxnType.ERROR] == sum(
        shapes.values()
    )
    assert shapes[TxnType.CHECK, TxnType.ERROR] == 17 - 2 * shapes[TxnType.ERROR, TxnType.ERROR]


_PATH = b"\0\0\0\2/a"
_DATA = b"\0\0\0\1x"
_ACL = b"\0\0\0\1\0\0\0\x1f\0\0\0\5world\0\0\0\6anyone"
_CREATED = TxnOp(TxnType.CREATE, "/a", b"x")
_EPHEMERAL = _CREATED._replace(is_ephemeral=True)
_VERSION = b"\0\0\0\7"
_NULL = b"\xff\xff\xff\xff"


@pytest.mark.parametrize(
    ("kind", "record", "op"),
    [
        pytest.param(kind, _PATH + record, op, id=name)
        for name, kind, record, op in (
            ("check", TxnType.CHECK, _VERSION, TxnOp(TxnType.CHECK, "/a", version=7)),
            ("delete", TxnType.DELETE, b"", TxnOp(TxnType.DELETE, "/a")),
            ("set", TxnType.SET_DATA, _DATA + _VERSION, TxnOp(TxnType.SET_DATA, "/a", b"x", 7)),
            ("null", TxnType.SET_DATA, _NULL + _VERSION, TxnOp(TxnType.SET_DATA, "/a", None, 7)),
            ("ephemeral", TxnType.CREATE, _DATA + _ACL + b"\1" + _VERSION, _EPHEMERAL),
            ("no ACL", TxnType.CREATE2, _DATA + _NULL + b"\0" + _VERSION, _CREATED),
            ("container", TxnType.CREATE_CONTAINER, _DATA + _ACL + _VERSION, _CREATED),
            ("ttl", TxnType.CREATE_TTL, _DATA + _ACL + _VERSION + bytes(7) + b"\1", _CREATED),
        )
    ],
)
def test_a_failed_multi_is_the_same_after_zookeeper_replaced_its_types(
    tmp_path: Path, kind: TxnType, record: bytes, op: TxnOp
) -> None:
    path = tmp_path / "log.1"
    frames = b""
    for type_ in (kind, TxnType.ERROR):
        txn = struct.pack(">qiqqiiii", 9, 1, 5, 0, TxnType.MULTI, 2, type_, len(record)) + record
        txn += struct.pack(">iii", TxnType.ERROR, 4, -101)
        frames += struct.pack(">qi", zlib.adler32(txn), len(txn)) + txn + b"B"
    path.write_bytes(LOG.read_bytes()[:16] + frames)
    logged, replaced = transactions(path)
    assert logged.ops == (op, TxnOp(TxnType.ERROR, number=-101))
    assert replaced == logged._replace(offset=replaced.offset)
    assert replaced.is_rejected


@pytest.mark.parametrize("cut", [5, 9, 13, 44])
def test_a_torn_tail_is_reported(tmp_path: Path, cut: int) -> None:
    last = transactions(LOG)[-1]
    torn = tmp_path / "log.1"
    data = LOG.read_bytes()
    torn.write_bytes(data[: last.offset + cut])
    assert len(transactions(torn)) == 1327
    assert [(d.offset, d.problem) for d in damages(torn)] == [(last.offset, "torn")]


def test_a_flipped_bit_costs_one_transaction(tmp_path: Path) -> None:
    hit = transactions(LOG)[700]
    data = bytearray(LOG.read_bytes())
    data[hit.offset + 30] ^= 1
    flipped = tmp_path / "log.1"
    flipped.write_bytes(data)
    assert [txn.zxid for txn in transactions(flipped)] == [
        zxid for zxid in range(1, 1329) if zxid != hit.zxid
    ]
    assert [(d.offset, d.problem) for d in damages(flipped)] == [(hit.offset, "crc")]


@pytest.mark.parametrize("content", [b"", b"\0" * 100])
def test_a_file_without_transactions_is_empty(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    assert list(read_txn_log(path)) == []


@pytest.mark.parametrize("content", [b"ZK", b"hello, this is a text", b"ZKSN" + b"\0" * 40])
def test_a_file_that_is_no_transaction_log_is_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=r"log\.1 is not a ZooKeeper transaction log"):
        list(read_txn_log(path))


def test_a_transaction_log_of_another_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(b"ZKLG\0\0\0\x03" + b"\0" * 8)
    with pytest.raises(EnvironmentProblem, match="version 3"):
        list(read_txn_log(path))


def test_a_snapshot_is_read_plain_and_packed(tmp_path: Path) -> None:
    assert snapshot_zxid(DATA / "snapshot.0") == 0
    plain = list(read_entries(DATA / "snapshot.0"))
    assert [entry.path for entry in plain] == [
        "/",
        "/zookeeper",
        "/zookeeper/config",
        "/zookeeper/quota",
    ]
    packed = tmp_path / "snapshot.0.gz"
    packed.write_bytes(gzip.compress((DATA / "snapshot.0").read_bytes()))
    assert list(read_entries(packed)) == plain


def test_sessions_in_a_snapshot_are_skipped(tmp_path: Path) -> None:
    data = (DATA / "snapshot.0").read_bytes()
    sessions = struct.pack(">iqiqi", 2, 1 << 56, 18_000, (1 << 56) + 1, 6_000)
    longer = data[:16] + sessions + data[20:-13]
    path = tmp_path / "snapshot.0"
    path.write_bytes(longer + struct.pack(">qi", zlib.adler32(longer), 1) + b"/")
    moved = [entry._replace(offset=entry.offset + 24) for entry in read_entries(DATA / path.name)]
    assert list(read_entries(path)) == moved


@pytest.mark.parametrize(
    ("stored", "owner"),
    [
        pytest.param((1 << 56) + 7, (1 << 56) + 7, id="session"),
        pytest.param(-(1 << 63), 0, id="container"),
        pytest.param(-(1 << 56) + 60_000, 0, id="time to live of a minute"),
    ],
)
def test_only_a_session_owns_a_znode_in_a_snapshot(tmp_path: Path, stored: int, owner: int) -> None:
    data = bytearray((DATA / "snapshot.0").read_bytes())
    last = [*read_entries(DATA / "snapshot.0")][-1]
    struct.pack_into(">q", data, len(data) - 34, stored)  # before the pzxid of the last znode
    data[-13:-5] = struct.pack(">q", zlib.adler32(data[:-13]))
    path = tmp_path / "snapshot.0"
    path.write_bytes(data)
    changed = [*read_entries(path)][-1]
    assert changed == last._replace(node=last.node._replace(ephemeral_owner=owner))


SNAPSHOT = (DATA / "snapshot.0").read_bytes()


@pytest.mark.parametrize(
    ("name", "content", "problem"),
    [
        ("snapshot.0", SNAPSHOT.replace(b"\2", b"\3", 1), "version 3 is not supported, expected 2"),
        *(("snapshot.0", SNAPSHOT[:size], "is a damaged snapshot") for size in (8, 100, 400)),
        ("snapshot.0", SNAPSHOT[:-60] + bytes([SNAPSHOT[-60] ^ 1]) + SNAPSHOT[-59:], "checksum"),
        ("snapshot.1", LOG.read_bytes(), "is not a ZooKeeper snapshot"),
        (
            "snapshot.4e.snappy",
            b"\x82SNAPPY\0\0\0\0\1\0\0\0\1",
            "compressed with snappy, which is not",
        ),
    ],
    ids=["version", "torn at 8", "torn at 100", "torn at 400", "flipped bit", "log", "snappy"],
)
def test_a_snapshot_that_cannot_be_read_is_refused(
    tmp_path: Path, name: str, content: bytes, problem: str
) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(EnvironmentProblem, match=problem):
        list(read_entries(tmp_path / name))


def test_a_damaged_length_costs_the_rest_and_says_how_much(tmp_path: Path) -> None:
    hit = transactions(LOG)[1300]
    data = bytearray(LOG.read_bytes())
    data[hit.offset + 8] ^= 0x40
    damaged = tmp_path / "log.1"
    damaged.write_bytes(data)
    assert len(transactions(damaged)) == 1300
    (damage,) = damages(damaged)
    lost = len(bytes(data[hit.offset :]).rstrip(b"\0"))
    assert (damage.offset, damage.problem) == (hit.offset, "torn")
    assert damage.text.endswith(f" bytes; the remaining {lost} bytes are ignored")


def test_a_malformed_record_with_a_valid_checksum_is_reported(tmp_path: Path) -> None:
    short, unknown = b"\0" * 20, b"\0" * 28 + b"\0\0\0\x63"
    frames = (struct.pack(">qi", zlib.adler32(p), len(p)) + p + b"B" for p in (short, unknown))
    path = tmp_path / "log.1"
    path.write_bytes(LOG.read_bytes()[:16] + b"".join(frames))
    assert [damage.problem for damage in damages(path)] == ["record", "record"]
    assert [at.first_zxid for at in read_stretches(path)] == [0]


@pytest.mark.parametrize(
    ("body", "paths"),
    [
        pytest.param(b"", None, id="3.5"),
        pytest.param(struct.pack(">iq", 2, 7), None, id="only a digest"),
        pytest.param(b"\0\0\0\1\0\0\0\4/abc", ("/abc",), id="as long as a digest"),
        pytest.param(struct.pack(">ii2si2s", 2, 2, b"/a", 2, b"/b"), ("/a", "/b"), id="two"),
        pytest.param(struct.pack(">iiq", 0, 2, 7), (), id="none, and a digest"),
    ],
)
def test_the_end_of_a_session_names_its_znodes_since_36(
    tmp_path: Path, body: bytes, paths: tuple[str, ...] | None
) -> None:
    txn = struct.pack(">qiqqi", 9, 1, 5, 0, TxnType.CLOSE_SESSION) + body
    path = tmp_path / "log.1"
    frame = struct.pack(">qi", zlib.adler32(txn), len(txn)) + txn + b"B"
    path.write_bytes(LOG.read_bytes()[:16] + frame)
    (found,) = transactions(path)
    assert found.ops == (TxnOp(TxnType.CLOSE_SESSION, paths=paths),)


def test_stretches_show_which_transactions_there_are(tmp_path: Path) -> None:
    whole = transactions(LOG)
    assert list(read_stretches(LOG)) == [ZxidStretch(16, 1, 1328)]
    data = LOG.read_bytes()
    cut = tmp_path / "log.1"
    cut.write_bytes(data[: whole[9].offset] + data[whole[19].offset : whole[-1].offset + 9])
    after = 16 + whole[9].offset - whole[0].offset
    assert list(read_stretches(cut)) == [ZxidStretch(16, 1, 9), ZxidStretch(after, 20, 1327)]


def test_a_damaged_zxid_does_not_begin_another_stretch(tmp_path: Path) -> None:
    hit = transactions(LOG)[700]
    data = bytearray(LOG.read_bytes())
    data[hit.offset + 12 + 12] ^= 0x40
    path = tmp_path / "log.1"
    path.write_bytes(data)
    stretches = [(at.first_zxid, at.last_zxid) for at in read_stretches(path)]
    assert stretches == [(1, 700), (702, 1328)]


@pytest.mark.parametrize("part_bytes", [1, 1000, 60_000])
@pytest.mark.parametrize("damage", ["none", "torn", "crc", "cut"])
def test_the_parts_of_a_log_contain_what_the_whole_contains(
    tmp_path: Path, part_bytes: int, damage: str
) -> None:
    data, hit = bytearray(LOG.read_bytes()), transactions(LOG)[1300].offset
    match damage:
        case "torn":
            data[hit + 8] ^= 0x40
        case "crc":
            data[hit + 12 + 12] ^= 0x40
        case "cut":
            del data[hit + 9 :]
    path = tmp_path / "log.1"
    path.write_bytes(data)
    parts = cut_txn_log(path, part_bytes)
    assert len(parts) > 2
    assert (parts[0][0], parts[-1][1]) == (0, len(data))
    assert [at for part in parts for at in read_txn_log(path, *part)] == list(read_txn_log(path))
    assert all(end - begin >= part_bytes for begin, end in parts[1:-1])


@pytest.mark.parametrize("content", [b"", b"\0" * 100, LOG.read_bytes()[:16]])
def test_a_file_without_transactions_has_no_stretch(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    assert list(read_stretches(path)) == []
    assert [list(read_txn_log(path, *part)) for part in cut_txn_log(path, 1)] == [[]]


def test_entries_are_the_nodes_of_a_snapshot(tmp_path: Path) -> None:
    path = DATA / "snapshot.0"
    entries = list(read_entries(path))
    assert [entry.offset for entry in entries] == sorted({entry.offset for entry in entries})
    torn = tmp_path / "snapshot.0"
    torn.write_bytes(path.read_bytes()[:300])
    with pytest.raises(EnvironmentProblem, match="is a damaged snapshot"):
        list(read_entries(torn))


@pytest.mark.parametrize("place", [20, -12])
def test_a_damaged_gzip_file_is_refused(tmp_path: Path, place: int) -> None:
    packed = bytearray(gzip.compress((DATA / "snapshot.0").read_bytes()))
    packed[place] ^= 0xFF
    path = tmp_path / "snapshot.0.gz"
    path.write_bytes(packed)
    with pytest.raises(EnvironmentProblem, match=r"damaged gzip file|damaged snapshot"):
        list(read_entries(path))


def test_a_vector_has_at_most_as_many_elements_as_bytes_are_left() -> None:
    assert JuteReader(bytes(4)).count() == 0
    assert JuteReader(b"\0\0\0\1?").count() == 1
    with pytest.raises(JuteError, match="a vector of 2 elements cannot fit in 1 bytes"):
        JuteReader(b"\0\0\0\2?").count()
