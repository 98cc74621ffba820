"""pytest plugin: clusters as fixtures, the marker ``klamm``, and drill files as tests.

pytest loads this module in every project that has klamm installed, so it imports the rest of klamm
only when a test uses it.
"""

from __future__ import annotations

import argparse
import re
import shlex
import sys
import tempfile
import zlib
from collections.abc import Generator, Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import pytest

if TYPE_CHECKING:
    from klamm.cluster.errors import KlammError
    from klamm.lab.drill import Drill
    from klamm.lab.python.cluster import LocalCluster, ScriptedCluster, SimulatedCluster
    from klamm.lab.python.run_drill import DrillError

_Cluster = TypeVar("_Cluster", bound="ScriptedCluster")
DRILL_SUFFIX: Final = ".drill.yaml"
MARKER: Final = "klamm"
_SEED_OPTION: Final = "--klamm-seed"
_MAX_SEED_DIGITS: Final = 100
_REPORT: Final[pytest.StashKey[dict[str, list[str]]]] = pytest.StashKey()
"""Lines about each run of a test, for the report if the test fails, keyed by fixture."""
_CLUSTERS: Final[pytest.StashKey[dict[str, ScriptedCluster]]] = pytest.StashKey()
"""The clusters of a test, keyed by fixture. They are kept until its fixtures are torn down."""


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option for the seed of simulated clusters."""
    parser.getgroup("klamm").addoption(
        _SEED_OPTION,
        type=_seed,
        metavar="N",
        help="Seed of simulated clusters and drills, instead of the marker's. [default: 0]",
    )


def _seed(text: str) -> int:
    """Return the seed of the command line. Raises ArgumentTypeError if it is invalid."""
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text} is not a whole number from 0 on")
    if len(text) > _MAX_SEED_DIGITS:
        raise argparse.ArgumentTypeError(f"a seed has more than {_MAX_SEED_DIGITS} digits")
    return int(text)


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line(
        "markers",
        f"{MARKER}(brokers=3, seed=0, config=...): options of the clusters klamm_simulation and "
        "klamm_cluster, as for klamm.SimulatedCluster and klamm.LocalCluster",
    )


@pytest.fixture
def klamm_simulation(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[SimulatedCluster]:
    """A running cluster in one thread, with virtual time and a ZooKeeper in memory.

    The parameters of an indirect parametrization are seeds.
    """
    from klamm.lab.python.cluster import SimulatedCluster

    options = _options(request)
    seed = request.config.getoption(_SEED_OPTION)
    if seed is None:
        seed = getattr(request, "param", options.get("seed", 0))
    options["seed"] = seed
    cluster = _cluster(SimulatedCluster, options | {"data_dir": tmp_path_factory.mktemp("klamm")})
    words = ["pytest", request.node.nodeid, _SEED_OPTION, str(seed)]
    yield from _opened(cluster, request, words, [f"seed: {seed}"])


@pytest.fixture(scope="session")
def klamm_zookeeper(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of a ZooKeeper server, which all tests of the run share."""
    from klamm.cluster.errors import KlammError
    from klamm.lab.python.errors import python_hint
    from klamm.zk.embedded import EmbeddedZooKeeper

    server, failure = EmbeddedZooKeeper(tmp_path_factory.mktemp("klamm-zookeeper")), ""
    try:
        server.start()
    except KlammError as error:
        failure = _text(error, python_hint(error.hint, f"@pytest.mark.{MARKER}"))
    if failure:  # outside of the except clause: pytest would show both errors
        pytest.fail(failure, pytrace=False)
    with server:
        yield server.connect_string


