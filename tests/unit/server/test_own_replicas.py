"""Replicas on the broker of klamm controller run: how they are counted, and the warnings."""

from __future__ import annotations

from pathlib import Path

import pytest
from msgspec.structs import replace

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cli.controller import _ReplicaWarnings
from klamm.cluster.errors import UsageError
from klamm.cluster.types import Broker, EndPoint, TopicPartition
from klamm.server.controller_server import ControllerServerConfig
from klamm.server.kafka_cluster import JoinedCluster, OwnReplicas, own_replicas, secured
from tests.unit.brokers.network import cached, update_metadata

WHERE = "warning: broker 9 is this controller, which stores nothing: "
ADVICE = (
    "hint: move these replicas to other brokers: klamm reassign-partitions --zookeeper zk:1 "
    "--execute --reassignment-json-file FILE, or kafka-reassign-partitions\n"
)
UNCLEAN = (
    "hint: the partitions without another replica then need a leader: kafka-leader-election "
    "--election-type UNCLEAN loses nothing, because nothing was stored\n"
)


def test_partitions_with_a_replica_are_counted_by_topic() -> None:
    cache = MetadataCache()
    replicas = {"b": [(9,), (1, 9), (1, 2)], "a": [(9, 1)], "c": [(1,)]}
    for topic, lists in replicas.items():
        states = [
            replace(cached(TopicPartition(topic, number)), replicas=ids)
            for number, ids in enumerate(lists)
        ]
        cache.update(update_metadata(*states))
    found = own_replicas(9, cache)
    assert found == [OwnReplicas("a", 1, 1, 0), OwnReplicas("b", 2, 3, 1)]
    assert [one.text for one in found] == [
        "1 of 1 partition of topic a has a replica there",
        "2 of 3 partitions of topic b have a replica there, 1 of them no other, and so no leader",
    ]
    assert own_replicas(5, cache) == []


@pytest.fixture
def warnings() -> _ReplicaWarnings:
    return _ReplicaWarnings(
        ControllerServerConfig(
            zookeeper="zk:1",
            listeners=(EndPoint("h", 1),),
            broker_id=9,
            data_dir=Path(),
            session_timeout_ms=6000,
        )
    )


def test_each_topic_is_warned_of_once(
    warnings: _ReplicaWarnings, capsys: pytest.CaptureFixture[str]
) -> None:
    def said(*found: OwnReplicas) -> str:
        warnings.show(found)
        out, err = capsys.readouterr()
        assert out == ""
        return err

    a, b = OwnReplicas("a", 1, 1, 0), OwnReplicas("b", 2, 3, 1)
    assert said() == ""
    assert said(a) == f"{WHERE}{a.text}\n{ADVICE}"
    assert said(a) == ""
    assert said(a, b) == f"{WHERE}{b.text}\n{ADVICE}{UNCLEAN}"
    assert said(b) == ""
    assert said(a, b) == f"{WHERE}{a.text}\n{ADVICE}"
    warnings.show_left([a, b])
    ends = "warning: broker 9 ends, and stored nothing: "
    assert capsys.readouterr().err == f"{ends}{a.text}\n{ends}{b.text}\n{ADVICE}{UNCLEAN}"


def test_of_many_topics_five_are_named(
    warnings: _ReplicaWarnings, capsys: pytest.CaptureFixture[str]
) -> None:
    warnings.show([OwnReplicas(str(number), 1, 2, 0) for number in range(7)])
    *named, more, _ = capsys.readouterr().err.splitlines()
    assert [line.split("topic ")[1].split()[0] for line in named] == ["0", "1", "2", "3", "4"]
    assert more == f"{WHERE}2 more topics with replicas there"
    warnings.show_left([OwnReplicas(str(number), 1, 2, 0) for number in range(5)])
    assert "more topic" not in capsys.readouterr().err


PLAIN = Broker(1, (EndPoint("h", 1, "A", "SSL"), EndPoint("h", 2, "B")))
OTHER = Broker(2, (EndPoint("g", 1, "A", "SASL_SSL"), EndPoint("g", 2, "B")))


def test_listeners_get_the_protocols_of_the_brokers() -> None:
    wanted = (EndPoint("k", 5, "A"), EndPoint("k", 6, "B"))
    found = secured(wanted, {1: PLAIN})
    assert found == (EndPoint("k", 5, "A", "SSL"), EndPoint("k", 6, "B", "PLAINTEXT"))
    assert secured(wanted[1:], {1: PLAIN, 2: OTHER}) == found[1:]
    assert secured((EndPoint("k", 5, "SASL_SSL"),), {}) == (
        EndPoint("k", 5, "SASL_SSL", "SASL_SSL"),
    )
    joined = JoinedCluster("c", {1: PLAIN, 2: OTHER})
    assert [one.port for one in joined.end_points("A").values()] == [1, 1]
    assert joined.end_points("C") == {}
    assert joined.end_points("B") == {1: EndPoint("h", 2, "B"), 2: EndPoint("g", 2, "B")}


@pytest.mark.parametrize(
    ("name", "brokers", "message"),
    [
        (
            "A",
            {1: PLAIN, 2: OTHER, 3: replace(PLAIN, id=3)},
            "the listener A has several security protocols: SSL on broker 1, SASL_SSL on broker 2",
        ),
        ("A", {}, "the security protocol of the listener A is not known: no broker is registered"),
        ("C", {1: PLAIN}, "broker 1 has no listener C; its listeners: A (SSL), B (PLAINTEXT)"),
    ],
)
def test_a_listener_without_one_known_protocol_is_refused(
    name: str, brokers: dict[int, Broker], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        secured((EndPoint("k", 5, name),), brokers)
    assert refused.value.message == message


@pytest.mark.parametrize(
    ("listeners", "config", "message"),
    [
        ((EndPoint("h", 1), EndPoint("h", 2)), {}, "each --listener must have its own name and"),
        ((EndPoint("h", 1), EndPoint("h", 1, "A")), {}, "each --listener must have its own name"),
        (
            (EndPoint("h", 1),),
            {"control.plane.listener.name": "CTL"},
            "control.plane.listener.name=CTL, but this controller has no such listener",
        ),
    ],
)
def test_contradictory_listeners_are_refused(
    listeners: tuple[EndPoint, ...], config: dict[str, str], message: str
) -> None:
    with pytest.raises(UsageError) as refused:
        ControllerServerConfig(
            zookeeper="zk:1",
            listeners=listeners,
            broker_id=9,
            data_dir=Path(),
            session_timeout_ms=6000,
            config=config,
        )
    assert refused.value.message.startswith(message)
