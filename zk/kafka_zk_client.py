"""ZooKeeper client for brokers, tools and the controller: reads and unfenced writes.

If a read of several znodes finds malformed znodes, these are reported separately, and the values
of the other znodes are still returned. The fenced writes of the active controller are in
controller_client.py. Mirrors kafka.zk.KafkaZkClient.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from klamm.cluster.quirks import NO_QUIRKS, Quirks
from klamm.cluster.types import (
    Broker,
    LeaderIsrAndControllerEpoch,
    ReplicaAssignment,
    TopicIdReplicaAssignment,
    TopicPartition,
)
from klamm.zk.store import Create, GetData, ReadResult, ResultCode, SetData, Store, WriteOp
from klamm.zk.znode_client import NodeExists, ZNodeClient, keeper_text, store_error
from klamm.zk.znodes import (
    PERSISTENT_ZK_PATHS,
    BrokerIdsZNode,
    BrokerIdZNode,
    BrokerInfo,
    ClusterIdZNode,
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
    ConfigEntityTypeZNode,
    ConfigEntityZNode,
    ControllerEpochZNode,
    ControllerZNode,
    DeleteTopicsTopicZNode,
    DeleteTopicsZNode,
    IsrChangeNotificationSequenceZNode,
    LogDirEventNotificationSequenceZNode,
    MalformedZNode,
    PreferredReplicaElectionZNode,
    ReassignmentTargets,
    ReassignPartitionsZNode,
    TopicPartitionStateZNode,
    TopicsZNode,
    TopicZNode,
    UnparsableJson,
)
from klamm.zk.znodes.json_values import parse_bytes, parse_int

K = TypeVar("K")
V = TypeVar("V")
NO_SESSION: Final = 0


class RegisteredBroker(msgspec.Struct, frozen=True):
    """A live broker and its broker epoch, which is the czxid of the registration znode."""

    broker: Broker
    epoch: int


class Decoded(msgspec.Struct, Generic[K, V]):
    """Decoded results of a batch of reads, e.g. of topic znodes, keyed by topic.

    A key is in ``values``, or in ``missing`` if it has no znode, or in neither if its znode is
    malformed. ``malformed`` has an error for each such znode, with the ``path`` of the znode.
    """

    values: dict[K, V]
    missing: list[K]
    malformed: list[MalformedZNode]


class KafkaZkClient(ZNodeClient):
    """Client for reads and unfenced writes of Kafka's znodes.

    Read methods with an argument ``watch`` set a one-shot watch if the argument is True. With the
    quirk malformed_znode_fails_the_event, a malformed znode raises MalformedZNode as in Kafka
    2.8.2, and a znode that is not JSON is treated as empty or missing. ``registered_by_session``:
    id of the session in which this client last registered a broker. In a later session, this client
    may replace that registration.
    """

    def __init__(self, store: Store, quirks: Quirks = NO_QUIRKS) -> None:
        super().__init__(store)
        self.quirks = quirks
        self.registered_by_session = NO_SESSION

    # The cluster

    def create_top_level_paths(self) -> None:
        """Create missing top-level znodes with null data, in the same order as a Kafka broker."""
        self.make_sure_persistent_paths_exist(PERSISTENT_ZK_PATHS)

    def get_cluster_id(self) -> str | None:
        """Return the cluster id, or None if no broker has set it yet. Raises MalformedZNode."""
        return self._read_one(ClusterIdZNode.path, ClusterIdZNode.decode)

    def create_or_get_cluster_id(self, proposed: str) -> str:
        """Return the cluster id. If there is none yet, set it to ``proposed``."""
        current = self.get_cluster_id()
        if current is not None:
            return current
        if self.create_recursive(ClusterIdZNode.path, ClusterIdZNode.encode(proposed)):
            return proposed
        current = self.get_cluster_id()
        if current is None:
            raise store_error(ResultCode.NONODE, ClusterIdZNode.path)
        return current

    def get_controller_id(self) -> int | None:
        """Return the broker id in /controller, or None if the znode is missing or not JSON.

        Raises MalformedZNode if the znode is JSON but has no valid broker id.
        """
        return self._read_one(ControllerZNode.path, ControllerZNode.decode)

    def get_controller_epoch(self) -> tuple[int, int] | None:
        """Return (controller epoch, znode version), or None before the first election."""
        path = ControllerEpochZNode.path
        found = self.get_data_and_stat(path)
        if found is None:
            return None
        return decode_at(path, ControllerEpochZNode.decode, found[0]), found[1].version

    # Brokers

    def register_broker(self, info: BrokerInfo, now_ms: int) -> int:
        """Create the ephemeral znode /brokers/ids/N, and return the broker epoch (its czxid).

        One transaction creates the znode with null data and then sets the data. If the reply is
        lost and the znode belongs to this session, the registration has succeeded. A registration
        by an earlier, expired session of this client is replaced. Raises NodeExists if another
        client's session owns the znode.
        """
        path = BrokerIdZNode.path(info.broker.id)
        data = BrokerIdZNode.encode(info, now_ms)
        while True:
            transaction: list[WriteOp] = [
                Create(path, None, ephemeral=True),
                SetData(path, data, 0),
            ]
            result = self.store.write([transaction])[0]
            if result.code is ResultCode.OK:
                self.registered_by_session = self.store.session_id
                return result.results[1].czxid
            if result.code not in (ResultCode.NODEEXISTS, ResultCode.CONNECTIONLOSS):
                raise store_error(result.code, path)
            epoch = self._epoch_after_node_exists(path)
            if epoch is not None:
                return epoch

    def _epoch_after_node_exists(self, path: str) -> int | None:
        """Return the broker epoch if this session owns the registration znode at ``path``.

        Return None if the registration must be tried again, and raise NodeExists if another
        client's session owns the znode.
        """
        found = self.get_data_and_stat(path)
        if found is None:
            return None
        owner = found[1].ephemeral_owner
        session_id = self.store.session_id
        if owner == session_id:
            self.registered_by_session = session_id
            return found[1].czxid
        if owner == self.registered_by_session:
            self.delete(path)
            return None
        raise NodeExists(
            f"Error while creating ephemeral at {path}, node already exists and owner '{owner}' "
            f"does not match current session '{session_id}' "
            f"({keeper_text(ResultCode.NODEEXISTS, path)})",
            hint="another session registered this broker id; wait until that session ends",
        )

    def get_sorted_broker_list(self) -> list[int]:
        """Return the sorted ids of the live brokers. Other children of /brokers/ids are ignored."""
        return self._broker_ids(watch=False)[0]

    def _broker_ids(self, watch: bool) -> tuple[list[int], list[MalformedZNode]]:
        ids: list[int] = []
        malformed: list[MalformedZNode] = []
        for name in self.get_children(BrokerIdsZNode.path, watch):
            try:
                ids.append(parse_int(name))
            except MalformedZNode as error:
                self._quarantine(error, f"{BrokerIdsZNode.path}/{name}", malformed)
        return sorted(ids), malformed

    def get_all_brokers_and_epochs_in_cluster(
        self, watch: bool = False
    ) -> Decoded[int, RegisteredBroker]:
        """Read all live brokers in ascending id order. ``watch`` sets a watch on /brokers/ids."""
        ids, malformed = self._broker_ids(watch)
        found = self.read_each(ids, BrokerIdZNode.path, _decode_broker)
        found.malformed[:0] = malformed
        return found

    def get_broker(self, broker_id: int, watch: bool = False) -> Broker | None:
        """Return a registered broker, or None if it is not registered. Raises MalformedZNode."""
        path = BrokerIdZNode.path(broker_id)
        info = self._read_one(path, lambda data: BrokerIdZNode.decode(broker_id, data), watch)
        return None if info is None else info.broker

    # Topics and partitions

    def get_all_topics_in_cluster(self, watch: bool = False) -> list[str]:
        """Return the sorted topic names. ``watch`` sets a child watch on /brokers/topics."""
        return self.get_children(TopicsZNode.path, watch)

    def topic_exists(self, topic: str) -> bool:
        """Return True if the topic has a znode in /brokers/topics."""
        return self.path_exists(TopicZNode.path(topic))

    def get_topic_assignments(
        self, topics: Sequence[str], watch: bool = False
    ) -> Decoded[str, TopicIdReplicaAssignment]:
        """Read the topic znodes of ``topics``. ``watch`` sets a data watch on every znode."""
        return self.read_each(topics, TopicZNode.path, self._decode_topic, watch)

    def get_topic_ids_for_topics(self, topics: Sequence[str]) -> dict[str, str]:
        """Return the topic ids, keyed by topic name. Topics without an id are omitted."""
        found = self.get_topic_assignments(topics).values
        return {name: topic.topic_id for name, topic in found.items() if topic.topic_id is not None}

    def create_topic_assignment(
        self,
        topic: str,
        topic_id: str | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
    ) -> bool:
        """Create a topic znode. Return False if the znode already exists."""
        return self.create_recursive(
            TopicZNode.path(topic), TopicZNode.encode(topic_id, assignment)
        )

    def set_topic_assignment(
        self,
        topic: str,
        topic_id: str | None,
        assignment: Mapping[TopicPartition, ReplicaAssignment],
    ) -> None:
        """Overwrite a topic znode without checking the controller epoch, as Kafka's tools do.

        Raises StoreError if the znode does not exist.
        """
        path = TopicZNode.path(topic)
        if self.set_data(path, TopicZNode.encode(topic_id, assignment)) is None:
            raise store_error(ResultCode.NONODE, path)

    def get_partition_states(
        self, partitions: Sequence[TopicPartition], watch: bool = False
    ) -> Decoded[TopicPartition, LeaderIsrAndControllerEpoch]:
        """Read the state znodes of ``partitions``. ``watch`` sets a data watch on every znode."""
        return self.read_each(partitions, TopicPartitionStateZNode.path, self._decode_state, watch)

    def _decode_topic(self, topic: str, result: ReadResult) -> TopicIdReplicaAssignment:
        decoded = TopicZNode.decode(topic, result.data)
        if not decoded.assignment and decoded.topic_id is None:
            try:
                parse_bytes(result.data)
            except UnparsableJson:
                self._refuse_not_json()
        return decoded

    def _decode_state(
        self, _: TopicPartition, result: ReadResult
    ) -> LeaderIsrAndControllerEpoch | None:
        assert result.stat is not None
        state = TopicPartitionStateZNode.decode(result.data, result.stat.version)
        if state is None:
            self._refuse_not_json()
        return state

    # Configs

    def get_entity_configs(self, entity_type: str, entity_name: str) -> dict[str, str]:
        """Return the config overrides of an entity, e.g. a topic: {} if it has no config znode.

        Raises MalformedZNode.
        """
        path = ConfigEntityZNode.path(entity_type, entity_name)
        return self._read_one(path, ConfigEntityZNode.decode) or {}

    def get_topic_configs(self, topics: Sequence[str]) -> Decoded[str, dict[str, str]]:
        """Read the config overrides of topics. Topics without a config znode are in ``missing``."""
        return self.read_each(
            topics,
            lambda topic: ConfigEntityZNode.path("topics", topic),
            lambda _, result: ConfigEntityZNode.decode(result.data),
        )

    def get_all_entities_with_config(self, entity_type: str) -> list[str]:
        """Return the sorted names of all entities of a type, e.g. topics, with config overrides."""
        return self.get_children(ConfigEntityTypeZNode.path(entity_type))

    def set_or_create_entity_configs(
        self, entity_type: str, entity_name: str, config: Mapping[str, str]
    ) -> None:
        """Replace all config overrides of an entity, even if another client has changed them."""
        path = ConfigEntityZNode.path(entity_type, entity_name)
        self.set_or_create(path, ConfigEntityZNode.encode(config))

    def create_config_change_notification(self, sanitized_entity_path: str) -> None:
        """Notify all brokers that the config overrides of an entity, e.g. ``topics/t``, changed."""
        self.make_sure_persistent_paths_exist([ConfigEntityChangeNotificationZNode.path])
        self.create_sequential(
            ConfigEntityChangeNotificationSequenceZNode.create_path,
            ConfigEntityChangeNotificationSequenceZNode.encode(sanitized_entity_path),
        )

    # Topic deletion

    def create_delete_topic_path(self, topic: str) -> bool:
        """Request the deletion of a topic. Return False if it has already been requested."""
        return self.create_recursive(DeleteTopicsTopicZNode.path(topic))

    def get_topic_deletions(self, watch: bool = False) -> list[str]:
        """Return the sorted topics in /admin/delete_topics. ``watch`` sets a child watch."""
        return self.get_children(DeleteTopicsZNode.path, watch)

    # Reassignment and preferred leaders

    def get_partition_reassignment(self) -> ReassignmentTargets:
        """Return the target replicas in /admin/reassign_partitions, keyed by partition.

        The result is empty if the znode is missing or is not JSON. Raises MalformedZNode where
        Kafka throws an exception.
        """
        path, decode = ReassignPartitionsZNode.path, ReassignPartitionsZNode.decode
        try:
            return self._read_one(path, decode) or {}
        except UnparsableJson:
            return {}

    def create_partition_reassignment(
        self, reassignment: Mapping[TopicPartition, Sequence[int]]
    ) -> bool:
        """Create /admin/reassign_partitions. Return False if the znode already exists."""
        data = ReassignPartitionsZNode.encode(reassignment)
        return self.create_recursive(ReassignPartitionsZNode.path, data)

    def reassign_partitions_in_progress(self) -> bool:
        """Return True if /admin/reassign_partitions exists."""
        return self.path_exists(ReassignPartitionsZNode.path)

    def get_preferred_replica_election(self) -> list[TopicPartition]:
        """Return the partitions in /admin/preferred_replica_election. Raises MalformedZNode."""
        path, decode = PreferredReplicaElectionZNode.path, PreferredReplicaElectionZNode.decode
        return self._read_one(path, decode) or []

    def create_preferred_replica_election(self, partitions: Iterable[TopicPartition]) -> bool:
        """Create /admin/preferred_replica_election. Return False if the znode already exists."""
        data = PreferredReplicaElectionZNode.encode(partitions)
        return self.create_recursive(PreferredReplicaElectionZNode.path, data)

    # Notifications of brokers

    def get_partitions_from_isr_change_notifications(
        self, sequence_numbers: Sequence[str]
    ) -> Decoded[str, list[TopicPartition]]:
        """Read the partitions in ISR change notifications, keyed by sequence number."""
        return self.read_each(
            sequence_numbers, IsrChangeNotificationSequenceZNode.path, _decode_isr_change
        )

    def propagate_isr_changes(self, partitions: Iterable[TopicPartition]) -> None:
        """Notify the controller that the leader changed the ISRs of ``partitions`` in ZooKeeper."""
        data = IsrChangeNotificationSequenceZNode.encode(partitions)
        self.create_sequential(IsrChangeNotificationSequenceZNode.path(), data)

    def get_broker_ids_from_log_dir_events(
        self, sequence_numbers: Sequence[str]
    ) -> Decoded[str, int]:
        """Read the broker ids in log directory failure notifications, keyed by sequence number."""
        return self.read_each(
            sequence_numbers, LogDirEventNotificationSequenceZNode.path, self._decode_log_dir_event
        )

    def _decode_log_dir_event(self, _: str, result: ReadResult) -> int | None:
        broker_id = LogDirEventNotificationSequenceZNode.decode(result.data)
        if broker_id is None:
            self._refuse_not_json()
        return broker_id

    def propagate_log_dir_event(self, broker_id: int) -> None:
        """Notify the controller that a log directory of the broker has failed."""
        data = LogDirEventNotificationSequenceZNode.encode(broker_id)
        self.create_sequential(LogDirEventNotificationSequenceZNode.path(), data)

    # Decoding

    def _read_one(
        self, path: str, decode: Callable[[bytes | None], V], watch: bool = False
    ) -> V | None:
        """Read and decode a znode. Return None if the znode is missing."""
        found = self.get_data_and_stat(path, watch)
        return None if found is None else decode_at(path, decode, found[0])

    def read_each(
        self,
        keys: Sequence[K],
        path_of: Callable[[K], str],
        decode: Callable[[K, ReadResult], V | None],
        watch: bool = False,
    ) -> Decoded[K, V]:
        """Read and decode one znode for each key.

        A key for which ``decode`` returns None is treated as a key without a znode.
        """
        paths = [path_of(key) for key in keys]
        results = self.read([GetData(path, watch) for path in paths])
        values: dict[K, V] = {}
        missing: list[K] = []
        malformed: list[MalformedZNode] = []
        for key, path, result in zip(keys, paths, results, strict=True):
            if result.stat is None:
                missing.append(key)
                continue
            try:
                value = decode(key, result)
            except MalformedZNode as error:
                self._quarantine(error, path, malformed)
                continue
            if value is None:
                missing.append(key)
            else:
                values[key] = value
        return Decoded(values, missing, malformed)

    def _quarantine(
        self, error: MalformedZNode, path: str, malformed: list[MalformedZNode]
    ) -> None:
        """Add the error about the malformed znode at ``path`` to ``malformed``.

        With the quirk malformed_znode_fails_the_event, raise the error if Kafka throws an
        exception in that case.
        """
        if self.quirks.malformed_znode_fails_the_event and error.kafka_class is not None:
            raise error.at(path)
        malformed.append(error.at(path))

    def _refuse_not_json(self) -> None:
        """Raise MalformedZNode for a znode that is not JSON.

        With the quirk malformed_znode_fails_the_event, do nothing, because Kafka ignores the
        content and overwrites it later.
        """
        if not self.quirks.malformed_znode_fails_the_event:
            raise MalformedZNode("not JSON", kafka_class=None)


def decode_at(path: str, decode: Callable[[bytes | None], V], data: bytes | None) -> V:
    """Decode the data of the znode at ``path``. Raises MalformedZNode, which names the path."""
    try:
        return decode(data)
    except MalformedZNode as error:
        raise error.at(path) from None


def _decode_broker(broker_id: int, result: ReadResult) -> RegisteredBroker:
    assert result.stat is not None
    broker = BrokerIdZNode.decode(broker_id, result.data).broker
    return RegisteredBroker(broker, result.stat.czxid)


def _decode_isr_change(_: str, result: ReadResult) -> list[TopicPartition]:
    return IsrChangeNotificationSequenceZNode.decode(result.data)
