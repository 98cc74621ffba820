"""kafka-reassign-partitions on a cluster in memory, where no recording says what comes out."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from klamm.admin.kafka_admin import ReplicaLogDirs
from klamm.cluster.api_errors import Errors
from klamm.cluster.errors import StoreError, UsageError
from klamm.cluster.requests import ApiError
from klamm.cluster.types import Broker, EndPoint, TopicPartition, TopicPartitionReplica
from klamm.tools.command_result import CommandResult
from klamm.tools.reassignments.command import run_reassign_command
from klamm.tools.reassignments.common import OwnOptions
from klamm.tools.reassignments.text import CANNOT_EXECUTE, NEEDS_BOOTSTRAP_SERVER
from klamm.zk.dump import dump
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import ReadOp, Transaction
from klamm.zk.znodes import BrokerIdZNode, BrokerInfo
from tests.unit.tools.reassign_world import World

TOPICS = {"a": {"0": [0, 1], "1": [1, 2]}, "b": {"0": [2, 0]}}
SERVER = ("--bootstrap-server", "s:1")
ZOOKEEPER = ("--zookeeper", "z:1")
CURRENT = (
    "Current partition replica assignment\n\n"
    '{"version":1,"partitions":[{"topic":"a","partition":0,"replicas":[0,1],'
    '"log_dirs":["any","any"]}]}\n\n'
    "Save this to use as the --reassignment-json-file option during rollback\n"
)
MUST_VERIFY = (
    "Warning: You must run --verify periodically, until the reassignment completes, to ensure the "
    "throttle is removed.\n"
)
CLEARED = (
    "Clearing broker-level throttles on brokers 0,1,2,3\n"
    "Clearing topic-level throttles on topic a\n"
)


class Tool:
    """The tool on four brokers, with a plan's file."""

    def __init__(self, tmp_path: Path) -> None:
        self.world = World(4, TOPICS)
        self.folder = tmp_path
        self.plan({"topic": "a", "partition": 0, "replicas": [1, 3]})

    def plan(self, *partitions: dict[str, Any]) -> None:
        (self.folder / "plan").write_text(json.dumps({"partitions": partitions}))

    def __call__(
        self, where: tuple[str, str], action: str, *more: str, **own: Any
    ) -> CommandResult:
        file = () if action == "list" else ("--reassignment-json-file", str(self.folder / "plan"))
        args = [*where, f"--{action}", *file, *more]
        return run_reassign_command(args, self.world.services(), OwnOptions(**own))

    def complete(self) -> None:
        """What a controller does when the copying is over."""
        client = self.world.client
        for tp, moving in self.world.cluster.list_partition_reassignments().items():
            topic = client.get_topic_assignments([tp.topic]).values[tp.topic].assignment
            done = type(moving)(moving.target_replicas)
            client.set_topic_assignment(tp.topic, None, topic | {tp: done})


@pytest.fixture
def tool(tmp_path: Path) -> Tool:
    return Tool(tmp_path)


def test_a_reassignment_is_executed_listed_and_verified_through_the_cluster(tool: Tool) -> None:
    assert tool(SERVER, "list").stdout == "No partition reassignments found.\n"
    started = tool(SERVER, "execute", "--throttle", "7")
    assert started.stdout == (
        f"{CURRENT}{MUST_VERIFY}The inter-broker throttle limit was set to 7 B/s\n"
        "Successfully started partition reassignment for a-0\n"
    )
    assert tool(SERVER, "list").stdout == (
        "Current partition reassignments:\na-0: replicas: 1,3,0. adding: 3. removing: 0.\n"
    )
    refused = tool(SERVER, "execute")
    assert (refused.exit_code, refused.report["exit_code"]) == (1, 1)
    assert refused.stdout.startswith("Cannot execute because there is an existing partition")
    moving = tool(SERVER, "verify")
    assert moving.stdout == (
        "Status of partition reassignment:\nReassignment of partition a-0 is still in progress.\n\n"
    )
    assert (moving.exit_code, moving.report["exit_code"], moving.report["state"]) == (
        0,
        12,
        "in_progress",
    )
    assert set(moving.report["throttles"]["brokers"]) == {"0", "1", "3"}
    tool.complete()
    done = tool(SERVER, "verify")
    assert done.stdout == (
        "Status of partition reassignment:\n"
        f"Reassignment of partition a-0 is complete.\n\n{CLEARED}"
    )
    assert (done.report["exit_code"], done.report["throttles"]) == (
        0,
        {"brokers": {}, "topics": {}},
    )


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_throttles_stay_while_a_partition_of_another_plan_moves(
    tool: Tool, where: tuple[str, str]
) -> None:
    assert tool(where, "execute", "--throttle", "7").exit_code == 0
    tool.plan({"topic": "b", "partition": 0, "replicas": [2, 0]})
    done = tool(where, "verify")
    assert "Reassignment of partition b-0 is complete." in done.stdout
    assert "Clearing" not in done.stdout
    assert set(done.report["throttles"]["brokers"]) == {"0", "1", "3"}


