"""kafka-topics on a ZooKeeper in memory, where no recording says what comes out."""

from __future__ import annotations

import pytest

from klamm.admin.topics import TopicAdmin
from klamm.cluster.errors import PolicyViolation, UsageError
from klamm.cluster.partition_limits import PartitionLimits
from klamm.placement.draws import JavaRandom
from klamm.tools.command_result import CommandResult
from klamm.tools.topics.command import run_topic_command
from klamm.zk.dump import dump
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_server import MemoryServer
from klamm.zk.memory_store import MemoryStore
from klamm.zk.store import GetChildren, ReadOp, Transaction
from klamm.zk.znodes import TopicsZNode
from tests.unit.tools.vectors import memory_server, put, services, topic_id


def run(server: MemoryServer, line: str) -> CommandResult:
    return run_topic_command(["--zookeeper", "z:1", *line.split()], services(server))


def state(leader: int, *isr: int) -> dict[str, object]:
    return {"controller_epoch": 1, "leader": leader, "version": 1, "leader_epoch": 0, "isr": isr}


def cluster() -> tuple[MemoryServer, KafkaZkClient]:
    """Brokers 0 and 1; a (all well), b (follower missing), c (no leader), d (leader dead)."""
    server = memory_server()
    client = KafkaZkClient(MemoryStore(server))
    for broker_id in (0, 1):
        put(client, f"/brokers/ids/{broker_id}", None)
    states = {"a": state(0, 0, 1), "b": state(0, 0), "c": state(-1, 2), "d": state(2, 2, 0)}
    replicas = {"a": [0, 1], "b": [0, 1], "c": [2], "d": [2, 0]}
    for number, topic in enumerate(states, 1):
        data = {"version": 3, "partitions": {"0": replicas[topic]}, "topic_id": topic_id(number)}
        put(client, f"/brokers/topics/{topic}", data)
        put(client, f"/brokers/topics/{topic}/partitions/0/state", states[topic])
        configs = {"retention.ms": "5"} if topic == "b" else {}
        put(client, f"/config/topics/{topic}", {"version": 1, "config": configs})
    return server, client


@pytest.mark.parametrize(
    ("filters", "topics"),
    [
        ("", ["a", "b", "c", "d"]),
        ("--under-replicated-partitions", ["b"]),
        ("--unavailable-partitions", ["c", "d"]),
        ("--topics-with-overrides", ["b"]),
        ("--topic b|d", ["b", "d"]),
        ("--topic b,d", ["b", "d"]),
        ("--topic [ab]", ["a", "b"]),
        ("--topic x --if-exists", []),
    ],
)
def test_describe_shows_the_partitions_that_its_filters_select(
    filters: str, topics: list[str]
) -> None:
    result = run(cluster()[0], f"--describe {filters}")
    assert (result.exit_code, result.stderr) == (0, "")
    assert [topic["topic"] for topic in result.report["topics"]] == topics
    assert sorted({line.split()[1] for line in result.stdout.splitlines()}) == topics
    topic_lines = [line for line in result.stdout.splitlines() if line.startswith("Topic")]
    assert bool(topic_lines) is ("-partitions" not in filters and bool(topics))


def test_a_topic_without_leader_and_one_that_goes() -> None:
    server, client = cluster()
    client.create_delete_topic_path("c")
    result = run(server, "--describe --topic c")
    assert result.stdout == (
        f"Topic: c\tTopicId: {topic_id(3)}\tPartitionCount: 1\tReplicationFactor: 1\tConfigs: "
        "\tMarkedForDeletion: true\n"
        "\tTopic: c\tPartition: 0\tLeader: none\tReplicas: 2\tIsr: 2\tMarkedForDeletion: true\n"
    )
    assert run(server, "--list").stdout == "a\nb\nc - marked for deletion\nd\n"


@pytest.mark.parametrize(
    ("path", "data"),
    [("/brokers/topics/bad", b""), ("/config/topics/a", b'{"config": {"retention.ms": 5}}')],
)
def test_a_malformed_znode_does_not_hide_the_topics(path: str, data: bytes) -> None:
    server, client = cluster()
    client.set_or_create(path, data)
    result = run(server, "--describe")
    assert [topic["topic"] for topic in result.report["topics"]] == ["a", "b", "c", "d"]
    assert result.exit_code == 1
    assert result.stdout.splitlines()[-1].startswith(
        f"Error while executing topic command : malformed znode {path}: "
    )


