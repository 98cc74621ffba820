"""Requests as bytes: how batches are spread, and how answers are taken apart."""

from __future__ import annotations

import struct

import pytest

from klamm.cluster.errors import OperationTooBig
from klamm.zk.kazoo_wire import Chroot, Multi, SingleRead, multi_reads, result_code
from klamm.zk.request_size import GROUP_BYTES
from klamm.zk.store import Check, Exists, GetChildren, GetData, ReadResult, ResultCode, Stat

ROOT = Chroot("")
HEADER = struct.pack("!iqi", 1, 77, 0)
END = struct.pack("!iBi", -1, 1, -1)
STAT = Stat(1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11)
STAT_BYTES = struct.pack("!qqqqiiiqiiq", *STAT)


@pytest.mark.parametrize("chroot", ["", "/klamm", "/klamm/süd"])
@pytest.mark.parametrize("path", ["/", "/a", "/a/b", "/ä"])
def test_a_chroot_is_added_and_stripped(chroot: str, path: str) -> None:
    full_path = Chroot(chroot).add(path).decode()
    assert full_path == (chroot + path if path != "/" else chroot or "/")
    assert Chroot(chroot).strip(full_path) == path


def test_unknown_codes_are_system_errors() -> None:
    assert result_code(-101) is ResultCode.NONODE
    assert result_code(-6) is ResultCode.MARSHALLINGERROR
    assert result_code(-118) is ResultCode.CONNECTIONLOSS
    assert result_code(-4_711) is ResultCode.SYSTEMERROR


@pytest.mark.parametrize(
    ("name_length", "counts"), [(5, [1_000, 1_000, 500]), (1_000, [129] * 19 + [49])]
)
def test_a_batch_of_reads_is_spread(name_length: int, counts: list[int]) -> None:
    ops = [GetData("/" + "n" * name_length)] * 2_500
    requests = list(multi_reads(ops, ROOT))
    assert [request.count for request in requests] == counts
    assert all(len(request.payload) <= GROUP_BYTES for request in requests)


def test_a_path_too_big_is_refused() -> None:
    op = GetData("/" + "x" * (1 << 20))
    with pytest.raises(OperationTooBig):
        list(multi_reads([GetData("/a"), op], ROOT))
    with pytest.raises(OperationTooBig):
        SingleRead(op, ROOT, lambda _, __: None)


def test_the_response_to_a_multi_read_is_decoded() -> None:
    paths = ("/a", "/b", "/empty")
    ops = [*map(GetData, paths), Exists("/a"), GetChildren("/"), Exists("/c")]
    [request] = multi_reads(ops, ROOT)
    answer = b"".join(
        (
            HEADER,
            struct.pack("!iBii", 4, 0, 0, 3) + b"one" + STAT_BYTES,
            struct.pack("!iBii", 4, 0, 0, -1) + STAT_BYTES,
            struct.pack("!iBii", 4, 0, 0, 0) + STAT_BYTES,
            struct.pack("!iBii", 4, 0, 0, 3) + b"one" + STAT_BYTES,
            struct.pack("!iBii", 8, 0, 0, 2) + b"\0\0\0\1a" + b"\0\0\0\1b",
            struct.pack("!iBii", -1, 0, -101, -101),
            END,
        )
    )
    ok = ResultCode.OK
    assert request.deserialize(answer, len(HEADER)) == [
        ReadResult(ok, b"one", STAT),
        ReadResult(ok, None, STAT),
        ReadResult(ok, b"", STAT),
        ReadResult(ok, None, STAT),
        ReadResult(ok, children=["a", "b"]),
        ReadResult(ResultCode.NONODE),
    ]


@pytest.mark.parametrize("is_watched", [False, True])
def test_a_read_says_whether_it_watches_and_is_reported_once(is_watched: bool) -> None:
    reads: list[ReadResult] = []
    request = SingleRead(GetData("/a", is_watched), ROOT, lambda _, result: reads.append(result))
    assert request.payload == b"\0\0\0\2/a" + bytes([is_watched])
    request.set(None)
    request.set(None)
    assert reads == [ReadResult(ResultCode.NONODE)]


def test_a_failure_that_is_no_answer_of_zookeeper_is_kept() -> None:
    request = Multi([Check("/a", 0)], ROOT)
    failure = ValueError("not an answer")
    request.set_exception(failure)
    assert (request.code, request.error) == (ResultCode.SYSTEMERROR, failure)
    request.forget()
    assert (request.code, request.error) == (None, None)


def test_an_answer_is_taken_once() -> None:
    request = Multi([Check("/a", 0)], ROOT)
    request.set([])
    request.set_exception(ValueError("late"))
    assert request.code is ResultCode.OK
