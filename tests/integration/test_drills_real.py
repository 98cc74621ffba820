"""`klamm drill run --real`: the drills that ship pass on a real ZooKeeper, and nothing is left."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from kazoo.client import KazooClient

import klamm
from klamm.cli.main import main
from klamm.lab.drills.library import NAMES, named_drill
from klamm.lab.drivers import live_driver
from klamm.zk.embedded import EmbeddedZooKeeper
from tests.serving import RunKlamm, without_slowness
from tests.sim.test_run_page import periods
from tests.unit.report.pages import read_page
from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
HEAD = "drill: mine\nabout: x\ncluster: {topics: {t: [[0, 1]]}}\nsteps:\n"

DRILLS = [named_drill(name) for name in NAMES]
EITHER_WORLD = [d.name for d in DRILLS if d.simulated_only is None and d.real_only is None]
_OF_KAFKA = ("kafka-1188", "kafka-6146", "kafka-7235", "pr-7334")
BUGS = ("c1", "c2", "c7", "c8", "c11", "cmak-878", *_OF_KAFKA)
REAL_ONLY = [d.name for d in DRILLS if d.real_only is not None]


@pytest.fixture
def run(chroot: str, run_klamm: RunKlamm) -> RunKlamm:
    """Run drills below the test's chroot."""
    return partial(run_klamm, "drill", "run", "--real", "--zookeeper", chroot)


@pytest.fixture
def below(chroot: str, zookeeper_client: KazooClient) -> Any:
    """The names of the znodes in the test's chroot."""
    return lambda: sorted(zookeeper_client.get_children(chroot[chroot.index("/") :]))


@pytest.mark.slow
@pytest.mark.parametrize("name", [*EITHER_WORLD, *BUGS])
def test_a_drill_that_ships_passes_on_a_real_zookeeper(
    run: RunKlamm, below: Any, name: str
) -> None:
    code, out, errors = run(name)
    assert (code, without_slowness(errors)) == (0, ""), out
    assert f"{name} passed after " in out
    assert below() == []


@pytest.mark.slow
@pytest.mark.parametrize("name", REAL_ONLY)
def test_a_drill_that_breaks_zookeeper_passes(
    name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code = main(["drill", "run", "--real", "--data-dir", str(tmp_path / "out"), name])
    out, errors = capsys.readouterr()
    assert (code, without_slowness(errors)) == (0, ""), out


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "requires real ZooKeeper servers"),
        (("--real", "--zookeeper", "h:1"), "klamm's embedded"),
    ],
)
def test_a_drill_that_breaks_zookeeper_needs_one_of_its_own(
    words: tuple[str, ...], problem: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["drill", "run", *words, REAL_ONLY[0]]) == 2
    assert problem in capsys.readouterr().err


@pytest.mark.slow
def test_a_bug_is_found_on_a_real_zookeeper_too(run: RunKlamm, below: Any) -> None:
    code, out, _ = run("cancel-back-to-the-dead", "--quirks", "KAFKA-14424")
    assert code == 1
    assert out.endswith(
        "repeat it with: klamm drill run cancel-back-to-the-dead --real --quirks KAFKA-14424\n"
    )
    assert below() == []


def test_a_recording_is_run_for_real_and_compared(run: RunKlamm) -> None:
    recording = ROOT / "tests" / "data" / "scenarios" / "controller_move_quiet.json"
    code, out, _ = run(str(recording), "--quirks", "2.8.2")
    assert (code, "identical to Kafka 2.8.2" in out) == (0, True)


@pytest.mark.parametrize("path", ["/brokers/ids", "/controller"])
def test_a_place_of_kafkas_is_refused(
    run: RunKlamm, below: Any, chroot: str, zookeeper_client: KazooClient, path: str
) -> None:
    zookeeper_client.create(chroot[chroot.index("/") :] + path, makepath=True)
    before = below()
    code, out, errors = run("leader-loss")
    assert (code, out) == (1, "")
    assert errors.startswith("error: this ZooKeeper belongs to the Kafka cluster")
    assert below() == before


def test_steps_are_triggered_by_times_and_rows(run: RunKlamm, below: Any, tmp_path: Path) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(
        f"{HEAD}"
        "  - {on: {kind: topic_created, topic: u}, create_znode: {/seen: null}}\n"
        "  - {every: 300ms, set_znode: {/b: x}}\n"
        "  - create_znode: {/b: x}\n"
        "  - at: 1s\n"
        "    run: topics --zookeeper {zk} --create --topic u --replica-assignment '0:1'\n"
        "eventually: {exists: /seen}\n"
    )
    code, out, _ = run(str(path))
    assert code == 0, out
    assert out.count("set_znode: {/b: x} (every 300ms)") in (2, 3, 4)
    assert (
        " run: topics --zookeeper {zk} --create --topic u --replica-assignment '0:1' (at 1s)" in out
    )
    assert below() == []


