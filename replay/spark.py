"""One Spark session, here or on a cluster, with a Java found for it, gone when its block ends.

Starts and stops Spark; what runs on it is the other files' business. Sessions follow one another in
a process, two at once are a mistake.
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
    # Else each call that builds a column tells Java of its line here, which takes far longer.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
    # A key has few rows: a small map before the large one finds next to nothing.
    "spark.sql.codegen.aggregate.map.twolevel.enabled": "false",
    # All questions are 400 classes: with room for the usual 100, each is compiled again and again.
    "spark.sql.codegen.cache.maxEntries": "1000",
}
# Spark writes code for each query and compiles it, then Java compiles that again: for few rows this
# costs more than it saves. `klamm replay run` took 46 s of CPU instead of 99 for 400 rows, and 71 s
# instead of 113 for 100,000.
_SMALL_SETTINGS: Final = {
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
_SMALL_JAVA: Final = "-XX:TieredStopAtLevel=1"
# Few processors have no time for a collector that runs beside them. Spark calls a smaller heap too
# small with this one, as it does not count the half that survivors move to.
_PARALLEL: Final = "-XX:+UseParallelGC"
_MIN_PARALLEL_MB: Final = 1024


@contextmanager
def spark_session(
    cores: int = 2, memory_mb: int = 1024, master: str | None = None, *, is_small: bool = False
) -> Iterator[SparkSession]:
    """A session with ``cores`` threads on loopback, or on ``master``; Java has ended after it.

    ``memory_mb`` is Java's heap, and that of each executor of a cluster. ``is_small``: so few
    rows that compiling for them costs more than it saves. Run by spark-submit, the session is what
    that was told. Raises JavaNotFound, UsageError or EnvironmentProblem for a master that will not
    do, EnvironmentProblem with Java's last words if Spark does not start.
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
            _interrupts_untold(),
            _gateway(conf, log_path) as gateway,
        ):
            with _interrupt_handler_kept():
                context = _context(conf, gateway)
            # Where one signal ends both, Java is gone first; who asks it is told so anyway.
            context._accumulatorServer.handle_error = _nothing_told  # type: ignore[method-assign]
            try:
                with _stopped_at_the_end(context):
                    context.setLogLevel("ERROR")
                    if not is_local(master):
                        context.addPyFile(str(write_packages(Path(folder) / "klamm.zip")))
                        wait_for_executor(context, memory_mb)
                    yield SparkSession(context)
            except (Py4JError, ConnectionError) as error:
                # What Spark tidies up after an interrupt may meet a connection that it closed.
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
        # It warns of a Java that is too busy to answer, which ends all the same.
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            context.stop()


def _nothing_told(request: object, client_address: object) -> None:
    """Instead of a traceback on standard error."""


def _context(conf: SparkConf, gateway: JavaGateway) -> SparkContext:
    try:
        return SparkContext(conf=conf, gateway=gateway)
    except Py4JJavaError as error:
        causes = [line for line in str(error).splitlines() if line.startswith((":", "Caused by:"))]
        words = causes[-1].partition(" ")[2] if causes else "no word from it"
        raise EnvironmentProblem(
            f"Spark did not start: {words}", hint=f"its master is {conf.get('spark.master')}"
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
    for who in ("driver", "executor"):
        conf.set(f"spark.{who}.extraJavaOptions", " ".join(java))
    conf.set("spark.local.dir", folder)
    conf.set("spark.sql.warehouse.dir", f"{folder}/warehouse")
    return conf


def _python_there(python: str) -> str:
    """Which Python the executors of a cluster run, unless it is the one that is here."""
    return os.environ.get("PYSPARK_PYTHON", python)


@contextmanager
def _submitted_session() -> Iterator[SparkSession]:
    """The session of spark-submit, which has started Java and ends it."""
    SparkContext._ensure_initialized()
    conf = SparkConf()
    for name, value in _SETTINGS.items():
        conf.setIfMissing(name, value)
    with _interrupts_untold():
        with _interrupt_handler_kept():
            context = SparkContext(conf=conf)
        try:
            yield SparkSession(context)
        finally:
            SparkSession._instantiatedSession = None
            context.stop()


@contextmanager
def _gateway(conf: SparkConf, log_path: Path) -> Iterator[JavaGateway]:
    """A JVM that writes what it has to say into a file, as Spark greets on standard error."""
    with ExitStack() as stack:
        log = stack.enter_context(log_path.open("wb"))
        try:
            # Interrupted inside, it would leave a JVM that waits for nobody.
            with _signals_deferred():
                gateway = launch_gateway(conf, {"stdout": log, "stderr": log})
                stack.callback(_end, gateway)
        except PySparkRuntimeError as error:
            words = log_path.read_text(errors="replace").split("\n")
            last = next((line for line in reversed(words) if line.strip()), "no word from it")
            raise EnvironmentProblem(
                f"Spark did not start: {last.strip()}", hint=f"it was given {find_java().home}"
            ) from error
        yield gateway


def _with_this_project(python_path: str) -> str:
    """Where Spark's Python workers find what this process has imported."""
    here = str(Path(__file__).resolve().parents[1])
    return os.pathsep.join(part for part in (here, python_path) if part)


def _end(gateway: JavaGateway) -> None:
    gateway.shutdown()
    # A context keeps the gateway it was given for those that follow.
    SparkContext._gateway = SparkContext._jvm = None
    gateway.proc.stdin.close()
    gateway.proc.wait(EXIT_TIMEOUT_S)


@contextmanager
def _signals_deferred() -> Iterator[None]:
    """Signals that end the process come after the block; another thread gets none anyway."""
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
    """Spark takes SIGINT for itself, to ask Java on a connection that may be in use just then."""
    handler = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, handler)


@contextmanager
def _interrupts_untold() -> Iterator[None]:
    """py4j reports an interrupt with a traceback, through the root logger, and raises it too.

    With its own logger it tells of the connections that are broken then; what else it tells of it
    raises.
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