def test_cancel_ends_reassignments_and_clears_throttles(tool: Tool) -> None:
    tool(SERVER, "execute")
    cancelled = tool(SERVER, "cancel")
    assert cancelled.stdout == (
        "Successfully cancelled partition reassignment for: a-0\n"
        f"None of the specified partition moves are active.\n{CLEARED}"
    )
    again = tool(SERVER, "cancel", "--preserve-throttles")
    assert again.stdout == (
        "None of the specified partition reassignments are active.\n"
        "None of the specified partition moves are active.\n"
    )
    other = tool(SERVER, "verify", "--preserve-throttles")
    assert other.stdout.splitlines()[1] == (
        "There is no active reassignment of partition a-0, but replica set is 1,0 rather than 1,3."
    )
    assert (other.exit_code, other.report["exit_code"], other.report["state"]) == (
        0,
        1,
        "different",
    )


def test_reports_are_in_the_order_of_partitions(tool: Tool) -> None:
    plan = [("b", 0, [3, 0]), ("a", 1, [2, 3]), ("a", 0, [0, 1])]
    tool.plan(*({"topic": t, "partition": n, "replicas": ids} for t, n, ids in plan))
    started = tool(SERVER, "execute").report["started"]
    assert [(one["topic"], one["partition"]) for one in started] == [("a", 0), ("a", 1), ("b", 0)]
    moving = tool(SERVER, "list").report["reassignments"]
    assert [(one["topic"], one["partition"]) for one in moving] == [("a", 1), ("b", 0)]
    assert moving[1]["adding_replicas"] == (3,)
    tool.plan(
        {"topic": "a", "partition": 0, "replicas": [1, 2]},
        {"topic": "b", "partition": 0, "replicas": [3, 0]},
    )
    mixed = tool(SERVER, "verify").report
    assert mixed["state"] == "in_progress"
    assert [(one["state"], one["replicas"]) for one in mixed["partitions"]] == [
        ("different", (0, 1)),
        ("in_progress", (3, 0, 2)),
    ]
    assert tool(SERVER, "cancel").report["cancelled"] == [{"topic": "b", "partition": 0}]


@pytest.mark.parametrize(("where", "factor"), [(ZOOKEEPER, 2), (SERVER, 1)])
def test_a_plan_has_the_replication_factor_of_the_first_partition_in_kafkas_map(
    tmp_path: Path, where: tuple[str, str], factor: int
) -> None:
    world = World(4, {"a": {"0": [0, 1], "1": [2], "2": [3]}})
    (tmp_path / "topics").write_text('{"topics":[{"topic":"a"}]}')
    file = ("--topics-to-move-json-file", str(tmp_path / "topics"))
    args = [*where, "--generate", *file, "--broker-list", "0,1,2,3", "--disable-rack-aware"]
    plan = json.loads(run_reassign_command(args, world.services()).stdout.splitlines()[-1])
    assert [len(one["replicas"]) for one in plan["partitions"]] == [factor] * 3


