"""zk/dump_text.py: what is no dump is one line that names the line."""

from __future__ import annotations

import gzip
from pathlib import Path

import msgspec
import pytest

from klamm.cluster.errors import UsageError
from klamm.world.clock import VirtualClock
from klamm.zk.dump import DumpedZNode, dump
from klamm.zk.dump_store import DumpStore
from klamm.zk.dump_text import data_of, is_ephemeral, owner_of, parse_dump, read_dump
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import Create, Exists, GetData, ResultCode

GOOD = b'[\n{"path":"/","data":null},\n{"path":"/a","data":"x"}\n]\n'


def refused(text: bytes) -> str:
    with pytest.raises(UsageError) as caught:
        parse_dump(text)
    message, hint = caught.value.message, caught.value.hint
    assert "\n" not in message and hint
    return message


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (b"", "not a dump: it is empty"),
        (b" \n", "not a dump: it is empty"),
        (b"[]", "not a dump: it contains no znodes"),
        (gzip.compress(GOOD, mtime=0), "not a dump: it is compressed"),
        (GOOD.decode().encode("utf-16"), "not a dump: it is UTF-16"),
        (b'[\n{"path":"/a","data":"\xff"}\n]', "not a dump: line 2: invalid UTF-8"),
        (GOOD[:40], "not a dump: line 3: unexpected end"),
        (b'[\n{"path":"/a"},\n{"path" "/b"}]', "line 3: JSON is malformed: expected ':'"),
        (b'[{"path":"/a"}]\n\n# end', "line 3: JSON is malformed: trailing characters"),
        (b"/brokers/ids\n[0, 1]", "line 1: JSON is malformed: invalid character"),
        (b'{"path":"/a"}', "not a dump: Expected `array`, got `object`"),
        (b'[\n{"path":"/a"},\n{"data":"x"}]', "line 3: Object missing required field `path`"),
        (b'[{"path":"/a"},\n\n {"path":"/b",\n"data":7}]', "line 3, data: Expected `str | null`"),
        (b"[\n7\n]", "line 2: Expected `object`, got `int`"),
        (b'[\n{"path":"a"}]', "line 2: 'a' is not a valid znode path"),
        (b'[\n{"path":"/a//b"}]', "line 2: '/a//b' is not a valid znode path"),
        (b'[\n{"path":"/a/"}]', "line 2: '/a/' is not a valid znode path"),
        (b'[\n{"path":"/a","base64":"@"}]', "line 2: invalid base64 data of /a: "),
        (b'[{"path":"/a","data":"x","base64":""}]', "line 1: /a has both data and base64"),
        (b'[\n{"path":"/a","dta":"x"}]', "line 2: Object contains unknown field `dta`"),
        (b'[\n{"path":"/a","ephemeral_owner":"me"}]', "line 2: the ephemeral_owner of /a is not"),
        (
            b'[\n{"path":"/a"},\n{"path":"/b"},\n{"path":"/a"}]',
            "line 4: duplicate znode /a, which is also in line 2",
        ),
    ],
)
def test_an_invalid_dump_is_refused_in_one_line(text: bytes, said: str) -> None:
    assert said in refused(text)


def test_a_dump_is_a_store_with_the_same_dump() -> None:
    store = MemoryStore(MemoryServer(VirtualClock()))
    creations = [
        Create(path, data) for path, data in (("/a", None), ("/a/b", b""), ("/a/c", b"\xff"))
    ]
    store.write([[*creations, Create("/d", b"x", ephemeral=True)]])
    dumped = dump(store)
    assert [znode.path for znode in dumped][:2] == ["/", "/a"]
    assert dump(DumpStore(dumped)) == dumped
    unreadable = DumpedZNode("/a/e", unreadable="NOAUTH")
    known = DumpStore([*dumped, unreadable])
    assert dump(known, "/a") == [*(one for one in dumped if one.path.startswith("/a")), unreadable]
    (stat,) = (found.stat for found in known.read([Exists("/a")]))
    assert stat is not None and (stat.num_children, stat.data_length) == (3, 0)
    assert known.read([GetData("/a/x")])[0].code is ResultCode.NONODE


def test_deep_nesting_does_not_end_the_process() -> None:
    assert "not a dump" in refused(b"[" * 100_000)
    assert "not a dump" in refused(b'[{"path":"/a","x":' + b"[" * 100_000)


def test_an_error_about_a_dump_names_its_file(tmp_path: Path) -> None:
    path = tmp_path / "d.json"
    for make, said in (
        (lambda: None, f"cannot read the dump {path}: No such file or directory"),
        (path.mkdir, f"cannot read the dump {path}: Is a directory"),
    ):
        make()
        with pytest.raises(UsageError) as caught:
            read_dump(path)
        assert caught.value.message == said
    path.rmdir()
    path.write_bytes(b"[7]")
    with pytest.raises(UsageError) as caught:
        read_dump(path)
    assert caught.value.message.startswith(f"{path} is not a dump: line 1: ")
    path.write_bytes(GOOD)
    assert [znode.path for znode in read_dump(path)] == ["/", "/a"]


@pytest.mark.parametrize(
    ("path", "owner", "expected"),
    [
        ("/x", "0x100000001", True),
        ("/x", "0x0", False),
        ("/x", msgspec.UNSET, False),
        ("/brokers/ids/1", msgspec.UNSET, True),
        ("/brokers/ids/1", "0x0", False),
        ("/brokers/ids", msgspec.UNSET, False),
        ("/controller", msgspec.UNSET, True),
        ("/x", "0x8000000000000000", False),
        ("/x", "0xff00000000001000", False),
    ],
)
def test_ephemerals_are_known_by_owner_or_path(path: str, owner: str, expected: bool) -> None:
    znode = DumpedZNode(path, ephemeral_owner=owner)
    assert is_ephemeral(znode) is expected
    assert bool(owner_of(znode)) is (expected and owner is not msgspec.UNSET)


def test_null_empty_and_binary_data_are_distinguished() -> None:
    null, empty, binary = parse_dump(
        b'[{"path":"/n","data":null},{"path":"/e","data":""},{"path":"/b","base64":"/wA="}]'
    )
    assert [data_of(znode) for znode in (null, empty, binary)] == [None, b"", b"\xff\x00"]