@pytest.fixture
def klamm_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[LocalCluster]:
    """A running cluster on a real ZooKeeper, in a chroot that is removed at the end of the test."""
    from klamm.lab.python.cluster import LocalCluster

    options = _options(request)
    if options.get("zookeeper") is None and options.get("zookeeper_servers") is None:
        options["zookeeper"] = request.getfixturevalue("klamm_zookeeper")
    cluster = _cluster(LocalCluster, options | {"data_dir": tmp_path_factory.mktemp("klamm")})
    yield from _opened(cluster, request, ["pytest", request.node.nodeid], [])


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    marker = request.node.get_closest_marker(MARKER)
    if marker is None:
        return {}
    if marker.args:
        pytest.fail(
            f"@pytest.mark.{MARKER}: options need names, for example brokers=3", pytrace=False
        )
    if "data_dir" in marker.kwargs:
        place = "pytest's temporary directories, see --basetemp"
        pytest.fail(f"@pytest.mark.{MARKER}: data_dir is one of {place}", pytrace=False)
    return dict(marker.kwargs)


def _cluster(kind: type[_Cluster], options: Mapping[str, Any]) -> _Cluster:
    """Return a cluster with the marker's options. The test fails if they are invalid."""
    from klamm.lab.python.errors import ClusterError

    try:
        return kind(**options)
    except ClusterError as error:
        failure = _text(error, error.hint)
    except TypeError as error:
        failure = str(error)
    pytest.fail(f"@pytest.mark.{MARKER}: {failure}", pytrace=False)


def _text(error: KlammError, hint: str | None) -> str:
    return "\n".join([error.message, *([f"hint: {hint}"] if hint else [])])