def test_log_directories_are_reported_in_the_order_of_replicas(tool: Tool) -> None:
    tool.plan({"topic": "a", "partition": 1, "replicas": [2, 1], "log_dirs": ["/y", "/y"]})
    places = {(1, "/y"), (2, "/x")}
    tool.world.cluster.log_dirs = {
        TopicPartitionReplica("a", 1, broker): ReplicaLogDirs(path) for broker, path in places
    }
    report = tool(SERVER, "verify").report
    assert [(one["broker_id"], one["state"]) for one in report["log_dirs"]] == [
        (1, "complete"),
        (2, "different"),
    ]
    assert report["state"] == "different"


def test_moves_between_log_directories_are_cancelled_while_they_run(tool: Tool) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1, 2], "log_dirs": ["/b"] * 3})
    replicas = [TopicPartitionReplica("a", 0, broker_id) for broker_id in range(3)]
    tool.world.cluster.log_dirs = {
        replicas[0]: ReplicaLogDirs("/a", "/b"),
        replicas[1]: ReplicaLogDirs("/a", "/c"),
        replicas[2]: ReplicaLogDirs("/b", None),
    }
    cancelled = tool(SERVER, "cancel", "--preserve-throttles")
    assert cancelled.stdout == (
        "None of the specified partition reassignments are active.\n"
        "Successfully started log directory moves for: a-0-0,a-0-1\n"
    )
    asked = [one.future for one in tool.world.cluster.log_dirs.values()]
    assert asked == ["/a", "/a", None]


def test_refusals_of_the_controller_are_listed_by_partition(tool: Tool) -> None:
    tool.plan(*({"topic": "a", "partition": p, "replicas": [3]} for p in (1, 0)))
    tool.world.cluster.refused = {
        TopicPartition("a", 1): ApiError(Errors.REASSIGNMENT_IN_PROGRESS),
        TopicPartition("a", 0): ApiError(Errors.INVALID_REPLICA_ASSIGNMENT, "no"),
    }
    result = tool(SERVER, "execute")
    assert result.exit_code == 1
    assert result.stdout.endswith(
        "Error reassigning partition(s):\na-0: no\na-1: A partition reassignment is in progress.\n"
    )


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_plans_with_unknown_brokers_or_topics_change_nothing(
    tool: Tool, where: tuple[str, str]
) -> None:
    before = dump(tool.world.client.store)
    tool.plan({"topic": "a", "partition": 0, "replicas": [1, 9]})
    assert tool(where, "execute").exit_code == 1
    known = {"topic": "a", "partition": 1, "replicas": [1, 2]}
    tool.plan(known, {"topic": "a", "partition": 0, "replicas": [1, 9]})
    assert tool(where, "execute").exit_code == 1
    tool.plan(known, {"topic": "x", "partition": 0, "replicas": [1]})
    assert tool(where, "execute").exit_code == 1
    tool.plan({"topic": "x", "partition": 0, "replicas": [1]})
    assert dump(tool.world.client.store) == before
    lines = tool(where, "verify", "--preserve-throttles").stdout.splitlines()
    assert (
        "There is no active reassignment of partition x-0, but replica set is  rather than 1."
        in lines
    )


def test_a_reassignment_by_request_is_in_progress_for_machines_that_ask_zookeeper(
    tool: Tool,
) -> None:
    tool(SERVER, "execute")
    found = tool(ZOOKEEPER, "verify")
    assert "There is no active reassignment of partition a-0, but replica set is" in found.stdout
    assert (found.exit_code, found.report["exit_code"], found.report["state"]) == (
        0,
        12,
        "in_progress",
    )
    assert "results may be incomplete" in found.report["warnings"][0]
    tool.complete()
    assert tool(ZOOKEEPER, "verify").report["exit_code"] == 0
    assert "warnings" not in tool(SERVER, "verify").report


@pytest.mark.parametrize("action", ["execute", "verify"])
def test_log_directories_need_a_cluster(tool: Tool, action: str) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "/d"]})
    before = dump(tool.world.client.store)
    result = tool(ZOOKEEPER, action)
    assert NEEDS_BOOTSTRAP_SERVER in result.stdout
    assert result.exit_code == 1
    assert dump(tool.world.client.store) == before


