"""Logs of several servers, and damaged ones: what is united, what is missing, what is refused."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem, KlammError, UsageError
from klamm.replay.engines import Engine, row
from klamm.replay.event_table import open_table
from klamm.replay.generate.txn_log_writer import log_name
from klamm.replay.ingest import make_table
from klamm.zk.txn_log import (
    FILE_HEADER,
    FRAME,
    MAGIC,
    TXN_HEADER,
    VERSION,
    Txn,
    TxnOp,
    TxnType,
    read_txn_log,
)
from tests.spark.reading import At, Told
from tests.spark.zookeeper_logs import Story, read_events, write_log

pytestmark = pytest.mark.timeout(300)

LAST = 40


def cluster_story() -> Story:
    """LAST transactions of one cluster."""
    story = Story()
    story.register(1, 1)
    story.elect(1, 1, 1)
    for version in range(LAST - 3):
        story.lead(1, 1, version, leader=version % 3)
    # Of a broker that registered elsewhere too, and before the log.
    story.close(1, ("/brokers/ids/1", "/controller", "/other/brokers/ids/1"))
    assert len(story.txns) == LAST
    return story


def without_places(rows: list[At]) -> list[tuple[object, ...]]:
    return [
        tuple(value for name, value in row.as_dict().items() if name not in ("file", "line"))
        for row in rows
    ]


@pytest.fixture(scope="module")
def whole(duckdb: Engine, tmp_path_factory: pytest.TempPathFactory) -> Told:
    path = write_log(tmp_path_factory.mktemp("whole"), cluster_story().txns)
    told = read_events(duckdb, path, run="mine")
    assert told.damaged == []
    return told


def test_several_servers_are_united(duckdb: Engine, tmp_path: Path, whole: Told) -> None:
    txns = cluster_story().txns
    # One was synced by a snapshot, one lost its tail, and a copy of a file lies about.
    write_log(tmp_path / "one", txns[:5])
    write_log(tmp_path / "one", txns[12:])
    write_log(tmp_path / "two", txns[:20])
    write_log(tmp_path / "two-again", txns[:20])
    # What is told of closed sessions depends on a server's version.
    closed = txns[-1]._replace(ops=(TxnOp(TxnType.CLOSE_SESSION),))
    assert [row.run for row in whole.events if row.kind == "broker_offline"] == [
        "mine",
        "mine/other",
    ]
    write_log(tmp_path / "three", [*txns[30:-1], closed])
    folders = [tmp_path / name for name in ("one", "two", "two-again", "three")]
    told = read_events(duckdb, *folders, run="mine")
    assert without_places(told.events) == without_places(whole.events)
    assert told.damaged == []


def test_a_run_has_the_name_it_is_given(whole: Told) -> None:
    assert {row.run for row in whole.events} == {"mine", "mine/other"}


def test_what_no_server_has_is_a_gap(duckdb: Engine, tmp_path: Path, whole: Told) -> None:
    txns = cluster_story().txns
    write_log(tmp_path / "one", [*txns[3:8], *txns[10:20]])
    last = write_log(tmp_path / "two", txns[25:])
    told = read_events(duckdb, tmp_path / "one", tmp_path / "two", run="mine")
    gaps = [(row.problem, row.text) for row in told.damaged]
    assert gaps == [
        ("begins late", "zxid 0x1 to 0x3: 3 transactions"),
        ("lost transactions", "zxid 0x9 to 0xa: 2 transactions"),
        ("lost transactions", "zxid 0x15 to 0x19: 5 transactions"),
    ]
    assert (told.damaged[-1].file, told.damaged[-1].line) == (str(last), 16)
    written = [row for row in told.events if row.kind == "leadership_written"]
    # The election is missing: the fence is known, but not who stands behind it.
    assert {row.controller for row in written} == {-1}
    assert len(written) == len(whole.of("mine", "leadership_written")) - 1 - 2 - 5


def test_servers_that_disagree_are_refused(duckdb: Engine, tmp_path: Path) -> None:
    txns = cluster_story().txns
    one = write_log(tmp_path / "one", txns)
    other = Story()
    other.register(1, 1)
    other.elect(1, 2, 1)
    two = write_log(tmp_path / "two", other.txns)
    with pytest.raises(UsageError, match="zxid 0x2 is one transaction in") as raised:
        read_events(duckdb, one, two)
    assert str(one) in raised.value.message
    assert str(two) in raised.value.message
    assert raised.value.hint


def write_failed_multi(folder: Path, type_of_check: TxnType) -> Path:
    """A log with a failed multi of a real ensemble, as transaction 3.

    The server that was stopped when it failed logged the check with the type ERROR.
    """
    folder.mkdir()
    head = (0x300034E14180002, 30, 3, 1795816998357, TxnType.MULTI)
    payload = TXN_HEADER.pack(*head) + struct.pack(">ii", 2, type_of_check)
    payload += bytes.fromhex("00000019000000112f636f6e74726f6c6c65725f65706f636800000002")
    payload += bytes.fromhex("ffffffff00000004ffffff9b000000020000000c619a37f7")
    frame = FRAME.pack(zlib.adler32(payload), len(payload)) + payload + b"B"
    path = folder / log_name(3)
    path.write_bytes(FILE_HEADER.pack(MAGIC, VERSION, 0) + frame)
    return path


def test_a_failed_multi_is_the_same_on_a_server_that_caught_up(
    duckdb: Engine, tmp_path: Path
) -> None:
    story = Story()
    story.register(1, 1)
    story.elect(1, 1, 1)
    before = write_log(tmp_path / "before", story.txns)
    up = write_failed_multi(tmp_path / "up", TxnType.CHECK)
    caught_up = write_failed_multi(tmp_path / "caught-up", TxnType.ERROR)
    assert up.read_bytes() != caught_up.read_bytes()
    expected = read_events(duckdb, before, up, run="mine")
    refused = expected.of("mine", "write_refused")
    assert [(row.controller, row.epoch, row.outcome) for row in refused] == [(1, 1, "NONODE")]
    for files in ((before, caught_up), (before, up, caught_up), (before, caught_up, up)):
        told = read_events(duckdb, *files, run="mine")
        assert without_places(told.events) == without_places(expected.events)


def test_damage_costs_what_is_damaged(duckdb: Engine, tmp_path: Path, whole: Told) -> None:
    path = write_log(tmp_path, cluster_story().txns)
    txns = [txn for txn in read_txn_log(path) if isinstance(txn, Txn)]
    data = bytearray(path.read_bytes())
    data[txns[10].offset + 60] ^= 1
    path.write_bytes(data[: txns[-1].offset + 20])
    told = read_events(duckdb, path, run="mine")
    assert [(row.line, row.problem) for row in told.damaged] == [
        (txns[10].offset, "crc"),
        (txns[-1].offset, "torn"),
    ]
    assert {row.file for row in told.damaged} == {str(path)}
    lost = {11, LAST}
    assert without_places(told.events) == without_places(
        [row for row in whole.events if row.zxid not in lost]
    )


def test_a_table_is_made_of_them(duckdb: Engine, tmp_path: Path) -> None:
    txns = cluster_story().txns
    # Alike at both ends, as preallocated logs of two servers are: but the first has a hole.
    write_log(tmp_path / "logs" / "one", [*txns[:10], *txns[12:]])
    write_log(tmp_path / "logs" / "two", txns)
    make_table(duckdb, [tmp_path / "logs"], tmp_path / "table")
    table = open_table(duckdb, tmp_path / "table")
    (source,) = table.manifest.sources
    assert (source.source, source.damaged) == ("zookeeper", {})
    assert {run.run for run in source.runs} == {"/", "/other"}
    assert [(at.first_epoch, at.last_epoch) for at in source.runs if at.run == "/"] == [(1, 1)]
    assert source.kinds["leadership_written"] == LAST - 3
    with_leaders = f"SELECT * FROM {table.events} WHERE leader IS NOT NULL AND zk_version > 0"
    unknown = f"SELECT count(*) AS n FROM ({with_leaders}) WHERE prev_leader IS NULL"
    assert row(duckdb, f"{unknown} OR prev_isr IS NULL") == {"n": 0}


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"ZKLG\0\0\0\x03" + b"\0" * 8, EnvironmentProblem, "version 3"),
        (b"\0" * 1000, KlammError, "no event"),
        (b"", UsageError, "no log|is empty"),
    ],
)
def test_bad_files_end_in_one_line(
    duckdb: Engine,
    tmp_path: Path,
    content: bytes,
    error: type[KlammError],
    words: str,
) -> None:
    path = tmp_path / "log.1"
    path.write_bytes(content)
    with pytest.raises(error, match=words):
        make_table(duckdb, [path], tmp_path / "table")
    assert list(tmp_path.iterdir()) == [path]


def test_a_damaged_snapshot_is_said(duckdb: Engine, tmp_path: Path) -> None:
    write_log(tmp_path, cluster_story().txns[3:])
    (tmp_path / "snapshot.5").write_bytes(b"ZKSN\0\0\0\2" + b"\0" * 20)
    told = read_events(duckdb, tmp_path)
    (row,) = told.damaged
    assert (row.problem, row.file) == ("snapshot", str(tmp_path / "snapshot.5"))
    assert "is a damaged snapshot" in row.text
