"""The metadata cache keeps what UpdateMetadata requests say, partial ones too."""

from __future__ import annotations

from klamm.brokers.metadata_cache import MetadataCache
from klamm.cluster.types import TopicPartition
from tests.unit.brokers.network import T0, T1, TOPIC_ID, cached, update_metadata


def test_partial_updates_add_up_and_the_states_are_shared() -> None:
    cache = MetadataCache()
    first, second = cached(T0), cached(T1, leader=-1)
    cache.update(update_metadata(first))
    cache.update(update_metadata(second))
    assert [cache.get(T0), cache.get(T1)] == [first, second] and cache.get(T0) is first
    assert list(cache.states()) == [first, second]
    assert [cache.leader_of(tp) for tp in (T0, T1, TopicPartition("u", 0))] == [1, -1, None]
    assert (cache.num_partitions("t"), cache.topic_id("t"), cache.topics()) == (2, TOPIC_ID, ("t",))


def test_live_brokers_and_the_controller_are_replaced_by_every_update() -> None:
    cache = MetadataCache()
    cache.update(update_metadata(live=(0, 1, 2)))
    cache.update(update_metadata(live=(2, 1), controller_id=1, controller_epoch=9))
    assert sorted(cache.alive_brokers) == [1, 2]
    assert (cache.controller_id, cache.controller_epoch) == (1, 9)
    cache.update(update_metadata(controller_id=-1))
    assert cache.controller_id is None


def test_leader_minus_two_removes_a_partition_and_with_the_last_one_its_topic() -> None:
    cache = MetadataCache()
    cache.update(update_metadata(cached(T0), cached(T1)))
    cache.update(update_metadata(cached(T0, leader=-2)))
    assert (len(cache), T0 in cache, T1 in cache) == (1, False, True)
    assert (cache.num_partitions("t"), cache.topic_id("t")) == (1, TOPIC_ID)
    cache.update(update_metadata(cached(T1, leader=-2)))
    assert (len(cache), cache.topics(), cache.topic_id("t")) == (0, (), None)


def test_deleting_an_unknown_partition_changes_nothing() -> None:
    cache = MetadataCache()
    cache.update(update_metadata(cached(T0)))
    cache.update(update_metadata(cached(T1, leader=-2)))
    assert (len(cache), cache.num_partitions("t")) == (1, 1)


def test_a_topic_whose_partition_ids_have_gaps_or_are_negative_has_all_its_states() -> None:
    cache = MetadataCache()
    below, above = cached(TopicPartition("t", -1)), cached(TopicPartition("t", 7))
    cache.update(update_metadata(above, cached(T0), below))
    assert cache.states_of("t") == [below, cached(T0), above]
