"""Random manual edits of topic znodes, with which a hunt's drill may begin.

They are made while the cluster is stable, and the controller restores the znodes before a fault can
happen. A controller that is elected after an edit adopts it: then topic ids are lost, and a leader
does not hear of added replicas, because its leader epoch stays the same (docs/hunt.md).
"""

from __future__ import annotations

import json

from klamm.drills.drawn_cluster import Draw


def draw_edit(draw: Draw) -> str:
    """Return a step that edits the znodes of a topic."""
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
    replicas = ",".join(":".join(map(str, ids)) for ids in partitions)
    create = f"topics --zookeeper {{zk}} --create --topic {topic} --replica-assignment {replicas}"
    deletion = f"delete_znode: [{', '.join(paths)}]"
    return f"{{steps: [{{{deletion}}}, {{wait: 2s}}, {{run: '{create}'}}, {{wait: 2s}}]}}"
