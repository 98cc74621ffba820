"""Random steps of a hunt's drill: faults, their repairs, and operations.

Faults that lose unflushed data can make Kafka 2.8 lose acknowledged records, because a broker that
lost data and registers again before a controller has noticed its failure stays in the ISR
(KIP-966). Failed fsyncs are therefore never generated, and power_off only if it is requested.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import msgspec

from klamm.cluster.errors import UsageError
from klamm.cluster.suggestions import suggestion


class DrawnCluster(msgspec.Struct, frozen=True):
    """Size, topics and configs of a generated cluster.

    ``controllers``: the number of candidates. ``topics``: for each topic, the replicas of its
    partitions. ``deletable``: topics that may be deleted and created again; no records are produced
    to them.
    """

    brokers: int
    controllers: int
    topics: dict[str, list[list[int]]]
    deletable: tuple[str, ...]
    log_dirs: tuple[str, ...]
    has_segments: bool
    config: dict[str, str]
    session_timeout_ms: int


Fault = Callable[["Draw"], str]


class Draw:
    """Makes the random choices for one drill.

    ``down`` and ``paused``: the brokers that are probably down or paused after the steps so far.
    ``deletes``: whether topics may be deleted. ``compares``: whether controller and brokers agree
    with ZooKeeper a while after the network is healed, although brokers are dead.
    """

    def __init__(self, rng: random.Random, cluster: DrawnCluster) -> None:
        self.rng = rng
        self.cluster = cluster
        self.deletes = True
        self.compares = False
        self.down: set[int] = set()
        self.paused: set[int] = set()

    def broker(self) -> str:
        """Return a random target: a broker id, the controller, or the leader of a partition."""
        kind = self.rng.random()
        if kind < 0.25:
            return "controller"
        if kind < 0.5:
            return f"leader of {self.partition()}"
        return str(self.rng.randrange(self.cluster.brokers))

    def up(self) -> int:
        """Return the id of a random broker that is probably running."""
        ids = [n for n in range(self.cluster.brokers) if n not in self.down | self.paused]
        return self.rng.choice(ids or list(range(self.cluster.brokers)))

    def topic(self) -> str:
        """Return the name of a random topic."""
        return self.rng.choice(list(self.cluster.topics))

    def partition(self) -> str:
        """Return the name of a random partition."""
        topic = self.topic()
        return f"{topic}-{self.rng.randrange(len(self.cluster.topics[topic]))}"

    def produced(self) -> str:
        """Return the name of a random partition whose topic is never deleted."""
        topics = [name for name in self.cluster.topics if name not in self.cluster.deletable]
        topic = self.rng.choice(topics)
        return f"{topic}-{self.rng.randrange(len(self.cluster.topics[topic]))}"

    def replicas(self) -> list[int]:
        """Return random replicas for a partition."""
        return draw_replicas(self.rng, self.cluster.brokers)


def draw_replicas(rng: random.Random, brokers: int) -> list[int]:
    """Return random replicas of a partition in a cluster of this many brokers."""
    count = min(brokers, rng.choice((1, 2, 2, 3, 3, 3)))
    return rng.sample(range(brokers), count)


def _kill(draw: Draw) -> str:
    if draw.rng.random() < 0.5:
        return f"kill: {draw.broker()}"
    broker = draw.up()
    draw.down.add(broker)
    return f"kill: {broker}"


def _stop(draw: Draw) -> str:
    broker = draw.up()
    draw.down.add(broker)
    return f"stop: {broker}"


def _start(draw: Draw) -> str:
    if not draw.down or draw.rng.random() < 0.3:
        draw.down.clear()
        return "start: dead"
    broker = draw.rng.choice(sorted(draw.down))
    draw.down.discard(broker)
    return f"start: {broker}"


def _pause(draw: Draw) -> str:
    if draw.rng.random() < 0.5:
        return "pause: controller"
    broker = draw.up()
    draw.paused.add(broker)
    return f"pause: {broker}"


def _resume(draw: Draw) -> str:
    draw.paused.clear()
    return "resume: paused"


def _isolate(draw: Draw) -> str:
    count = draw.rng.randrange(1, max(2, draw.cluster.brokers // 2 + 1))
    return f"isolate: {sorted(draw.rng.sample(range(draw.cluster.brokers), count))}"


def _direction(draw: Draw, one: str, other: str) -> str:
    """Return the links between two groups, in both directions or in one."""
    kind = draw.rng.random()
    if kind < 0.5:
        return f"between: [{one}, {other}]"
    one, other = (one, other) if kind < 0.75 else (other, one)
    return f"from: {one}, to: {other}"


def _cut_zookeeper(draw: Draw) -> str:
    return f"cut: {{{_direction(draw, draw.broker(), 'zookeeper')}}}"


def _cut_controller(draw: Draw) -> str:
    links = _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), "controller")
    return f"cut: {{{links}, only: control}}"


def _cut_clients(draw: Draw) -> str:
    return f"cut: {{{_direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), 'clients')}}}"


def _cut_one_way(draw: Draw) -> str:
    ends = (str(draw.rng.randrange(draw.cluster.brokers)), "others")
    source, destination = ends if draw.rng.random() < 0.5 else ends[::-1]
    return f"cut: {{from: {source}, to: {destination}}}"


def _split(draw: Draw) -> str:
    """Return a step that splits the brokers, mostly into three groups."""
    ids = draw.rng.sample(range(draw.cluster.brokers), draw.cluster.brokers)
    first = draw.rng.randrange(1, len(ids) - 1)
    second = draw.rng.randrange(first + 1, len(ids) + 1)
    groups = [sorted(group) for group in (ids[:first], ids[first:second], ids[second:]) if group]
    return f"cut: {{between: {groups}}}"


def _links(draw: Draw) -> str:
    """Return random links between brokers, clients and controllers."""
    other = draw.rng.choice(("others", "others", "clients"))
    only = draw.rng.choice(("", "", ", only: control", ", only: records"))
    return _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), other) + only


def _clog(draw: Draw) -> str:
    return f"clog: {{{_links(draw)}}}"


def _delay(draw: Draw) -> str:
    return f"delay: {{{_links(draw)}, ms: {draw.rng.choice((10, 100, 1000, 4000))}}}"


def _delay_zookeeper(draw: Draw) -> str:
    links = _direction(draw, draw.broker(), "zookeeper")
    return f"delay: {{{links}, ms: {draw.rng.choice((10, 100, 400))}}}"


def _lag(draw: Draw) -> str:
    ms = draw.rng.choice((10, 100, 1000, 5000))
    return f"lag_zookeeper: {{broker: {draw.rng.randrange(draw.cluster.brokers)}, ms: {ms}}}"


def _skew(draw: Draw) -> str:
    ms = draw.rng.choice((-3_600_000, -10_000, 10_000, 3_600_000))
    return f"skew_clock: {{broker: {draw.rng.randrange(draw.cluster.brokers)}, ms: {ms}}}"


def _degrade_control(draw: Draw) -> str:
    share = draw.rng.choice
    links = _direction(draw, str(draw.rng.randrange(draw.cluster.brokers)), "others")
    # Not repeated: a late UpdateMetadata replaces a newer one (docs/hunt.md).
    rates = f"loss: {share((0.01, 0.1, 0.3))}, reordering: {share((0, 0.1, 0.5))}"
    return f"degrade_network: {{{links}, only: control, {rates}}}"


def _two_zombies(draw: Draw) -> str:
    """Return a step that pauses a controller and its successor, and then resumes both."""
    expiry_ms = draw.cluster.session_timeout_ms + draw.rng.choice((50, 500))
    pause = f"pause: controller, wait: {expiry_ms}ms".replace(", wait", "}, {wait")
    return f"steps: [{{{pause}}}, {{{pause}}}, {{resume: paused}}]"


def _degrade(draw: Draw) -> str:
    share = draw.rng.choice
    loss, again, late = share((0, 0.01, 0.1)), share((0, 0.01, 0.1)), share((0, 0.01, 0.3))
    return f"degrade_network: {{loss: {loss}, repetition: {again}, reordering: {late}}}"


def _reassign(draw: Draw) -> str:
    moves = {draw.partition(): draw.replicas() for _ in range(draw.rng.randrange(1, 4))}
    return f"reassign: {_flow(moves)}"


def _reassign_by_znode(draw: Draw) -> str:
    entries = []
    for tp in {draw.partition(): None for _ in range(draw.rng.randrange(1, 4))}:
        topic, _, number = tp.rpartition("-")
        replicas = draw.replicas() if draw.rng.random() < 0.9 else []
        entries.append(f"{{topic: {topic}, partition: {number}, replicas: {replicas}}}")
    word = draw.rng.choice(("create_znode", "create_znode", "set_znode"))
    value = f"{{version: 1, partitions: [{', '.join(entries)}]}}"
    return f"{word}: {{/admin/reassign_partitions: {value}}}"


def _cancel(draw: Draw) -> str:
    return f"cancel_reassignment: [{draw.partition()}]"


def _elect(draw: Draw) -> str:
    return f"elect_preferred: {draw.rng.choice(('all', f'[{draw.partition()}]'))}"


def _elect_by_znode(draw: Draw) -> str:
    topic, _, number = draw.partition().rpartition("-")
    return (
        "create_znode: {/admin/preferred_replica_election: "
        f"{{version: 1, partitions: [{{topic: {topic}, partition: {number}}}]}}}}"
    )


def delete_topic(draw: Draw) -> str:
    """Return a step that requests the deletion of a topic.

    A live broker without a session would miss the deletion and keep the topic in its metadata cache
    forever: in Kafka 2.8, no later UpdateMetadata request repeats it. A broker that the controller
    does not reach misses it too, if the controller changes before the request arrives.
    """
    topic = draw.rng.choice(draw.cluster.deletable)
    return f"create_znode: {{/admin/delete_topics/{topic}: null}}"


def _create_topic(draw: Draw) -> str:
    topic = draw.rng.choice(draw.cluster.deletable)
    count = len(draw.cluster.topics[topic])
    # Kafka's tool refuses partitions with different replication factors.
    replicas = ",".join([":".join(map(str, draw.replicas()))] * count)
    args = f"--create --topic {topic} --replica-assignment {replicas}"
    return f"run: topics --zookeeper {{zk}} {args}"


def _add_partition(draw: Draw) -> str:
    topic = draw.topic()
    count = len(draw.cluster.topics[topic]) + draw.rng.randrange(1, 3)
    return f"run: topics --zookeeper {{zk}} --alter --topic {topic} --partitions {count}"


def _at_once(draw: Draw) -> str:
    """Return a step with two or three clients that call the controller at the same time."""
    calls = [one for one in _CALLS if draw.deletes or one is not _call_delete]
    branches = []
    for _ in range(draw.rng.choice((2, 2, 3))):
        steps = []
        for _ in range(draw.rng.choice((1, 2, 3))):
            steps.append(draw.rng.choice(calls)(draw))
            if draw.rng.random() < 0.3:
                steps.append(wait(draw.rng, "short"))
        branches.append(f"[{', '.join(f'{{{step}}}' for step in steps)}]")
    return f"parallel: [{', '.join(branches)}]"


def _call_create(draw: Draw) -> str:
    topic = draw.rng.choice(draw.cluster.deletable)
    replicas = ",".join([":".join(map(str, draw.replicas()))] * draw.rng.randrange(1, 4))
    return _tool(f"topics --create --topic {topic} --replica-assignment {replicas}")


def _call_delete(draw: Draw) -> str:
    return _tool(f"topics --delete --topic {draw.rng.choice(draw.cluster.deletable)}")


def _call_add_partition(draw: Draw) -> str:
    topic = draw.topic()
    count = len(draw.cluster.topics[topic]) + draw.rng.randrange(1, 3)
    return _tool(f"topics --alter --topic {topic} --partitions {count}")


def _call_alter_configs(draw: Draw) -> str:
    name = draw.rng.choice(("retention.ms", "segment.ms"))
    change = draw.rng.choice((f"--delete-config {name}", f"--add-config {name}=86400000"))
    return _tool(f"configs --alter --entity-type topics --entity-name {draw.topic()} {change}")


def _call_list_reassignments(_: Draw) -> str:
    return _tool("reassign-partitions --list")


def _tool(command: str) -> str:
    return f"run: '{command} --bootstrap-server {{bootstrap}}'"


def _at_a_moment(draw: Draw) -> str:
    """Return a step with a fault at a ZooKeeper operation of the controller, if it happens."""
    when = draw.rng.choice(("before", "after"))
    operation = draw.rng.choice((1, 1, 2, 3, 4, 5, 6, 8))
    moment = f"{{event: {draw.rng.choice(_EVENTS)}, operation: {operation}}}"
    return f"{{{when}: {moment}, {draw.rng.choice(_AT_A_MOMENT)}}}"


def _fail_disk(draw: Draw) -> str:
    log_dir = draw.rng.choice(draw.cluster.log_dirs)
    kind = draw.rng.choice(("enospc", "eio", "short-write"))
    after = draw.rng.choice(("", ", after_bytes: 200", ", after_bytes: 5000"))
    times = draw.rng.choice(("", ", times: 1"))
    return f"fail_disk: {{broker: {draw.up()}, dir: {log_dir}, kind: {kind}{after}{times}}}"


def _fail_log_dir(draw: Draw) -> str:
    return f"fail_log_dir: {{broker: {draw.up()}, dir: {draw.rng.choice(draw.cluster.log_dirs)}}}"


def _slow_disk(draw: Draw) -> str:
    return f"slow_disk: {{broker: {draw.up()}, bytes_per_s: {draw.rng.choice((100, 1000, 10000))}}}"


def produce(draw: Draw) -> str:
    """Return a step that produces records to topics that are never deleted."""
    given = {draw.produced(): draw.rng.choice((1, 10, 50)) for _ in range(2)}
    return f"produce: {_flow(given)}"


def _power_off(draw: Draw) -> str:
    broker = draw.up()
    draw.down.add(broker)
    return f"power_off: {broker}"


_EVENTS: Final = (
    "AlterIsrReceived",
    "ApiPartitionReassignment",
    "BrokerChange",
    "PartitionModifications",
    "PartitionReassignmentIsrChange",
    "TopicChange",
    "TopicDeletion",
    "ZkPartitionReassignment",
)
"""Events of a controller that write to ZooKeeper."""
_AT_A_MOMENT: Final = (
    "kill: controller",
    "lose_reply: controller",
    "lose_request: controller",
    "expire_session: controller",
    "steps: [pause: controller, move_controller, wait: 500ms, resume: paused]",
)
FAULTS: Final[dict[str, Fault]] = {
    "kill": _kill,
    "stop": _stop,
    "pause": _pause,
    "isolate": _isolate,
    "network": _degrade,
    "cut-zookeeper": _cut_zookeeper,
    "cut-controller": _cut_controller,
    "cut-clients": _cut_clients,
    "one-way": _cut_one_way,
    "split": _split,
    "clog": _clog,
    "delay": _delay,
    "delay-zookeeper": _delay_zookeeper,
    "control-requests": _degrade_control,
    "stale-reads": _lag,
    "clock": _skew,
    "zombies": _two_zombies,
    "session": lambda draw: f"expire_session: {draw.broker()}",
    "lost-reply": lambda draw: (
        f"{draw.rng.choice(('lose_reply', 'lose_request'))}: {draw.broker()}"
    ),
    "move-controller": lambda _: "move_controller",
    "log-dir": _fail_log_dir,
    "disk": _fail_disk,
    "slow-disk": _slow_disk,
    "kill-all": lambda _: "kill_all",
    "authentication": lambda draw: f"fail_authentication: {draw.broker()}",
    "moment": _at_a_moment,
    "power-off": _power_off,
}
"""The kinds of faults, keyed by their names on the command line."""
_ON_LINKS: Final = (
    *("cut-zookeeper", "cut-controller", "cut-clients", "one-way", "split"),
    *("clog", "delay", "delay-zookeeper", "control-requests", "stale-reads"),
)
SILENT: Final = frozenset(("pause", "session", "zombies", "moment", *_ON_LINKS))
"""Faults that can leave a broker with an old metadata cache: see delete_topic."""
LASTING: Final = frozenset(("clock", "log-dir", "disk", "kill-all", "power-off"))
"""Faults after which controller and brokers need not agree with ZooKeeper until all is healed."""
ONLY_IF_NAMED: Final = ("power-off",)
REPAIRS: Final[dict[str, tuple[Fault, ...]]] = {
    "kill": (_start,),
    "stop": (_start,),
    "session": (_start,),
    "power-off": (_start,),
    "pause": (_resume,),
    "isolate": (lambda _: "heal_network",),
    "network": (lambda _: "heal_network",),
    **dict.fromkeys(_ON_LINKS, (lambda _: "heal_network",)),
    "zombies": (_resume,),
    "moment": (_start,),
    "log-dir": (_start,),
    "disk": (lambda _: "heal_disks", _start),
    "slow-disk": (lambda _: "heal_disks",),
    "kill-all": (lambda _: "up_again", lambda _: "up_again"),
}
OPERATIONS: Final[tuple[Fault, ...]] = (
    _reassign,
    _reassign_by_znode,
    _cancel,
    _elect,
    _elect_by_znode,
    delete_topic,
    _create_topic,
    _add_partition,
    produce,
    produce,
    _at_once,
)
_CALLS: Final[tuple[Fault, ...]] = (
    _call_create,
    _call_delete,
    _call_add_partition,
    _call_alter_configs,
    _call_list_reassignments,
    _reassign,
    _cancel,
    _elect,
)
"""Requests that several clients send at the same time."""


def check_faults(names: Sequence[str]) -> tuple[str, ...]:
    """Return the names of faults as a tuple. Raises UsageError for an unknown or repeated name."""
    for name in names:
        if name not in FAULTS:
            hint = suggestion(name, FAULTS, f"faults: {', '.join(FAULTS)}")
            raise UsageError(f"unknown fault {name}", hint=hint)
        if names.count(name) > 1:
            raise UsageError(f"the fault {name} is given twice", hint="name each fault once")
    return tuple(names)


def _flow(values: Mapping[str, object]) -> str:
    return "{" + ", ".join(f"{name}: {value}" for name, value in values.items()) + "}"


def wait(rng: random.Random, pace: str) -> str:
    """Return a step that waits: for some events (``advance``), or for a ``short`` or long time."""
    if pace == "advance":
        return f"advance: {rng.choice((1, 3, 10, 30, 100))}"
    if pace == "short":
        return f"wait: {rng.choice((5, 20, 100, 300))}ms"
    return f"wait: {rng.choice((1, 2, 4, 8))}s"