def test_a_plan_in_zookeeper_is_not_overwritten(tool: Tool) -> None:
    assert tool(ZOOKEEPER, "execute").exit_code == 0
    before = dump(tool.world.client.store)
    tool.plan({"topic": "b", "partition": 0, "replicas": [1, 3]})
    again = tool(ZOOKEEPER, "execute", "--throttle", "7")
    assert CANNOT_EXECUTE in again.stdout
    assert again.exit_code == 1
    assert dump(tool.world.client.store) == before


@pytest.mark.parametrize(
    ("topic", "partition", "why"),
    [
        ("a", -1, "The given partition index -1 is not valid."),
        ("", 0, "The given topic name '' cannot be represented in a request."),
    ],
)
def test_nothing_is_asked_about_a_partition_that_cannot_be(
    tool: Tool, topic: str, partition: int, why: str
) -> None:
    tool.plan({"topic": topic, "partition": partition, "replicas": [1]})
    result = tool(SERVER, "cancel")
    invalid = f"org.apache.kafka.common.errors.InvalidTopicException: {why}"
    assert result.stdout == (
        f"Error: {invalid}\njava.util.concurrent.ExecutionException: {invalid}\n\n"
    )
    assert result.exit_code == 1


def test_a_malformed_topic_is_kafkas_error_with_a_hint(tool: Tool) -> None:
    tool.world.client.set_or_create("/brokers/topics/a", b"5")
    result = tool(ZOOKEEPER, "execute")
    text = "Expected JSON object, received 5"
    assert result.stdout.endswith(
        f"\nError: {text}\ncom.fasterxml.jackson.databind.JsonMappingException: {text}\n\n"
    )
    assert result.hint == f"malformed znode /brokers/topics/a: {text}"


def test_a_partition_with_a_negative_index_is_refused_alone(tool: Tool) -> None:
    tool.plan(
        {"topic": "a", "partition": -1, "replicas": [1, 2]},
        {"topic": "b", "partition": 0, "replicas": [2, 1]},
    )
    result = tool(SERVER, "execute")
    assert result.stdout.endswith(
        "\nError reassigning partition(s):\na--1: The given partition index -1 is not valid.\n"
    )
    assert result.exit_code == 1
    assert list(tool.world.cluster.list_partition_reassignments()) == [TopicPartition("b", 0)]


def test_a_cancellation_that_is_refused_is_an_error(tool: Tool) -> None:
    tool(SERVER, "execute")
    refused = ApiError(Errors.NO_REASSIGNMENT_IN_PROGRESS, "it is over")
    tool.world.cluster.refused = {TopicPartition("a", 0): refused}
    result = tool(SERVER, "cancel")
    assert "Error cancelling partition reassignment for:\na-0: it is over" in result.stdout
    assert result.exit_code == 1


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--list", "Please specify --bootstrap-server"),
        ("--list --verify --bootstrap-server s:1", "Command must include exactly one action: "),
        ("--verify --bootstrap-server s:1", 'Missing required argument "[reassignment-json-file]"'),
        (
            "--list --bootstrap-server s:1 --throttle 5",
            'Option "[throttle]" can\'t be used with action "[list]"',
        ),
        *(
            (
                f"--{action} --bootstrap-server s:1 --reassignment-json-file f --{option} 5",
                f'Option "[{option}]" can\'t be used with action "[{action}]"',
            )
            for action, option in (("verify", "timeout"), ("cancel", "throttle"))
        ),
        *(
            (
                f"--execute --zookeeper z:1 --reassignment-json-file f --{option}",
                f'You must specify --bootstrap-server when using "[{option.split()[0]}]"',
            )
            for option in ("additional", "timeout 5", "command-config f")
        ),
        (
            "--execute --bootstrap-server s:1 --reassignment-json-file {plan} --throttle "
            "9223372036854775808",
            "Cannot parse argument '9223372036854775808' of option throttle",
        ),
        (
            "--execute --bootstrap-server s:1 --reassignment-json-file {plan} --throttle 5 "
            "--throttle 6",
            "joptsimple.MultipleArgumentsForOptionException: Found multiple arguments for option",
        ),
    ],
)
def test_contradictory_options_are_refused(tool: Tool, line: str, said: str) -> None:
    args = line.format(plan=tool.folder / "plan").split()
    result = run_reassign_command(args, tool.world.services(), OwnOptions())
    assert said in result.stdout + result.stderr
    assert result.exit_code == 1
    assert tool.world.written == 0


