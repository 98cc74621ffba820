"""Names, checks and texts of topics, as the classes of Kafka 2.8.2 answered them."""

from __future__ import annotations

import pytest

from klamm.admin.topic_description import PartitionDescription, TopicDescription
from klamm.admin.topics import validate_topic_create
from klamm.cluster.errors import AdminError
from klamm.cluster.topic_names import (
    has_collision,
    has_collision_chars,
    is_internal,
    validate_topic_name,
)
from klamm.cluster.types import ReplicaAssignment as Reassignment
from klamm.tools.jopt import UncaughtException, UsageExit
from klamm.tools.tool_output import ToolOutput
from klamm.tools.topics.describe_filter import DescribeFilter
from klamm.tools.topics.options import PARSER, TopicCommandOptions
from tests.unit.tools.vectors import Case, cases


@pytest.mark.parametrize("case", cases("topic_names.jsonl"))
def test_topic_names_are_checked_as_by_kafka(case: Case) -> None:
    if case["kind"] == "collision":
        assert has_collision(case["a"], case["b"]) is case["result"]
        return
    topic = case["topic"]
    assert is_internal(topic) is case["is_internal"]
    assert has_collision_chars(topic) is case["has_collision_chars"]
    if "error" not in case:
        validate_topic_name(topic)
        return
    with pytest.raises(AdminError) as raised:
        validate_topic_name(topic)
    assert raised.value.kafka_class == case["error"]["class"]
    assert raised.value.message == case["error"]["message"]


@pytest.mark.parametrize("case", cases("create_validate.jsonl"))
def test_new_topics_are_validated_as_by_kafka(case: Case) -> None:
    assignment = {int(partition): ids for partition, ids in case["assignment"].items()}
    given = (case["topic"], assignment, case["config"], case["existing_topics"])
    if "error" not in case:
        validate_topic_create(*given)
        return
    with pytest.raises(AdminError) as raised:
        validate_topic_create(*given)
    assert raised.value.kafka_class == case["error"]["class"]
    assert raised.value.message == case["error"]["message"]


@pytest.mark.parametrize("case", cases("cli_args.jsonl"))
def test_the_command_line_is_checked_as_by_kafkas_tool(case: Case) -> None:
    if "result" in case:
        command = TopicCommandOptions(case["args"])
        assert f"--{command.action}" in case["args"]
    elif "error" in case:
        with pytest.raises(UncaughtException) as raised:
            TopicCommandOptions(case["args"])
        assert raised.value.java_class == case["error"]["class"]
        assert raised.value.message == case["error"]["message"]
    else:
        with pytest.raises(UsageExit) as shown:
            TopicCommandOptions(case["args"])
        assert shown.value.message == case["exit_message"]
        ended = ToolOutput().ended_by_arguments(shown.value, PARSER.usage)
        assert ended.exit_code == case["exit_code"]


def partition_of(case: Case) -> PartitionDescription:
    moving = case["reassignment"]
    return PartitionDescription(
        topic=case["topic"],
        partition=case["partition"],
        leader=case["leader"],
        replicas=tuple(case["replicas"]),
        isr=tuple(case["isr"]),
        min_isr=case["min_isr"],
        marked_for_deletion=case["marked_for_deletion"],
        reassignment=moving
        and Reassignment(*(tuple(moving[key]) for key in ("replicas", "adding", "removing"))),
    )


@pytest.mark.parametrize("case", cases("describe_text.jsonl"))
def test_describe_filters_and_prints_as_kafka_does(case: Case) -> None:
    if case["kind"] == "partition":
        partition = partition_of(case)
        assert partition.text == case["text"]
        assert partition.is_under_replicated is case["under_replicated"]
        assert partition.is_under_min_isr is case["under_min_isr"]
        assert partition.is_at_min_isr is case["at_min_isr"]
        assert partition.is_unavailable(case["live_brokers"]) is case["unavailable"]
        for flag, printed in case["printed_with"].items():
            options = PARSER.parse(["--describe", *([flag] if flag else [])])
            shown = DescribeFilter(options, case["live_brokers"])
            assert shown.shows(partition) is printed, flag
        return
    count = case["num_partitions"]
    replicas = tuple(range(case["replication_factor"]))
    topic = TopicDescription(
        topic=case["topic"],
        topic_id=case["topic_id"],
        configs={
            config["name"]: config["value"]
            for config in case["configs"]
            if not config["is_default"]
        },
        partitions=tuple(
            PartitionDescription(case["topic"], number, 0, replicas, replicas)
            for number in range(count)
        ),
        marked_for_deletion=case["marked_for_deletion"],
    )
    assert topic.text == case["text"]
