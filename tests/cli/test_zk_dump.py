"""`klamm zk dump` on a real server: nothing of a znode is lost."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from kazoo.client import KazooClient

from klamm.cli.main import main
from klamm.zk import dump as dump_module

BINARY = b"\xff\x00\xfe"


def dump(capsys: pytest.CaptureFixture[str], *args: str) -> list[dict[str, Any]]:
    assert main(["zk", "dump", *args]) == 0
    printed = capsys.readouterr()
    assert printed.err == ""
    return list(json.loads(printed.out))


@pytest.fixture
def tree(chroot: str, zookeeper_client: KazooClient) -> str:
    """/a, /a-b (empty), /a/bin, /a/text twice written, /eph; gives the chroot's path."""
    root = chroot[chroot.index("/") :]
    client = zookeeper_client
    client.create(f"{root}/a-b", b"")
    client.create(f"{root}/a")
    client.create(f"{root}/a/bin", BINARY)
    client.create(f"{root}/a/text", b"one")
    client.set(f"{root}/a/text", "zwei €".encode())
    client.create(f"{root}/eph", b"x", ephemeral=True)
    return root


def test_every_field_is_what_the_server_holds(
    chroot: str, tree: str, zookeeper_client: KazooClient, capsys: pytest.CaptureFixture[str]
) -> None:
    found = dump(capsys, "--zookeeper", chroot)
    assert [znode["path"] for znode in found] == ["/", "/a", "/a/bin", "/a/text", "/a-b", "/eph"]
    for znode in found:
        data, stat = zookeeper_client.get(tree + znode["path"].rstrip("/"))
        if "base64" in znode:
            assert base64.b64decode(znode["base64"]) == data
        else:
            assert (znode["data"] or "").encode() == (data or b"")
        assert znode["version"] == stat.version
        assert znode["cversion"] == stat.cversion
        assert (znode["czxid"], znode["mzxid"], znode["pzxid"]) == (
            stat.czxid,
            stat.mzxid,
            stat.pzxid,
        )
        assert (znode["ctime_ms"], znode["mtime_ms"]) == (stat.ctime, stat.mtime)
        assert int(znode["ephemeral_owner"], 16) == stat.ephemeralOwner
    by_path = {znode["path"]: znode for znode in found}
    assert by_path["/a/text"]["version"] == 1
    assert by_path["/a-b"]["data"] == ""
    assert "data" not in by_path["/a/bin"]
    assert by_path["/eph"]["ephemeral_owner"] != "0x0"


def test_a_dump_tells_a_znode_without_data_from_an_empty_one(
    chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    where = ["--zookeeper", chroot]
    assert main(["topics", *where, "--create", "--topic", "t", "--replica-assignment", "0"]) == 0
    capsys.readouterr()
    brokers, topics, topic = dump(capsys, "/brokers", *where)
    assert (brokers["data"], topics["data"]) == (None, None)
    assert json.loads(topic["data"])["partitions"] == {"0": [0]}
    assert [znode["path"] for znode in dump(capsys, "/brokers/topics/t", *where)] == [topic["path"]]


@pytest.mark.usefixtures("tree")
def test_batches_smaller_than_the_tree_give_the_same(
    chroot: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = dump(capsys, "--zookeeper", chroot)
    monkeypatch.setattr(dump_module, "ZNODES_PER_BATCH", 1)
    assert dump(capsys, "--zookeeper", chroot) == whole


@pytest.mark.parametrize(
    ("path", "code", "said"),
    [
        ("/nothing", 1, "error: znode /nothing does not exist\n"),
        ("brokers", 2, "error: 'brokers' is not the path of a znode\n"),
        ("/a//b", 2, "error: '/a//b' is not the path of a znode\n"),
    ],
)
def test_a_wrong_path_is_one_line(
    chroot: str, path: str, code: int, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zk", "dump", path, "--zookeeper", chroot]) == code
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err.startswith(said)


def test_a_chroot_that_does_not_exist_is_named(
    chroot: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["zk", "dump", "--zookeeper", f"{chroot}/nosuch"]) == 1
    printed = capsys.readouterr()
    assert printed.out == ""
    assert printed.err == (
        f"error: the chroot {chroot[chroot.index('/') :]}/nosuch does not exist\n"
        "hint: klamm zk dump --zookeeper HOST:PORT, without a chroot, prints all znodes\n"
    )
