"""Drills on three brokers of Kafka 2.8.2 (marked ``kafka``: they need its jars)."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from bench.kafka.locate import SKIP_REASON
from klamm.cli.main import main
from klamm.world.kafka.jars import kafka_libs
from tests.waiting import wait_until

pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.timeout(300),
    pytest.mark.skipif(kafka_libs() is None, reason=SKIP_REASON),
]
PATIENCE_S = 120.0
MINE = """\
drill: mine
about: A leader is paused and killed and a disk fails while records are produced.
cluster:
  brokers: [0, 1, 1000]
  config: {replica.lag.time.max.ms: 5000, log.dirs: "d0,d1"}
  topics:
    t: [[1, 1000, 0]]
steps:
  - produce: {t-0: 200}
  - pause: leader of t-0
    until: {leader: {t-0: 1000}}
  - resume: paused
    until: {isr: {t-0: [0, 1, 1000]}, acknowledged: {t-0: 200}}
  - fail_log_dir: {broker: 1000, log_dir: d0}
    until: {isr: {t-0: [0, 1]}}
  - heal_all:
    until: {isr: {t-0: [0, 1, 1000]}}
  - reassign: {t-0: [0, 1000]}
    until: {reassigning: [], hosts: {0: [t-0], 1: [], 1000: [t-0]}}
  - produce: {t-0: 100}
  - move_controller
  - kill: leader of t-0
    until:
      journal: {kind: partition_transition, topic: t, to: OfflinePartition}
      acknowledged: {t-0: 300}
eventually: {healthy: true, consumed: {t-0: 300}}
"""


def processes_in(folder: Path) -> list[str]:
    """The command lines of the running processes that name a folder."""
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            command = path.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(folder) in command:
            found.append(command)
    return found


@pytest.mark.parametrize("world", ["kafka", "kafka-with-klamm"])
def test_a_drill_passes_as_far_as_kafka_shows_it_and_leaves_nothing_behind(
    world: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    mine, folder = tmp_path / "mine.yaml", tmp_path / "data"
    mine.write_text(MINE)
    monkeypatch.chdir(tmp_path)
    words = ("drill", "run", str(mine), "--on", world, "--json", "--data-dir", folder.name)
    code = main([*words])
    (report,) = json.loads(capsys.readouterr().out)["drills"]
    assert (code, report["failures"]) == (0, [])
    hidden = [
        name
        for step in report["steps"]
        for check in step["checks"]
        if check["held"] is None
        for name in check["condition"]
    ]
    assert hidden == (["journal"] if world == "kafka" else [])
    assert report["not_observable"] == len(hidden)
    assert processes_in(folder) == []


def test_the_worlds_differ_where_kafka_has_a_bug(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["drill", "compare", "c11", "--json"]) == 1
    (compared,) = json.loads(capsys.readouterr().out)
    outcomes = {world: result["outcome"] for world, result in compared["worlds"].items()}
    assert outcomes == {"simulation": "passed", "kafka-with-klamm": "passed", "kafka": "failed"}
    assert compared["worlds"]["kafka"]["failure"].startswith("reassigning: []; seen [")


def test_ctrl_c_ends_every_process(tmp_path: Path) -> None:
    words = ("drill", "run", "leader-loss", "--on", "kafka", "--data-dir", str(tmp_path))
    process: Any = subprocess.Popen(
        [sys.executable, "-m", "klamm", *words], stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )
    try:
        wait_until(
            lambda: any("kafka.Kafka" in one for one in processes_in(tmp_path)),
            PATIENCE_S,
            "a broker starts",
        )
        process.send_signal(signal.SIGINT)
        assert process.wait(PATIENCE_S) == 130
    finally:
        process.kill()
        process.communicate()
    assert [one for one in processes_in(tmp_path) if "kafka.Kafka" in one] == []
