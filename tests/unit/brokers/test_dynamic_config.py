"""Brokers follow /config/changes: new notices are handled, old ones deleted, odd ones set apart."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from klamm.brokers.dynamic_config import CHANGE_EXPIRATION_MS, ConfigValues, DynamicConfigManager
from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.memory_store import MemoryServer, MemoryStore
from klamm.zk.store import ReadOp, ReadResult, Transaction
from tests.unit.brokers.network import ManualClock

UNCLEAN = "unclean.leader.election.enable"
CHANGES = "/config/changes"


class Follower:
    """The dynamic config of broker 1, who may have heard of notices before."""

    def __init__(self, static: bool = False, quirks: Quirks = NO_QUIRKS) -> None:
        self.clock = ManualClock()
        self.server = MemoryServer(self.clock)
        self.admin = KafkaZkClient(MemoryStore(self.server))
        self.admin.create_top_level_paths()
        self.told: list[str | None] = []
        self.store = MemoryStore(self.server)
        self.manager = DynamicConfigManager(
            1, KafkaZkClient(self.store), self.clock, static, quirks
        )
        self.manager.on_unclean_election_enabled = self.told.append

    def alter(self, entity_type: str, name: str, config: dict[str, str]) -> None:
        """Change a config as the tool does, and let the broker hear of it."""
        self.admin.set_or_create_entity_configs(entity_type, name, config)
        self.admin.create_config_change_notification(f"{entity_type}/{name}")
        self.manager.process_notifications()

    def leave(self, data: bytes | None, name: str = "config_change_0000000000") -> None:
        """Put something into /config/changes by hand, and let the broker hear of it."""
        self.admin.create(f"{CHANGES}/{name}", data)
        self.manager.process_notifications()

    @property
    def is_unclean(self) -> bool:
        return self.manager.config.unclean_leader_election_enable


@pytest.fixture
def follower() -> Follower:
    return Follower()


@pytest.mark.parametrize(
    ("value", "is_told"),
    [("true", True), ("TRUE", True), (" true", False), ("false", False), ("yes", False)],
)
def test_a_topic_that_allows_unclean_elections_is_reported(
    follower: Follower, value: str, is_told: bool
) -> None:
    follower.alter("topics", "t", {UNCLEAN: value, "leader.replication.throttled.replicas": "*"})
    assert follower.told == (["t"] if is_told else [])
    assert not follower.is_unclean


def test_every_notification_is_handled_once_and_in_order(follower: Follower) -> None:
    for topic in ("b", "a", "b"):
        follower.admin.set_or_create_entity_configs("topics", topic, {UNCLEAN: "true"})
        follower.admin.create_config_change_notification(f"topics/{topic}")
    for _ in range(2):
        follower.manager.process_notifications()
        assert follower.told == ["b", "a", "b"]
    follower.alter("topics", "c", {UNCLEAN: "true"})
    assert follower.told == ["b", "a", "b", "c"]
    assert follower.manager.malformed == {}


def test_a_notification_of_version_1_is_handled(follower: Follower) -> None:
    follower.admin.set_or_create_entity_configs("topics", "t", {UNCLEAN: "true"})
    follower.leave(b'{"version":1,"entity_type":"topics","entity_name":"t"}')
    assert follower.told == ["t"]


def test_the_brokers_own_config_goes_before_the_default_and_that_before_the_static_one(
    follower: Follower, caplog: pytest.LogCaptureFixture
) -> None:
    follower.alter("brokers", "<default>", {UNCLEAN: "true"})
    assert (follower.is_unclean, follower.told) == (True, [None])
    # Enabled already: nothing is told again.
    follower.alter("brokers", "1", {UNCLEAN: "true", "leader.replication.throttled.rate": "5"})
    assert (follower.is_unclean, follower.told) == (True, [None])
    assert follower.manager.config.overrides["leader.replication.throttled.rate"] == "5"
    follower.alter("brokers", "1", {UNCLEAN: "false"})
    assert not follower.is_unclean
    follower.alter("brokers", "1", {})
    assert (follower.is_unclean, follower.told) == (True, [None, None])
    assert caplog.messages == []
    follower.alter("brokers", "<default>", {UNCLEAN: "maybe"})
    assert not follower.is_unclean
    assert caplog.messages == [
        "broker 1: ignoring configs of brokers/<default> that are invalid or not dynamic: "
        f"{UNCLEAN}"
    ]


def test_a_change_of_the_brokers_own_config_notifies_its_readers(follower: Follower) -> None:
    told: list[tuple[ConfigValues, ConfigValues]] = []
    follower.manager.on_own_config = lambda own, default: told.append((dict(own), dict(default)))
    follower.alter("brokers", "<default>", {"leader.replication.throttled.rate": "5"})
    follower.alter("brokers", "1", {"leader.replication.throttled.rate": "7"})
    follower.alter("brokers", "2", {"leader.replication.throttled.rate": "9"})
    rates = [{"leader.replication.throttled.rate": rate} for rate in ("5", "7")]
    assert told == [({}, rates[0]), (rates[1], rates[0])]


def test_a_topic_config_that_an_ended_session_could_not_read_is_reported_in_the_next_one(
    follower: Follower,
) -> None:
    told: list[tuple[str, ConfigValues]] = []
    follower.manager.on_topic_config = lambda topic, config: told.append((topic, config))
    follower.admin.set_or_create_entity_configs("topics", "t", {"retention.ms": "7"})
    follower.server.expire_session(follower.store.session_id)
    assert follower.manager.topic_configs(["t"]) == {"t": {}}
    follower.manager.process_notifications()
    assert told == []
    follower.store.reopen()
    for _ in range(2):
        follower.manager.process_notifications()
        assert told == [("t", {"retention.ms": "7"})]


def test_other_brokers_configs_are_no_business_of_this_one(follower: Follower) -> None:
    follower.alter("brokers", "2", {UNCLEAN: "true"})
    assert (follower.is_unclean, follower.told) == (False, [])


def test_a_broker_reads_its_config_before_it_hears_of_changes() -> None:
    follower = Follower(static=True)
    assert follower.is_unclean
    follower.admin.set_or_create_entity_configs("brokers", "<default>", {UNCLEAN: "true"})
    follower.admin.set_or_create_entity_configs("brokers", "1", {UNCLEAN: "false"})
    follower.manager.initialize()
    assert not follower.is_unclean


@pytest.mark.parametrize("data", [b'{"version":1,"config":{"%s":1}}' % UNCLEAN.encode(), b"["])
def test_an_unreadable_config_of_a_broker_keeps_no_broker_from_starting(
    follower: Follower, data: bytes
) -> None:
    follower.admin.create_recursive("/config/brokers/1", data)
    follower.admin.set_or_create_entity_configs("brokers", "<default>", {UNCLEAN: "true"})
    follower.manager.initialize()
    assert follower.is_unclean
    assert list(follower.manager.malformed) == (["/config/brokers/1"] if data != b"[" else [])
    follower.alter("brokers", "1", {UNCLEAN: "false"})
    assert not follower.is_unclean
    assert follower.manager.malformed == {}


MALFORMED = [
    None,
    b"",
    b"no json",
    b"[]",
    b"{}",
    b'{"version":3}',
    b'{"version":"2","entity_path":"topics/t"}',
    b'{"version":1,"entity_type":"brokers","entity_name":"1"}',
    b'{"version":1,"entity_type":"topics"}',
    b'{"version":2}',
    b'{"version":2,"entity_path":"topics"}',
    b'{"version":2,"entity_path":"nothing/t"}',
    b'{"version":2,"entity_path":"brokers/one"}',
]


@pytest.mark.parametrize("data", MALFORMED)
def test_a_malformed_notification_is_quarantined(
    follower: Follower, data: bytes | None, caplog: pytest.LogCaptureFixture
) -> None:
    follower.leave(data)
    path = f"{CHANGES}/config_change_0000000000"
    assert list(follower.manager.malformed) == [path]
    assert path in caplog.text
    follower.alter("topics", "t", {UNCLEAN: "true"})
    assert follower.told == ["t"]
    assert list(follower.manager.malformed) == [path]
    # It goes when it is old, like any other.
    follower.clock.time_ms += CHANGE_EXPIRATION_MS + 1
    follower.alter("topics", "t", {})
    assert follower.admin.get_children(CHANGES) == ["config_change_0000000002"]
    follower.manager.process_notifications()
    assert follower.manager.malformed == {}


@pytest.mark.parametrize("path", ["topics/", "topics//t", "topics/../t", "users/u/clients/c"])
def test_notifications_of_impossible_entities_are_skipped(follower: Follower, path: str) -> None:
    follower.leave(b'{"version":2,"entity_path":"%s"}' % path.encode())
    follower.alter("topics", "t", {UNCLEAN: "true"})
    assert follower.told == ["t"]
    assert follower.manager.malformed == {}


def test_a_malformed_config_is_quarantined(follower: Follower) -> None:
    follower.admin.create_recursive("/config/topics/t", b'{"config":{"a":1}}')
    follower.admin.create_config_change_notification("topics/t")
    for told in (["u"], ["u", "u"]):
        follower.alter("topics", "u", {UNCLEAN: "true"})
        assert follower.told == told
        assert list(follower.manager.malformed) == ["/config/topics/t"]
    follower.alter("topics", "t", {UNCLEAN: "true"})
    assert follower.told == ["u", "u", "t"]
    assert follower.manager.malformed == {}


@pytest.mark.parametrize("name", ["x", "config_change_", "a_znode_that_is_no_notice", "zzz"])
def test_a_znode_that_is_no_notification_is_ignored(follower: Follower, name: str) -> None:
    follower.leave(b"{}", name)
    assert list(follower.manager.malformed) == [f"{CHANGES}/{name}"]
    follower.alter("topics", "t", {UNCLEAN: "true"})
    assert follower.told == ["t"]
    follower.clock.time_ms += CHANGE_EXPIRATION_MS + 1
    follower.manager.process_notifications()
    assert follower.admin.get_children(CHANGES) == []


def test_with_quirk_c2_a_znode_that_is_no_notification_stops_later_ones() -> None:
    follower = Follower(quirks=Quirks(malformed_znode_fails_the_event=True))
    follower.alter("topics", "t", {UNCLEAN: "true"})
    follower.leave(b"{}", "config_change_0x")
    follower.alter("topics", "u", {UNCLEAN: "true"})
    assert follower.told == ["t", "u"]
    follower.clock.time_ms += CHANGE_EXPIRATION_MS + 1
    follower.manager.process_notifications()
    assert len(follower.admin.get_children(CHANGES)) == 3
    follower.leave(b"{}", "a")
    follower.alter("topics", "v", {UNCLEAN: "true"})
    assert follower.told == ["t", "u"]
    follower.clock.time_ms += CHANGE_EXPIRATION_MS + 1
    follower.manager.process_notifications()
    assert len(follower.admin.get_children(CHANGES)) == 5


def test_with_quirk_c2_a_notification_of_null_is_never_deleted() -> None:
    follower = Follower(quirks=Quirks(malformed_znode_fails_the_event=True))
    follower.leave(None)
    follower.alter("topics", "t", {})
    follower.clock.time_ms += CHANGE_EXPIRATION_MS + 1
    follower.manager.process_notifications()
    assert follower.admin.get_children(CHANGES) == ["config_change_0000000000"]


def test_notifications_are_deleted_after_a_quarter_of_an_hour(follower: Follower) -> None:
    follower.alter("topics", "t", {})
    follower.clock.time_ms += CHANGE_EXPIRATION_MS
    follower.alter("topics", "u", {})
    assert len(follower.admin.get_children(CHANGES)) == 2
    follower.clock.time_ms += 1
    follower.alter("topics", "v", {})
    assert follower.admin.get_children(CHANGES) == [
        "config_change_0000000001",
        "config_change_0000000002",
    ]


def test_a_notification_that_another_broker_deletes_meanwhile_is_no_failure(
    follower: Follower,
) -> None:
    for topic in ("t", "u"):
        follower.admin.set_or_create_entity_configs("topics", topic, {UNCLEAN: "true"})
        follower.admin.create_config_change_notification(f"topics/{topic}")

    def before_op(_: int, op: ReadOp | Transaction) -> None:
        if not isinstance(op, list | tuple) and op.path.endswith("0"):
            follower.server.before_op = None
            follower.admin.delete(f"{CHANGES}/config_change_0000000000")

    follower.server.before_op = before_op
    follower.manager.process_notifications()
    assert follower.told == ["u"]


def test_notifications_are_read_in_a_fixed_number_of_batches(follower: Follower) -> None:
    for number in range(50):
        follower.admin.set_or_create_entity_configs("topics", f"t{number}", {UNCLEAN: "true"})
        follower.admin.create_config_change_notification(f"topics/t{number}")
    reads: list[int] = []
    store = follower.manager._zk.store
    read = store.read

    def counted(ops: Sequence[ReadOp]) -> list[ReadResult]:
        reads.append(len(ops))
        return read(ops)

    store.read = counted
    follower.manager.process_notifications()
    assert len(follower.told) == 50
    assert reads == [1, 50, 50]
    follower.manager.process_notifications()
    assert sum(reads[3:]) == 1
