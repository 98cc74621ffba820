"""Kafka's tools through --bootstrap-server, as they were recorded on a cluster of Kafka 2.8.2.

The steps of the recording are taken in their order on klamm's brokers: by klamm's tools, over its
HTTP API, and by the tools of Kafka 2.8.2, over the brokers' listeners. Either prints the same
words, returns the same exit codes, and finds the state of the cluster from which they follow.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.placement.draws import JavaRandom
from klamm.server.admin_channel import admin_of
from klamm.server.api import create_app
from klamm.server.cluster_server import ClusterServer
from klamm.tools.configs.command import run_configs_command
from klamm.tools.elections.command import run_election_command
from klamm.tools.elections.preferred_command import run_preferred_election_command
from klamm.tools.log_dirs_command import run_log_dirs_command
from klamm.tools.reassignments.command import run_reassign_command
from klamm.tools.tool_services import ToolServices
from klamm.tools.topics.command import run_topic_command
from klamm.zk.store import Store
from tests.asgi import AsgiClient, in_process_admin
from tests.held_followers import hold, release
from tests.java_clients import JAVA_CLIENTS, java_marks, kafka_tools
from tests.listeners import BROKERS, bootstrap, free_ports
from tests.server_configs import server_config
from tests.waiting import wait_until

STEPS = Path(__file__).parents[1] / "data" / "admin" / "bootstrap_server_steps.jsonl"
API_TIMEOUT_S = 0.3
RECORDED_ADDRESS = "localhost:9092"
KAFKA_CLASSES = {
    "configs": "ConfigCommand",
    "reassign": "ReassignPartitionsCommand",
    "election": "LeaderElectionCommand",
    "preferred": "PreferredReplicaLeaderElectionCommand",
    "log-dirs": "LogDirsCommand",
    "topics": "TopicCommand",
}
KAFKA_TOOLS = (
    "kafka-configs",
    "kafka-leader-election",
    "kafka-log-dirs",
    "kafka-preferred-replica-election",
    "kafka-reassign-partitions",
    "kafka-topics",
)
LONG_WAIT = "java.util.concurrent.TimeoutException"
"""What kafka-configs prints after its fixed timeout of 30 s."""
_NUMBERS = re.compile(r"(deadlineMs=|nextAllowedTryMs=|timed out at )\d+")
_ID = re.compile(r"TopicId: \S+")
_CAUSES = re.compile(r"(?m)^Caused by: .*\n")
_FRAMES = re.compile(r"(?m)^(\tat |\t\.\.\. |Caused by: |\tSuppressed: ).*\n")
_JACKSON = re.compile(r"Unexpected end-of-input|Expecting property name")
_OPERATION = re.compile(r"(?m)^kafka\.admin\.AdminOperationException: ")

Output = tuple[str, str, int]
"""Standard output, standard error and exit code of a tool."""
RunTool = Callable[[dict[str, Any], Sequence[str]], Output]
"""Runs the tool of a step with its arguments, but for those that name the cluster."""


class Cluster:
    """The cluster of the recording: klamm's tools on it, and what was done beside tools."""

    def __init__(self, server: ClusterServer, hurried: Path) -> None:
        self._server, self._hurried = server, hurried
        self._admin = in_process_admin(AsgiClient(create_app(server)))

    @contextmanager
    def klamm_tools(self) -> Iterator[RunTool]:
        """klamm's tools, as functions of this process."""
        services = ToolServices(
            open_store=_no_store,
            open_cluster=self._cluster,
            before_write=_nothing,
            source=JavaRandom(1),
            now_ms=lambda: 0.0,
            sleep_ms=_nothing,
        )
        tools = {
            "configs": run_configs_command,
            "reassign": run_reassign_command,
            "election": run_election_command,
            "preferred": run_preferred_election_command,
            "log-dirs": run_log_dirs_command,
            "topics": run_topic_command,
        }
        address = ("--bootstrap-server", RECORDED_ADDRESS)

        def run_step(step: dict[str, Any], args: Sequence[str]) -> Output:
            found = tools[step["tool"]]([*address, *args], services=services)
            return found.stdout, found.stderr, found.exit_code

        yield run_step

    @contextmanager
    def kafka_tools(self) -> Iterator[RunTool]:
        """Kafka's tools, in a Java process."""
        servers = ",".join(bootstrap(self._server))
        with kafka_tools() as run:

            def run_step(step: dict[str, Any], args: Sequence[str]) -> Output:
                words = ["--bootstrap-server", servers, *args]
                if "timed out at" in step["stdout"] + step["stderr"]:
                    words += ("--command-config", str(self._hurried))
                found = run(f"kafka.admin.{KAFKA_CLASSES[step['tool']]}", words)
                stdout, stderr = (
                    _FRAMES.sub("", text).replace(servers, RECORDED_ADDRESS)
                    for text in (found.stdout, found.stderr)
                )
                return stdout, stderr, found.exit_code

            yield run_step

    def do(self, step: dict[str, Any]) -> None:
        """What happened between two runs of tools."""
        cluster = self._server.cluster
        match step["do"]:
            case "settle":
                wait_until(lambda: cluster.is_idle and not self._moves(step.get("topic")))
            case "hold":
                hold(cluster, step["broker"])
            case "release":
                release(cluster, step["broker"])
            case "kill":
                cluster.kill(step["broker"])
                wait_until(lambda: step["broker"] not in self._live())
                wait_until(lambda: cluster.is_idle)
            case _:
                cluster.start(step["broker"])
                wait_until(lambda: step["broker"] in self._live())
                wait_until(lambda: cluster.is_idle)

    def _live(self) -> list[int]:
        return [broker.id for broker in self._admin.live_brokers()]

    def _moves(self, topic: str | None) -> bool:
        moving = self._admin.list_partition_reassignments()
        return any(topic in (None, tp.topic) for tp in moving)

    @contextmanager
    def _cluster(self, _: str) -> Iterator[KafkaAdmin]:
        yield self._admin


