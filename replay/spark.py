"""Starts and stops Spark sessions, on this machine or on a cluster, with a suitable Java.

A process can open several sessions, but only one after the other.
"""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from py4j.java_gateway import JavaGateway
from py4j.protocol import Py4JError, Py4JJavaError, Py4JNetworkError
from pyspark import SparkConf, SparkContext
from pyspark.errors import PySparkRuntimeError
from pyspark.java_gateway import launch_gateway
from pyspark.sql import Row as Row
from pyspark.sql import SparkSession as SparkSession

from klamm.cluster.errors import EnvironmentProblem
from klamm.interrupts import interrupts_deferred, temporary_folder
from klamm.replay.spark_cluster import (
    check_master,
    is_local,
    is_local_master,
    wait_for_executor,
    write_packages,
)
from klamm.replay.spark_errors import interrupt_behind
from klamm.zk.java import find_java, spark_java_home

LOOPBACK: Final = "127.0.0.1"
EXIT_TIMEOUT_S: Final = 20.0
_HERE: Final = {"spark.driver.bindAddress": LOOPBACK, "spark.driver.host": LOOPBACK}
_SETTINGS: Final = {
    "spark.app.name": "klamm",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.catalogImplementation": "in-memory",
    "spark.sql.session.timeZone": "UTC",
    # Otherwise each call that builds a column sends its Python line to the JVM, which is slow.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # Keys have few rows each: a small first-level hash map would hardly aggregate anything.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # At the end of each stage of an adaptive plan, Spark writes the plan as text, with the plans of
    # all kept results in it, and theirs again: minutes of CPU time and gigabytes for all questions.
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.ui.explainMode": "simple",
    "spark.sql.maxPlanStringLength": "10000",
    "spark.sql.debug.maxToStringFields": "0",
    # All questions generate 400 classes: the default cache of 100 would recompile them repeatedly.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
# On a cluster, Spark divides the input by the number of cores, into splits of at most 128 MiB.
_SPLIT_BYTES: Final = "spark.sql.files.maxPartitionBytes"
# In larger splits, rows of the same partition are more often aggregated before a shuffle.
_LOCAL_SPLIT_BYTES: Final = "32m"
_PARTITIONS: Final = "spark.sql.shuffle.partitions"
_PARTITION_ROWS: Final = 1_250_000
"""Rows of the input for each partition of a shuffle: its state fits in the heap of one task."""
_PARTITIONS_PER_CORE: Final = 2
SMALL_ROWS: Final = 100_000
MANY_ROWS: Final = 20_000_000
# Spark generates and compiles code for each query, and the JVM compiles it again: for few rows this
# costs more than it saves. Without it `klamm replay run` took 46 s of CPU instead of 99 for 400
# rows, and 71 s instead of 113 for 100,000.
_SMALL_SETTINGS: Final = {
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1"
# Spark runs hundreds of generated methods, most of them for a second. Java's optimizing compiler
# took a third of the CPU time of four million rows; it pays only for loops over many more rows.
_LATER_OPTIMIZED: Final = " ".join(
    f"-XX:Tier4{name}Threshold={10 * default}"
    for name, default in (
        *(("Invocation", 5_000), ("MinInvocation", 600)),
        *(("Compile", 15_000), ("BackEdge", 40_000)),
    )
)
# On few processors a concurrent collector takes time from the job. With the parallel collector
# Spark rejects a smaller heap as too small, because it does not count one survivor space.
# Most data is in Python's processes, which need the memory that a larger young generation takes.
_PARALLEL: Final = "-XX:+UseParallelGC -XX:MaxNewSize={}m"
_MIN_PARALLEL_MB: Final = 1024


@contextmanager
def spark_session(
    cores: int = 2, memory_mb: int = 1024, master: str | None = None, *, rows: int = MANY_ROWS
) -> Iterator[SparkSession]:
    """Context manager that starts a Spark session, and stops the session's JVM on exit.

    - ``master``: URL of a cluster; None: run on this machine, with ``cores`` threads.
    - ``memory_mb``: heap size of the JVM, and of each executor of a cluster, in MiB.
    - ``rows``: number of rows of the input. Up to 100,000, interpreting queries is faster than
      compiling them to bytecode. Above, a shuffle gets more partitions the more rows there are.

    Other settings come from spark-defaults.conf. Under spark-submit, the options of spark-submit
    are used instead. Raises JavaNotFound if there
    is no Java, UsageError for an invalid master, EnvironmentProblem if the master is unreachable or
    Spark does not start.
    """
    if "PYSPARK_GATEWAY_PORT" in os.environ:
        with _submitted_session(rows) as session:
            yield session
        return
    master = f"local[{cores}]" if master is None else master
    check_master(master)
    java_home = spark_java_home()
    with temporary_folder("klamm-spark-") as folder:
        is_small = rows <= SMALL_ROWS
        conf = _conf(master, memory_mb, str(folder), is_small=is_small)
        python = sys.executable
        environment = {
            "JAVA_HOME": str(java_home),
            # On a cluster, the user may name the Python of its executors.
            "PYSPARK_PYTHON": python
            if is_local(master)
            else os.environ.get("PYSPARK_PYTHON", python),
        }
        if is_local(master) or is_local_master(master):
            environment["SPARK_LOCAL_IP"] = LOOPBACK
        log_path = folder / "spark.log"
        with (
            _environ(environment),
            _interrupt_reports_disabled(),
            _gateway(conf, log_path) as gateway,
        ):
            with _interrupt_handler_kept():
                context = _context(conf, gateway)
            # Ctrl-C also ends the JVM, often first. Calls to the JVM then raise an error, so the
            # accumulator server need not print a traceback as well.
            context._accumulatorServer.handle_error = lambda *_: None  # type: ignore[method-assign]
            try:
                with _stopped_at_the_end(context):
                    context.setLogLevel("ERROR")
                    if not is_local(master):
                        context.addPyFile(str(write_packages(folder / "klamm.zip")))
                        wait_for_executor(context, memory_mb)
                    yield _session_of(context, rows)
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
        # stop() warns if the JVM is too busy to answer. The JVM ends anyway.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()


def _session_of(context: SparkContext, rows: int) -> SparkSession:
    """Open a session. Set the number of partitions of a shuffle, unless the user has set it."""
    session = SparkSession(context)
    if not context.getConf().contains(_PARTITIONS):
        number = shuffle_partitions(rows, context.defaultParallelism)
        session.conf.set(_PARTITIONS, str(number))
    return session


def shuffle_partitions(rows: int, cores: int) -> int:
    """Return the number of shuffle partitions for an input of ``rows`` rows on ``cores`` cores."""
    if rows <= SMALL_ROWS:
        return 1
    return max(_PARTITIONS_PER_CORE * cores, rows // _PARTITION_ROWS)


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
    settings = {**_SETTINGS, **(_SMALL_SETTINGS if is_small else {})}
    if is_local(master) or is_local_master(master):
        settings |= _HERE
    if is_local(master):
        settings[_SPLIT_BYTES] = _LOCAL_SPLIT_BYTES
    java = [_PARALLEL.format(memory_mb // 8)] if memory_mb >= _MIN_PARALLEL_MB else []
    java.append(_SMALL_JAVA if is_small else _LATER_OPTIMIZED)
    for process in ("driver", "executor"):
        settings[f"spark.{process}.memory"] = f"{memory_mb}m"
        settings[f"spark.{process}.extraJavaOptions"] = " ".join(java)
    settings |= {"spark.local.dir": folder, "spark.sql.warehouse.dir": f"{folder}/warehouse"}
    return SparkConf(loadDefaults=False).setMaster(master).setAll(list(settings.items()))


@contextmanager
def _submitted_session(rows: int) -> Iterator[SparkSession]:
    """Context manager that opens a session under spark-submit, which starts and stops the JVM."""
    SparkContext._ensure_initialized()
    conf = SparkConf()
    for name, value in _SETTINGS.items():
        conf.setIfMissing(name, value)
    with _interrupt_reports_disabled():
        with _interrupt_handler_kept():
            context = SparkContext(conf=conf)
        with _stopped_at_the_end(context):
            yield _session_of(context, rows)


@contextmanager
def _gateway(conf: SparkConf, log_path: Path) -> Iterator[JavaGateway]:
    """Context manager that starts a JVM whose output, such as Spark's banner, goes to a file."""
    with ExitStack() as stack:
        log = stack.enter_context(log_path.open("wb"))
        try:
            # An interrupt here would leave an orphaned JVM running.
            with interrupts_deferred():
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                stack.callback(_end, gateway)
        except PySparkRuntimeError as error:
            words = log_path.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(words) if line.strip()), "no error message")
            raise EnvironmentProblem(
                f"Spark did not start: {last.strip()}", hint=f"Java: {find_java().home}"
            ) from error
        yield gateway


def _end(gateway: JavaGateway) -> None:
    gateway.shutdown()
    # SparkContext keeps its gateway for later contexts, but this one has ended.
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(EXIT_TIMEOUT_S)


@contextmanager
def _interrupt_handler_kept() -> Iterator[None]:
    """Context manager that restores the handler of SIGINT on exit, because Spark replaces it.

    Spark's handler would use the connection to the JVM, which the interrupted code may be using.
    """
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _interrupt_reports_disabled() -> Iterator[None]:
    """Context manager that stops py4j from logging interrupts and broken connections.

    No error is lost, because py4j also raises every error that it logs.
    """
    root, own = logging.getLogger(), logging.getLogger("py4j")
    level = own.level
    root.addFilter(_is_for_users)
    own.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        own.setLevel(level)
        root.removeFilter(_is_for_users)


def _is_for_users(record: logging.LogRecord) -> bool:
    """Filter for the root logger: reject interrupts, and py4j's errors about lost connections.

    py4j logs lost connections to the root logger, from the thread that was reading the connection.
    """
    error = record.exc_info[1] if record.exc_info else None
    if error is None:
        return True
    return not isinstance(error, Py4JNetworkError) and interrupt_behind(error) is None


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
