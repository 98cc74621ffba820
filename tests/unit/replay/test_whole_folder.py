"""A directory that cannot be made is told of in klamm's own words."""

from __future__ import annotations

from pathlib import Path

import pytest

from cluster.errors import EnvironmentProblem, UsageError
from replay.table_folder import new_table_folder


def test_a_directory_in_what_is_a_file_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    folder = tmp_path / "file" / "table"
    with (
        pytest.raises(EnvironmentProblem, match="file/table cannot be made: "),
        new_table_folder(folder, overwrite=False),
    ):
        pytest.fail("there is no directory to work in")


def test_a_directory_that_another_works_in_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "table.partial").mkdir()
    with (
        pytest.raises(UsageError, match="another ingest is at work"),
        new_table_folder(tmp_path / "table", overwrite=False),
    ):
        pytest.fail("the directory is another's")
    assert (tmp_path / "table.partial").is_dir()
