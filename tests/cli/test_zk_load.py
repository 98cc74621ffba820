"""`klamm zk load` on a real server: dump, load, dump give the same; a failure leaves no riddle."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

from klamm.cli import zk as cli_zk
from klamm.cli.main import main
from klamm.zk import dump_load
from klamm.zk.store import SessionEvent, SessionState
from tests.serving import KLAMM, ROOT, RunKlamm, environ_for
from tests.waiting import wait_until

BINARY = b"\xff\x00\xfe"


def tree(run_klamm: RunKlamm, zookeeper: str) -> list[tuple[str, Any]]:
    znodes = json.loads(run_klamm("zk", "dump", "--zookeeper", zookeeper)[1])
    return [(z["path"], z.get("base64", z.get("data"))) for z in znodes]


@pytest.fixture
def dump(chroot: str, zookeeper_client: KazooClient, tmp_path: Path) -> Path:
    """A file with a dump of ``chroot``/source: null, empty, binary and text data, an ephemeral."""
    root = f"/{chroot.rpartition('/')[2]}/source"
    client = zookeeper_client
    client.create(root, b"root")
    for path in ("a", "a-b", "brokers", "brokers/ids"):
        client.create(f"{root}/{path}", b"")
    client.create(f"{root}/a/bin", BINARY)
    client.create(f"{root}/a/text", "zwei €".encode())
    client.set(f"{root}/a/text", "drei €".encode())
    client.create(f"{root}/brokers/ids/1", b"{}", ephemeral=True)
    target = tmp_path / "dump.json"
    with target.open("wb") as file:
        done = subprocess.run(
            [*KLAMM, "zk", "dump", "--zookeeper", f"{chroot}/source"],
            cwd=ROOT,
            env=environ_for(tmp_path),
            stdout=file,
            check=False,
        )
    assert done.returncode == 0
    client.delete(f"{root}/brokers/ids/1")
    return target


def test_a_copy_is_the_same_and_says_what_it_lacks(
    chroot: str, dump: Path, run_klamm: RunKlamm
) -> None:
    code, out, err = run_klamm("zk", "load", str(dump), "--zookeeper", f"{chroot}/deep/copy")
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        f"6 znodes were written to {chroot}/deep/copy",
        "skipped because they are ephemeral: /brokers/ids/1",
        "not kept: versions, zxids, times and ACLs",
        "klamm up refuses to run here without /klamm: --mark creates it",
    ]
    assert tree(run_klamm, f"{chroot}/deep/copy") == tree(run_klamm, f"{chroot}/source")


def test_a_marked_load_is_reported_as_json(chroot: str, dump: Path, run_klamm: RunKlamm) -> None:
    code, out, _ = run_klamm(
        "zk", "load", str(dump), "--zookeeper", f"{chroot}/copy", "--mark", "--json"
    )
    assert code == 0
    assert json.loads(out) == {
        "zookeeper": f"{chroot}/copy",
        "znodes": 6,
        "found": 0,
        "added": [],
        "ephemeral": ["/brokers/ids/1"],
        "unreadable": [],
        "marked": True,
    }
    marker = dict(tree(run_klamm, f"{chroot}/copy"))["/klamm"]
    assert json.loads(marker)["run_id"] == "zk load"


def test_what_is_there_is_named_and_left(chroot: str, dump: Path, run_klamm: RunKlamm) -> None:
    before = tree(run_klamm, f"{chroot}/source")
    code, out, err = run_klamm("zk", "load", str(dump), "--zookeeper", f"{chroot}/source")
    assert (code, out) == (1, "")
    assert err.startswith("error: the target is not empty: found /a, /a-b, /brokers\nhint: ")
    assert tree(run_klamm, f"{chroot}/source") == before


def test_numbered_znodes_go_on_after_those_of_the_dump(
    chroot: str,
    zookeeper_client: KazooClient,
    tmp_path: Path,
    run_klamm: RunKlamm,
) -> None:
    path = tmp_path / "dump.json"
    path.write_text('[{"path":"/changes/change_0000000321","data":""}]')
    code, _, _ = run_klamm("zk", "load", str(path), "--zookeeper", f"{chroot}/copy")
    assert code == 0
    root = f"/{chroot.rpartition('/')[2]}/copy/changes"
    assert zookeeper_client.get_children(root) == ["change_0000000321"]
    created = zookeeper_client.create(f"{root}/change_", b"", sequence=True)
    assert created == f"{root}/change_0000000322"


def test_nothing_is_undone_where_nothing_was_cut_short(
    chroot: str, dump: Path, run_klamm: RunKlamm
) -> None:
    undo = (str(dump), "--zookeeper", f"{chroot}/source", "--undo")
    code, out, err = run_klamm("zk", "load", *undo)
    assert (code, out) == (1, "")
    assert err.startswith("error: there is no interrupted load to undo")
    code, out, err = run_klamm("zk", "load", *undo, "--json")
    assert (code, out, json.loads(err)["error"]["error"]) == (1, "", "NotEmpty")


def test_no_dump_is_one_line(chroot: str, tmp_path: Path, run_klamm: RunKlamm) -> None:
    path = tmp_path / "notes.txt"
    path.write_text("hello\n")
    code, out, err = run_klamm("zk", "load", str(path), "--zookeeper", f"{chroot}/copy")
    assert (code, out) == (2, "")
    assert err.startswith(f"error: {path} is not a dump: line 1: ")
    code, _, err = run_klamm("zk", "load", str(path), "--zookeeper", chroot, "--undo", "--mark")
    assert (code, err.splitlines()[0]) == (2, "error: give either --mark or --undo, but not both")


def cut_short(monkeypatch: pytest.MonkeyPatch, after: int) -> None:
    """Let Ctrl-C come once so many znodes of a load or of its undoing are done."""
    monkeypatch.setattr(dump_load, "ZNODES_PER_BATCH", 1)

    def run_on_thread(work: Callable[[], object], _: object) -> object:
        counted = cli_zk._CountLine.__call__

        def count(line: cli_zk._CountLine, done: int, total: int | None) -> None:
            counted(line, done, total)
            if done == after:
                raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(cli_zk._CountLine, "__call__", count)
            return work()

    monkeypatch.setattr(cli_zk, "run_on_thread", run_on_thread)


def test_an_interrupted_load_is_resumed(
    chroot: str, dump: Path, run_klamm: RunKlamm, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ("--zookeeper", f"{chroot}/copy")
    with monkeypatch.context() as patch:
        cut_short(patch, after=2)
        assert run_klamm("zk", "load", str(dump), *copy) == (
            130,
            "",
            "Interrupted: at least 2 of 6 znodes and /klamm-loading were written\n"
            "hint: run the same command to resume the load, or klamm zk load DUMP --undo to undo "
            "it\n",
        )
    code, out, _ = run_klamm("zk", "load", str(dump), *copy)
    assert (code, out.splitlines()[0]) == (
        0,
        f"6 znodes were written to {chroot}/copy, 2 of them by an earlier load",
    )
    assert tree(run_klamm, f"{chroot}/copy") == tree(run_klamm, f"{chroot}/source")


def test_an_interrupted_load_is_undone(
    chroot: str, dump: Path, run_klamm: RunKlamm, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = ("--zookeeper", f"{chroot}/copy")
    with monkeypatch.context() as patch:
        cut_short(patch, after=4)
        assert run_klamm("zk", "load", str(dump), *copy, "--mark")[0] == 130
    with monkeypatch.context() as patch:
        cut_short(patch, after=4)
        assert run_klamm("zk", "load", str(dump), *copy, "--undo") == (
            130,
            "",
            "Interrupted: some of the loaded znodes are not deleted yet\n"
            "hint: repeat the command to continue\n",
        )
    code, out, err = run_klamm("zk", "load", str(dump), *copy, "--undo", "--json")
    assert (code, err) == (0, "")
    left = json.loads(out)
    assert left["zookeeper"] == f"{chroot}/copy" and left["deleted"] > 0
    assert [path for path, _ in tree(run_klamm, f"{chroot}/copy")] == ["/"]


def test_progress_and_a_lost_connection_are_on_standard_error(
    chroot: str,
    dump: Path,
    run_klamm: RunKlamm,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(cli_zk, "_PROGRESS_INTERVAL_S", -1.0)
    assert (
        run_klamm("zk", "load", str(dump), "--zookeeper", f"{chroot}/copy")[2] == "6 of 6 znodes\n"
    )
    cli_zk._CountLine()(5, None)
    for state in SessionState:
        cli_zk._report_disconnection(SessionEvent(state))
    said = "5 znodes\nconnection lost: waiting for ZooKeeper\n"
    assert capsys.readouterr().err == said


def test_what_the_dump_could_not_read_is_named(
    chroot: str, tmp_path: Path, run_klamm: RunKlamm
) -> None:
    path = tmp_path / "dump.json"
    path.write_text('[\n{"path":"/a","data":"x"},\n{"path":"/b","unreadable":"NOAUTH"}\n]\n')
    code, out, err = run_klamm("zk", "load", str(path), "--zookeeper", f"{chroot}/copy")
    assert code == 0 and out.startswith("1 znodes were written")
    assert err == "warning: /b is skipped: the dump could not read it\n"


@pytest.mark.slow
def test_ctrl_c_says_what_is_left_and_the_same_command_ends_it(
    chroot: str,
    zookeeper_client: KazooClient,
    tmp_path: Path,
    run_klamm: RunKlamm,
    capsys: pytest.CaptureFixture[str],
) -> None:
    root = f"/{chroot.rpartition('/')[2]}/copy"
    znodes = [{"path": f"/{n // 1000}", "data": None} for n in range(0, 100_000, 1000)]
    znodes += [{"path": f"/{n // 1000}/{n}", "data": "x" * 500} for n in range(100_000)]
    path = tmp_path / "large.json"
    path.write_text(json.dumps(znodes))
    command = [*KLAMM, "zk", "load", str(path), "--zookeeper", f"{chroot}/copy"]
    process = subprocess.Popen(
        command, cwd=ROOT, env=environ_for(tmp_path), stderr=subprocess.PIPE, text=True
    )
    try:
        wait_until(lambda: zookeeper_client.exists(f"{root}/10"), 60, "the load to be under way")
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 130, err
    error, hint = [line for line in err.splitlines() if not line.endswith(" znodes")]
    assert error.startswith("Interrupted: at least ")
    assert error.endswith(" of 100100 znodes and /klamm-loading were written")
    assert hint.startswith("hint: run the same command to resume the load")
    up = ["up", "--brokers", "1", "--zookeeper", f"{chroot}/copy", "--data-dir", str(tmp_path)]
    assert main([*up, "--port", "0"]) == 1
    assert "its load was interrupted (/klamm-loading exists)" in capsys.readouterr().err
    code, out, _ = run_klamm("zk", "load", str(path), "--zookeeper", f"{chroot}/copy", "--json")
    assert code == 0
    assert json.loads(out)["found"] > 0
    assert tree(run_klamm, f"{chroot}/copy")[1:] == sorted(
        ((z["path"], z["data"]) for z in znodes), key=lambda pair: pair[0].split("/")
    )
