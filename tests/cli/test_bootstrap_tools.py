"""Kafka's tools through --bootstrap-server on a `klamm up` of its own: what users type."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from klamm.cli.main import main
from tests.serving import Up, klamm_up
from tests.waiting import wait_until


class Done(NamedTuple):
    """What a command said, and its exit code."""

    stdout: str
    stderr: str
    exit_code: int


class Tools:
    """The tools, each with the server's address, and commands about its brokers."""

    def __init__(self, up: Up, folder: Path) -> None:
        self.url = up.url
        self._folder = folder

    def klamm(self, *args: str) -> Done:
        out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
        with redirect_stdout(out), redirect_stderr(err):
            exit_code = main(args)
        out.seek(0)
        err.seek(0)
        return Done(out.read(), err.read(), exit_code)

    def broker(self, *args: str) -> None:
        done = self.klamm("broker", *args, "--server", self.url)
        assert done.exit_code == 0, done.stderr

    def run(self, tool: str, *args: str) -> Done:
        return self.klamm(tool, "--bootstrap-server", self.url, *args)

    def ok(self, tool: str, *args: str) -> str:
        done = self.run(tool, *args)
        assert done.exit_code == 0, done.stdout + done.stderr
        return done.stdout

    def refused(self, tool: str, *args: str) -> str:
        done = self.run(tool, *args)
        assert done.exit_code == 1, done.stdout
        return done.stdout + done.stderr

    def json(self, tool: str, *args: str) -> dict[str, Any]:
        report: dict[str, Any] = json.loads(self.run(tool, *args, "--json").stdout)
        return report

    def create(self, topic: str, assignment: str) -> None:
        self.ok("topics", "--create", "--topic", topic, "--replica-assignment", assignment)

    def leader(self, topic: str) -> int | None:
        leader: int | None = self._partition(topic)["leader"]
        return leader

    def isr(self, topic: str) -> list[int]:
        isr: list[int] = self._partition(topic)["isr"]
        return isr

    def _partition(self, topic: str) -> dict[str, Any]:
        described = self.json("topics", "--describe", "--topic", topic)
        partition: dict[str, Any] = described["topics"][0]["partitions"][0]
        return partition

    def file(self, name: str, content: object) -> str:
        path = self._folder / name
        path.write_text(content if isinstance(content, str) else json.dumps(content))
        return str(path)

    def plan(self, name: str, *parts: tuple[str, int, list[int]]) -> str:
        partitions = [{"topic": t, "partition": p, "replicas": ids} for t, p, ids in parts]
        return self.file(name, {"version": 1, "partitions": partitions})

    def verified(self, plan: str, *args: str) -> dict[str, Any]:
        return self.json("reassign-partitions", "--verify", "--reassignment-json-file", plan, *args)


@pytest.fixture(scope="module")
def tools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Tools]:
    """Four brokers; each test has topics of its own and leaves the brokers running."""
    folder = tmp_path_factory.mktemp("tools")
    configs = ("auto.leader.rebalance.enable=false", "controlled.shutdown.enable=false")
    options = [word for config in configs for word in ("--config", config)]
    brokers = ("--brokers", "4", "--controllers", "1", "--config", "log.dirs=/a,/b")
    with klamm_up(folder / "data", *brokers, *options, "--session-timeout-ms", "60000") as up:
        yield Tools(up, folder)


def test_a_plan_from_generate_to_verify(tools: Tools) -> None:
    tools.create("g", "0:1,1:0")
    move = tools.file("topics.json", {"version": 1, "topics": [{"topic": "g"}]})
    generate = ("--generate", "--topics-to-move-json-file", move, "--broker-list", "2,3")
    proposed = tools.json("reassign-partitions", *generate, "--seed", "7")["proposed"]
    assert proposed == tools.json("reassign-partitions", *generate, "--seed", "7")["proposed"]
    assert {id_ for one in proposed["partitions"] for id_ in one["replicas"]} == {2, 3}
    plan = tools.file("proposed.json", proposed)
    saved = str(Path(plan).with_name("saved.json"))
    rate = "leader.replication.throttled.rate"
    tools.ok("configs", "--alter", "--broker", "1", "--add-config", f"{rate}=77")
    executed = tools.ok(
        "reassign-partitions",
        *("--execute", "--reassignment-json-file", plan),
        *("--throttle", "1000", "--save-throttles", saved),
    )
    assert "The inter-broker throttle limit was set to 1000 B/s\n" in executed
    assert executed.endswith("Successfully started partition reassignments for g-0,g-1\n")
    wait_until(lambda: tools.verified(plan, "--preserve-throttles")["state"] == "complete")
    throttled = tools.json("configs", "--describe", "--entity-type", "brokers")["entities"]
    assert throttled[1]["configs"][rate] == "1000"
    assert tools.verified(plan, "--restore-throttles", saved)["exit_code"] == 0
    after = tools.json("configs", "--describe", "--entity-type", "brokers")["entities"]
    assert [entity["configs"] for entity in after] == [{}, {rate: "77"}, {}, {}, {}]
    tools.ok("configs", "--alter", "--broker", "1", "--delete-config", rate)