@pytest.mark.slow
def test_late_and_repeated_messages_arrive_on_a_real_zookeeper_too(
    run: RunKlamm, below: Any, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    head = HEAD.replace("topics:", "config: {replica.socket.timeout.ms: 1000}, topics:")
    path.write_text(
        f"{head}"
        "  - delay: {from: clients, to: [0, 1, 2], ms: 700}\n"
        "  - degrade_network: {between: [0, others], loss: 0.05, repetition: 0.3, reordering: 1}\n"
        "  - produce: {t-0: 10}\n"
        "  - wait: 500ms\n"
        "    until: {acknowledged: {t-0: 0}}\n"
        "    within: 10ms\n"
        "  - wait: 1ms\n"
        "    until: {acknowledged: {t-0: 10}}\n"
        "  - heal_network:\n"
        "    until: {consumed: {t-0: 10}}\n"
        "  - run: topics --zookeeper {zk} --create --topic u --replica-assignment 2:0\n"
        "eventually: {within: 90s, healthy: true}\n"
    )
    code, out, errors = run(str(path))
    assert (code, without_slowness(errors)) == (0, ""), out
    path.write_text(head + "  - delay: {from: zookeeper, to: 0, ms: 5}\n")
    code, out, errors = run(str(path))
    assert (code, "requires the simulated world" in errors) == (2, True)
    assert below() == []


def test_a_drill_that_fails_leaves_nothing_either(
    run: RunKlamm, below: Any, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "  - kill: 2\n    until: {leader: {t-0: 1}}\n    within: 100ms\n")
    assert run(str(path))[0] == 11
    assert below() == []
    assert [t.name for t in threading.enumerate() if "broker" in t.name] == []


@pytest.mark.slow
def test_a_zookeeper_that_is_lost_leaves_it_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(live_driver, "_ZOOKEEPER_TIMEOUT_S", 1.0)
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + "  - kill: 2\n    until: {leader: {t-0: 1}}\n")
    folder = tmp_path / "kept"
    with EmbeddedZooKeeper() as server:

        def kill_once_it_runs() -> None:
            wait_until(lambda: _leaders(server) != [], 30)
            server.kill()

        killer = threading.Thread(target=kill_once_it_runs)
        killer.start()
        words = ["--real", "--zookeeper", f"{server.connect_string}/d", "--data-dir", str(folder)]
        code = main(["drill", "run", str(path), *words])
        killer.join()
    assert code == 12
    assert "mine inconclusive after" in capsys.readouterr().out


def _leaders(server: EmbeddedZooKeeper) -> list[str]:
    """The state znodes of t-0 in the drills that run."""
    client = KazooClient(hosts=server.connect_string)
    client.start()
    try:
        drills = client.get_children("/d") if client.exists("/d") else []
        paths = [f"/d/{drill}/brokers/topics/t/partitions/0/state" for drill in drills]
        return [path for path in paths if client.exists(path)]
    finally:
        client.stop()
        client.close()


@pytest.mark.slow
@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_drill_leaves_nothing(
    tmp_path: Path, number: signal.Signals, code: int
) -> None:
    words = ["-m", "klamm", "drill", "run", "controller-move-mid-reassignment", "--real"]
    with subprocess.Popen(
        [sys.executable, *words],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as drill:
        assert drill.stdout is not None
        next(line for line in drill.stdout if "pause: 3" in line)
        drill.send_signal(number)
        _, errors = drill.communicate(timeout=30)
    said = "Interrupted" if number == signal.SIGINT else "Ended by SIGTERM"
    assert (drill.returncode, errors.splitlines()[-1]) == (code, said)
    assert list(tmp_path.iterdir()) == []


def test_the_page_of_a_real_cluster_shows_who_leads_and_who_is_registered(chroot: str) -> None:
    with klamm.LocalCluster(3, zookeeper=f"{chroot}/a", controllers=[2]) as cluster:
        for topic in ("t", "u"):
            cluster.create_topic(topic, replicas=[[0, 1]])
        cluster.stop(0)
        cluster.until(leader={"t-0": 1, "u-0": 1}, unregistered=0)
        cluster.start(0)
        cluster.until(healthy=True)
        cluster.run("topics --zookeeper {zk} --delete --topic u")
        cluster.until(deleted="u")
        cluster.wait("20ms")  # the page rounds times
        root = read_page(cluster.page("p", ValueError("t-0 and u-0")))
    shown = periods(root)
    texts = {lane: [text for name, *_, text in shown if name == lane] for lane, *_ in shown}
    first, second, *others, last = texts["broker 0"]
    assert (first, second, last, "dead" in others) == ("dead", "running", "running", True)
    assert texts["broker 1"] == ["dead", "running"]
    assert texts["t-0"] == ["leader 0, ISR 0,1", "leader 1, ISR 1", "leader 1, ISR 1,0"]
    assert texts["u-0"][:3] == texts["t-0"]
    ends = {lane: end for lane, _, end, _ in shown}
    assert float(ends["u-0"].split()[0]) < float(ends["t-0"].split()[0])


def test_a_cluster_in_python_leaves_no_parents_of_its_chroot(below: Any, chroot: str) -> None:
    with klamm.LocalCluster(1, zookeeper=f"{chroot}/a/b"):
        assert below() == ["a"]
        with klamm.LocalCluster(1, zookeeper=f"{chroot}/a"):
            pass
    assert below() == []


@pytest.mark.parametrize("kind", ["SimulatedCluster(1)", "LocalCluster(1, zookeeper='{}')"])
def test_a_cluster_that_is_never_closed_is_closed_when_python_ends(
    below: Any, chroot: str, kind: str, tmp_path: Path
) -> None:
    done = subprocess.run(
        [sys.executable, "-c", f"import klamm; klamm.{kind.format(chroot)}.__enter__()"],
        cwd=ROOT,
        env={**os.environ, "TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert (below(), list(tmp_path.iterdir())) == ([], [])
