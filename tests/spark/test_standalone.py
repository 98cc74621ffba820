"""The replay on a Spark standalone cluster: by --master, and by spark-submit with an archive."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from cli.main import main
from tests.spark.standalone import SPARK_HOME, standalone_cluster
from zk.java import spark_java_home

ROOT = Path(__file__).parents[2]
TIMEOUT_S = 900
JOB = "from cli.main import main\nraise SystemExit(main())\n"


def answers_of(out: Path) -> dict[str, Any]:
    """What was answered, without where it was read from."""
    found: dict[str, Any] = json.loads((out / "answers.json").read_text())
    del found["paths"]
    return found


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.timeout(TIMEOUT_S)
def test_a_cluster_gives_the_answers_of_one_process(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    table, archive = tmp_path / "events", tmp_path / "klamm.zip"
    plant = "illegal=3,gap=2,unclean=1"
    generate = ["--format", "parquet", "--seed", "5", "--partitions", "30", "--events", "2000"]
    assert main(["replay", "generate", "--out", str(table), *generate, "--plant", plant]) == 0
    run = ["replay", "run", str(table)]
    memory = ["--memory-mb", "600"]
    assert main([*run, *memory, "--out", str(tmp_path / "here")]) == 14
    here = answers_of(tmp_path / "here")
    assert (here["counts"]["illegal"], here["counts"]["unclean"]) == (3, 1)
    assert main(["replay", "package", "--out", str(archive)]) == 0
    (tmp_path / "klamm_job.py").write_text(JOB)
    with standalone_cluster(tmp_path) as master:
        there = tmp_path / "there"
        assert main([*run, *memory, "--out", str(there), "--master", master]) == 14
        assert answers_of(there) == here
        worked = [list((tmp_path / f"work-{n}").glob("app-*")) for n in range(2)]
        assert all(worked), worked
        submitted = subprocess.run(
            [
                SPARK_HOME / "bin" / "spark-submit",
                *("--master", master, "--executor-memory", "600m"),
                *("--conf", "spark.driver.host=127.0.0.1"),
                *("--py-files", archive, tmp_path / "klamm_job.py"),
                *(*run, "--out", str(tmp_path / "submitted")),
            ],
            env={
                **os.environ,
                "JAVA_HOME": str(spark_java_home()),
                "SPARK_HOME": str(SPARK_HOME),
                "SPARK_LOCAL_IP": "127.0.0.1",
                "PYSPARK_PYTHON": sys.executable,
                "PYTHONPATH": str(ROOT),
            },
            capture_output=True,
            text=True,
        )
        assert submitted.returncode == 14, submitted.stderr[-3000:]
        assert answers_of(tmp_path / "submitted") == here
    capfd.readouterr()
