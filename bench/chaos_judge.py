"""Invariants of ZooKeeper's contents, judged from samples: pure, without a connection.

The rules are those of Kafka 2.8's controller: a state znode is written only by the active
controller, fenced by the version of /controller_epoch, and each of its changes bumps something.
"""

from __future__ import annotations

import statistics
from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import NamedTuple

NO_LEADER = -1
MAX_KEPT = 200


class Epoch(NamedTuple):
    """/controller_epoch as it was read."""

    epoch: int
    version: int
    mzxid: int


class Holder(NamedTuple):
    """/controller as it was read: the broker, its session, and which znode it was."""

    broker: int
    session: int
    czxid: int


class Topic(NamedTuple):
    """A topic's znode: replicas by partition, and what is being moved."""

    replicas: Mapping[int, tuple[int, ...]]
    adding: Mapping[int, tuple[int, ...]]
    removing: Mapping[int, tuple[int, ...]]
    mzxid: int


class State(NamedTuple):
    """A partition's state znode."""

    leader: int
    isr: tuple[int, ...]
    leader_epoch: int
    controller_epoch: int
    version: int
    mzxid: int
    czxid: int


Partition = tuple[str, int]


class Sweep(NamedTuple):
    """One pass over ZooKeeper, in reading order.

    A topic's znode and /controller are read before and after the znodes they are compared with,
    and judged only if they did not change in between.
    """

    epoch_before: Epoch | None
    holder_before: Holder | None
    brokers: Mapping[int, int]
    topics_before: Mapping[str, Topic]
    states: Mapping[Partition, State]
    mzxids_after: Mapping[str, int]
    holder_after: Holder | None
    epoch_after: Epoch | None


class Judge:
    """Takes sweeps in order; ``violations`` has one line for each fault, ``counts`` by kind.

    ``patience``: for how many sweeps in a row /controller may belong to a session that its broker
    has lost. The servers of an ensemble tell a broker so before they close the session, and the
    broker then replaces /brokers/ids/N at once (KAFKA-7165); a single server does both together.
    """

    def __init__(self, patience: int = 0) -> None:
        self.violations: list[str] = []
        self.counts: dict[str, int] = {}
        self.samples = 0
        self.sweeps = 0
        self._states: dict[Partition, State] = {}
        self._epochs: list[Epoch] = []
        self._told: set[str] = set()
        self._patience = patience
        self._sweeps_without_holder = 0

    def judge(self, sweep: Sweep) -> list[str]:
        """Judge one sweep; return the new violations."""
        before = len(self.violations)
        self.sweeps += 1
        self._judge_epoch(sweep.epoch_before)
        self._judge_epoch(sweep.epoch_after)
        self._judge_holder(sweep)
        for partition, state in sweep.states.items():
            self.samples += 1
            self._judge_state(partition, state)
            self._judge_replicas(partition, state, sweep)
            self._judge_change(partition, state)
            self._judge_writer(partition, state)
            self._states[partition] = state
        for partition in self._states.keys() - sweep.states.keys():
            del self._states[partition]
        return self.violations[before:]

    def report(self, kind: str, text: str) -> None:
        """Add a violation, once for each text."""
        line = f"{kind}: {text}"
        if line in self._told:
            return
        self.counts[kind] = self.counts.get(kind, 0) + 1
        if len(self._told) < MAX_KEPT:
            self._told.add(line)
            self.violations.append(line)

    def _judge_epoch(self, epoch: Epoch | None) -> None:
        if epoch is None:
            return
        last = self._epochs[-1] if self._epochs else None
        if last is None or epoch.mzxid > last.mzxid:
            if last is not None and (epoch.epoch <= last.epoch or epoch.version <= last.version):
                self.report("controller epoch went back", f"{last} and then {epoch}")
            self._epochs.append(epoch)
        elif epoch != last:
            self.report("controller epoch changed without a write", f"{last} and then {epoch}")

    def _judge_holder(self, sweep: Sweep) -> None:
        before, after = sweep.holder_before, sweep.holder_after
        session = None if before is None else sweep.brokers.get(before.broker)
        if before is None or before != after or session == before.session:
            self._sweeps_without_holder = 0
            return
        self._sweeps_without_holder += 1
        if self._sweeps_without_holder <= self._patience:
            return
        if session is None:
            self.report(
                "/controller is held by a dead broker",
                f"broker {before.broker} (session {before.session:#x}) is not registered",
            )
        else:
            self.report(
                "/controller is held by an old session",
                f"broker {before.broker}: {before.session:#x}, registered by {session:#x}",
            )

    def _judge_state(self, partition: Partition, state: State) -> None:
        where = f"{_name(partition)}: {state}"
        if state.leader != NO_LEADER and state.leader not in state.isr:
            self.report("leader outside the ISR", where)
        if not state.isr:
            self.report("empty ISR", where)
        if len(set(state.isr)) != len(state.isr):
            self.report("a broker twice in the ISR", where)

    def _judge_replicas(self, partition: Partition, state: State, sweep: Sweep) -> None:
        name, number = partition
        topic = sweep.topics_before.get(name)
        if topic is None or sweep.mzxids_after.get(name) != topic.mzxid:
            return
        replicas = {*topic.replicas.get(number, ()), *topic.adding.get(number, ())}
        last = self._states.get(partition)
        known = set(last.isr) if last is not None else set()
        strangers = sorted(set(state.isr) - replicas - known)
        # A controller that cancels a reassignment writes the topic first, and then the ISR.
        if strangers and state.mzxid > topic.mzxid:
            self.report(
                "ISR outside the replicas",
                f"{_name(partition)}: {strangers} of {state} not in {sorted(replicas)}",
            )

    def _judge_change(self, partition: Partition, state: State) -> None:
        last = self._states.get(partition)
        # Deleted and created again: a new znode, without history.
        if last is None or last.czxid != state.czxid:
            return
        where = f"{_name(partition)}: {last} and then {state}"
        if state.version < last.version or state.mzxid < last.mzxid:
            self.report("a state's version went back", where)
        elif state.version == last.version and state != last:
            self.report("a state changed without a new version", where)
        if state.leader_epoch < last.leader_epoch:
            self.report("leader epoch went back", where)
        elif state.leader_epoch == last.leader_epoch and state.leader != last.leader:
            self.report("two leaders in one leader epoch", where)
        if state.controller_epoch < last.controller_epoch:
            self.report("controller epoch of a state went back", where)

    def _judge_writer(self, partition: Partition, state: State) -> None:
        """Check that a state was written by the controller active at that moment.

        /controller_epoch is read often but not continuously: between two values
        there may have been others with unknown zxids.
        """
        at = bisect_right(self._epochs, state.mzxid, key=lambda one: one.mzxid)
        if at == 0:
            return  # written before the first epoch that was read
        oldest = self._epochs[at - 1].epoch
        newest = self._epochs[at].epoch - 1 if at < len(self._epochs) else None
        if state.controller_epoch < oldest:
            self.report(
                "written by a deposed controller",
                f"{_name(partition)}: {state}, when the epoch was {oldest} or later",
            )
        elif newest is not None and state.controller_epoch > newest:
            self.report(
                "written by a controller before its epoch",
                f"{_name(partition)}: {state}, when the epoch was {newest} at most",
            )


