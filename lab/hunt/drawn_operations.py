"""Random operations of a hunt's drill: requests of clients and tools."""

from __future__ import annotations

import json
from typing import Final

from klamm.lab.hunt.drawn_cluster import Draw, DrawFault, flow, wait
from klamm.lab.language.clusters import assignment_text


def reassign(draw: Draw) -> str:
    moves = {draw.partition(): draw.replicas() for _ in range(draw.rng.randrange(1, 4))}
    return f"reassign: {flow(moves)}"


def reassign_to_paused(draw: Draw, tp: str) -> str:
    """Return a step after which the reassignment of a partition waits for one of its targets."""
    broker = draw.up()
    draw.paused.add(broker)
    target = [broker, *(n for n in draw.replicas() if n != broker)]
    draw.rng.shuffle(target)
    return f"steps: [{{pause: {broker}}}, {{reassign: {{{tp}: {target}}}}}]"


def _move_log(draw: Draw) -> str:
    """Return a step that moves a replica to another log directory, and maybe reassigns it."""
    topic, _, number = draw.partition().rpartition("-")
    parts = draw.cluster.topics[topic]
    replicas = parts[int(number)]
    dirs = [draw.rng.choice((*draw.cluster.log_dirs, "any")) for _ in replicas]
    entry = f"{{topic: {topic}, partition: {number}, replicas: {replicas}, log_dirs: {dirs}}}"
    command = (
        "reassign-partitions --bootstrap-server {bootstrap} --execute "
        "--reassignment-json-file {file:plan}"
    )
    return f"{{run: '{command}', files: {{plan: {{version: 1, partitions: [{entry}]}}}}}}"


def reassign_by_znode(draw: Draw) -> str:
    entries = []
    for tp in {draw.partition(): None for _ in range(draw.rng.randrange(1, 4))}:
        topic, _, number = tp.rpartition("-")
        replicas = draw.replicas() if draw.rng.random() < 0.9 else []
        entries.append(f"{{topic: {topic}, partition: {number}, replicas: {replicas}}}")
    word = draw.rng.choice(("create_znode", "create_znode", "set_znode"))
    value = f"{{version: 1, partitions: [{', '.join(entries)}]}}"
    return f"{word}: {{/admin/reassign_partitions: {value}}}"


def cancel(draw: Draw) -> str:
    return f"cancel_reassignment: [{draw.partition()}]"


def _elect(draw: Draw) -> str:
    return f"elect_preferred: {draw.rng.choice(('all', f'[{draw.partition()}]'))}"


def _elect_by_znode(draw: Draw) -> str:
    return _elect_of(draw.partition())


def _elect_of(tp: str) -> str:
    topic, _, number = tp.rpartition("-")
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
    return f"run: '{_creation(topic, [draw.replicas()] * count)}'"


def _creation(topic: str, replicas: list[list[int]]) -> str:
    words = f"--create --topic {topic} --replica-assignment {assignment_text(replicas)}"
    return f"topics --zookeeper {{zk}} {words}"


def create_new_topic(draw: Draw) -> str:
    """Return a step that creates a topic, often with a dead replica only, and elects its leader."""
    topic = f"n{draw.rng.randrange(9)}"
    replicas = draw.replicas()
    if draw.down and draw.rng.random() < 0.5:
        replicas = [draw.rng.choice(sorted(draw.down))]
    create = _creation(topic, [replicas])
    if draw.rng.random() < 0.5:
        return f"run: '{create}'"
    return f"steps: [{{run: '{create}'}}, {{{_elect_of(f'{topic}-0')}}}]"


def add_partition(draw: Draw) -> str:
    topic = draw.topic()
    count = len(draw.cluster.topics[topic]) + draw.rng.randrange(1, 3)
    return f"run: 'topics --zookeeper {{zk}} --alter --topic {topic} --partitions {count}'"


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
    replicas = assignment_text([draw.replicas()] * draw.rng.randrange(1, 4))
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


def produce_step(draw: Draw) -> str:
    """Return a step that produces records to topics that are never deleted."""
    given = {draw.produced(): draw.rng.choice((1, 10, 50)) for _ in range(2)}
    return f"produce: {flow(given)}"


OPERATIONS: Final[tuple[DrawFault, ...]] = (
    reassign,
    reassign_by_znode,
    cancel,
    _elect,
    _elect_by_znode,
    delete_topic,
    _create_topic,
    create_new_topic,
    add_partition,
    _move_log,
    produce_step,
    produce_step,
    _at_once,
)
_CALLS: Final[tuple[DrawFault, ...]] = (
    _call_create,
    _call_delete,
    _call_add_partition,
    _call_alter_configs,
    _call_list_reassignments,
    reassign,
    cancel,
    _elect,
)
"""Requests that several clients send at the same time."""


# -- manual edits of topic znodes


def draw_edit(draw: Draw) -> str:
    """Return a step that edits the znodes of a topic, with which a hunt's drill may begin.

    It is made while the cluster is stable, and the controller restores the znodes before a fault
    can happen. A controller that is elected after an edit adopts it: then topic ids are lost, and a
    leader does not hear of added replicas, because its leader epoch stays the same (docs/hunt.md).
    """
    edits = [_edit_replicas, _write_without_id, _write_foreign_znode]
    if draw.deletes:
        edits.append(_delete_znodes)
    return draw.rng.choice(edits)(draw)


def _edit_replicas(draw: Draw) -> str:
    """Return a step in which another tool changes the replicas of a partition, or adds one."""
    topic, _, number = draw.produced().rpartition("-")
    number = draw.rng.choice((number, str(len(draw.cluster.topics[topic]))))
    return _and_wait(f"set_topic_partitions: {{{topic}-{number}: {draw.replicas()}}}")


def _and_wait(edit: str) -> str:
    return f"{{steps: [{{{edit}}}, {{wait: 2s}}]}}"


def _write_without_id(draw: Draw) -> str:
    """Return a step in which a tool that does not know topic ids writes a topic znode."""
    topic = draw.topic()
    partitions = {str(n): ids for n, ids in enumerate(draw.cluster.topics[topic])}
    value = json.dumps({"version": 1, "partitions": partitions})
    return _and_wait(f"set_znode: {{/brokers/topics/{topic}: {value}}}")


def _write_foreign_znode(draw: Draw) -> str:
    value = draw.rng.choice(("'not JSON'", "{version: 2, partitions: 0}", "[]"))
    return f"create_znode: {{/brokers/topics/foreign: {value}}}"


def _delete_znodes(draw: Draw) -> str:
    """Return a step that deletes all znodes of a topic manually, and creates it again.

    The controller has two seconds for each, because the next one could not tell the topics apart.
    """
    topic = draw.rng.choice(draw.cluster.deletable)
    partitions = draw.cluster.topics[topic]
    root = f"/brokers/topics/{topic}"
    paths = [
        path
        for number in range(len(partitions))
        for path in (f"{root}/partitions/{number}/state", f"{root}/partitions/{number}")
    ]
    paths += [f"{root}/partitions", root, f"/config/topics/{topic}"]
    create = _creation(topic, partitions)
    deletion = f"delete_znode: [{', '.join(paths)}]"
    return f"{{steps: [{{{deletion}}}, {{wait: 2s}}, {{run: '{create}'}}, {{wait: 2s}}]}}"