def test_a_topic_that_is_deleted_before_it_is_read_does_not_exist() -> None:
    server, client = cluster()
    put(client, "/brokers/topics/bad", "")

    def delete(_: int, done: ReadOp | Transaction, __: object) -> None:
        if done == GetChildren(TopicsZNode.path):
            server.after_op = None
            client.delete_recursive("/brokers/topics/b")

    server.after_op = delete
    result = run(server, "--describe")
    topics = [line.partition("\tTopicId")[0] for line in result.stdout.splitlines()]
    found = [line for line in topics if not line.startswith("\t")]
    assert found[:-1] == ["Topic: a", "Topic b doesn't exist!", "Topic: c", "Topic: d"]
    assert "malformed znode /brokers/topics/bad" in found[-1]


def test_a_malformed_topic_is_not_altered() -> None:
    server, client = cluster()
    put(client, "/brokers/topics/bad", "")
    altered = run(server, "--alter --topic bad --partitions 2")
    assert altered.stdout.endswith(
        "\nError while executing topic command : Expected JSON object, received \n"
    )
    assert altered.hint.startswith("malformed znode /brokers/topics/bad: ")
    assert altered.exit_code == 1


def test_a_topic_cannot_be_altered_to_no_partitions() -> None:
    altered = run(cluster()[0], "--alter --topic b --partitions 0")
    assert altered.exit_code == 1
    assert "Topic b currently has 1 partitions, 0 would not be an increase." in altered.stdout


def test_every_malformed_topic_is_named() -> None:
    server, client = cluster()
    for name in ("bad", "worse", "worst"):
        put(client, f"/brokers/topics/{name}", "")
    result = run(server, "--describe")
    named = [line.split(": ")[1] for line in result.stdout.splitlines()[-3:]]
    assert named == [
        f"malformed znode /brokers/topics/{name}" for name in ("bad", "worse", "worst")
    ]
    assert [warning.split(": ")[1] for warning in result.report["warnings"]] == named[:2]
    assert result.exit_code == 1


def test_a_topic_without_partitions_fails_as_in_kafka_with_a_hint() -> None:
    server, client = cluster()
    put(client, "/brokers/topics/empty", {"version": 1, "partitions": {}})
    result = run(server, "--describe --topic empty")
    assert result.stdout == "Error while executing topic command : next on empty iterator\n"
    assert (result.stderr, result.hint) == ("", "topic empty has no partitions")


@pytest.mark.parametrize("flag", ["--topics-with-overrides", "--unavailable-partitions"])
def test_a_topic_without_partitions_is_left_out_if_its_line_is(flag: str) -> None:
    server, client = cluster()
    put(client, "/brokers/topics/empty", {"version": 1, "partitions": {}})
    result = run(server, f"--describe --topic empty {flag}")
    assert (result.stdout, result.exit_code) == ("", 0)


@pytest.mark.parametrize(
    ("partitions", "factor"),
    [
        ({"1": [0], "0": [0, 1]}, 1),
        # A Scala map of these five partitions begins with partition 4.
        ({"0": [0], "1": [0], "2": [0], "3": [0], "4": [0, 1]}, 2),
    ],
)
def test_the_replication_factor_is_that_of_the_first_partition_in_scalas_order(
    partitions: dict[str, list[int]], factor: int
) -> None:
    server, client = cluster()
    put(client, "/brokers/topics/uneven", {"version": 1, "partitions": partitions})
    result = run(server, "--describe --topic uneven")
    assert f"\tReplicationFactor: {factor}\t" in result.stdout


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--create --topic a --replica-assignment 0", "Topic 'a' already exists."),
        (
            "--create --topic n --partitions 1 --replication-factor 3",
            "Replication factor: 3 larger than available brokers: 2.",
        ),
        (
            "--create --topic n --partitions x --replication-factor 1",
            "Cannot parse argument 'x' of option partitions",
        ),
        ("--create --topic n --replica-assignment 0 --config a=b", "Unknown topic config name: a"),
        (
            "--create --topic n --replica-assignment 0 --config retention.ms=x",
            "Invalid value x for configuration retention.ms: Not a number of type LONG",
        ),
        ("--create --topic . --replica-assignment 0", 'Topic name cannot be "." or ".."'),
        (
            "--create --topic n --partitions 1 --replication-factor 1 --config flush.ms",
            "requirement failed: Invalid topic config: all configs to be added must be in the "
            'format "key=val".',
        ),
        ("--delete --topic x", "Topic 'x' does not exist as expected"),
        ("--describe --topic x", "Topic 'x' does not exist as expected"),
        ("--alter --topic x --partitions 2", "Topic 'x' does not exist as expected"),
        ("--list --topic [", "[ is an invalid regex."),
        (r"--list --topic \Qx\E", r"\Qx\E is an invalid regex."),
        ("--delete --topic [a-z&&[^b]]", "[a-z&&[^b]] is an invalid regex."),
        ("--delete --topic [^a[b]]", "[^a[b]] is an invalid regex."),
        ("--list --topic a{1,3}", "a{1|3} is an invalid regex."),
        ("--list --topic a{99999999999}", "a{99999999999} is an invalid regex."),
    ],
)
def test_a_refused_command_writes_nothing(line: str, said: str) -> None:
    server, client = cluster()
    before = dump(client.store)
    result = run(server, line)
    assert result.stdout.splitlines()[-1] == f"Error while executing topic command : {said}"
    assert result.exit_code == 1
    assert result.report["error"]["message"] == said
    assert dump(client.store) == before


@pytest.mark.parametrize(
    "action", ["--list", "--create --topic n --partitions 1 --replication-factor 1"]
)
def test_if_exists_is_for_topics_that_are_named(action: str) -> None:
    result = run(cluster()[0], f"{action} --if-exists")
    option = action.split()[0].removeprefix("--")
    said = f'Option "[if-exists]" can\'t be used with option "[{option}]"'
    assert (result.stdout, result.stderr.splitlines()[0], result.exit_code) == ("", said, 1)


def test_create_places_replicas_and_reports_them() -> None:
    server, client = cluster()
    line = "--create --topic n --partitions 3 --replication-factor 2"
    result = run(server, line)
    assert (result.stdout, result.exit_code) == ("Created topic n.\n", 0)
    [made] = result.report["topics"]
    assert (made["topic"], made["created"]) == ("n", True)
    stored = client.get_topic_assignments(["n"]).values["n"].assignment
    assert {str(tp.partition): found.replicas for tp, found in stored.items()} == made["replicas"]
    assert all(sorted(ids) == [0, 1] for ids in made["replicas"].values())
    again = run(server, f"{line} --if-not-exists")
    assert (again.stdout, again.exit_code) == ("", 0)
    assert again.report["topics"] == [{"topic": "n", "created": False}]


def test_the_limit_of_a_request_counts_only_the_partitions_that_are_added() -> None:
    _, client = cluster()
    limits = PartitionLimits(per_request=2)
    admin = TopicAdmin(client, JavaRandom(0), limits=limits)
    existing = admin.existing_assignment("a")
    with pytest.raises(PolicyViolation, match="adds 3 partitions"):
        admin.add_partitions("a", existing, 4)
    admin.add_partitions("a", existing, 3)
    assert len(admin.existing_assignment("a")) == 3


def test_a_topic_is_marked_for_deletion_once() -> None:
    server, client = cluster()
    first = run(server, "--delete --topic b")
    again = run(server, "--delete --topic b")
    assert first.stdout == (
        "Topic b is marked for deletion.\n"
        "Note: This will have no impact if delete.topic.enable is not set to true.\n"
    )
    assert again.stdout == "Topic b is already marked for deletion.\n"
    assert [result.report["topics"] for result in (first, again)] == [
        [{"topic": "b", "newly_marked": True}],
        [{"topic": "b", "newly_marked": False}],
    ]
    assert client.get_topic_deletions() == ["b"]