def test_a_cluster_without_throttles_says_so(tool: Tool) -> None:
    assert tool(SERVER, "list", show_throttles=True).stdout.endswith("No throttles are set.\n")


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_every_throttle_that_is_set_is_shown(tool: Tool, where: tuple[str, str]) -> None:
    rate, replicas = "leader.replication.throttled.rate", "leader.replication.throttled.replicas"
    client = tool.world.client
    client.set_or_create_entity_configs("brokers", "10", {rate: "5"})
    client.set_or_create_entity_configs("brokers", "9", {rate: "6"})
    client.set_or_create_entity_configs("brokers", "<default>", {rate: "7"})
    client.set_or_create_entity_configs("topics", "b", {replicas: "*", "retention.ms": "9"})
    action = ("list",) if where == SERVER else ("verify", "--preserve-throttles")
    shown = tool(where, *action, show_throttles=True)
    assert shown.stdout.endswith(
        f"Throttles:\n  broker <default>: {rate}=7\n  broker 9: {rate}=6\n  broker 10: {rate}=5\n"
        f"  topic b: {replicas}=*\n"
    )
    assert shown.report["throttles"]["topics"] == {"b": {replicas: "*"}}


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_the_throttle_is_set_before_anything_moves(tool: Tool, where: tuple[str, str]) -> None:
    seen = []
    rate, client = "leader.replication.throttled.rate", tool.world.client

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        paths = [part.path for part in op] if isinstance(op, list) else []
        if {"/admin/reassign_partitions", "/brokers/topics/a"} & {*paths}:
            seen.append(client.get_entity_configs("brokers", "1").get(rate))

    assert isinstance(client.store, MemoryStore)
    client.store.server.before_op = before_op
    tool(where, "execute", "--throttle", "7")
    assert seen and set(seen) == {"7"}


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_execute_throttles_leaders_and_followers(tool: Tool, where: tuple[str, str]) -> None:
    client = tool.world.client
    tool(where, "execute", "--throttle", "7")
    assert client.get_entity_configs("topics", "a") == {
        "leader.replication.throttled.replicas": "0:0,0:1",
        "follower.replication.throttled.replicas": "0:3",
    }
    rates = {f"{side}.replication.throttled.rate": "7" for side in ("leader", "follower")}
    for broker in ("0", "1", "3"):
        assert client.get_entity_configs("brokers", broker) == rates
    assert client.get_entity_configs("brokers", "2") == {}
    assert client.get_entity_configs("topics", "b") == {}


def test_the_rate_of_moves_between_directories_is_saved_and_restored(tool: Tool) -> None:
    client, file = tool.world.client, tool.folder / "before"
    rate = "replica.alter.log.dirs.io.max.bytes.per.second"
    client.set_or_create_entity_configs("brokers", "0", {rate: "5"})
    replica = TopicPartitionReplica("a", 0, 0)
    tool.world.cluster.log_dirs = {replica: ReplicaLogDirs("/x")}
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1], "log_dirs": ["/y", "any"]})
    throttle = ("--replica-alter-log-dirs-throttle", "9")
    done = tool(SERVER, "execute", *throttle, save_throttles=file)
    assert "The replica-alter-dir throttle limit was set to 9 B/s\n" in done.stdout
    assert client.get_entity_configs("brokers", "0") == {rate: "9"}
    assert client.get_entity_configs("brokers", "1") == {}
    assert json.loads(file.read_text())["brokers"] == {"0": {rate: "5"}}


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
@pytest.mark.parametrize(("given", "set_to"), [("0", "0"), ("-1", None)])
def test_only_a_negative_rate_sets_no_throttle(
    tool: Tool, where: tuple[str, str], given: str, set_to: str | None
) -> None:
    tool(where, "execute", "--throttle", given)
    found = tool.world.client.get_entity_configs("brokers", "1")
    assert found.get("leader.replication.throttled.rate") == set_to


