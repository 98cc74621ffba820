"""replay/spark.py: an interrupt during a job ends the session, and nobody complains."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
LONG_JOB = """
import signal, threading
from cli import errors
from replay.spark import spark_session
from tests.waiting import wait_until

def interrupt_the_job(context):
    wait_until(lambda: context.statusTracker().getActiveJobsIds(), 60)
    signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)

def run():
    with spark_session(cores=1) as session:
        threading.Thread(target=interrupt_the_job, args=[session.sparkContext]).start()
        session.range(10**12).selectExpr("sum(sin(id))").collect()
    return 0

raise SystemExit(errors.run(run))
"""


@pytest.mark.slow
@pytest.mark.spark
def test_an_interrupted_job_ends_without_a_word() -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG_JOB], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "")
