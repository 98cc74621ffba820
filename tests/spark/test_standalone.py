"""The replay on a Spark standalone cluster: by --master, and by spark-submit with an archive."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from klamm.cli.main import main
from tests.serving import KLAMM, ROOT
from tests.spark.standalone import standalone_cluster, submitted

TIMEOUT_S = 900

pytestmark = [
    pytest.mark.slow,
    pytest.mark.spark,
    pytest.mark.timeout(TIMEOUT_S),
    pytest.mark.usefixtures("commands_share_spark"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("standalone")


@pytest.fixture(scope="module")
def master(folder: Path) -> Iterator[str]:
    """A master with two workers of a core and 1 GiB each."""
    with standalone_cluster(folder) as address:
        yield address


@pytest.fixture(scope="module")
def journal(folder: Path) -> str:
    """A small history in which something is wrong."""
    made = folder / "made"
    generate = ["--seed", "5", "--partitions", "30", "--events", "2000"]
    plant = ["--plant", "illegal=3,gap=2,unclean=1"]
    assert main(["replay", "generate", "--out", str(made), *generate, *plant]) == 0
    return str(made / "journal.jsonl")


def answers_of(out: Path) -> dict[str, Any]:
    """What was answered, without where it was read from."""
    found: dict[str, Any] = json.loads((out / "answers.json").read_text())
    del found["paths"]
    return found


def test_a_cluster_gives_the_answers_of_one_process(
    folder: Path, master: str, journal: str, tmp_path: Path
) -> None:
    run = ("replay", "run", journal)
    assert main([*run, "--out", str(tmp_path / "here")]) == 14
    here = answers_of(tmp_path / "here")
    assert (here["counts"]["illegal"], here["counts"]["unclean"]) == (3, 1)
    # A log, not a table: workers read it in Python, with the packages that klamm sent along.
    there = ("--out", str(tmp_path / "there"), "--master", master, "--memory-mb", "600")
    done = subprocess.run([*KLAMM, *run, *there], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 14, done.stderr
    assert answers_of(tmp_path / "there") == here
    worked = [list((folder / f"work-{n}").glob("app-*")) for n in range(2)]
    assert all(worked), worked


def test_spark_submit_takes_the_archive(master: str, journal: str, tmp_path: Path) -> None:
    query = "SELECT count(*) AS n FROM events WHERE kind = 'partition_transition'"
    one_core = ("--total-executor-cores", "1")
    command = ("replay", "sql", query, journal, "--json")
    said = submitted(master, tmp_path, *command, options=one_core)
    expected = sum(
        json.loads(line)["kind"] == "partition_transition"
        for line in Path(journal).read_text().splitlines()
    )
    # It puts both streams of Python into one.
    assert json.loads(said[said.index("{\n") :])["rows"] == [[expected]]


def test_a_job_that_no_worker_has_room_for_says_what_it_waits_for(
    master: str, journal: str
) -> None:
    with subprocess.Popen(
        [
            *(*KLAMM, "replay", "run", journal),
            *("--master", master, "--memory-mb", "3000"),
        ],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as waiting:
        assert waiting.stderr is not None
        said = next(line for line in waiting.stderr if line.startswith(f"waiting for {master}"))
        waiting.send_signal(signal.SIGINT)
        told, errors = waiting.communicate(timeout=60)
    assert said == (
        f"waiting for {master}: no worker has had a free core and 3000 MiB of memory for 10 s "
        "(lower --memory-mb, or give up with Ctrl-C)\n"
    )
    assert (waiting.returncode, told, errors) == (130, "", "Interrupted\n")
