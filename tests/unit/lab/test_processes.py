"""The limit of CPU time that one run of a drill has, and the end of processes that run drills."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time

import pytest

from klamm.lab.hunt.processes import OutOfTime, time_limit


def spin() -> None:
    while True:
        pass


def test_a_run_that_does_not_end_is_stopped() -> None:
    began_s = time.process_time()
    with pytest.raises(OutOfTime), time_limit(0.2):
        spin()
    # The timer counts ticks: on a busy machine a process is charged for more than it has used.
    assert time.process_time() - began_s >= 0.02


def test_the_outer_limit_holds_within_an_inner_one() -> None:
    with pytest.raises(OutOfTime), time_limit(0.05):
        with time_limit(60):
            pass
        spin()


def test_time_that_other_processes_take_does_not_count() -> None:
    other = "import time\nwhile time.process_time() < 0.3: pass"
    with time_limit(0.1):
        subprocess.run([sys.executable, "-c", other], check=True)


def hang(number: int) -> None:
    os.write(1, f"{number}\n".encode())  # in one piece, unlike print, as both workers write
    threading.Event().wait(600)


def test_a_busy_worker_ends_when_its_parent_is_killed() -> None:
    """The workers have the output of the parent, which ends when the last of them has ended."""
    code = (
        "from klamm.lab.hunt.processes import run_parallel\n"
        "from tests.unit.lab.test_processes import hang\n"
        "if __name__ == '__main__': list(run_parallel(hang, (1, 2), 2))"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        try:
            assert {run.stdout.readline(), run.stdout.readline()} == {"1\n", "2\n"}
        finally:
            run.kill()
        run.communicate(timeout=60)