def test_a_running_reassignment_is_listed_refused_and_cancelled(tools: Tools) -> None:
    tools.create("r", "0:1,1:0")
    plan = tools.plan("running.json", ("r", 0, [0, 3]))
    file = ("--reassignment-json-file", plan)
    tools.broker("pause", "3")
    try:
        tools.ok("reassign-partitions", "--execute", *file)
        listed = tools.ok("reassign-partitions", "--list")
        assert "r-0: replicas: 0,3,1. adding: 3. removing: 1.\n" in listed
        running = tools.run("reassign-partitions", "--verify", *file, "--json")
        assert running.exit_code == 12
        assert json.loads(running.stdout)["state"] == "in_progress"
        assert tools.run("reassign-partitions", "--verify", *file).exit_code == 0
        second = tools.plan("second.json", ("r", 1, [1, 2]))
        refused = tools.refused(
            "reassign-partitions", "--execute", "--reassignment-json-file", second
        )
        assert refused.startswith("Cannot execute because there is an existing partition")
        added = ("--additional", "--reassignment-json-file", second)
        tools.ok("reassign-partitions", "--execute", *added)
        cancelled = tools.ok("reassign-partitions", "--cancel", *file)
        assert "Successfully cancelled partition reassignment for: r-0\n" in cancelled
        again = tools.ok("reassign-partitions", "--cancel", *file)
        assert "None of the specified partition reassignments are active.\n" in again
    finally:
        tools.broker("resume", "3")
    wait_until(lambda: "No partition" in tools.ok("reassign-partitions", "--list"))


def test_preferred_and_unclean_elections(tools: Tools) -> None:
    tools.create("e", "1:2")
    tools.broker("stop", "1")
    wait_until(lambda: tools.leader("e") == 2)
    elect = ("--topic", "e", "--partition", "0", "--election-type")
    refused = tools.refused("leader-election", *elect, "preferred")
    assert "PreferredLeaderNotAvailableException: Failed to elect leader for partition e-0" in (
        refused
    )
    tools.broker("start", "1")
    wait_until(lambda: tools.isr("e") == [2, 1])
    elected = tools.ok("leader-election", *elect, "preferred")
    assert elected == "Successfully completed leader election (PREFERRED) for partitions e-0\n"
    report = tools.json("leader-election", *elect, "preferred")
    assert (report["elected"], report["not_needed"]) == ([], [{"topic": "e", "partition": 0}])
    tools.broker("stop", "2")
    wait_until(lambda: tools.isr("e") == [1])
    tools.broker("stop", "1")
    wait_until(lambda: tools.leader("e") is None)
    tools.broker("start", "2")
    elected = tools.ok("leader-election", *elect, "Unclean")
    assert elected == "Successfully completed leader election (UNCLEAN) for partitions e-0\n"
    assert tools.leader("e") == 2
    tools.broker("start", "1")
    wait_until(lambda: tools.isr("e") == [2, 1])
    assert "e-0" in tools.ok("preferred-replica-election")
    assert tools.leader("e") == 1


@pytest.mark.parametrize("entity", [("--topic", "d"), ("--broker-defaults",)])
def test_a_config_changes_what_the_controller_does(tools: Tools, entity: tuple[str, ...]) -> None:
    topics = tools.ok("topics", "--list").splitlines()
    if "d" not in topics:
        tools.create("d", "2:3")
    [first, second] = tools.isr("d")
    tools.broker("stop", str(second))
    wait_until(lambda: tools.isr("d") == [first])
    tools.broker("stop", str(first))
    wait_until(lambda: tools.leader("d") is None)
    tools.broker("start", str(second))
    assert tools.leader("d") is None
    unclean = "unclean.leader.election.enable"
    tools.ok("configs", *entity, "--alter", "--add-config", f"{unclean}=true")
    wait_until(lambda: tools.leader("d") == second)
    tools.ok("configs", *entity, "--alter", "--delete-config", unclean)
    tools.broker("start", str(first))
    wait_until(lambda: sorted(tools.isr("d")) == [2, 3])


