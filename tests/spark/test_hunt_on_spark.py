"""`klamm hunt --spark`: the same results as in processes; interrupts and lost processes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from klamm.replay.spark_tasks import TaskFailed, run_on_executors
from tests.serving import KLAMM, ROOT
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.spark, pytest.mark.timeout(600)]

HUNT = ("hunt", "--seeds", "16..23", "--quirks", "KAFKA-13972", "--json")


def hunted(folder: Path, *words: str) -> tuple[int, dict[str, Any]]:
    """The exit code and values of a hunt, and the files that it has written."""
    done = subprocess.run(
        [*KLAMM, *HUNT, *words, "--out", "found"], cwd=folder, capture_output=True, text=True
    )
    assert done.stdout, done.stderr
    values = json.loads(done.stdout)
    del values["seconds"]
    values["violations"].sort(key=lambda found: found["seed"])
    values["files"] = {path.name: path.read_bytes() for path in (folder / "found").iterdir()}
    return done.returncode, values


def test_executors_give_the_results_of_processes(tmp_path: Path) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "there").mkdir()
    code, values = hunted(tmp_path / "here", "--jobs", "2")
    assert code == 10 and values["seeds"] == 8 and values["violations"]
    assert hunted(tmp_path / "there", "--spark", "local[2]") == (code, values)


def test_an_interrupted_hunt_ends_with_its_counts(tmp_path: Path) -> None:
    hunt = subprocess.Popen(
        [*KLAMM, "hunt", "--spark", "local[2]", "--minutes", "30", "--out", str(tmp_path / "out")],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        wait_until(lambda: len(workers_of(hunt.pid)) >= 2, 120)
        workers = workers_of(hunt.pid)
        hunt.send_signal(signal.SIGINT)
        printed, errors = hunt.communicate(timeout=120)
    finally:
        hunt.kill()
    assert hunt.returncode == 130
    assert printed.endswith((" violations\n", "no seed was run\n"))
    assert len(printed.splitlines()) == 1
    assert errors.splitlines()[-1] == "Interrupted" and "Traceback" not in errors
    wait_until(lambda: not any(map(is_alive, workers)), 60)


def workers_of(pid: int) -> list[int]:
    """The Python processes that work for a hunt: those below its Java."""
    found, last = [], [pid]
    while last:
        children = [child for parent in last for child in children_of(parent)]
        found += children
        last = children
    return [child for child in found if b"pyspark.daemon" in command_of(child)]


def children_of(pid: int) -> list[int]:
    try:
        tasks = list(Path(f"/proc/{pid}/task").iterdir())
        return [int(one) for task in tasks for one in (task / "children").read_text().split()]
    except OSError:
        return []


def command_of(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def is_alive(pid: int) -> bool:
    return bool(command_of(pid))


def squared(number: int) -> int:
    """Die at 5, as if the machine were out of memory."""
    if number == 5:
        os.kill(os.getpid(), signal.SIGKILL)
    return number * number


ENDLESS = """
import itertools
from klamm.replay.spark_tasks import run_on_executors
from tests.spark.test_hunt_on_spark import squared
results = run_on_executors(squared, itertools.count(6), "local[2]", 512)
print(sorted(square for _, square in itertools.islice(results, 4))[0] >= 36)
results.close()
"""


def test_a_lost_process_costs_one_input() -> None:
    results = dict(run_on_executors(squared, range(10), "local[2]", 512))
    lost = results.pop(5)
    assert isinstance(lost, TaskFailed) and "its process ended" in str(lost)
    assert results == {number: number * number for number in range(10) if number != 5}


def test_a_caller_may_stop_before_the_inputs_end() -> None:
    done = subprocess.run(
        [sys.executable, "-c", ENDLESS], cwd=ROOT, capture_output=True, text=True, timeout=200
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "True\n", "")
