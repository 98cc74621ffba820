"""klamm under measurement, in small: each step comes out right and has its figures."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from bench.figures import Layout
from bench.kafka.processes import AskedProcess
from bench.kafka.run import problems
from bench.klamm import run_klamm
from bench.parts import steps_for
from bench.run import main
from klamm.cluster.errors import EnvironmentProblem, UsageError

STEPS = ("create:50", "create", "failover", "broker_failure", "broker_start", "isr_rejoin")
ADMIN_STEPS = (
    "create",
    "controlled_shutdown",
    "broker_leaves",
    "broker_start",
    "isr_rejoin",
    "preferred_election",
    "reassign_znode:20",
    "reassign_held:40",
    "reassign_released",
    "reassign_held:80",
    "reassign_released",
    "delete_topics:3",
)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_klamm_is_timed_by_the_steps_of_kafka(tmp_path: Path) -> None:
    results = run_klamm(100, 10, 5, STEPS, work_dir=tmp_path, raw_store=True)
    assert [problem for result in results for problem in problems(result)] == []
    steps, raw = results[: len(STEPS)], results[len(STEPS) :]
    assert [result["step"] for result in steps] == ["create_cold", *STEPS[1:]]
    # The assignment puts three replicas on five brokers in turn: each has three of five partitions.
    assert [result["n"] for result in steps] == [50, 100, 150, 90, 90, 90]
    # Five caches and three replicas a partition; four and 12/5 without the broker.
    assert [result["applied"] for result in steps] == [400, 1200, 1200, 960, 1200, 1200]
    for result in steps:
        assert 0 < result["wall_s"] < result["cpu_window_s"]
        assert result["cpu_controller_s"] > 0 and result["cpu_zookeeper_s"] > 0
        assert result["store"]["events"] >= 1
    creation, failover = steps[1], steps[2]
    assert creation["requests"]["LEADER_AND_ISR"]["partitions"] == 300
    # /partitions, /partitions/N and /partitions/N/state, each time that topics were seen.
    assert creation["store"]["write_batches"] in (3, 6, 9)
    assert failover["load_s"] < failover["wall_s"]
    assert [(result["step"], result["n"]) for result in raw] == [
        ("create", 150),
        ("set", 150),
        ("read", 150),
    ]
    assert (tmp_path / "klamm" / "journal.jsonl").stat().st_size > 0
    assert "INFO" in (tmp_path / "klamm" / "broker-1" / "state-change.log").read_text()


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_what_administrators_ask_for_is_timed_too(tmp_path: Path) -> None:
    results = run_klamm(100, 10, 5, ADMIN_STEPS, work_dir=tmp_path)
    assert [problem for result in results for problem in problems(result)] == []
    names = [name.partition(":")[0] for name in ADMIN_STEPS]
    assert [result["step"] for result in results] == ["create_cold", *names[1:]]
    numbers = [result["n"] for result in results]
    assert numbers == [100, 60, 60, 60, 60, 20, 20, 40, 40, 80, 80, 30]
    _, shutdown, leaves, *_, small, small_end, large, large_end, deletion = results
    # The broker leads a fifth and follows two: a batch for each, and none when it goes.
    assert shutdown["store"]["write_batches"] == 2 and shutdown["answer_s"] <= shutdown["wall_s"]
    assert leaves["store"]["write_batches"] == 0
    # A, then B for each answer of a leader; not once for each partition.
    assert small["store"]["write_batches"] == large["store"]["write_batches"] == 2
    assert large_end["store"]["write_batches"] <= 1.5 * small_end["store"]["write_batches"]
    assert large_end["gone_s"] > 0
    assert deletion["store"]["store_requests"] < 30


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_whole_benchmark_in_small(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "results"
    size = ["--partitions", "100", "--partitions-per-topic", "10"]
    code = main([*size, "--no-kafka", "--rounds", "1", "--json", str(path)])
    results = [json.loads(line) for line in path.read_text().splitlines()]
    steps = steps_for(Layout(100, 10), "klamm")
    expected = ["klamm"] * len(steps) + ["raw store"] * 3 + ["klamm"]
    assert [result["product"] for result in results] == expected
    assert 0 < results[-1]["context_bytes"] < results[-1]["klamm_bytes"]
    out, err = capsys.readouterr()
    assert " processors (" in out and "| 10 x 10 | broker_failure |" in out
    assert "1 of 1, klamm, 10 x 10: delete_topics:5\n" in err
    # So few partitions share the fixed cost, which may be more than a partition's.
    assert code == (1 if "FAILED on " in out else 0)


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_a_benchmark_runs_only_the_part_that_is_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "results"
    size = ["--partitions", "100", "--partitions-per-topic", "10"]
    options = ["--no-kafka", "--rounds", "2", "--only", "deletion", "--json", str(path)]
    assert main([*size, *options]) == 0
    klamm = [json.loads(line) for line in path.read_text().splitlines()]
    steps = [result["step"] for result in klamm if result["product"] == "klamm"]
    assert steps == ["create_cold", "create", "delete_topics"]
    assert "| 10 x 10 | delete_topics | 50 |" in capsys.readouterr().out


def test_a_folder_in_use_is_refused(tmp_path: Path) -> None:
    (tmp_path / "something").touch()
    with pytest.raises(UsageError, match="is not empty"):
        run_klamm(100, 10, 5, ["create"], work_dir=tmp_path)


def test_the_last_output_of_a_process_that_ends_is_shown(tmp_path: Path) -> None:
    log = tmp_path / "log"
    command = [sys.executable, "-c", "print('{}', flush=True); raise SystemExit('no more')"]
    with (
        pytest.raises(EnvironmentProblem, match="it, stats: it ended: no more") as caught,
        AskedProcess("it", command, log) as process,
    ):
        process.ask("stats")
    assert caught.value.hint == f"see {log}"
    assert log.read_text() == "no more\n"
