"""server/dumped_cluster.py: which brokers a dump has, which run, and who leads."""

from __future__ import annotations

import json

import pytest

from klamm.cluster.errors import UsageError
from klamm.cluster.types import EndPoint
from klamm.placement.broker_metadata import MAX_BROKERS
from klamm.server.dumped_cluster import read_dumped_cluster
from klamm.zk.dump import DumpedZNode
from tests.server_configs import server_config

SESSION = "0x1"


def registration(broker_id: int, rack: str | None = None) -> DumpedZNode:
    values = {
        "version": 4,
        "host": f"h{broker_id}",
        "port": 9092,
        "jmx_port": 1234,
        "timestamp": "1",
        "endpoints": [f"PLAINTEXT://h{broker_id}:9092", f"INSIDE://h{broker_id}:9093"],
        "listener_security_protocol_map": {"PLAINTEXT": "PLAINTEXT", "INSIDE": "SASL_SSL"},
    }
    values |= {} if rack is None else {"rack": rack}
    return DumpedZNode(f"/brokers/ids/{broker_id}", json.dumps(values), ephemeral_owner=SESSION)


def topic(name: str, *replicas: list[int], **more: object) -> DumpedZNode:
    values = {"version": 1, "partitions": {str(n): ids for n, ids in enumerate(replicas)}, **more}
    return DumpedZNode(f"/brokers/topics/{name}", json.dumps(values))


def controller(broker_id: int) -> DumpedZNode:
    values = {"version": 1, "brokerid": broker_id, "timestamp": "1"}
    return DumpedZNode("/controller", json.dumps(values), ephemeral_owner=SESSION)


def test_a_dump_shows_running_brokers_dead_brokers_and_the_controller() -> None:
    found = read_dumped_cluster(
        [
            registration(1001, "a"),
            registration(4),
            registration(30, "c"),
            controller(30),
            topic("t", [4, 9], [1001, 4]),
            topic("moving", [30, 5], adding_replicas={"0": [5]}, removing_replicas={"0": []}),
        ],
        "d",
    )
    assert (found.running, found.dead) == ((4, 30, 1001), (5, 9))
    assert found.cluster.broker_ids == (4, 5, 9, 30, 1001)
    assert found.cluster.racks == {1001: "a", 30: "c"}
    assert found.cluster.end_points[4] == (
        EndPoint("h4", 9092),
        EndPoint("h4", 9093, "INSIDE", "SASL_SSL"),
    )
    assert found.cluster.candidates == (30, 4, 1001)
    assert found.notes == ()
    assert [op.path for op in found.plan.creates] == [
        "/brokers",
        "/brokers/topics",
        "/brokers/topics/moving",
        "/brokers/topics/t",
    ]


def test_a_dead_controller_is_not_active() -> None:
    found = read_dumped_cluster([registration(4), registration(5), controller(9)], "d")
    assert found.cluster.candidates == (4, 5)


def test_persistent_registrations_are_left_out_like_ephemeral_ones() -> None:
    persistent = registration(4)
    found = read_dumped_cluster([DumpedZNode(persistent.path, persistent.data, version=1)], "d")
    assert found.running == (4,)
    assert "/brokers/ids/4" not in [op.path for op in found.plan.creates]


def test_klamms_mark_of_the_source_is_not_copied() -> None:
    found = read_dumped_cluster([registration(4), DumpedZNode("/klamm", "{}")], "d")
    assert "/klamm" not in [op.path for op in found.plan.creates]


def test_unreadable_znodes_are_noted() -> None:
    found = read_dumped_cluster(
        [
            registration(4),
            DumpedZNode("/brokers/ids/5", "garbage", ephemeral_owner=SESSION),
            DumpedZNode("/brokers/topics/bad", "[]"),
            topic("t", [-3, 4]),
        ],
        "d",
    )
    assert found.running == (4, 5)
    assert found.dead == ()
    assert 5 not in found.cluster.end_points
    registered, bad, negative = found.notes
    assert "/brokers/ids/5" in registered
    assert "/brokers/topics/bad" in bad
    assert negative == "replicas on broker -3 are ignored: not a valid broker id"


def test_znodes_that_are_left_out_are_noted() -> None:
    found = read_dumped_cluster(
        [
            registration(4),
            DumpedZNode("/config/users", unreadable="NOAUTH"),
            DumpedZNode("/consumers/c/ids/1", "x", ephemeral_owner=SESSION),
        ],
        "d",
    )
    assert found.notes == (
        "/config/users is skipped: the dump could not read it",
        "/consumers/c/ids/1 is skipped: it is ephemeral",
    )


@pytest.mark.parametrize(
    ("given", "kept", "note"),
    [
        ("7", b"7", ()),
        ("8", b"8", ()),
        (
            "6",
            b"7",
            (
                "/controller_epoch is set to 7, the latest controller epoch of a partition state, "
                "instead of 6",
            ),
        ),
        (
            None,
            b"7",
            (
                "/controller_epoch is set to 7, the latest controller epoch of a partition state, "
                "because the dump has none",
            ),
        ),
    ],
)
def test_the_epoch_is_not_before_that_of_a_state(
    given: str | None, kept: bytes, note: tuple[str, ...]
) -> None:
    state = '{"controller_epoch":7,"leader":4,"version":1,"leader_epoch":0,"isr":[4]}'
    znodes = [
        registration(4),
        topic("t", [4], [4]),
        DumpedZNode("/brokers/topics/t/partitions/0/state", state.replace("7", "2")),
        DumpedZNode("/brokers/topics/t/partitions/1/state", state),
    ]
    znodes += [] if given is None else [DumpedZNode("/controller_epoch", given)]
    found = read_dumped_cluster(znodes, "d")
    assert found.notes == note
    (written,) = (op.data for op in found.plan.creates if op.path == "/controller_epoch")
    assert written == kept


def test_a_dump_with_too_many_brokers_is_refused() -> None:
    ids = list(range(MAX_BROKERS))
    found = read_dumped_cluster([registration(4), topic("t", [*ids, MAX_BROKERS])], "d")
    with pytest.raises(UsageError, match=f"{MAX_BROKERS + 1} brokers"):
        server_config(dump=found)


def test_the_spec_of_a_dumped_cluster_has_its_brokers_racks_and_end_points() -> None:
    found = read_dumped_cluster(
        [registration(4, "a"), registration(70_000), controller(70_000), topic("t", [4, 90_000])],
        "d",
    )
    spec = server_config(dump=found).spec("run", "id")
    assert spec.broker_ids == (4, 70_000, 90_000)
    assert spec.candidates == (70_000, 4)
    assert [spec.broker_info(id_).rack for id_ in spec.broker_ids] == ["a", None, None]
    assert [spec.broker_info(id_).end_points[0].host for id_ in spec.broker_ids] == [
        "h4",
        "h70000",
        "localhost",
    ]
    assert spec.broker_info(90_000).end_points[0].port == 9092
