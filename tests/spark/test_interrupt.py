"""replay/spark.py: a signal during a job ends the session, and nobody complains."""

from __future__ import annotations

import logging
import subprocess
import sys
from pathlib import Path

import pytest
from py4j.protocol import Py4JNetworkError

from klamm.replay.spark import SparkSession
from klamm.replay.spark_errors import one_line_errors

ROOT = Path(__file__).parents[2]
LONG_JOB = """
import signal, sys, threading
from klamm.cli import errors
from klamm.cli.running import ending_signals_raise
from klamm.replay.spark import spark_session
from tests.waiting import wait_until

def interrupt_the_job(context):
    wait_until(lambda: context.statusTracker().getActiveJobsIds(), 60)
    if "group" in sys.argv:
        context._gateway.proc.terminate()
    signal.pthread_kill(threading.main_thread().ident, signal.Signals[sys.argv[1]])

def run():
    with ending_signals_raise(), spark_session(cores=1) as session:
        threading.Thread(target=interrupt_the_job, args=[session.sparkContext]).start()
        session.range(10**12).selectExpr("sum(sin(id))").collect()
    return 0

raise SystemExit(errors.run(run))
"""


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.parametrize(
    ("signals", "code", "words"),
    [(["SIGINT"], 130, "Interrupted"), (["SIGTERM", "group"], 143, "Ended by SIGTERM")],
)
def test_an_interrupted_job_ends_with_one_line(signals: list[str], code: int, words: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", LONG_JOB, *signals],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert (done.returncode, done.stdout, done.stderr) == (code, "", f"{words}\n")


# Where a signal reaches the whole process group, cleanup calls meet a Java that ends, and py4j then
# calls even its own classes unknown.
CLEANUP = """
from klamm.cli import errors
from klamm.replay.spark import spark_session
from klamm.replay.spark_errors import unpersist

def run():
    with spark_session(cores=1) as session:
        frame = session.range(10).persist()
        frame.count()
        try:
            raise KeyboardInterrupt
        finally:
            session.sparkContext._jsc.stop()
            unpersist([frame])
            print("nothing is left to free")
            session._jvm.java.lang.Math.gone
    return 0

raise SystemExit(errors.run(run))
"""


@pytest.mark.slow
@pytest.mark.spark
def test_a_cleanup_without_java_does_not_hide_the_interrupt() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CLEANUP], cwd=ROOT, capture_output=True, text=True, timeout=100
    )
    assert (done.returncode, done.stdout, done.stderr) == (
        130,
        "nothing is left to free\n",
        "Interrupted\n",
    )


@pytest.mark.slow
@pytest.mark.spark
def test_errors_of_java_during_an_interrupt_are_not_printed(
    spark: SparkSession, tmp_path: Path
) -> None:
    with pytest.raises(KeyboardInterrupt), one_line_errors(tmp_path):
        try:
            raise KeyboardInterrupt
        finally:
            spark._jvm.java.lang.Integer.parseInt("x")  # type: ignore[union-attr]


@pytest.mark.slow
@pytest.mark.spark
def test_what_py4j_logs_about_an_ended_connection_is_not_printed(
    spark: SparkSession, caplog: pytest.LogCaptureFixture
) -> None:
    try:
        raise Py4JNetworkError("Error while sending or receiving")
    except Py4JNetworkError:
        logging.exception("Exception while sending command.")
    assert not caplog.records