def _name(partition: Partition) -> str:
    return f"{partition[0]}-{partition[1]}"


def what_is_not_converged(sweep: Sweep, brokers: Iterable[int]) -> list[str]:
    """Return what a cluster with all ``brokers`` alive still lacks; empty if it is healthy."""
    left = [f"broker {id_} is not registered" for id_ in brokers if id_ not in sweep.brokers]
    if sweep.holder_after is None:
        left.append("there is no controller")
    for name, topic in sweep.topics_before.items():
        if any(topic.adding.values()) or any(topic.removing.values()):
            left.append(f"{name} is being reassigned")
        for number, replicas in topic.replicas.items():
            state = sweep.states.get((name, number))
            if state is None:
                left.append(f"{name}-{number} has no state")
            elif state.leader == NO_LEADER:
                left.append(f"{name}-{number} has no leader")
            elif set(state.isr) != set(replicas):
                left.append(f"{name}-{number}: ISR {state.isr} of replicas {replicas}")
    return left


# Several active controllers


class Overlap(NamedTuple):
    """A controller that reported itself active although a successor had been elected."""

    broker: int
    epoch: int
    from_s: float
    to_s: float


class Disturbance(NamedTuple):
    """A disturbance that excuses a stale controller: a pause or kill of its broker or ZooKeeper."""

    what: str
    broker: int | None
    from_s: float
    to_s: float


def unexplained(
    overlap: Overlap, disturbances: Sequence[Disturbance], patience_s: float
) -> str | None:
    """Return why an overlap is a fault; None if a pause explains it or it was short.

    ``patience_s``: within this time after a disturbance, or after a new election, a controller must
    notice that it was deposed.
    """
    if overlap.to_s - overlap.from_s <= patience_s:
        return None
    ends = [
        one.to_s
        for one in disturbances
        if one.broker in (None, overlap.broker)
        and one.from_s <= overlap.to_s
        and one.to_s >= overlap.from_s - patience_s
    ]
    if not ends:
        return "nothing had disturbed it"
    late_s = overlap.to_s - max(ends)
    return f"it lasted {late_s:.1f} s after the disturbance" if late_s > patience_s else None


# Growth


class Growth(NamedTuple):
    """A straight line through samples, and whether it rises above the bound."""

    first: float
    last: float
    per_hour: float
    rise: float
    bound: float

    @property
    def is_flat(self) -> bool:
        """Whether the rise over the samples stays within the bound."""
        return self.rise <= self.bound


def growth_of(
    samples: Sequence[tuple[float, float]], least_bound: float, share: float = 0.15
) -> Growth | None:
    """Return the growth of (time in s, value) samples, without the first third (warm-up).

    The slope is Theil-Sen's (the median over all pairs), which is robust against brokers that come
    and go. The bound is ``share`` of the median, or ``least_bound``. None for too few samples.
    """
    taken = samples[len(samples) // 3 :]
    if len(taken) < 8:
        return None
    thinned = taken[:: max(1, len(taken) // 200)]
    slopes = [(y - x) / (t - s) for (s, x), (t, y) in combinations(thinned, 2) if t > s]
    if not slopes:
        return None
    slope = statistics.median(slopes)
    values = [value for _, value in taken]
    bound = max(least_bound, share * statistics.median(values))
    rise = slope * (taken[-1][0] - taken[0][0])
    return Growth(values[0], values[-1], slope * 3600, rise, bound)