def test_configs_are_altered_and_described(tools: Tools) -> None:
    tools.create("c", "0:1")
    topic = ("configs", "--topic", "c")
    tools.ok(*topic, "--alter", "--add-config", "retention.ms=5")
    assert tools.ok(*topic, "--describe") == (
        "Dynamic configs for topic c are:\n"
        "  retention.ms=5 sensitive=false synonyms={DYNAMIC_TOPIC_CONFIG:retention.ms=5}\n"
    )
    assert "Configs: retention.ms=5" in tools.ok("topics", "--describe", "--topic", "c")
    both = (*topic, "--alter", "--add-config", "retention.ms=6", "--delete-config", "retention.ms")
    assert "Error due to duplicate config keys : retention.ms\n" in tools.refused(*both)
    assert tools.json(*topic, "--describe")["entities"][0]["configs"] == {"retention.ms": "5"}
    tools.ok(*topic, "--alter", "--delete-config", "retention.ms")
    assert tools.json(*topic, "--describe")["entities"][0]["configs"] == {}
    everywhere = ("configs", "--broker-defaults", "--alter")
    tools.ok(*everywhere, "--add-config", "unclean.leader.election.enable=true")
    shown = tools.ok(*topic, "--describe", "--all")
    assert "DYNAMIC_DEFAULT_BROKER_CONFIG:unclean.leader.election.enable=true, DEFAULT" in shown
    tools.ok(*everywhere, "--delete-config", "unclean.leader.election.enable")


def test_log_directories_are_shown_moved_and_fail(tools: Tools) -> None:
    tools.create("l", "2:3")
    at = ("log-dirs", "--describe", "--topic-list", "l", "--broker-list", "2")

    def where() -> list[str]:
        log_dirs = tools.json(*at)["brokers"][0]["logDirs"]
        return [one["logDir"] for one in log_dirs if one["partitions"]]

    [before] = where()
    other = "/b" if before == "/a" else "/a"
    moved = {"topic": "l", "partition": 0, "replicas": [2, 3], "log_dirs": [other, "any"]}
    plan = tools.file("moved.json", {"version": 1, "partitions": [moved]})
    file = ("--reassignment-json-file", plan)
    executed = tools.ok("reassign-partitions", "--execute", *file)
    assert executed.endswith("Successfully started log directory move for: l-0-2\n")
    wait_until(lambda: where() == [other])
    verified = tools.ok("reassign-partitions", "--verify", *file)
    assert "Reassignment of replica l-0-2 completed successfully.\n" in verified
    tools.broker("fail-log-dir", "2", other)
    storage_error = "org.apache.kafka.common.errors.KafkaStorageException"
    wait_until(lambda: f'"logDir":"{other}","error":"{storage_error}"' in tools.ok(*at))
    wait_until(lambda: tools.leader("l") == 3)
    unknown = tools.klamm("broker", "fail-log-dir", "2", "/nowhere", "--server", tools.url)
    assert unknown.exit_code == 1
    assert unknown.stderr.startswith("error: ")
    tools.broker("stop", "2")
    tools.broker("start", "2")


@pytest.mark.parametrize(
    ("content", "said", "code"),
    [
        ('{"version":1,', "kafka.admin.AdminOperationException", 2),
        ('{"version":1,"partitions":[]}', "Error: Partition reassignment list cannot be empty", 2),
        (("none", 0, [0]), "This server does not host this topic-partition.", 1),
        (("b", 7, [0]), "b-7: The partition does not exist.", 1),
        (("b", 0, [0, 9]), "Error: Unknown broker id 9", 1),
        (("b", 0, [0, 0]), "b-0 contains multiple entries for 0", 2),
    ],
)
def test_a_bad_plan_is_refused_and_starts_nothing(
    tools: Tools, content: str | tuple[str, int, list[int]], said: str, code: int
) -> None:
    if "b\n" not in tools.ok("topics", "--list"):
        tools.create("b", "0:1")
    is_text = isinstance(content, str)
    plan = tools.file("bad.json", content) if is_text else tools.plan("bad.json", content)
    execute = ("--execute", "--reassignment-json-file", plan)
    assert said in tools.refused("reassign-partitions", *execute)
    assert tools.json("reassign-partitions", *execute)["exit_code"] == code
    assert tools.ok("reassign-partitions", "--list") == "No partition reassignments found.\n"
