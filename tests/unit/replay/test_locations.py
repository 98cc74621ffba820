"""Paths and URLs: which are local, what a driver's error says, and the directory of all files."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import cast

import pytest
from upath import UPath

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.locations import common_folder, is_remote, location, remote_errors, remove_tree


@pytest.mark.parametrize(
    ("text", "path"),
    [
        ("a/b", Path("a/b")),
        ("/a", Path("/a")),
        ("file:///a/b", Path("/a/b")),
        (Path("x"), Path("x")),
    ],
)
def test_a_path_without_a_remote_scheme_is_local(text: str | Path, path: Path) -> None:
    found = location(text)
    assert found == path and type(found) is type(path)
    assert not is_remote(found)


def test_a_url_keeps_its_namenode() -> None:
    path = location("hdfs://name:9000/a/b")
    assert is_remote(path) and str(path) == "hdfs://name:9000/a/b"
    assert str(path / "c") == "hdfs://name:9000/a/b/c"
    with pytest.raises(UsageError, match=r"x://y: klamm cannot read x:// URLs"):
        location("x://y")


def test_a_driver_that_is_missing_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "s3fs", None)
    with pytest.raises(EnvironmentProblem, match="s3a://bucket/x needs s3fs") as caught:
        location("s3a://bucket/x")
    assert caught.value.hint == "pip install 'klamm[s3]'"


@pytest.mark.parametrize(
    ("files", "folder"),
    [
        (["/a/b/x", "/a/b/c/y"], "/a/b"),
        (["/a/b/x"], "/a/b"),
        (["/a/bb/x", "/a/b/x"], "/a"),
        (["hdfs://h:1/a/x", "hdfs://h:1/a/y"], "hdfs://h:1/a"),
        (["hdfs://h:1/a/x", "/h:1/a/y"], ""),
        ([], ""),
    ],
)
def test_the_common_folder_of_files_is_found(files: list[str], folder: str) -> None:
    assert common_folder(files) == folder


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (OSError("no route"), "no route"),
        (OSError("first\\nat java.lang.Thread"), "first"),
        (OSError("first\nat java.lang.Thread"), "first"),
        (RuntimeError('RpcError("FileNotFound", "no such file: /x")'), "no such file: /x"),
        (ValueError("  "), "ValueError"),
    ],
)
def test_an_error_of_a_driver_is_one_line(error: Exception, told: str) -> None:
    path = location("hdfs://h:1/a")
    with pytest.raises(EnvironmentProblem) as caught, remote_errors(path):
        raise error
    assert str(caught.value) == f"hdfs://h:1/a is not accessible: {told}"
    assert caught.value.hint == (
        "the URL needs the namenode's host and port, or HADOOP_CONF_DIR a core-site.xml"
    )
    with pytest.raises(type(error)), remote_errors(Path("/a")):
        raise error


@pytest.mark.parametrize("error", [FileExistsError("x"), UsageError("x")])
def test_other_errors_are_raised_as_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, remote_errors(location("hdfs://h:1/a")):
        raise error
    assert caught.value is error


def test_a_tree_is_removed_whether_it_is_there_or_not(tmp_path: Path) -> None:
    remote = cast(Path, UPath("memory://klamm-test/a"))
    for folder in (tmp_path / "a", remote):
        (folder / "b").mkdir(parents=True)
        (folder / "b" / "c").write_text("x")
        remove_tree(folder)
        assert not folder.exists()
        remove_tree(folder)
