"""Start and stop of a Spark session, local or on a cluster, with a suitable Java.

A process may have one session after another, but only one at a time.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Row as Row
from pyspark.sql import SparkSession as SparkSession

from klamm.cluster.errors import EnvironmentProblem
from klamm.replay.spark_cluster import (
    check_master,
    is_local,
    is_loopback,
    wait_for_executor,
    write_packages,
)
from klamm.replay.spark_errors import interrupt_behind
from klamm.zk.java import find_java, spark_java_home

LOOPBACK: Final = "127.0.0.1"
EXIT_TIMEOUT_S: Final = 20.0
_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_HERE: Final = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
_SETTINGS: Final = {
    "spark.app.name": "klamm",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "16",
    "spark.sql.files.maxPartitionBytes": "16m",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Otherwise each call that builds a column sends its Python line to the JVM, which is slow.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Keys have few rows each: a small first-level hash map would hardly aggregate anything.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # All questions generate 400 classes: the default cache of 100 would recompile them repeatedly.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
# Spark generates and compiles code for each query, and the JVM compiles it again: for few rows this
# costs more than it saves. Without it `klamm replay run` took 46 s of CPU instead of 99 for 400
# rows, and 71 s instead of 113 for 100,000.
_SMALL_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1"
# On few processors a concurrent collector takes time from the job. With the parallel collector
# Spark rejects a smaller heap as too small, because it does not count one survivor space.
_PARALLEL: Final = "-XX:+UseParallelGC"
_MIN_PARALLEL_MB: Final = 1024


@contextmanager
def spark_session(
    cores: int = 2, memory_mb: int = 1024, master: str | None = None, *, is_small: bool = False
) -> Iterator[SparkSession]:
    """Start a session with ``cores`` local threads, or on ``master``; stop its JVM after the block.

    ``memory_mb``: heap of the JVM, and of each executor of a cluster, in MiB. ``is_small``: so few
    rows that compiling code for them costs more than it saves. Under spark-submit, the options of
    spark-submit apply instead. Raises JavaNotFound; UsageError or EnvironmentProblem for an invalid
    or unreachable master; EnvironmentProblem with the JVM's last output if Spark does not start.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        with _submitted_session() as session:
            yield session
        return
    master = f"local[{cores}]" if master is None else master
    check_master(master)
    java_home = spark_java_home()
    with tempfile.TemporaryDirectory(prefix="klamm-spark-") as folder:
        conf = _conf(master, memory_mb, folder, is_small=is_small)
        python = sys.executable
        environment = {
            "JAVA_HOME": str(java_home),
            "PYSPARK_PYTHON": python if is_local(master) else _python_there(python),
            "PYTHONPATH": _with_this_project(os.environ.get("PYTHONPATH", "")),
        }
        if is_local(master) or is_loopback(master):
            environment["SPARK_LOCAL_IP"] = LOOPBACK
        log_path = Path(folder) / "spark.log"
        with (
            _environ(environment),
            _interrupt_reports_disabled(),
            _gateway(conf, log_path) as gateway,
        ):
            with _interrupt_handler_kept():
                context = _context(conf, gateway)
            # A signal to both processes ends the JVM first. Its callers get an error anyway, so the
            # accumulator server must not print a traceback as well.
            context._accumulatorServer.handle_error = _no_traceback  # type: ignore[method-assign]
            try:
                with _stopped_at_the_end(context):
                    context.setLogLevel("ERROR")
                    if not is_local(master):
                        context.addPyFile(str(write_packages(Path(folder) / "klamm.zip")))
                        wait_for_executor(context, memory_mb)
                    yield SparkSession(context)
            except (Py4JError, ConnectionError) as error:
                # Spark's clean-up after an interrupt may use a connection that is already closed.
                interrupt = interrupt_behind(error)
                if interrupt is not None:
                    raise interrupt from None
                raise


@contextmanager
def _stopped_at_the_end(context: SparkContext) -> Iterator[None]:
    try:
        yield
    finally:
        SparkSession._instantiatedSession = None
        # It warns if the JVM is too busy to answer; the JVM ends all the same.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()


def _no_traceback(request: object, client_address: object) -> None:
    """Error handler that prints nothing, instead of a traceback on standard error."""