def _opened(
    cluster: ScriptedCluster,
    request: pytest.FixtureRequest,
    replay: Iterable[str],
    lines: Iterable[str],
) -> Iterator[Any]:
    stash, fixture = request.node.stash, str(request.fixturename)
    cluster.replay = shlex.join(replay)
    about = [*lines, f"replay: {cluster.replay}", f"journal: {cluster.journal_path}"]
    stash.setdefault(_REPORT, {})[fixture] = about
    with cluster:
        stash.setdefault(_CLUSTERS, {})[fixture] = cluster
        yield cluster


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[object]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add seed, replay line, journal and page of each cluster to the report of a failed test."""
    failed_drill = _failed_drill(call)
    if failed_drill is not None:
        failed_drill.replay = shlex.join(["pytest", item.nodeid])
    report = yield
    clusters = item.stash.get(_CLUSTERS, {})
    if call.when == "teardown":
        item.stash[_CLUSTERS] = {}  # A run has many tests.
    if failed_drill is not None:
        page = _write_page(item, failed_drill.page_text)
        report.sections.append(("klamm", f"replay: {failed_drill.replay}\npage: {page}"))
        return report
    for fixture, lines in item.stash.get(_REPORT, {}).items() if report.failed else ():
        cluster = clusters.get(fixture)
        if cluster is not None and call.excinfo is not None:
            shown = cluster.page(f"{item.nodeid} failed", call.excinfo.value)
            lines = [*lines, f"page: {_write_page(item, shown, f'{call.when} {fixture}')}"]
        report.sections.append(("klamm", "\n".join(lines)))
    return report


def _failed_drill(call: pytest.CallInfo[object]) -> DrillError | None:
    """Return the error of klamm.run_drill with which a test failed, without importing klamm."""
    module = sys.modules.get("klamm.lab.python.run_drill")
    if module is None or call.excinfo is None:
        return None
    error = call.excinfo.value
    return error if isinstance(error, module.DrillError) else None


def _write_page(item: pytest.Item, page: str, part: str = "") -> Path:
    """Write the page of a failed test where the next failure of this part of it replaces it."""
    cache = getattr(item.config, "cache", None)  # None with -p no:cacheprovider
    folder = Path(tempfile.mkdtemp(prefix="klamm-")) if cache is None else cache.mkdir("klamm")
    name = re.sub(r"[^A-Za-z0-9.-]+", "_", item.nodeid)[-200:]
    # Different tests, and the clusters and phases of one test, can have the same name.
    number = zlib.crc32(ascii((item.nodeid, part)).encode())
    path: Path = folder / f"{name}-{number:08x}.html"
    path.write_text(page, encoding="utf-8")
    return path


def pytest_collect_file(file_path: Path, parent: pytest.Collector) -> DrillFile | None:
    """Collect each file with the suffix ``.drill.yaml`` as a test."""
    if not file_path.name.endswith(DRILL_SUFFIX):
        return None
    return DrillFile.from_parent(parent, path=file_path)


class DrillFile(pytest.File):
    """A file with one drill."""

    def collect(self) -> Iterator[DrillItem]:
        """Yield the drill. Raises CollectError if the file is invalid."""
        from klamm.cluster.errors import UsageError
        from klamm.lab.language.language import read_drill

        try:
            drill = read_drill(self.path)
        except UsageError as error:
            raise self.CollectError(_text(error, error.hint)) from error
        yield DrillItem.from_parent(self, name=drill.name, drill=drill)


class DrillFailed(Exception):
    """A drill did not pass. The text is the output of the drill."""


class DrillItem(pytest.Item):
    """A drill as a test: simulated, or on ZooKeeper servers if the drill acts on these."""

    def __init__(self, *, drill: Drill, **others: Any) -> None:
        super().__init__(**others)
        self.drill = drill

    def runtest(self) -> None:
        """Run the drill. Raises DrillFailed unless it passes."""
        from klamm.cluster.quirks import NO_QUIRKS
        from klamm.cluster.version import klamm_version
        from klamm.interrupts import temporary_folder
        from klamm.lab.page.page import drill_headline, run_page
        from klamm.lab.page.trace import RunTrace
        from klamm.lab.run import text
        from klamm.lab.run.drill_run import Outcome, play, verdict_of
        from klamm.lab.run.runner import StepResult
        from klamm.lab.run.worlds import World, Worlds

        drill, is_real = self.drill, self.drill.real_only is not None
        seed = self.config.getoption(_SEED_OPTION) or 0
        world, options = (
            ("real", ["--real"]) if is_real else (f"seed {seed}", ["--seed", str(seed)])
        )
        replay = shlex.join(["klamm", "drill", "run", str(self.path), *options])
        about = [*([] if is_real else [f"seed: {seed}"]), f"replay: {replay}"]
        self.stash[_REPORT] = {"": about}
        with (
            temporary_folder("klamm-drill-") as folder,
            Worlds(
                folder, klamm_version(), world=World.ZOOKEEPER if is_real else World.SIMULATION
            ) as worlds,
            worlds.open(drill.spec(NO_QUIRKS, seed), drill.name) as driver,
        ):
            trace, results = RunTrace(driver), list[StepResult]()
            verdict = verdict_of(play(drill, driver, is_measured=True), results.append)
            if verdict.outcome is not Outcome.PASSED:
                page = run_page(drill_headline(drill, verdict, world, replay), trace, results)
                about.append(f"page: {_write_page(self, page)}")
                lines = [text.heading(drill.name, world, drill.about)]
                lines += (line for result in results for line in text.step_lines(result))
                lines += text.verdict_lines(drill.name, verdict)
                # pytest shows the first line in its summary.
                raise DrillFailed("\n".join((*map(str, verdict.failures[:1]), *lines)))

    def repr_failure(self, excinfo: pytest.ExceptionInfo[BaseException], style: Any = None) -> Any:
        """Return the drill's output, the text of an error, or an internal error's traceback."""
        from klamm.cluster.errors import KlammError

        if isinstance(excinfo.value, DrillFailed):
            return str(excinfo.value)
        if isinstance(excinfo.value, KlammError):
            return _text(excinfo.value, excinfo.value.hint)
        return super().repr_failure(excinfo, style)

    def reportinfo(self) -> tuple[Path, int, str]:
        """Return the place and the name of the drill for the report."""
        return self.path, 0, f"drill {self.drill.name}"
