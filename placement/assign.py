"""Kafka's automatic assignment of replicas to brokers, without and with racks.

Topic names are not validated, and the given brokers are used whether they are alive or not. Mirrors
kafka/admin/AdminUtils.scala.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Final

from klamm.cluster.errors import AdminOperationError, InvalidPartitions, InvalidReplicationFactor
from klamm.placement.broker_metadata import BrokerMetadata
from klamm.placement.draws import IntSource

Replicas = tuple[int, ...]
Assignment = dict[int, Replicas]
RACKS_MISSING: Final = "Not all brokers have rack information for replica rack aware assignment."


def assign_replicas_to_brokers(
    brokers: Sequence[BrokerMetadata],
    partitions: int,
    replication_factor: int,
    *,
    start_index: int | None = None,
    next_replica_shift: int | None = None,
    start_partition_id: int = 0,
    source: IntSource | None = None,
) -> Assignment:
    """Assign `partitions` partitions, starting with `start_partition_id`, to `brokers`.

    Returns {partition: replicas}, in ascending order of partitions; the first replica is the
    preferred leader. The replicas are chosen from a broker list: `brokers` in the given order, or,
    if the brokers have racks, a list that alternates between racks.

    - `start_index`: position of partition 0's leader in the broker list.
    - `next_replica_shift`: number of brokers (with racks: of rounds over all racks) in the list
      between the leader of partition 0 and its second replica.

    If one of the two is None, `starting_point` draws it from `source`. Kafka's fixedStartIndex sets
    both.

    Raises InvalidPartitions, InvalidReplicationFactor, and AdminOperationError if only some brokers
    have a rack. Mirrors AdminUtils.assignReplicasToBrokers.
    """
    _check_counts(partitions, replication_factor, len(brokers))
    broker_racks = {broker.id: broker.rack for broker in brokers}
    assert len(broker_racks) == len(brokers), "duplicate broker id"
    racks = {id_: rack for id_, rack in broker_racks.items() if rack is not None}
    if racks and len(racks) < len(brokers):
        raise AdminOperationError(RACKS_MISSING)
    broker_list = get_rack_alternated_broker_list(racks) if racks else tuple(broker_racks)
    start, shift = starting_point(len(broker_list), start_index, next_replica_shift, source)

    def place(first_replica_index: int, replica_shift: int) -> Replicas:
        if racks:
            return _rack_aware_replicas(
                broker_list, racks, replication_factor, first_replica_index, replica_shift
            )
        return _rack_unaware_replicas(
            broker_list, replication_factor, first_replica_index, replica_shift
        )

    return _round_robin(len(broker_list), partitions, start, shift, start_partition_id, place)


def starting_point(
    broker_count: int,
    start_index: int | None,
    next_replica_shift: int | None,
    source: IntSource | None,
) -> tuple[int, int]:
    """Return the start index and the next-replica shift of an assignment.

    A value that is None is drawn at random from `source`, the start index first. `source` may be
    None if both values are given.
    """
    start = _given_or_drawn(start_index, broker_count, source)
    shift = _given_or_drawn(next_replica_shift, broker_count, source)
    return start, shift


def replica_index(
    first_replica_index: int, second_replica_shift: int, follower: int, n_brokers: int
) -> int:
    """Return the broker-list index of a partition's follower; `follower` counts from 0.

    The result always differs from the index of the first replica. At least two brokers are
    required. Mirrors AdminUtils.replicaIndex.
    """
    shift = 1 + (second_replica_shift + follower) % (n_brokers - 1)
    return (first_replica_index + shift) % n_brokers


def get_inverse_map(broker_racks: Mapping[int, str]) -> dict[str, Replicas]:
    """Return the broker ids of each rack in ascending order; racks are in Java's string order.

    Mirrors AdminUtils.getInverseMap.
    """
    by_rack: dict[str, list[int]] = {}
    for broker_id in sorted(broker_racks):
        by_rack.setdefault(broker_racks[broker_id], []).append(broker_id)
    return {rack: tuple(by_rack[rack]) for rack in sorted(by_rack, key=_java_string_order)}


def get_rack_alternated_broker_list(broker_racks: Mapping[int, str]) -> Replicas:
    """Return all broker ids, taking one from each rack in turn.

    Racks whose brokers are used up are skipped. Mirrors AdminUtils.getRackAlternatedBrokerList.
    """
    by_rack = list(get_inverse_map(broker_racks).values())
    rounds = max(map(len, by_rack), default=0)
    return tuple(ids[turn] for turn in range(rounds) for ids in by_rack if turn < len(ids))


def _check_counts(partitions: int, replication_factor: int, broker_count: int) -> None:
    if partitions <= 0:
        raise InvalidPartitions("Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise InvalidReplicationFactor("Replication factor must be larger than 0.")
    if replication_factor > broker_count:
        raise InvalidReplicationFactor(
            f"Replication factor: {replication_factor} larger than available brokers:"
            f" {broker_count}."
        )


def _given_or_drawn(given: int | None, broker_count: int, source: IntSource | None) -> int:
    if given is None:
        assert source is not None, "without a random source, start index and shift are required"
        return source.next_int(broker_count)
    assert given >= 0, f"start index or shift {given} is negative"
    return given


def _round_robin(
    broker_count: int,
    partitions: int,
    start_index: int,
    next_replica_shift: int,
    start_partition_id: int,
    place: Callable[[int, int], Replicas],
) -> Assignment:
    # Only broker_count * shift_period rows differ; equal rows share a tuple.
    rows: dict[tuple[int, int], Replicas] = {}
    shift_period = max(1, broker_count - 1)
    assignment: Assignment = {}
    first = max(0, start_partition_id)
    for partition in range(first, first + partitions):
        if partition > 0 and partition % broker_count == 0:
            next_replica_shift += 1
        key = ((partition + start_index) % broker_count, next_replica_shift % shift_period)
        replicas = rows.get(key)
        if replicas is None:
            replicas = rows[key] = place(*key)
        assignment[partition] = replicas
    return assignment


def _rack_unaware_replicas(
    broker_list: Replicas, replication_factor: int, first: int, shift: int
) -> Replicas:
    followers = (
        broker_list[replica_index(first, shift, follower, len(broker_list))]
        for follower in range(replication_factor - 1)
    )
    return (broker_list[first], *followers)


def _rack_aware_replicas(
    broker_list: Replicas,
    racks: Mapping[int, str],
    replication_factor: int,
    first: int,
    shift: int,
) -> Replicas:
    rack_count = len(set(racks.values()))
    leader = broker_list[first]
    replicas = [leader]
    used_racks = {racks[leader]}
    candidates = count()
    while len(replicas) < replication_factor:
        index = replica_index(first, shift * rack_count, next(candidates), len(broker_list))
        broker = broker_list[index]
        rack_is_due = racks[broker] not in used_racks or len(used_racks) == rack_count
        if rack_is_due and broker not in replicas:
            replicas.append(broker)
            used_racks.add(racks[broker])
    return tuple(replicas)


def _java_string_order(text: str) -> bytes:
    # Java compares UTF-16 code units, which differ from code points above the basic plane.
    return text.encode("utf-16-be", "surrogatepass")
