"""A Spark standalone cluster on loopback: a master and workers, as the PySpark wheel has them."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pyspark
import pytest

from klamm.cli.main import main
from klamm.zk.java import spark_java_home
from tests.waiting import wait_until

SPARK_HOME = Path(pyspark.__file__).parent
LOOPBACK = "127.0.0.1"
HIDE = 'mount -t tmpfs tmpfs "$0" && exec "$@"'
START_TIMEOUT_S = 90.0
END_TIMEOUT_S = 30.0
JOB = "from klamm.cli.main import main\nraise SystemExit(main())\n"


@contextmanager
def standalone_cluster(folder: Path, workers: int = 2, hidden: Path | None = None) -> Iterator[str]:
    """The address of a master at which as many workers, of a core each, have registered.

    Each worker has a file system of its own in the place of ``hidden``: it sees neither the files
    that the driver and other workers have there, nor do they see its files.
    """
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
            log_file = folder / f"worker-{number}.log"
            alone = () if hidden is None else (*unshared(), "sh", "-c", HIDE, str(hidden))
            stack.enter_context(
                _daemon(log_file, "worker.Worker", *options, found[1], before=alone)
            )
        wait_until(lambda: log.read_text().count("Registering worker ") == workers, START_TIMEOUT_S)
        yield found[1]


@contextmanager
def _daemon(log: Path, name: str, *args: str, before: Sequence[str] = ()) -> Iterator[None]:
    """One of Spark's own processes, until the block ends. spark-class becomes Java itself.

    ``before``: a command that becomes the command that follows it.
    """
    environ = {
        **os.environ,
        "JAVA_HOME": str(spark_java_home()),
        "SPARK_HOME": str(SPARK_HOME),
        "SPARK_LOCAL_IP": LOOPBACK,
        "PYSPARK_PYTHON": sys.executable,
        # Executors get it from their worker.
        "JDK_JAVA_OPTIONS": os.environ.get("SPARK_SUBMIT_OPTS", ""),
    }
    command = [
        *before,
        SPARK_HOME / "bin" / "spark-class",
        f"org.apache.spark.deploy.{name}",
        "--host",
        LOOPBACK,
        *args,
    ]
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, cwd="/", env=environ, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(END_TIMEOUT_S)


def unshared() -> list[str]:
    """Command prefix that runs a command in its own mount namespace, where that is allowed."""
    as_root = [] if os.geteuid() == 0 else ["--map-root-user"]
    command = ["unshare", "--mount", *as_root]
    try:
        done = subprocess.run(
            [*command, "sh", "-c", HIDE, "/mnt", "true"], capture_output=True, text=True
        )
    except FileNotFoundError:
        pytest.skip("mount namespaces need the command unshare")
    if done.returncode:
        pytest.skip(f"no mount namespaces here: {done.stderr.strip()}")
    return command


def submitted(master: str, tmp_path: Path, *command: str, options: Sequence[str] = ()) -> str:
    """The output of a command that spark-submit runs as docs/replay.md says, with klamm.zip."""
    archive, job = tmp_path / "klamm.zip", tmp_path / "klamm_job.py"
    assert main(["replay", "package", "--out", str(archive)]) == 0
    job.write_text(JOB)
    done = subprocess.run(
        [
            SPARK_HOME / "bin" / "spark-submit",
            *("--master", master, "--executor-memory", "600m"),
            *("--conf", f"spark.driver.host={LOOPBACK}", *options),
            *("--py-files", archive, job, *command),
        ],
        env={
            **os.environ,
            "JAVA_HOME": str(spark_java_home()),
            "SPARK_HOME": str(SPARK_HOME),
            "SPARK_LOCAL_IP": LOOPBACK,
            "PYSPARK_PYTHON": sys.executable,
        },
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout
