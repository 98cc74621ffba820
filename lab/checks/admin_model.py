"""Sequential specification of a topic: which results of admin operations are legal in which state.

A step function takes a state and yields the states that may follow; none if the result is illegal.
Some changes happen by themselves at any later moment: the controller notices topics and partitions
that were created in ZooKeeper, completes reassignments, and completes deletions. A step takes them
into account for the partitions and phases that its result depends on.

The specification follows Kafka 2.8.2 (KafkaController, ZkAdminManager). Its guarantees are weaker
than those of one atomic object:

- CreateTopics and DeleteTopics write to ZooKeeper; the controller notices it later. Until then it
  refuses to reassign the partitions of a new topic (``is_known``).
- A deleted topic remains in ZooKeeper until all its replicas are deleted. Until then a topic of the
  same name cannot be created.
- The controller overwrites topic znodes without checking their version, so a new partition that it
  has not noticed may disappear again.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from enum import Enum
from typing import Final, NamedTuple

from klamm.cluster.types import ReplicaAssignment

Replicas = tuple[int, ...]
Configs = frozenset[tuple[str, str]]


class TopicPhase(Enum):
    """Phase in the life of a topic. DELETING: the controller has noticed the request to delete."""

    ABSENT = "absent"
    PRESENT = "present"
    DELETING = "deleting"


class PartitionModel(NamedTuple):
    """A partition. ``target``: the target of its reassignment, or None if there is none.

    ``origin``: its replicas otherwise, or None if they were computed and never observed. ``is_new``
    is True for a partition that was added to an existing topic."""

    origin: Replicas | None
    target: Replicas | None = None
    is_known: bool = False
    is_new: bool = False

    @classmethod
    def of(cls, assignment: ReplicaAssignment, *, is_new: bool = False) -> PartitionModel:
        """Return the partition that a topic znode describes."""
        target = assignment.target_replicas if assignment.is_being_reassigned else None
        return cls(assignment.origin_replicas, target, is_new=is_new)


class TopicState(NamedTuple):
    """State of one topic: its phase, its partitions by number, and its config overrides."""

    phase: TopicPhase = TopicPhase.ABSENT
    partitions: tuple[tuple[int, PartitionModel], ...] = ()
    configs: Configs = frozenset()

    def __str__(self) -> str:
        shown = []
        for number, partition in self.partitions:
            origin = "?" if partition.origin is None else _text(partition.origin)
            moving = "" if partition.target is None else f" to {_text(partition.target)}"
            shown.append(f"{number}: {origin}{moving}")
        configs = config_text(self.configs)
        return f"{self.phase.value}" + (f" ({'; '.join(shown)}{configs})" if shown else configs)

    def with_partition(self, number: int, partition: PartitionModel) -> TopicState:
        """Return the state with this partition instead of the one with the same number."""
        partitions = {**dict(self.partitions), number: partition}
        return self._replace(partitions=tuple(sorted(partitions.items())))


ABSENT: Final = TopicState()


# Topics


def created(
    state: TopicState, partitions: Mapping[int, Replicas | None], configs: Configs
) -> Iterator[TopicState]:
    """The topic is created: it must not exist. None as replicas: the controller computed them."""
    if state.phase is not TopicPhase.PRESENT:
        numbered = tuple((n, PartitionModel(ids)) for n, ids in sorted(partitions.items()))
        yield TopicState(TopicPhase.PRESENT, numbered, configs)


def exists(state: TopicState, configs: Configs) -> Iterator[TopicState]:
    """A creation finds that the topic exists.

    It may already have written its configs: Kafka writes the config znode first."""
    if state.phase is not TopicPhase.ABSENT:
        yield state
        yield state._replace(configs=configs)


def maybe_created(
    state: TopicState, partitions: Mapping[int, Replicas | None], configs: Configs
) -> Iterator[TopicState]:
    """A creation with an indefinite result takes effect, or ends after it wrote the configs."""
    yield from created(state, partitions, configs)
    yield state._replace(configs=configs)


def absent(state: TopicState) -> Iterator[TopicState]:
    """An operation finds in ZooKeeper that the topic does not exist."""
    if state.phase is not TopicPhase.PRESENT:
        yield ABSENT if state.phase is TopicPhase.DELETING else state


def known(state: TopicState, numbers: Collection[int]) -> Iterator[TopicState]:
    """The partitions have had leaders, so the controller has noticed them."""
    partitions = dict(state.partitions)
    if state.phase is TopicPhase.PRESENT and partitions.keys() >= {*numbers}:
        for number in numbers:
            state = state.with_partition(number, partitions[number]._replace(is_known=True))
        yield state


def deleted(state: TopicState) -> Iterator[TopicState]:
    """The controller begins to delete the topic, or is deleting it already."""
    if state.phase is not TopicPhase.ABSENT:
        yield state._replace(phase=TopicPhase.DELETING)


# Partitions


def written(
    state: TopicState, assignments: Mapping[int, ReplicaAssignment]
) -> Iterator[TopicState]:
    """A tool overwrites the topic znode, usually to add partitions.

    The controller may restore the replicas of other partitions or, after a failover, adopt them: at
    once, or by a reassignment from the replicas that it found in sync."""
    if state.phase is TopicPhase.ABSENT:
        return
    before = dict(state.partitions)
    kept = {n: one for n, one in before.items() if n in assignments or one.is_known}
    added = {
        n: PartitionModel.of(assignment, is_new=True)
        for n, assignment in assignments.items()
        if n not in before
    }
    yield state._replace(partitions=tuple(sorted({**kept, **added}.items())))
    edited = {
        n: PartitionModel.of(assignment)._replace(
            is_known=before[n].is_known, is_new=before[n].is_new
        )
        for n, assignment in assignments.items()
        if n in before
    }
    yield state._replace(partitions=tuple(sorted({**kept, **edited, **added}.items())))
    moved = {
        n: one._replace(origin=None, target=one.origin)
        for n, one in edited.items()
        if one.target is None and one.origin != before[n].origin
    }
    if moved:
        yield state._replace(partitions=tuple(sorted({**kept, **edited, **added, **moved}.items())))


def counted(state: TopicState, least: int, most: int | None) -> Iterator[TopicState]:
    """ZooKeeper shows at least ``least`` and at most ``most`` partitions (None: any number).

    New partitions that the controller has not noticed may have disappeared, the last ones first."""
    if state.phase is TopicPhase.ABSENT:
        return
    unnoticed = [n for n, one in state.partitions if one.is_new and not one.is_known]
    for first in range(len(unnoticed) + 1):
        lost = unnoticed[first:]
        partitions = tuple((n, one) for n, one in state.partitions if n not in lost)
        if least <= len(partitions) and (most is None or len(partitions) <= most):
            yield state._replace(partitions=partitions)


def reassigned(state: TopicState, number: int, target: Replicas) -> Iterator[TopicState]:
    """The controller begins to reassign a partition, or overrides its reassignment.

    Kafka derives the original replicas from all replicas, of which the target ones come first."""
    for one in _servable(state, number):
        origin = one.origin
        if origin is None or {*origin} != {*target}:
            if origin is not None:
                kept = tuple(replica for replica in target if replica in origin)
                origin = tuple(dict.fromkeys((*kept, *origin)))
            yield state.with_partition(number, one._replace(origin=origin, target=target))
        if origin is None or {*origin} == {*target}:
            yield state.with_partition(number, one._replace(origin=target, target=None))


def cancelled(state: TopicState, number: int) -> Iterator[TopicState]:
    """The controller cancels the reassignment of a partition."""
    one = dict(state.partitions).get(number)
    if state.phase is TopicPhase.PRESENT and one is not None and one.target is not None:
        yield state.with_partition(number, one._replace(target=None))


def not_reassigning(state: TopicState, number: int) -> Iterator[TopicState]:
    """The controller finds no reassignment of a partition."""
    one = dict(state.partitions).get(number)
    yield state if one is None else state.with_partition(number, _completed(one))


def listed(
    state: TopicState,
    asked: Collection[int] | None,
    found: Mapping[int, ReplicaAssignment],
) -> Iterator[TopicState]:
    """The controller lists the reassignments in progress; ``asked`` None: of all partitions."""
    partitions = dict(state.partitions)
    for number in found.keys() | (partitions.keys() if asked is None else {*asked}):
        one = partitions.get(number)
        if number not in found:
            if one is not None and one.target is not None:
                state = state.with_partition(number, _completed(one))
            continue
        if one is None or one.target != found[number].target_replicas:
            return
        origin = found[number].origin_replicas
        if one.origin is not None and {*one.origin} != {*origin}:
            return
        state = state.with_partition(number, one._replace(origin=origin, is_known=True))
    yield state


def reassigning(state: TopicState) -> Iterator[TopicState]:
    """ZooKeeper shows a reassignment of one of the partitions."""
    if any(one.target is not None for _, one in state.partitions):
        yield state


def served(state: TopicState, number: int) -> Iterator[TopicState]:
    """The controller knows a partition, and its topic is not being deleted."""
    one = dict(state.partitions).get(number)
    if state.phase is TopicPhase.PRESENT and one is not None:
        yield state.with_partition(number, one._replace(is_known=True))


def unknown(state: TopicState, number: int) -> Iterator[TopicState]:
    """The controller does not know a partition, or its topic is being deleted."""
    one = dict(state.partitions).get(number)
    if state.phase is not TopicPhase.PRESENT or one is None or not one.is_known:
        yield state


# Configs


def configured(state: TopicState, configs: Configs) -> Iterator[TopicState]:
    """A tool overwrites the config znode."""
    yield state._replace(configs=configs)


def has_configs(state: TopicState, wanted: Mapping[str, str | None]) -> Iterator[TopicState]:
    """Config overrides have these values; None: there is no override of this name.

    The config znode of a topic that is being deleted may be gone."""
    configs = dict(state.configs)
    if state.phase is TopicPhase.DELETING or all(configs.get(n) == v for n, v in wanted.items()):
        yield state


def observed(
    state: TopicState, assignments: Mapping[int, ReplicaAssignment], configs: Configs
) -> Iterator[TopicState]:
    """At the end of the run, ZooKeeper has the topic with these partitions and configs."""
    if state.phase is not TopicPhase.PRESENT or state.configs != configs:
        return
    for found in counted(state, len(assignments), len(assignments)):
        partitions = dict(found.partitions)
        if partitions.keys() == assignments.keys() and all(
            _agrees(partitions[number], assignment) for number, assignment in assignments.items()
        ):
            yield found


def _agrees(one: PartitionModel, found: ReplicaAssignment) -> bool:
    if found.is_being_reassigned:
        return one.target == found.target_replicas
    final = _completed(one).origin
    return final is None or final == found.replicas


def _servable(state: TopicState, number: int) -> Iterator[PartitionModel]:
    """Yield a partition that the controller serves: as it is, and with a completed reassignment."""
    one = dict(state.partitions).get(number)
    if state.phase is TopicPhase.PRESENT and one is not None:
        one = one._replace(is_known=True)
        yield one
        if one.target is not None:
            yield _completed(one)


def _completed(one: PartitionModel) -> PartitionModel:
    return one if one.target is None else one._replace(origin=one.target, target=None)


def config_text(configs: Configs) -> str:
    """Return config overrides in words, to be appended to other words."""
    return "".join(f", {name}={value}" for name, value in sorted(configs))


def _text(replicas: Replicas) -> str:
    return f"[{', '.join(map(str, replicas))}]"
