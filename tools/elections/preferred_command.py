"""Runs the tool kafka-preferred-replica-election.

With ``--zookeeper``, the tool writes /admin/preferred_replica_election, and the controller carries
out the election. Mirrors kafka.admin.PreferredReplicaLeaderElectionCommand.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Final

from klamm.admin.topics import read_assignments
from klamm.admin.zookeeper_admin import ZooKeeperAdmin
from klamm.cluster.errors import (
    AdminCommandFailed,
    AdminOperationError,
    EnvironmentProblem,
    KlammError,
    NotKlamm,
)
from klamm.cluster.jvm.java_maps import children_order
from klamm.cluster.jvm.scala_sets import (
    SMALL_SET,
    hash_set_order,
    immutable_order,
    topic_partition_hash,
)
from klamm.cluster.types import ElectionType, TopicPartition
from klamm.tools.command_result import CommandResult
from klamm.tools.elections.elections import ElectionTexts, parse_election_data, run_election
from klamm.tools.jopt import (
    OptionParser,
    Options,
    UncaughtException,
    UsageExit,
)
from klamm.tools.tool_output import (
    ZOOKEEPER_WARNING,
    KafkaTool,
    ToolOutput,
    check_properties_file,
    read_file,
    uncaught_text,
)
from klamm.tools.tool_services import ToolServices
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.store import GetChildren
from klamm.zk.znodes import TopicPartitionsZNode

PARSER: Final = OptionParser(
    "kafka-preferred-replica-election",
    "This tool helps to causes leadership for each partition to be transferred back to the "
    "'preferred replica', it can be used to balance leadership among the servers.",
    with_value=("path-to-json-file", "zookeeper", "bootstrap-server", "admin.config"),
    flags=(),
)
TIMEOUT_MS: Final = 60_000
_DEPRECATED: Final = (
    "This tool is deprecated. Please use kafka-leader-election tool. Tracking issue: KAFKA-8405"
)
_TEXTS: Final = ElectionTexts(
    succeeded="Successfully completed preferred leader election for partitions",
    noop="Preferred replica already elected for partitions",
    failed="Error completing preferred leader election for partition",
    exception="preferred replica(s) could not be elected",
)


def _run(output: ToolOutput, args: Sequence[str], services: ToolServices) -> CommandResult:
    """Run kafka-preferred-replica-election and return its output and exit code.

    Raises an error if no connection can be established, and NotKlamm if klamm must not write to
    this ZooKeeper. For any other error, the result has the error message of Kafka's tool.
    """
    output.println(_DEPRECATED)
    options = PARSER.parse(args)
    _check(options)
    file = options.text("path-to-json-file")
    partitions = None if file is None else _read(file)
    check_properties_file(options.text("admin.config"))
    if options.has("zookeeper"):
        output.println(*ZOOKEEPER_WARNING)
    zookeeper, server = options.text("zookeeper"), options.text("bootstrap-server")
    with services.connected(zookeeper, server, writes=True) as found:
        if not isinstance(found, ZooKeeperAdmin):
            kind = ElectionType.PREFERRED
            return run_election(found, kind, partitions, TIMEOUT_MS, _TEXTS, output)
        try:
            _write_znode(found.client, partitions, output)
        except (EnvironmentProblem, NotKlamm):
            raise
        except KlammError as error:
            failed = AdminCommandFailed("Admin command failed")
            failed.__cause__ = error
            return output.failed(error, uncaught_text(failed))
    return output.succeeded()


run_preferred_election_command: Final = KafkaTool(PARSER, _run)


def _check(options: Options) -> None:
    if options.has("admin.config") and not options.has("bootstrap-server"):
        raise UncaughtException(
            "joptsimple.UnavailableOptionException",
            "Option(s) [admin.config] are unavailable given other options on the command line",
        )
    if options.has("bootstrap-server") == options.has("zookeeper"):
        raise UsageExit("Exactly one of '[bootstrap-server]' or '[zookeeper]' must be provided")


def _read(file: str) -> list[TopicPartition]:
    what = "Preferred replica election data"
    return parse_election_data(read_file(file), what, f"{what} is empty")


def _write_znode(
    client: KafkaZkClient, wanted: list[TopicPartition] | None, output: ToolOutput
) -> None:
    if wanted is None:
        valid, invalid = _all_partitions(client), list[TopicPartition]()
    else:
        valid, invalid = _existing(client, wanted)
    if not client.create_preferred_replica_election(valid):
        running = ",".join(map(str, client.get_preferred_replica_election()))
        raise AdminOperationError(
            "Preferred replica leader election currently in progress for "
            f"{running}. Aborting operation"
        )
    shown = "Set" if len(valid) + len(invalid) <= SMALL_SET else "HashSet"
    output.println(
        f"Created preferred replica election path with {','.join(map(str, valid))}",
        "Successfully started preferred replica election for partitions "
        f"{shown}({', '.join(map(str, valid))})",
        *(
            f"Skipping preferred replica leader election for partition {tp} since it doesn't exist."
            for tp in invalid
        ),
    )
    output.report["started"] = [tp._asdict() for tp in sorted(valid)]
    output.report["skipped"] = [tp._asdict() for tp in sorted(invalid)]


def _existing(
    client: KafkaZkClient, wanted: list[TopicPartition]
) -> tuple[list[TopicPartition], list[TopicPartition]]:
    """Split ``wanted`` into existing and missing partitions, in the order of Scala's sets."""
    ordered = immutable_order(wanted, topic_partition_hash)
    there = read_assignments(client, list(dict.fromkeys(tp.topic for tp in ordered)))
    valid = [tp for tp in ordered if tp in there]
    invalid = [tp for tp in ordered if tp not in there]
    if len(ordered) <= SMALL_SET:
        return valid, invalid
    hashed = partial(hash_set_order, hash_of=topic_partition_hash)
    return hashed(valid), hashed(invalid)


def _all_partitions(client: KafkaZkClient) -> list[TopicPartition]:
    """Return every partition that has its own znode, in the order of Scala's sets."""
    topics = children_order(client.get_all_topics_in_cluster())
    results = client.read([GetChildren(TopicPartitionsZNode.path(topic)) for topic in topics])
    found = [
        TopicPartition(topic, int(name))
        for topic, result in zip(topics, results, strict=True)
        for name in children_order(sorted(result.children or ()))
    ]
    return immutable_order(found, topic_partition_hash)