def _context(conf: SparkConf, gateway: JavaGateway) -> SparkContext:
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        causes = [line for line in str(error).splitlines() if line.startswith((":", "Caused by:"))]
        words = causes[-1].partition(" ")[2] if causes else "no error message"
        raise EnvironmentProblem(
            f"Spark did not start: {words}", hint=f"Spark master: {conf.get('spark.master')}"
        ) from error


def _conf(master: str, memory_mb: int, folder: str, *, is_small: bool) -> SparkConf:
    conf = SparkConf(loadDefaults=False)
    conf.setMaster(master)
    here = _HERE if is_local(master) or is_loopback(master) else {}
    for name, value in {**_SETTINGS, **(_SMALL_SETTINGS if is_small else {}), **here}.items():
        conf.set(name, value)
    conf.set("spark.driver.memory", f"{memory_mb}m")
    conf.set("spark.executor.memory", f"{memory_mb}m")
    java = [_PARALLEL] if memory_mb >= _MIN_PARALLEL_MB else []
    java += [_SMALL_JAVA] if is_small else []
    for process in ("driver", "executor"):
        conf.set(f"spark.{process}.extraJavaOptions", " ".join(java))
    conf.set("spark.local.dir", folder)
    conf.set("spark.sql.warehouse.dir", f"{folder}/warehouse")
    return conf


def _python_there(python: str) -> str:
    """Return the Python of a cluster's executors: PYSPARK_PYTHON, else the path of this one."""
    return os.environ.get("PYSPARK_PYTHON", python)


@contextmanager
def _submitted_session() -> Iterator[SparkSession]:
    """Open the session of spark-submit, which has started the JVM and stops it."""
    SparkContext._ensure_initialized()
    conf = SparkConf()
    for name, value in _SETTINGS.items():
        conf.setIfMissing(name, value)
    with _interrupt_reports_disabled():
        with _interrupt_handler_kept():
            context = SparkContext(conf=conf)
        try:
            yield SparkSession(context)
        finally:
            SparkSession._instantiatedSession = None
            context.stop()


@contextmanager
def _gateway(conf: SparkConf, log_path: Path) -> Iterator[JavaGateway]:
    """Start a JVM that writes its output to a file: Spark prints a banner on standard error."""
    with ExitStack() as stack:
        log = stack.enter_context(log_path.open("wb"))
        try:
            # An interrupt inside would leave a JVM running without a parent.
            with _signals_deferred():
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                stack.callback(_end, gateway)
        except PySparkRuntimeError as error:
            words = log_path.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(words) if line.strip()), "no error message")
            raise EnvironmentProblem(
                f"Spark did not start: {last.strip()}", hint=f"Java: {find_java().home}"
            ) from error
        yield gateway


def _with_this_project(python_path: str) -> str:
    """Return a PYTHONPATH on which Spark's Python workers find this project."""
    here = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(part for part in (here, python_path) if part)


def _end(gateway: JavaGateway) -> None:
    gateway.shutdown()
    # SparkContext keeps its gateway for later contexts, but this one has ended.
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(EXIT_TIMEOUT_S)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Defer signals that end the process until after the block.

    Does nothing outside the main thread, which receives no signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: list[int] = []
    before = {
        number: signal.signal(number, lambda number, _: came.append(number)) for number in _ENDING
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    if came:
        signal.raise_signal(came[0])


@contextmanager
def _interrupt_handler_kept() -> Iterator[None]:
    """Restore the SIGINT handler that Spark replaces.

    Spark's handler would call the JVM on a connection that may be in use at that moment.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _interrupt_reports_disabled() -> Iterator[None]:
    """Disable py4j's log output about interrupts; py4j raises them as well.

    py4j logs a traceback of the interrupt to the root logger, and the broken connections to its own
    logger. It raises every error that it logs, so that nothing is lost.
    """
    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(_is_no_interrupt)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(_is_no_interrupt)


def _is_no_interrupt(record: logging.LogRecord) -> bool:
    error = record.exc_info[1] if record.exc_info else None
    return error is None or interrupt_behind(error) is None


@contextmanager
def _environ(values: Mapping[str, str]) -> Iterator[None]:
    before = {name: os.environ.get(name) for name in values}
    os.environ.update(values)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value
