"""Every znode case that the Kafka 2.8.2 jars answered: paths, bytes, values, errors."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from klamm.cluster.types import Broker, EndPoint, LeaderAndIsr, ReplicaAssignment, TopicPartition
from klamm.zk import znodes
from klamm.zk.znodes import MalformedZNode, UnparsableJson, VersionRange

Case = dict[str, Any]
DATA = Path(__file__).parents[2] / "data" / "znodes" / "znodes.jsonl"
CASES: list[Case] = [json.loads(line) for line in DATA.read_text().splitlines()]
ENCODE = [case for case in CASES if case["op"] == "encode"]
DECODE = [case for case in CASES if case["op"] == "decode"]
PATHS = [case for case in CASES if case["op"] == "path"]
TEXTS_OF_KAFKA = (
    "Expected ",
    "No such field",
    "Config change",
    "Version ",
    "Unsupported",
    "Features map",
    "Malformed status",
    "Unable to",
    "No security protocol",
    "For input string",
    "begin 0",
    "Input string",
    "There is more",
)


def ids(cases: list[Case]) -> list[str]:
    return [f"{i}-{case['node']}-{case.get('text') or ''}"[:60] for i, case in enumerate(cases)]


def assignment(topic: str, given: Case) -> dict[TopicPartition, ReplicaAssignment]:
    return {
        TopicPartition(topic, int(p)): ReplicaAssignment(
            tuple(lists["replicas"]), tuple(lists["adding"]), tuple(lists["removing"])
        )
        for p, lists in given.items()
    }


def partitions(items: list[Case]) -> list[TopicPartition]:
    return [TopicPartition(item["topic"], item["partition"]) for item in items]


def broker_info(given: Case) -> znodes.BrokerInfo:
    end_points = tuple(
        EndPoint(e["host"] or "", e["port"], e["listener"], e["security_protocol"])
        for e in given["endpoints"]
    )
    features = {
        name: VersionRange(v["min_version"], v["max_version"])
        for name, v in given["features"].items()
    }
    broker = Broker(given["id"], end_points, given["rack"])
    return znodes.BrokerInfo(broker, given["version"], given["jmx_port"], features)


def feature(given: Case) -> znodes.FeatureZNode:
    return znodes.FeatureZNode(
        znodes.FeatureZNodeStatus(given["status"]),
        {
            name: VersionRange(v["min_version_level"], v["max_version_level"])
            for name, v in given["features"].items()
        },
    )


def state_bytes(given: Case) -> bytes:
    state = LeaderAndIsr(given["leader"], given["leader_epoch"], tuple(given["isr"]))
    return znodes.TopicPartitionStateZNode.encode(state, given["controller_epoch"])


ENCODERS: dict[str, Callable[[Case], bytes]] = {
    "BrokerIdZNode": lambda g: znodes.BrokerIdZNode.encode(broker_info(g), int(g["timestamp"])),
    "TopicZNode": lambda g: znodes.TopicZNode.encode(
        g["topic_id"], assignment("t", g["assignment"])
    ),
    "TopicPartitionStateZNode": state_bytes,
    "ControllerZNode": lambda g: znodes.ControllerZNode.encode(g["broker_id"], int(g["timestamp"])),
    "ControllerEpochZNode": lambda g: znodes.ControllerEpochZNode.encode(g["epoch"]),
    "ClusterIdZNode": lambda g: znodes.ClusterIdZNode.encode(g["id"]),
    "FeatureZNode": lambda g: feature(g).encode(),
    "ConfigEntityZNode": lambda g: znodes.ConfigEntityZNode.encode(g["config"]),
    "ConfigEntityChangeNotificationSequenceZNode": lambda g: (
        znodes.ConfigEntityChangeNotificationSequenceZNode.encode(g["entity_path"])
    ),
    "IsrChangeNotificationSequenceZNode": lambda g: (
        znodes.IsrChangeNotificationSequenceZNode.encode(partitions(g["partitions"]))
    ),
    "LogDirEventNotificationSequenceZNode": lambda g: (
        znodes.LogDirEventNotificationSequenceZNode.encode(g["broker"])
    ),
    "PreferredReplicaElectionZNode": lambda g: znodes.PreferredReplicaElectionZNode.encode(
        partitions(g["partitions"])
    ),
    "ReassignPartitionsZNode": lambda g: znodes.ReassignPartitionsZNode.encode(
        dict(
            zip(
                partitions(g["partitions"]),
                [item["replicas"] for item in g["partitions"]],
                strict=True,
            )
        )
    ),
}


@pytest.mark.parametrize("case", ENCODE, ids=ids(ENCODE))
def test_encode_writes_what_kafka_writes(case: Case) -> None:
    written = ENCODERS[case["node"]](case["input"]).decode()
    assert json.loads(written) == json.loads(case["text"])
    # The order of Scala's maps of more than a few partitions or features is not klamm's.
    if case["node"] not in ("TopicZNode", "FeatureZNode"):
        assert written == case["text"]


def decode_state(case: Case, data: bytes | None) -> Case | None:
    decoded = znodes.TopicPartitionStateZNode.decode(data, case["stat_version"])
    if decoded is None:
        return None
    state = decoded.leader_and_isr
    return {
        "leader": state.leader,
        "leader_epoch": state.leader_epoch,
        "isr": list(state.isr),
        "zk_version": state.zk_version,
        "controller_epoch": decoded.controller_epoch,
        "text": str(decoded),
    }


def decode_topic(case: Case, data: bytes | None) -> Case:
    decoded = znodes.TopicZNode.decode(case["topic"], data)
    return {
        "topic_id": decoded.topic_id,
        "assignment": {
            str(tp.partition): {
                "replicas": list(r.replicas),
                "adding": list(r.adding_replicas),
                "removing": list(r.removing_replicas),
            }
            for tp, r in decoded.assignment.items()
        },
    }


def decode_broker(case: Case, data: bytes | None) -> Case:
    info = znodes.BrokerIdZNode.decode(case["id"], data)
    return {
        "id": info.broker.id,
        "version": info.version,
        "jmx_port": info.jmx_port,
        "endpoints": [
            {
                "host": e.host or None,
                "port": e.port,
                "listener": e.listener_name,
                "security_protocol": e.security_protocol,
            }
            for e in info.broker.end_points
        ],
        "rack": info.broker.rack,
        "features": {
            name: {"min_version": v.min, "max_version": v.max} for name, v in info.features.items()
        },
        "text": case["result"]["text"] if "result" in case else None,
    }


def decode_feature(_case: Case, data: bytes | None) -> Case:
    decoded = znodes.FeatureZNode.decode(data)
    return {
        "status": int(decoded.status),
        "status_name": decoded.status.name.capitalize(),
        "features": {
            name: {"min_version_level": v.min, "max_version_level": v.max}
            for name, v in decoded.features.items()
        },
    }


def decode_reassignment(case: Case, data: bytes | None) -> Case:
    try:
        decoded = znodes.ReassignPartitionsZNode.decode(data)
    except UnparsableJson:
        return {"left": case["result"]["left"]}
    return {
        "right": [
            {"topic": tp.topic or None, "partition": tp.partition, "replicas": list(replicas)}
            for tp, replicas in decoded.items()
        ]
    }


def decode_partition_list(_case: Case, data: bytes | None) -> list[Case]:
    decoded = znodes.PreferredReplicaElectionZNode.decode(data)
    return [{"topic": tp.topic, "partition": tp.partition} for tp in sorted(decoded)]


def decode_config_change(_case: Case, data: bytes | None) -> list[Case]:
    change = znodes.ConfigEntityChangeNotificationSequenceZNode.decode(data)
    if change is None:
        return []
    return [
        {
            "handler": change.entity_type,
            "entity": change.entity_name,
            "config_read_from": f"{change.entity_type}|{change.entity_name}",
        }
    ]


DECODERS: dict[str, Callable[[Case, bytes | None], Any]] = {
    "BrokerIdZNode": decode_broker,
    "TopicZNode": decode_topic,
    "TopicPartitionStateZNode": decode_state,
    "ControllerZNode": lambda _, data: znodes.ControllerZNode.decode(data),
    "ControllerEpochZNode": lambda _, data: znodes.ControllerEpochZNode.decode(data),
    "ClusterIdZNode": lambda _, data: znodes.ClusterIdZNode.decode(data),
    "FeatureZNode": decode_feature,
    "ConfigEntityZNode": lambda _, data: znodes.ConfigEntityZNode.decode(data),
    "ConfigEntityChangeNotification(processNotification)": decode_config_change,
    "IsrChangeNotificationSequenceZNode": decode_partition_list,
    "PreferredReplicaElectionZNode": decode_partition_list,
    "LogDirEventNotificationSequenceZNode": lambda _, data: (
        znodes.LogDirEventNotificationSequenceZNode.decode(data)
    ),
    "ReassignPartitionsZNode": decode_reassignment,
}


@pytest.mark.parametrize("case", DECODE, ids=ids(DECODE))
def test_decode_reads_what_kafka_reads(case: Case) -> None:
    data = None if case["text"] is None else case["text"].encode()
    decode = DECODERS[case["node"]]
    if "error" not in case:
        assert decode(case, data) == case["result"]
        return
    with pytest.raises(MalformedZNode) as raised:
        decode(case, data)
    assert raised.value.kafka_class == case["error"]["class"]
    if case["error"]["message"].startswith(TEXTS_OF_KAFKA):
        assert raised.value.reason == case["error"]["message"]


def path_of(case: Case) -> str:
    given = case["input"]
    match case["node"]:
        case "BrokerIdZNode":
            return znodes.BrokerIdZNode.path(given["id"])
        case "TopicPartitionZNode":
            return znodes.TopicPartitionZNode.path(
                TopicPartition(given["topic"], given["partition"])
            )
        case "ConfigEntityZNode":
            return znodes.ConfigEntityZNode.path(given["entity_type"], given["entity_name"])
        case "IsrChangeNotificationSequenceZNode":
            return znodes.IsrChangeNotificationSequenceZNode.path(given["sequence"])
        case "LogDirEventNotificationSequenceZNode":
            return znodes.LogDirEventNotificationSequenceZNode.path(given["sequence"])
    raise AssertionError(f"no path for {case['node']}")


@pytest.mark.parametrize("case", PATHS, ids=ids(PATHS))
def test_paths_of_znodes_are_those_of_kafka(case: Case) -> None:
    assert path_of(case) == case["path"]
