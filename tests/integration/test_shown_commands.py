"""Every command that README.md and the pages show is run, and prints what they show.

The commands of a page run in order, in a fresh directory that is also the home directory.
`klamm up` runs until the page starts another one. Addresses of the page stand for servers of this
test: 8282 for a free port, localhost:2181 and zk1:2181 for a chroot on the shared ZooKeeper.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from kazoo.client import KazooClient

from klamm.zk.ports import free_port
from tests.serving import environ_for, without_slowness
from tests.shown_commands import PAGES, ROOT, Command, blocks, commands, page_commands
from tests.waiting import wait_until

pytestmark = [pytest.mark.slow, pytest.mark.timeout(300)]

NOT_RUN = {
    r"make ": "tests/unit/docs/test_shown_commands.py looks up the target",
    r"\.ci/run": "runs this test",
    r"pip install ": "tests/cli/test_install.py installs the wheel",
    r"docker compose |export KLAMM_TOKEN=|.*127\.0\.0\.1:21[89]": "tests/containers",
    r"klamm status --server 127\.0\.0\.1": "tests/containers",
    r"klamm replay .*hdfs://": "tests/spark/test_shared_nothing.py",
    r"klamm hunt .*spark://": "tests/spark/test_hunt_on_spark.py",
    r"python -m bench\.": "takes minutes; a test below looks up its options",
    r"spark-submit ": "tests/spark/test_cluster.py",
}
FOLLOWS = re.compile(r"klamm journal tail -f|--follow")
VARIES = {
    r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?": "<time>",
    r"\d[\d,]*(\.\d+)? +(ms|s)\b": "<duration>",
    r"\b[\w-]{22}\b": "<id>",
    r"\s+": " ",
}
"""What differs from run to run, and what takes its place before output is compared."""

SHORTER = {
    r"klamm hunt --seeds 10000": "klamm hunt --seeds 10",
    r"klamm hunt --minutes 60": "klamm hunt --minutes 0.1",
    r"klamm hunt(?= +#)": "klamm hunt --minutes 0.1",
    r"--at 12:30:05": "--at 2099-01-02T12:30:05",
}
"""Commands that take minutes as shown or depend on the time of day, and what runs instead."""

REPLAYED = {
    r"/var/log/kafka\b": ".klamm/logs",
    r"/var/lib/zookeeper\b": ".klamm/zookeeper",
    r"--from \S+ --to \S+": "--from 2026-01-02T10:00 --to 2099-01-02T11:00",
    r"--as-of zxid:\w+": "--as-of zxid:0x100",
}
"""What docs/replay.md says about a cluster of the reader, for the one of `cluster_to_replay`."""

BENCHMARKS = sorted(
    {
        command.text
        for page in PAGES
        for command in page_commands(page)
        if re.match(r"python -m bench\.|make bench ARGS=", command.text)
    }
)


class Terminal:
    """The terminals in which a user tries the commands of one page."""

    def __init__(self, folder: Path, chroot: str) -> None:
        self._folder = folder
        self._port = str(free_port())
        self._chroot = chroot
        self._up: subprocess.Popen[bytes] | None = None
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self._environ = environ_for(folder, HOME=str(folder), PATH=path, COLUMNS="100")
        del self._environ["KLAMM_DATA_DIR"]
        self._stands_for: dict[str, str] = {}
        for name in ("bench", "tests"):
            (folder / name).symlink_to(ROOT / name)

    def check(self, command: Command) -> None:
        """Run a command. Raises AssertionError if it does something else than the page says."""
        if exported := re.match(r"export (\w+)=(\w+)", command.text):
            self._environ[exported[1]] = exported[2]
        elif re.match(r"(\w+=\S+ )*klamm up\b", command.text):
            self.end_up()
            self._start_up(command)
        elif FOLLOWS.search(command.text):
            self._follow(command)
        else:
            self._run_to_its_end(command)

    def end_up(self) -> None:
        """End the running `klamm up` by Ctrl-C."""
        if self._up is not None:
            self._up.send_signal(signal.SIGINT)
            assert self._up.wait(30) == 130, self._printed()
            self._up = None

    def kill(self) -> None:
        """Leave no `klamm up` behind, whatever happened."""
        if self._up is not None:
            self._up.kill()
            self._up.wait()

    def run_cluster_to_replay(self) -> None:
        """Run a cluster whose journal, logs, ZooKeeper and dump docs/replay.md names."""
        zookeeper = f"127.0.0.1:{free_port()}"
        for text in (
            f"klamm up --brokers 3 --zookeeper-port {zookeeper.partition(':')[2]}",
            "klamm topics --create --topic orders --partitions 3 --replication-factor 3",
            "klamm broker kill 1",
            "klamm broker start 1",
            f"klamm zk dump --zookeeper {zookeeper} > before.json",
            "ln -s .klamm/journal.jsonl .klamm/zookeeper .",
            "mkdir server1 server2 server3",
            "for n in 1 2 3; do cp -r .klamm/zookeeper/version-2 server$n; done",
        ):
            self.check(Command("a cluster to replay", 0, text, None))
        self._stands_for = {**REPLAYED, r"localhost:2181/klamm\b": zookeeper}

    def _start(self, command: Command) -> subprocess.Popen[bytes]:
        with (self._folder / "printed.txt").open("wb") as printed:
            return subprocess.Popen(
                ["bash", "-c", f"exec env {self._here(command.text)}"],
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
            )

    def _printed(self) -> str:
        return (self._folder / "printed.txt").read_text(encoding="utf-8")

    def _start_up(self, command: Command) -> None:
        self._up = up = self._start(command)
        wait_until(
            lambda: "klamm is up: " in self._printed() or up.poll() is not None, 60, str(command)
        )
        assert up.poll() is None, f"{command}\n{self._printed()}"

    def _follow(self, command: Command) -> None:
        """Run a command that follows something until it has printed some of it."""
        process = self._start(command)
        try:
            wait_until(self._printed, 60, f"{command} prints something")
            process.send_signal(signal.SIGINT)
            assert process.wait(30) in (0, 130), f"{command}\n{self._printed()}"
        finally:
            process.kill()
            process.wait()

    def _run_to_its_end(self, command: Command) -> None:
        """Run a command; again while its output is not as shown yet, for up to 20 s."""
        deadline_s = time.monotonic() + 20
        while True:
            done = subprocess.run(
                ["bash", "-c", self._here(command.text)],
                cwd=self._folder,
                env=self._environ,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=240,
                check=False,
            )
            printed = done.stdout + without_slowness(done.stderr)
            printed = printed.replace(self._port, "8282")
            told = f"{command}\n{printed}"
            assert done.returncode == command.exit_code, f"exit code {done.returncode} of {told}"
            if command.output is None or matches(printed, command.output):
                return
            assert time.monotonic() < deadline_s, f"{told}\nis not as shown:\n{command.output}"

    def _here(self, text: str) -> str:
        """The command with the addresses of this test."""
        if " --port " not in text:
            text = re.sub(r"\bklamm up\b", f"klamm up --port {self._port}", text)
        text = re.sub(r"(?<=--zookeeper-port )2181\b", str(free_port()), text)
        text = text.replace("localhost:8282", f"localhost:{self._port}")
        for shown, run in {**SHORTER, **self._stands_for}.items():
            text = re.sub(shown, run, text)
        return re.sub(r"\b(zk1|localhost):2181", self._chroot, text)


def matches(printed: str, shown: str) -> bool:
    """Whether ``printed`` is what a page shows, up to times, ids and what ``...`` leaves out."""
    for varies, name in VARIES.items():
        printed, shown = (re.sub(varies, name, text) for text in (printed, shown))
    parts = map(re.escape, re.split(r" ?\.\.\. ?", shown.strip()))
    return re.fullmatch(".*?".join(parts), printed.strip(), re.DOTALL) is not None


def kafka_cluster(client: KazooClient, chroot: str) -> None:
    """Write the znodes of a Kafka cluster of nine brokers: the one that docs/rehearsal.md dumps."""
    base = chroot[chroot.index("/") :] + "/kafka"
    for broker in range(1, 10):
        host = f"kafka{broker}"
        registration = {
            "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT"},
            "endpoints": [f"PLAINTEXT://{host}:9092"],
            "jmx_port": -1,
            "host": host,
            "timestamp": "1700000000000",
            "port": 9092,
            "version": 4,
        }
        path = f"{base}/brokers/ids/{broker}"
        client.create(path, json.dumps(registration).encode(), ephemeral=True, makepath=True)
    for number, topic in enumerate(["orders-eu", "orders-us", "__consumer_offsets"]):
        replicas = {str(p): [(p + number + i) % 9 + 1 for i in range(2)] for p in range(4)}
        topic_znode = {"version": 2, "partitions": replicas}
        path = f"{base}/brokers/topics/{topic}"
        client.create(path, json.dumps(topic_znode).encode(), makepath=True)
        for partition, isr in replicas.items():
            state = {"version": 1, "controller_epoch": 1, "leader": isr[0], "leader_epoch": 0}
            path = f"{base}/brokers/topics/{topic}/partitions/{partition}/state"
            client.create(path, json.dumps({**state, "isr": isr}).encode(), makepath=True)


@pytest.mark.parametrize("page", PAGES)
def test_the_commands_of_a_page_do_what_it_shows(
    page: str, tmp_path: Path, chroot: str, zookeeper_client: KazooClient
) -> None:
    if page == "docs/rehearsal.md":
        kafka_cluster(zookeeper_client, chroot)
    terminal = Terminal(tmp_path, chroot)
    try:
        if page == "docs/replay.md":
            terminal.run_cluster_to_replay()
        for block in blocks(page):
            if block.file:
                (tmp_path / block.file).write_text(block.text, encoding="utf-8")
            for command in commands(block):
                if not any(re.match(start, command.text) for start in NOT_RUN):
                    terminal.check(command)
        terminal.end_up()
    finally:
        terminal.kill()


@pytest.mark.parametrize("command", BENCHMARKS, ids=str)
def test_a_benchmark_takes_the_options(command: str) -> None:
    module = found[0] if (found := re.search(r"bench\.\w+", command)) else "bench.run"
    help_text = subprocess.run(
        [sys.executable, "-m", module, "--help"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    options = set(re.findall(r"--[a-z][a-z0-9-]*", command.partition("#")[0]))
    assert options <= set(re.findall(r"--[a-z][a-z0-9-]*", help_text))


def test_output_matches_up_to_times_and_what_is_left_out() -> None:
    shown = "leader 1 after 3.000 s\n...\nend\n"
    assert matches("leader 1 after 17 s\nx\ny\nend", shown)
    assert not matches("leader 2 after 17 s\nx\ny\nend", shown)
    assert not matches("leader 1 after 17 s\nx\ny\n", shown)