def test_throttles_are_put_back_as_they_were(tool: Tool) -> None:
    client, file = tool.world.client, tool.folder / "before"
    rate, log_dir_rate = "leader.replication.throttled.rate", "follower.replication.throttled.rate"
    client.set_or_create_entity_configs("brokers", "0", {rate: "5", "log.cleaner.threads": "2"})
    topic = {"leader.replication.throttled.replicas": "*", "retention.ms": "9"}
    client.set_or_create_entity_configs("topics", "a", topic)
    for throttle in ("7", "8"):
        done = tool(SERVER, "execute", "--additional", "--throttle", throttle, save_throttles=file)
        assert done.exit_code == 0
    assert client.get_entity_configs("brokers", "0")[rate] == "8"
    still = tool(SERVER, "verify", restore_throttles=file, show_throttles=True)
    assert "  broker 3: leader.replication.throttled.rate=8, " in still.stdout
    assert file.exists()
    tool.complete()

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        if isinstance(op, list) and any(part.path == "/config/topics/a" for part in op):
            raise StoreError("the topics cannot be written")

    assert isinstance(client.store, MemoryStore)
    client.store.server.before_op = before_op
    failed = tool(SERVER, "verify", restore_throttles=file)
    assert (failed.exit_code, client.get_entity_configs("brokers", "0")[rate]) == (1, "5")
    client.store.server.before_op = None
    over = tool(SERVER, "verify", restore_throttles=file, show_throttles=True)
    assert over.stdout.endswith(
        "Restoring broker-level throttles on brokers 0,1,3\n"
        "Restoring topic-level throttles on topic a\n"
        "Throttles:\n"
        "  broker 0: leader.replication.throttled.rate=5\n"
        "  topic a: leader.replication.throttled.replicas=*\n"
    )
    assert client.get_entity_configs("brokers", "0") == {rate: "5", "log.cleaner.threads": "2"}
    assert client.get_entity_configs("brokers", "3") == {}
    assert client.get_entity_configs("topics", "a") == topic
    assert log_dir_rate not in client.get_entity_configs("brokers", "1")
    assert not file.exists()


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_throttles_of_brokers_that_are_gone_stay_in_the_file(
    tool: Tool, where: tuple[str, str]
) -> None:
    client, file, rate = (
        tool.world.client,
        tool.folder / "before",
        "leader.replication.throttled.rate",
    )
    saved = {"10": {rate: "5"}, "3": {rate: "6"}, "0": {}, "12": {}}
    file.write_text(json.dumps({"brokers": saved, "topics": {"b": {}, "a": {}}}))
    for id_ in ("0", "10", "3"):
        client.set_or_create_entity_configs("brokers", id_, {rate: "9"})
    client.set_or_create_entity_configs(
        "topics", "a", {"leader.replication.throttled.replicas": "*"}
    )
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1]})
    done = tool(where, "verify", restore_throttles=file)
    assert client.get_entity_configs("topics", "a") == {}
    assert [client.get_entity_configs("brokers", id_) for id_ in ("0", "3")] == [{}, {rate: "6"}]
    if where == ZOOKEEPER:
        assert done.stdout.count("throttles on brokers 0,3,10,12\n") == 1
        assert (done.exit_code, file.exists()) == (0, False)
        assert client.get_entity_configs("brokers", "10") == {rate: "5"}
        return
    assert done.stdout.endswith(
        "Restoring broker-level throttles on brokers 0,3\n"
        "Restoring topic-level throttles on topics a,b\n"
        f"Not registered: brokers 10,12. Their throttles stay in {file}\n"
    )
    again = tool(where, "verify", restore_throttles=file)
    assert (done.exit_code, "Restoring" in again.stdout) == (1, False)
    assert client.get_entity_configs("brokers", "10") == {rate: "9"}
    assert json.loads(file.read_text()) == {
        "brokers": {"10": {rate: "5"}, "12": {}},
        "topics": {},
        "version": 1,
    }


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_throttles_of_topics_that_are_gone_are_skipped(tool: Tool, where: tuple[str, str]) -> None:
    client, file = tool.world.client, tool.folder / "before"
    name = "leader.replication.throttled.replicas"
    topics = {"Gone": {name: "*"}, "a": {name: "0:1"}, "b": {}, "went": {name: "*"}}
    file.write_text(json.dumps({"topics": topics}))
    client.set_or_create_entity_configs("topics", "b", {name: "*"})
    tool.plan({"topic": "a", "partition": 0, "replicas": [0, 1]})
    done = tool(where, "verify", restore_throttles=file)
    assert done.stdout.endswith(
        "Restoring topic-level throttles on topics Gone,a,b,went\n"
        "Skipped topics Gone,went, which do not exist any more\n"
    )
    assert (done.exit_code, done.stderr.count("\n"), file.exists()) == (0, 0, False)
    assert client.get_entity_configs("topics", "a") == {name: "0:1"}
    assert client.get_entity_configs("topics", "b") == {}
    assert client.get_all_entities_with_config("topics") == ["a", "b"]
    assert done.report["restored"]["topics"] == {"a": {name: "0:1"}, "b": {}}


