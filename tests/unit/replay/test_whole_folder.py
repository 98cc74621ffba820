"""A directory that cannot be created raises an EnvironmentProblem."""

from __future__ import annotations

from pathlib import Path

import pytest

from klamm.cluster.errors import EnvironmentProblem, UsageError
from klamm.replay.event_table import MANIFEST, new_table_folder


def test_a_directory_in_what_is_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "table"
    with (
        pytest.raises(EnvironmentProblem, match="file/table cannot be created: "),
        new_table_folder(folder, overwrite=False),
    ):
        pytest.fail("there is no directory to work in")


def test_a_directory_that_another_works_in_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "table.partial").mkdir()
    with (
        pytest.raises(UsageError, match="another ingest is running"),
        new_table_folder(tmp_path / "table", overwrite=False),
    ):
        pytest.fail("the directory is another's")
    assert (tmp_path / "table.partial").is_dir()


def test_a_failure_leaves_no_directory_that_it_made(tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    with (
        pytest.raises(KeyboardInterrupt),
        new_table_folder(tmp_path / "there/a/b/table", overwrite=False) as folder,
    ):
        assert folder.is_dir()
        raise KeyboardInterrupt
    assert list(tmp_path.rglob("*")) == [tmp_path / "there"]


def test_a_directory_that_appeared_meanwhile_is_not_replaced(tmp_path: Path) -> None:
    folder = tmp_path / "table"
    with (
        pytest.raises(UsageError, match="table already exists"),
        new_table_folder(folder, overwrite=False) as partial,
    ):
        (partial / MANIFEST).write_text("")
        folder.mkdir()
        (folder / "precious").write_text("")
    assert sorted(tmp_path.rglob("*")) == [folder, folder / "precious"]


def test_a_directory_that_another_process_put_there_stays(tmp_path: Path) -> None:
    with (
        pytest.raises(KeyboardInterrupt),
        new_table_folder(tmp_path / "a/b/table", overwrite=False),
    ):
        (tmp_path / "a/other").write_text("")
        raise KeyboardInterrupt
    assert list(tmp_path.rglob("*")) == [tmp_path / "a", tmp_path / "a/other"]


def test_a_folder_with_an_impossible_name_leaves_nothing_behind(tmp_path: Path) -> None:
    folder = tmp_path / "missing" / ("x" * 300)
    with (
        pytest.raises(EnvironmentProblem, match="cannot be created: File name too long"),
        new_table_folder(folder, overwrite=False),
    ):
        pytest.fail("there is no directory to work in")
    assert list(tmp_path.iterdir()) == []
