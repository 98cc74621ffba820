"""A Spark cluster whose workers share no directory, with all data on HDFS."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.main import main
from klamm.cluster.errors import UsageError
from klamm.replay.event_table import MANIFEST, new_table_folder
from klamm.replay.locations import location
from klamm.replay.spark import spark_session
from tests.spark.hdfs import hdfs_cluster
from tests.spark.standalone import standalone_cluster, submitted

TIMEOUT_S = 900
SELECT = "SELECT kind, count(*) AS n FROM events GROUP BY 1 ORDER BY 2 DESC, 1"

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(TIMEOUT_S)]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """What only the driver and HDFS see."""
    return tmp_path_factory.mktemp("driver")


@pytest.fixture(scope="module")
def hdfs(folder: Path) -> Iterator[str]:
    """An HDFS with a journal, in which something is wrong, at /logs."""
    made = folder / "made"
    generate = ["--seed", "5", "--partitions", "30", "--events", "2000"]
    plant = ["--plant", "illegal=3,gap=2,unclean=1"]
    assert main(["replay", "generate", "--out", str(made), *generate, *plant]) == 0
    with hdfs_cluster(folder / "hdfs") as url:
        logs = location(f"{url}/logs")
        logs.mkdir()
        (logs / "journal.jsonl").write_bytes((made / "journal.jsonl").read_bytes())
        yield url


@pytest.fixture(scope="module")
def master(folder: Path, monkeypatch_module: pytest.MonkeyPatch) -> Iterator[str]:
    """A master with two workers that see neither the driver's files nor each other's."""
    monkeypatch_module.setenv("TMPDIR", str(folder))
    monkeypatch_module.setattr("tempfile.tempdir", None)
    with standalone_cluster(folder, hidden=folder) as address:
        yield address


@pytest.fixture(scope="module")
def monkeypatch_module() -> Iterator[pytest.MonkeyPatch]:
    with pytest.MonkeyPatch.context() as patch:
        yield patch


def values_of(url: str) -> dict[str, Any]:
    """What was answered, without where it was read from."""
    found: dict[str, Any] = json.loads((location(url) / "answers.json").read_text())
    del found["paths"]
    return found


def test_workers_that_share_nothing_replay_what_is_on_hdfs(
    folder: Path,
    hdfs: str,
    master: str,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    events, answers = f"{hdfs}/events", f"{hdfs}/answers"
    on_cluster = ("--master", master)
    here = str(folder / "made" / "journal.jsonl")
    with spark_session(master=master, memory_mb=600, rows=1) as session, monkeypatch.context() as m:
        m.setattr(
            "klamm.replay.spark.spark_session", lambda *_, **__: contextlib.nullcontext(session)
        )
        # A local path is one that the workers do not have.
        out = str(tmp_path / "events")
        capsys.readouterr()
        assert main(["replay", "ingest", here, "--out", out, *on_cluster]) == 1
        said = capsys.readouterr().err.strip().splitlines()[-2:]
        assert said[0].startswith("error: Spark job failed: [Errno 2] No such file or directory")
        assert said[1].startswith(
            "hint: give a URL, or a directory that the driver and all workers"
        )
        assert not Path(out).exists()

        assert main(["replay", "ingest", f"{hdfs}/logs", "--out", events, *on_cluster]) == 0
        assert main(["replay", "run", events, "--out", answers, *on_cluster]) == 14
    assert main(["replay", "run", f"{hdfs}/logs", "--out", f"{hdfs}/expected"]) == 14
    assert values_of(answers) == values_of(f"{hdfs}/expected")
    told = submitted(master, tmp_path, "replay", "sql", SELECT, events, "--json")
    # The same table without a cluster.
    capsys.readouterr()
    assert main(["replay", "sql", SELECT, events, "--json"]) == 0
    assert json.loads(capsys.readouterr().out) == json.loads(told[told.index("{\n") :])
    left = {path.name for path in location(hdfs).iterdir()}
    assert left == {"logs", "events", "answers", "expected"}


def test_a_table_on_hdfs_is_replaced_only_by_a_complete_one(hdfs: str) -> None:
    table = location(f"{hdfs}/kept")
    with new_table_folder(table, overwrite=False) as made:
        (made / MANIFEST).write_text("old")
        with (
            pytest.raises(UsageError, match=r"kept\.partial exists: another ingest is running"),
            new_table_folder(table, overwrite=False),
        ):
            pass
    with pytest.raises(KeyboardInterrupt), new_table_folder(table, overwrite=True) as made:
        (made / "events").mkdir()
        (made / "events" / "part").write_bytes(b"half")
        raise KeyboardInterrupt
    assert (table / MANIFEST).read_text() == "old"
    with new_table_folder(table, overwrite=True) as made:
        (made / "events").mkdir()
        (made / "events" / "part").write_bytes(b"whole")
        (made / MANIFEST).write_text("new")
    assert (table / MANIFEST).read_text() == "new"
    assert (table / "events" / "part").read_bytes() == b"whole"
    assert not made.exists()
    table.rmdir()