@pytest.mark.parametrize(
    "content", ["", "[]", '{"version":2}', '{"topics":{"a":{"retention.ms":"1"}}}']
)
def test_a_file_that_holds_no_throttles_changes_nothing(tool: Tool, content: str) -> None:
    file = tool.folder / "saved"
    file.write_text(content)
    before = dump(tool.world.client.store)
    with pytest.raises(UsageError, match="is not a file of saved throttles"):
        tool(ZOOKEEPER, "verify", restore_throttles=file)
    with pytest.raises(UsageError, match="is not a file of saved throttles"):
        tool(ZOOKEEPER, "execute", "--throttle", "1", save_throttles=file)
    assert dump(tool.world.client.store) == before


def test_nothing_is_changed_if_throttles_cannot_be_saved(tool: Tool) -> None:
    before = dump(tool.world.client.store)
    file = tool.folder / "no" / "saved"
    result = tool(SERVER, "execute", "--throttle", "1", save_throttles=file)
    assert f"Error: cannot write {file}: No such file or directory\n" in result.stdout
    assert (result.exit_code, result.hint) == (1, "nothing was changed")
    assert dump(tool.world.client.store) == before


def test_replicas_are_moved_between_directories_and_verified(tool: Tool) -> None:
    tool.plan({"topic": "a", "partition": 0, "replicas": [1, 3], "log_dirs": ["any", "/b"]})
    cluster, replica = tool.world.cluster, TopicPartitionReplica("a", 0, 3)
    cluster.not_there_yet = 3
    started = tool(SERVER, "execute", "--replica-alter-log-dirs-throttle", "4")
    assert started.stdout == (
        f"{CURRENT}{MUST_VERIFY}The replica-alter-dir throttle limit was set to 4 B/s\n"
        "Successfully started partition reassignment for a-0\n"
        "Successfully started log directory move for: a-0-3\n"
    )
    assert cluster.clock_ms == 300
    tool.complete()
    moving = tool(SERVER, "verify")
    assert moving.stdout.splitlines()[-1] == "Reassignment of replica a-0-3 is still in progress."
    assert moving.report["exit_code"] == 12
    back = tool(SERVER, "cancel", "--preserve-throttles")
    assert "Successfully started log directory move for: a-0-3\n" in back.stdout
    cluster.log_dirs[replica] = ReplicaLogDirs("/b")
    assert "Reassignment of replica a-0-3 completed" in tool(SERVER, "verify").stdout
    del cluster.log_dirs[replica]
    lost = tool(SERVER, "verify")
    assert "cannot be found in any live log directory on broker 3." in lost.stdout
    cluster.not_there_yet = 10_000
    late = tool(SERVER, "execute", "--timeout", "200")
    assert late.stdout.endswith("Timed out before log directory move could be started for: a-0-3\n")
    assert late.exit_code == 1


