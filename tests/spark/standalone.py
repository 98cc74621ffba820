"""A Spark standalone cluster on loopback: a master and workers, as the PySpark wheel has them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark

from klamm.zk.java import spark_java_home
from tests.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
START_TIMEOUT_S = 90.0
END_TIMEOUT_S = 30.0


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2) -> Iterator[str]:
    """The address of a master at which as many workers, of a core each, have registered."""
    with ExitStack() as stack:
        log = folder / "master.log"
        stack.enter_context(_daemon(log, "master.Master", "--port", "0", "--webui-port", "0"))
        found = wait_until(
            lambda: re.search(r"Starting Spark master at (spark://\S+)", log.read_text()),
            START_TIMEOUT_S,
        )
        for number in range(workers):
            work = folder / f"work-{number}"
            options = ("--cores", "1", "--memory", "1g", "--webui-port", "0", "-d", str(work))
            stack.enter_context(
                _daemon(folder / f"worker-{number}.log", "worker.Worker", *options, found[1])
            )
        wait_until(lambda: log.read_text().count("Registering worker ") == workers, START_TIMEOUT_S)
        yield found[1]


@contextmanager
def _daemon(log: Path, name: str, *args: str) -> Iterator[None]:
    """One of Spark's own processes, until the block ends. spark-class becomes Java itself."""
    environ = {
        **os.environ,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        # Executors get it from their worker.
        "JDK_JAVA_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    # The workers get klamm from the job alone.
    environ.pop("PYTHONPATH", None)
    command = [
        SPARK_HOME / "bin" / "spark-class",
        f"org.apache.spark.deploy.{name}",
        "--host",
        LOOPBACK,
        *args,
    ]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, cwd=log.parent, env=environ, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(END_TIMEOUT_S)
