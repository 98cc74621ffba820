"""One state of a small simulated cluster, and every step that can follow.

Steps are: an actor processes its next event, the oldest message of a link arrives, the session of a
dead broker expires, one of the remaining actions happens, or, if no actor has an event and no
message is in flight, the timer that is due next. An event is one step: no other actor runs within
it. Actions are faults and requests; each happens at most once, at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from functools import partial
from typing import Final, NamedTuple

import msgspec

from klamm.admin.topics.topics import TopicAdmin
from klamm.cluster.counting import parse_whole_number
from klamm.cluster.errors import UsageError
from klamm.cluster.quirks import Quirks
from klamm.cluster.requests import Address
from klamm.cluster.types import TopicPartition
from klamm.placement.draws import JavaRandom
from klamm.runtime.actors import Actor
from klamm.runtime.checks.agreement import check_simulated_world
from klamm.runtime.checks.invariants import INVARIANTS
from klamm.runtime.checks.watching import Watcher
from klamm.runtime.cluster_spec import ClusterSpec
from klamm.runtime.simulated.checkpoint import Checkpoint
from klamm.runtime.simulated.state_digest import FIRST_ZXID, NEVER_MS, StateText
from klamm.runtime.simulated.world import SimulatedWorld
from klamm.zk.kafka_zk_client import KafkaZkClient

TOPIC: Final = "t"
NEW_TOPIC: Final = "new"
AGREEMENT: Final = "brokers-and-controller-agree"
NO_ERROR: Final = "no-broker-error"
_QUIET: Final = {
    "auto.leader.rebalance.enable": "false",
    "replica.lag.time.max.ms": "2100000000",
    "controller.socket.timeout.ms": "2100000000",
}
_ON_BROKERS: Final[Mapping[str, Callable[[SimulatedWorld, int], None]]] = {
    "kill": SimulatedWorld.kill,
    "start": SimulatedWorld.start,
    "expire": SimulatedWorld.expire_session,
    "shutdown": SimulatedWorld.shut_down,
}
_ENDS: Final = ("kill", "shutdown", "expire")
"""Actions after which a broker may have ended."""
_WORDS: Final = {
    **dict.fromkeys(_ON_BROKERS, 1),
    "create": 1,
    "delete": 0,
    "reassign": 1,
    "elect": 0,
}
"""The actions, and the number of their arguments; reassign has one for each partition."""
_SETTLE_MS: Final = 2_000.0


class SearchSpace(msgspec.Struct, frozen=True):
    """What is explored: a cluster of ``brokers`` and the actions that may happen, each once.

    ``candidates``: number of controller candidates, from broker 0 on.
    ``replicas``: the assignment of topic ``t``, one tuple of broker ids for each partition.
    ``actions``: texts such as ``kill 1``; see parse_scope.
    """

    brokers: int
    candidates: int
    replicas: tuple[tuple[int, ...], ...]
    actions: tuple[str, ...]
    quirks: Quirks


def parse_scope(
    brokers: int,
    candidates: int,
    replicas: Sequence[str],
    actions: Sequence[str],
    quirks: Quirks,
) -> SearchSpace:
    """Return the scope of these texts. Raises UsageError with a hint."""
    if candidates > brokers:
        raise UsageError(
            f"--candidates {candidates}: the cluster has only {brokers} brokers",
            hint="controller candidates are brokers: give fewer of them, or more --brokers",
        )
    assignment = tuple(_broker_ids(text, brokers, "--replicas") for text in replicas)
    for action in actions:
        verb, *words = action.split() or [""]
        count = _WORDS.get(verb)
        if count is None:
            hint = f"actions are {', '.join(_WORDS)}"
            raise UsageError(f"'{action}' is not an action", hint=hint)
        expected = len(assignment) if verb == "reassign" else count
        if len(words) != expected:
            raise UsageError(f"'{action}' has {len(words)} arguments, expected {expected}")
        for word in words:
            if len(_broker_ids(word, brokers, action)) > 1 and verb in _ON_BROKERS:
                raise UsageError(f"'{action}' names more than one broker")
        if verb == "start" and not {f"{end} {words[0]}" for end in _ENDS}.intersection(actions):
            raise UsageError(
                f"'{action}' never happens: no action ends broker {words[0]}",
                hint=f"add --action 'kill {words[0]}'",
            )
    return SearchSpace(brokers, candidates, assignment, tuple(actions), quirks)


def _broker_ids(text: str, brokers: int, where: str) -> tuple[int, ...]:
    words = text.split(",")
    for word in words:
        number = parse_whole_number(word)
        if number is None or number >= brokers:
            ids = f"the ids of brokers are 0 to {brokers - 1}"
            raise UsageError(f"{where}: there is no broker '{word}'", hint=ids)
    if len(set(words)) < len(words):
        raise UsageError(f"{where}: {text} names a broker twice")
    return tuple(map(int, words))


class StateViolation(NamedTuple):
    """What was violated in a state: the name of an invariant, and what was observed."""

    name: str
    seen: str


_Step = tuple[str, Callable[[], None]]


class Exploration:
    """A simulated cluster in one state, with all its invariants.

    ``choices``: how many steps can follow, and their texts, in a fixed order. ``take`` makes one of
    them. A checkpoint resets this object in place, to a state that it was in before.
    """

    def __init__(self, scope: SearchSpace) -> None:
        world = SimulatedWorld(
            ClusterSpec(
                broker_ids=tuple(range(scope.brokers)),
                candidates=tuple(range(scope.candidates)),
                config=_QUIET,
                quirks=scope.quirks,
            )
        )
        world.server.zxid = FIRST_ZXID
        self._world = world
        self._watcher = Watcher(world, tuple(INVARIANTS))
        for broker_id in world.spec.broker_ids:
            world.start(broker_id)
            world.run_for(_SETTLE_MS)
        self._partitions = [TopicPartition(TOPIC, n) for n in range(len(scope.replicas))]
        with closing(world.open_store()) as store:
            _create_topic(KafkaZkClient(store), TOPIC, scope.replicas)
        world.run_for(_SETTLE_MS)
        self._watcher.forget_rows()
        self._actions = scope.actions
        self._dead_sessions: dict[int, int] = {}
        self._texts = StateText()
        self._steps: list[_Step] | None = None

    def checkpoint(self, earlier: Checkpoint | None = None) -> Checkpoint:
        """Return a checkpoint that resets this object to its state.

        ``earlier``: the checkpoint of a state that this object had shortly before.
        """
        # Keep the steps for every time that the checkpoint is used.
        self._found()
        return Checkpoint((self,)) if earlier is None else earlier.following()

    @property
    def choices(self) -> list[str]:
        """The texts of the steps that can follow."""
        return [text for text, _ in self._found()]

    def take(self, choice: int) -> None:
        """Make one step. Raises IndexError if there is no such choice."""
        _, step = self._found()[choice]
        self._steps = None
        step()
        self._watcher.forget_rows()

    def digest(self) -> bytes:
        """Return the digest of this state."""
        return self._texts.digest(self._world, self._more())

    def text(self) -> str:
        """Return the text that the digest is computed from."""
        return self._texts.text(self._world, self._more())

    def _more(self) -> tuple[object, ...]:
        return (self._actions, sorted(self._dead_sessions.values()), self._watcher.remembered)

    def violation(self) -> StateViolation | None:
        """Return a violated invariant, or None. In an idle cluster, all live nodes must agree."""
        if self._watcher.violations:
            found = self._watcher.violations[0]
            return StateViolation(found.name, found.seen.partition("; at ")[0])
        if self._world.errors:
            return StateViolation(NO_ERROR, self._world.errors[0])
        if self._is_idle():
            for line in check_simulated_world(self._world):
                return StateViolation(AGREEMENT, line)
        return None

    def _is_idle(self) -> bool:
        is_led = any(running.node.controller is not None for running in self._world.nodes.values())
        return is_led and len(self._found()) == sum(map(self._can_act, self._actions))

    def _found(self) -> list[_Step]:
        if self._steps is None:
            self._steps = self._find()
        return self._steps

    def _find(self) -> list[_Step]:
        world = self._world
        found: list[_Step] = []
        actors = [actor for _, actor in sorted(world.scheduler.actors.items())]
        for actor in actors:
            if actor.has_events() and not actor.stopped:
                found.append((f"{actor.address} runs", partial(self._run, actor)))
        for link, messages in world.transport.by_link().items():
            text = f"{type(messages[0].body).__name__} from {link[0]} reaches {link[1]}"
            found.append((text, partial(self._deliver, *link)))
        if not found:
            found += self._timers(actors)
        for session, broker_id in sorted(self._dead_sessions.items()):
            text = f"the session of dead broker {broker_id} expires"
            found.append((text, partial(self._expire, session)))
        for action in self._actions:
            if self._can_act(action):
                found.append((action, partial(self._act, action)))
        return found

    def _timers(self, actors: Sequence[Actor]) -> list[_Step]:
        found = ((actor.next_due_ms(), actor) for actor in actors)
        due = [(ms, actor) for ms, actor in found if ms is not None and ms < NEVER_MS]
        if not due:
            return []
        due_ms, actor = min(due, key=lambda entry: entry[0])

        return [(f"a timer of {actor.address} fires", partial(self._fire, due_ms, actor))]

    def _fire(self, due_ms: float, actor: Actor) -> None:
        self._world.clock.advance_to(due_ms)
        self._run(actor)

    def _deliver(self, source: Address, destination: Address) -> None:
        self._world.transport.deliver_next(source, destination)
        actor = self._world.scheduler.actors.get(destination)
        if actor is not None and destination.role == "broker":
            # A broker handles a message when it arrives: only its own queue depends on that.
            actor.inbox.rotate(1)
            self._run(actor)

    def _run(self, actor: Actor) -> None:
        self._texts.changed(actor.address)
        self._world.run_event(actor)

    def _expire(self, session: int) -> None:
        del self._dead_sessions[session]
        self._world.server.expire_session(session, notify=False)

    def _can_act(self, action: str) -> bool:
        verb, *words = action.split()
        if verb not in _ON_BROKERS:
            return True
        return (int(words[0]) in self._world.nodes) == (verb in _ENDS)

    def _act(self, action: str) -> None:
        rest = list(self._actions)
        rest.remove(action)
        self._actions = tuple(rest)
        verb, *words = action.split()
        if verb in _ON_BROKERS:
            self._act_on(int(words[0]), verb)
        else:
            with closing(self._world.open_store()) as store:
                self._request(KafkaZkClient(store), verb, words)

    def _act_on(self, broker_id: int, verb: str) -> None:
        for role in ("broker", "controller"):
            self._texts.changed(Address(role, broker_id))
        if verb == "kill":
            session_id = self._world.nodes[broker_id].store.session_id
            self._dead_sessions[session_id] = broker_id
        _ON_BROKERS[verb](self._world, broker_id)

    def _request(self, client: KafkaZkClient, verb: str, words: Sequence[str]) -> None:
        replicas = [tuple(map(int, word.split(","))) for word in words]
        match verb:
            case "create":
                _create_topic(client, NEW_TOPIC, replicas)
            case "delete":
                client.create_delete_topic_path(TOPIC)
            case "reassign":
                targets = dict(zip(self._partitions, replicas, strict=True))
                client.create_partition_reassignment(targets)
            case _:
                client.create_preferred_replica_election(self._partitions)


def _create_topic(client: KafkaZkClient, topic: str, replicas: Sequence[tuple[int, ...]]) -> None:
    admin = TopicAdmin(client, JavaRandom(0))
    admin.create_topic_with_assignment(topic, {}, dict(enumerate(replicas)))