def test_a_message_format_is_warned_about() -> None:
    server, client = cluster()
    line = "--create --topic n --partitions 1 --replication-factor 1 --config"
    result = run(server, f"{line} message.format.version=2.7")
    [warning] = result.report["warnings"]
    assert warning.startswith("WARNING: The configuration message.format.version=2.7 is specified.")
    assert result.stdout.splitlines() == [warning, "Created topic n."]
    assert client.get_entity_configs("topics", "n") == {"message.format.version": "2.7"}


def test_internal_topics_are_kept_from_harm() -> None:
    server, client = cluster()
    put(client, "/brokers/topics/__consumer_offsets", {"version": 1, "partitions": {"0": [1]}})
    refused = "Topic __consumer_offsets is a kafka internal topic and is not allowed to be marked "
    deleted = run(server, "--delete --topic __consumer_offsets")
    assert refused in deleted.stdout
    grown = run(server, "--alter --topic __consumer_offsets --partitions 2")
    assert "internal topic __consumer_offsets cannot be changed." in grown.stdout
    assert (deleted.exit_code, grown.exit_code) == (1, 1)
    listed = run(server, "--list --exclude-internal").stdout.split()
    assert run(server, "--list").stdout.split() == ["__consumer_offsets", *listed]
    assert {"a", "b"} <= {*listed}


def test_a_new_config_is_announced_and_merged() -> None:
    server, client = cluster()
    result = run(server, "--alter --topic b --config flush.ms=1 --delete-config retention.ms")
    assert result.exit_code == 0
    assert client.get_entity_configs("topics", "b") == {"flush.ms": "1"}
    [name] = client.get_children("/config/changes")
    notification = client.get_data_and_stat(f"/config/changes/{name}")
    assert notification is not None and b'"topics/b"' in (notification[0] or b"")
    assert result.report["warnings"][0].startswith("WARNING: Altering topic configuration")


def test_usage_goes_to_standard_error() -> None:
    result = run_topic_command(["--list", "--create"], services(memory_server()))
    first, *usage = result.stderr.splitlines()
    assert first.startswith("Command must include exactly one action: ")
    assert usage[0].startswith("Option ")
    assert (result.stdout, result.exit_code, result.report["exit_code"]) == ("", 1, 2)


@pytest.mark.parametrize(
    ("args", "java"),
    [
        ("-nope", "joptsimple.UnrecognizedOptionException: n is not a recognized option"),
        ("--nope", "joptsimple.UnrecognizedOptionException: nope is not a recognized option"),
        ("---nope", "joptsimple.UnrecognizedOptionException: -nope is not a recognized option"),
        (
            "--topic",
            "joptsimple.OptionMissingRequiredArgumentException: Option topic requires an argument",
        ),
        (
            "--list --zookeeper a --zookeeper b",
            "joptsimple.MultipleArgumentsForOptionException: Found multiple arguments for option "
            "zookeeper, but you asked for only one",
        ),
        (
            "--list --bootstrap-server a:1 --bootstrap-server b:1",
            "joptsimple.MultipleArgumentsForOptionException: Found multiple arguments for option "
            "bootstrap-server, but you asked for only one",
        ),
        (
            "--list --bootstrap-server a:1 --bootstrap-server b:1 --command-config no/such/file",
            "java.nio.file.NoSuchFileException: no/such/file",
        ),
    ],
)
def test_an_uncaught_exception_of_java_is_shown_in_one_line(args: str, java: str) -> None:
    result = run_topic_command(args.split(), services(memory_server()))
    assert result.stderr == f'Exception in thread "main" {java}\n'
    assert (result.stdout, result.exit_code) == ("", 1)


def test_version_prints_that_of_kafka() -> None:
    result = run_topic_command(["--version"], services(memory_server()))
    assert (result.stdout, result.exit_code) == ("2.8.2 (Commit:3146c6ff4a24cc24)\n", 0)


def test_an_address_that_cannot_be_opened_is_not_the_tools_error() -> None:
    with pytest.raises(UsageError, match="nothing at x:1"):
        run_topic_command(["--list", "--bootstrap-server", "x:1"], services(memory_server()))
