"""Transaction logs that were written are read as they were meant."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from klamm.replay.generate.txn_log_writer import PADDING_BYTES, TxnLogWriter, log_name
from klamm.zk.txn_log import Txn, TxnOp, TxnType, ZxidStretch, read_stretches, read_txn_log

LOG = Path(__file__).parents[2] / "data/kafka_logs/trace/zookeeper/version-2/log.1"
OPS = [
    TxnOp(TxnType.CREATE, "/a", b"1"),
    TxnOp(TxnType.CREATE, "/straße-中-😀", None, is_ephemeral=True),
    TxnOp(TxnType.SET_DATA, "/a", b"", 3),
    TxnOp(TxnType.SET_ACL, "/a", version=2),
    TxnOp(TxnType.DELETE, "/a"),
    TxnOp(TxnType.CHECK, "/controller_epoch", version=4),
    TxnOp(TxnType.ERROR, number=-101),
    TxnOp(TxnType.CREATE_SESSION, number=6000),
    TxnOp(TxnType.CLOSE_SESSION),
    TxnOp(TxnType.CLOSE_SESSION, paths=("/a", "/b/c")),
]


def test_every_operation_is_read_as_written(tmp_path: Path) -> None:
    path = tmp_path / log_name(0x1F)
    assert path.name == "log.1f"
    with closing(TxnLogWriter(path)) as writer:
        for number, op in enumerate(OPS):
            writer.write(0x1F + number, 1000 + number, -5, [op], cxid=number)
        multi = [op for op in OPS if op.type is not TxnType.CLOSE_SESSION]
        writer.write(0x99, 2000, 6, multi)
        writer.write(0x9A, 2001, 6, OPS[:1], is_multi=True)
    found = list(read_txn_log(path))
    txns = [txn for txn in found if isinstance(txn, Txn)]
    assert len(txns) == len(found)
    assert [txn.ops for txn in txns] == [*((op,) for op in OPS), tuple(multi), tuple(OPS[:1])]
    assert [(txn.zxid, txn.t_ms, txn.session_id, txn.cxid) for txn in txns[:2]] == [
        (0x1F, 1000, -5, 0),
        (0x20, 1001, -5, 1),
    ]
    assert [txn.is_multi for txn in txns[-3:]] == [False, True, True]
    assert list(read_stretches(path)) == [
        ZxidStretch(16, 0x1F, 0x1F + len(OPS) - 1),
        ZxidStretch(txns[-2].offset, 0x99, 0x9A),
    ]


def test_a_real_log_is_written_again_byte_for_byte_but_for_its_acls(tmp_path: Path) -> None:
    path = tmp_path / "log.1"
    with closing(TxnLogWriter(path)) as writer:
        for txn in read_txn_log(LOG):
            assert isinstance(txn, Txn)
            head = (txn.zxid, txn.t_ms, txn.session_id)
            writer.write(*head, txn.ops, cxid=txn.cxid, is_multi=txn.is_multi)
    again = [txn for txn in read_txn_log(path) if isinstance(txn, Txn)]
    before = [txn for txn in read_txn_log(LOG) if isinstance(txn, Txn)]
    assert [txn._replace(offset=0) for txn in again] == [txn._replace(offset=0) for txn in before]
    sizes = path.stat().st_size, LOG.stat().st_size
    assert abs(sizes[0] - sizes[1]) < 2 * PADDING_BYTES


def test_a_file_is_never_overwritten(tmp_path: Path) -> None:
    (tmp_path / "log.1").write_bytes(b"mine")
    with pytest.raises(FileExistsError):
        TxnLogWriter(tmp_path / "log.1")
    assert (tmp_path / "log.1").read_bytes() == b"mine"
