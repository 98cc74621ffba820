"""`klamm replay run`, `sql` and `package`: damaged lines with their places, what is refused before
anything is read, and paths that the disk refuses."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from klamm.cli.main import main
from tests.unit.report.pages import read_page

ROW = '{"v":1,"run_id":"r","t_ms":1767348900250,"seq":1,"controller":0,"epoch":1,"kind":"event"}\n'
HINT = "hint: --out needs a writable directory\n"


@pytest.fixture
def journal(tmp_path: Path) -> Path:
    path = tmp_path / "journal.jsonl"
    path.write_text(f"{ROW}nonsense\n{ROW.replace('1,', '2,', 2)[:40]}\n")
    return path


@pytest.mark.parametrize("out", ["/proc/foo", "/proc/foo/bar"])
def test_an_unwritable_directory_is_reported_with_the_given_name(
    out: str, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["replay", "run", str(journal), "--out", out]) == 1
    told = capsys.readouterr().err
    assert told == f"error: {out} cannot be created: No such file or directory\n{HINT}"


@pytest.mark.parametrize(
    ("url", "code", "said", "hint"),
    [
        (
            "gopher://host/events",
            2,
            "gopher://host/events: klamm cannot read gopher:// URLs",
            "a local path, or a URL that begins with hdfs, s3, s3a",
        ),
        (
            "hdfs://127.0.0.1:1/events",
            1,
            "hdfs://127.0.0.1:1/events is not accessible: [Errno 111] Connection refused",
            "the URL needs the namenode's host and port, or HADOOP_CONF_DIR a core-site.xml",
        ),
        (
            "hdfs://:9000/events",
            1,
            "hdfs://:9000/events is not accessible: No fs.defaultFS setting found",
            "the URL needs the namenode's host and port, or HADOOP_CONF_DIR a core-site.xml",
        ),
    ],
)
def test_a_url_that_cannot_be_opened_is_refused_at_once(
    url: str, code: int, said: str, hint: str, journal: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    told = f"error: {said}\nhint: {hint}\n"
    for command in (
        ("run", url),
        ("sql", "SELECT 1", url),
        ("ingest", str(journal), "--out", url),
        ("run", str(journal), "--out", url),
    ):
        assert main(["replay", *command]) == code
        assert capsys.readouterr().err == told


def test_a_process_that_has_opened_hdfs_can_fork() -> None:
    program = (
        "import subprocess\n"
        "from klamm.replay.locations import file_system, location\n"
        "file_system(location('hdfs://127.0.0.1:1/events'))\n"
        "subprocess.run(['true'], preexec_fn=lambda: None)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], start_new_session=True) as process:
        try:
            assert process.wait(30) == 0
        except subprocess.TimeoutExpired:
            # The child that hangs is another process of the same group.
            os.killpg(process.pid, signal.SIGKILL)
            raise


def test_an_archive_is_made_with_the_directories_above_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    made = tmp_path / "a/b/klamm.zip"
    assert main(["replay", "package", "--out", str(made)]) == 0
    assert made.is_file() and [path.name for path in made.parent.iterdir()] == ["klamm.zip"]
    capsys.readouterr()
    long = tmp_path / "c" / ("x" * 250 + ".zip")
    assert main(["replay", "package", "--out", str(long)]) == 1
    told = capsys.readouterr().err
    assert told == f"error: {long} cannot be created: File name too long\n{HINT}"
    assert not long.parent.exists()


def test_damaged_lines_stand_in_every_answer_with_their_places(
    journal: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "new/answers"
    args = ["replay", "run", str(journal), "--out", str(out), "--format", "html"]
    assert main(args) == 0
    text = capsys.readouterr().out
    assert "1 event, 0 partitions, 0 violations" in text
    assert f"\n{journal.name}:2  not json  nonsense" in text
    found = json.loads((out / "answers.json").read_text())["damaged"]
    assert (found["kinds"], found["is_whole"]) == ({"not json": 2}, True)
    assert [(row["file"], row["line"]) for row in found["rows"]] == [
        (str(journal), 2),
        (str(journal), 3),
    ]
    assert f"{journal.name}:2" in read_page((out / "page.html").read_text(encoding="utf-8")).text


def test_what_is_no_query_is_refused_before_anything_is_read(
    journal: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    writes = "WITH a AS (SELECT 1) INSERT INTO b SELECT * FROM a"
    assert main(["replay", "sql", writes, str(journal)]) == 2
    told = capsys.readouterr().err
    assert "error: invalid query" in told and "read journal" not in told
    with monkeypatch.context() as elsewhere:
        elsewhere.setenv("TZ", "Asia/Kolkata")
        time.tzset()
        columns = "time, TIMESTAMPTZ '2021-09-01 10:00:00', to_timestamp(t_ms / 1000)"
        query = f"SELECT {columns} FROM events"
        assert main(["replay", "sql", query, str(journal), "--json"]) == 0
    time.tzset()
    assert json.loads(capsys.readouterr().out)["rows"] == [
        ["2026-01-02 10:15:00.250", "2021-09-01 10:00:00.000", "2026-01-02 10:15:00.250"]
    ]
