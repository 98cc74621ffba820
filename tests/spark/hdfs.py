"""HDFS on loopback: a namenode and a datanode, from the jar of Hadoop that Maven has."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from klamm.replay.locations import location
from klamm.zk.java import spark_java_home
from tests.serving import ROOT
from tests.spark.standalone import LOOPBACK, SPARK_HOME
from tests.waiting import wait_until

START_TIMEOUT_S = 90.0
END_TIMEOUT_S = 30.0
FETCH_TIMEOUT_S = 300.0
SERVER = "org.apache.hadoop.hdfs.server"
JARS = SPARK_HOME / "jars"
VERSION = next(JARS.glob("hadoop-client-api-*.jar")).stem.rpartition("-")[2]
FETCHED = ROOT / ".hadoop"


def hadoop_jar() -> Path:
    """The jar with HDFS's servers, fetched once; Spark's own jars have only the client."""
    jar = FETCHED / f"hadoop-client-minicluster-{VERSION}.jar"
    if jar.exists():
        return jar
    if shutil.which("mvn") is None:
        pytest.skip("HDFS's servers are fetched with Maven, and there is no mvn in PATH")
    artifact = f"org.apache.hadoop:hadoop-client-minicluster:{VERSION}"
    command = ["mvn", "-q", "-B", "dependency:copy", f"-Dartifact={artifact}"]
    with_folder = [*command, f"-DoutputDirectory={FETCHED}"]
    done = subprocess.run(
        with_folder, cwd="/", capture_output=True, text=True, timeout=FETCH_TIMEOUT_S
    )
    if done.returncode:
        pytest.skip(f"Maven did not fetch {artifact}: {done.stdout.strip().splitlines()[:1]}")
    return jar


@contextmanager
def hdfs_cluster(folder: Path) -> Iterator[str]:
    """The URL of an empty HDFS whose files a client can write."""
    jar = hadoop_jar()
    with socket.create_server((LOOPBACK, 0)) as free:
        url = f"hdfs://{LOOPBACK}:{free.getsockname()[1]}"
    folder.mkdir()
    _configure(folder, url)
    java = spark_java_home() / "bin" / "java"
    options = ("-Xmx160m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC")
    command = [str(java), *options, "-cp", f"{folder}:{jar}:{JARS}/*"]
    namenode = [*command, f"{SERVER}.namenode.NameNode"]
    subprocess.run([*namenode, "-format", "-nonInteractive"], check=True, capture_output=True)
    with ExitStack() as stack:
        for name, server in (
            ("namenode", namenode),
            ("datanode", [*command, f"{SERVER}.datanode.DataNode"]),
        ):
            stack.enter_context(_daemon(folder / f"{name}.log", server))
        host, _, port = url.removeprefix("hdfs://").partition(":")
        wait_until(lambda: _listens(host, int(port)), START_TIMEOUT_S)
        wait_until(lambda: _is_writable(url), START_TIMEOUT_S)
        yield url


def _configure(folder: Path, url: str) -> None:
    anywhere = f"{LOOPBACK}:0"
    _write(folder / "core-site.xml", {"fs.defaultFS": url})
    _write(
        folder / "hdfs-site.xml",
        {
            "dfs.namenode.name.dir": str(folder / "name"),
            "dfs.datanode.data.dir": str(folder / "data"),
            "dfs.replication": "1",
            "dfs.namenode.http-address": anywhere,
            "dfs.datanode.address": anywhere,
            "dfs.datanode.http.address": anywhere,
            "dfs.datanode.ipc.address": anywhere,
            "dfs.datanode.hostname": LOOPBACK,
        },
    )


def _write(path: Path, values: Mapping[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in values.items()
    )
    path.write_text(f"<configuration>{properties}</configuration>")


@contextmanager
def _daemon(log: Path, command: list[str]) -> Iterator[None]:
    with (
        log.open("wb") as file,
        subprocess.Popen(
            command, cwd=log.parent, env=os.environ, stdout=file, stderr=subprocess.STDOUT
        ) as process,
    ):
        try:
            yield
        finally:
            process.terminate()
            process.wait(END_TIMEOUT_S)


def _listens(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port)).close()
    except OSError:
        return False
    return True


def _is_writable(url: str) -> bool:
    """Whether a datanode has registered: without one the namenode refuses to give a block."""
    file = location(f"{url}/writable")
    try:
        file.write_bytes(b"yes")
    except RuntimeError:
        return False
    file.unlink()
    return True