def test_generate_is_the_same_for_the_same_seed(tool: Tool) -> None:
    (tool.folder / "topics").write_text('{"topics":[{"topic":"a"},{"topic":"b"}]}')
    args = ["--generate", "--topics-to-move-json-file", str(tool.folder / "topics")]
    args += ["--broker-list", "0,1,2,3", "--disable-rack-aware"]
    said = {
        (where, seed): run_reassign_command([*where, *args], tool.world.services(seed)).stdout
        for where in (SERVER, ZOOKEEPER)
        for seed in (1, 1, 2)
    }
    assert said[SERVER, 1] != said[SERVER, 2]
    assert said[ZOOKEEPER, 1].partition("\n")[2] == said[SERVER, 1]
    plan = json.loads(said[SERVER, 1].splitlines()[-1])
    assert [(p["topic"], p["partition"], len(p["replicas"])) for p in plan["partitions"]] == [
        ("a", 0, 2),
        ("a", 1, 2),
        ("b", 0, 2),
    ]


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_replicas_are_generated_in_different_racks(tmp_path: Path, where: tuple[str, str]) -> None:
    world = World(0, {"t": {str(number): [0, 1] for number in range(12)}})
    for broker_id, rack in enumerate(("a", "a", "b", "b", None)):
        registered = BrokerInfo(Broker(broker_id, (EndPoint("h", 1),), rack))
        path = BrokerIdZNode.path(broker_id)
        assert world.client.create_recursive(path, BrokerIdZNode.encode(registered, 0))
    (tmp_path / "topics").write_text('{"topics":[{"topic":"t"}]}')
    args = [*where, "--generate", "--topics-to-move-json-file", str(tmp_path / "topics")]

    def shared_racks(*more: str) -> int:
        said = run_reassign_command([*args, *more], world.services()).stdout.splitlines()[-1]
        return sum({*one["replicas"]} in ({0, 1}, {2, 3}) for one in json.loads(said)["partitions"])

    assert shared_racks("--broker-list", "0,1,2,3") == 0
    assert shared_racks("--broker-list", "0,1,2,3", "--disable-rack-aware") > 0
    refused = run_reassign_command([*args, "--broker-list", "0,2,4"], world.services())
    assert "Error: Not all brokers have rack information. Add --disable-rack-aware" in (
        refused.stdout
    )


@pytest.mark.parametrize(
    ("action", "own"),
    [
        ("verify", {"save_throttles": Path("x")}),
        ("execute", {"restore_throttles": Path("x")}),
        ("execute", {"show_throttles": True}),
        ("verify", {"restore_throttles": Path("no/such/file")}),
    ],
)
def test_klamms_options_are_refused_with_other_actions(
    tool: Tool, action: str, own: dict[str, Any]
) -> None:
    with pytest.raises(UsageError):
        tool(ZOOKEEPER, action, **own)


def test_throttles_are_not_restored_by_a_listing(tool: Tool) -> None:
    file = tool.folder / "saved"
    file.write_text('{"brokers":{}}')
    with pytest.raises(UsageError, match="--restore-throttles requires --verify or --cancel"):
        tool(SERVER, "list", restore_throttles=file)


@pytest.mark.parametrize("where", [SERVER, ZOOKEEPER])
def test_an_error_in_a_plan_names_its_file(tool: Tool, where: tuple[str, str]) -> None:
    (tool.folder / "plan").write_text("[]")
    assert tool(where, "execute").hint == f"the error is in {tool.folder / 'plan'}"
    tool.plan({"topic": "a", "partition": 0, "replicas": [1, 9]})
    assert tool(where, "execute").hint is None


def test_zookeeper_is_ignored_if_a_bootstrap_server_is_given(tool: Tool) -> None:
    result = run_reassign_command(
        [*SERVER, *ZOOKEEPER, "--verify", "--reassignment-json-file", str(tool.folder / "plan")],
        tool.world.services(),
    )
    assert result.stdout.startswith("Warning: ignoring deprecated --zookeeper option because")
    missing = tool(SERVER, "list", "--command-config", "no/such")
    assert missing.stdout == "Error: no/such\njava.nio.file.NoSuchFileException: no/such\n\n"