@contextmanager
def _no_store(address: str) -> Iterator[Store]:
    raise AssertionError(f"nobody asked for {address}")
    yield


def _nothing(_: object) -> None:
    return None


def comparable(stdout: str, stderr: str, exit_code: int) -> tuple[str, str, int]:
    """Without what is another in every run, and in klamm's order where Kafka's is that of paths.

    Of Jackson's own words about JSON only the exception is left; causes were not recorded.
    """
    lines = [
        _sorted_json(line) if line.startswith('{"version":1,"brokers"') else line
        for line in stdout.splitlines()
    ]
    text = _ID.sub("TopicId: ID", _NUMBERS.sub(r"\1N", "\n".join(lines)))
    if _JACKSON.search(text):
        text = "kafka.admin.AdminOperationException" if _OPERATION.search(text) else text
    return text, _NUMBERS.sub(r"\1N", _CAUSES.sub("", stderr)), exit_code


def _only_recorded(got: str, recorded: str) -> str:
    """Without configs that klamm's brokers had not yet when the answer was recorded."""
    names = {line.partition("=")[0] for line in recorded.splitlines()}
    return "\n".join(line for line in got.splitlines() if line.partition("=")[0] in names)


def _sorted_json(line: str) -> str:
    found = json.loads(line)
    for broker in found["brokers"]:
        broker["logDirs"].sort(key=lambda log_dir: log_dir["logDir"])
    return json.dumps(found)


def steps() -> list[dict[str, Any]]:
    """The recording."""
    return [json.loads(line) for line in STEPS.read_text(encoding="utf-8").splitlines()]


@pytest.fixture
def cluster(chroot: str, tmp_path: Path) -> Iterator[Cluster]:
    config = server_config(
        brokers=3,
        controllers=1,
        zookeeper=chroot,
        data_dir=tmp_path / "data",
        config={
            "log.dirs": "/d0,/d1",
            "auto.leader.rebalance.enable": "false",
            "controlled.shutdown.enable": "false",
        },
        session_timeout_ms=2000,
        listen=str(free_ports(BROKERS)),
    )
    with ClusterServer(config) as server:
        server.admin = admin_of(server.cluster, server.closing, API_TIMEOUT_S)
        hurried = tmp_path / "hurried.properties"
        hurried.write_text("default.api.timeout.ms=2000\nrequest.timeout.ms=2000\n")
        yield Cluster(server, hurried)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    "tools",
    [
        pytest.param(Cluster.klamm_tools, id="klamm"),
        pytest.param(
            Cluster.kafka_tools,
            id="Kafka",
            marks=[
                *java_marks(JAVA_CLIENTS[0]),
                *(
                    pytest.mark.client(
                        tool, version="2.8.2", shows="the recorded steps", segments=False
                    )
                    for tool in KAFKA_TOOLS
                ),
            ],
        ),
    ],
)
def test_the_recorded_steps(
    cluster: Cluster,
    tools: Callable[[Cluster], AbstractContextManager[RunTool]],
    tmp_path: Path,
) -> None:
    different = []
    with tools(cluster) as run:
        for number, step in enumerate(steps(), 1):
            if "do" in step:
                cluster.do(step)
                continue
            if step["stderr"].endswith(f"{LONG_WAIT}\n") and tools is Cluster.kafka_tools:
                continue
            for name, text in step.get("files", {}).items():
                (tmp_path / name).write_text(text, encoding="utf-8")
            args = [
                re.sub(r"\{file:(.*)\}", lambda found: str(tmp_path / found[1]), arg)
                for arg in step["args"]
            ]
            got = comparable(*run(step, args))
            expected = comparable(step["stdout"], step["stderr"], step["exit_code"])
            if "--all" in step["args"]:
                got = (_only_recorded(got[0], expected[0]), *got[1:])
            if "--all" in step["args"] and tools is Cluster.kafka_tools:
                # In the order of a hash table, which depends on how many configs there are.
                got, expected = (
                    ("\n".join(sorted(one[0].splitlines())), *one[1:]) for one in (got, expected)
                )
            if got != expected:
                different.append((number, step["args"], expected, got))
    assert not different, "\n".join(map(str, different))
