"""The jobs a controller is timed at. One step is one job and gives one result.

Each brings the cluster from one settled state to another, which the next begins with. They must
not time anything themselves.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from typing import Any

from bench.kafka import scenarios
from bench.kafka.measure import Job, Started, Stats, measure
from bench.kafka.peer import Peer
from bench.kafka.scenarios import FIRST_BROKER, REPLICATION_FACTOR, Partition
from bench.kafka.zookeeper import State, children_gone, znode_gone
from klamm.cluster.errors import UsageError

VICTIM = FIRST_BROKER + 1
# An admin znode is one request, which ZooKeeper limits to 1 MiB.
MAX_ZNODE_BYTES = 1_000_000
STANDBY_SETTLE_S = 8.0
NO_LEADER = -1
CONTROLLER = "/controller"
PREFERRED_ELECTION = "/admin/preferred_replica_election"
REASSIGNMENT = "/admin/reassign_partitions"
TOPIC_DELETION = "/admin/delete_topics"

Result = dict[str, Any]


def create(peer: Peer, partitions: int | None) -> Result:
    """Write topics with ``partitions`` more partitions; the controller brings them Online."""
    made = peer.new_topics(peer.options.partitions if partitions is None else partitions)
    cold = not peer.topics
    new = {partition for topic in made for partition in topic.partitions}
    peer.topics += made
    step = "create_cold" if cold else "create"
    details = {"topics": len(made)}
    return measure(
        peer,
        Job(
            step,
            lambda: Started(peer.client.create_topics(made), details=details),
            is_sent=_leader_and_isr_sent(len(new) * REPLICATION_FACTOR),
            is_right=lambda partition, state: partition not in new or _is_as_made(partition, state),
            n=len(new),
        ),
    )


def failover(peer: Peer, _: int | None) -> Result:
    """Delete /controller: the same process, whose code is warm, is elected and loads all again."""

    def act() -> Started:
        at_s = time.time()
        peer.client.kazoo.delete(CONTROLLER)
        return Started(at_s)

    return _failover(peer, "failover", act)


def failover_standby(peer: Peer, _: int | None) -> Result:
    """Kill the controller: a process that was never controller is elected.

    The ephemerals are deleted at once, so that no session timeout is in the figure.
    """
    old = peer.controller
    peer.controller = peer.start_controller()
    time.sleep(STANDBY_SETTLE_S)

    def act() -> Started:
        old.kill()
        peer.client.kazoo.delete(f"/brokers/ids/{old.broker_id}")
        at_s = time.time()
        peer.client.kazoo.delete(CONTROLLER)
        return Started(at_s)

    return _failover(peer, "failover_standby", act)


def _failover(peer: Peer, step: str, act: Callable[[], Started]) -> Result:
    partitions = peer.partitions
    live = sum(broker != peer.down for item in partitions for broker in item.replicas)
    is_sent = _leader_and_isr_sent(live)
    job = Job(step, act, is_sent=is_sent, is_right=_has_leader, n=len(partitions))
    result = measure(peer, job)
    stat = peer.client.kazoo.exists(CONTROLLER)
    _require(stat is not None, step, "nobody was elected")
    created_s = stat.ctime / 1000 - result["started_at_s"]
    return result | {
        "controller_created_s": round(created_s, 3),
        "load_s": round(result["wall_s"] - created_s, 3),
    }


def broker_failure(peer: Peer, _: int | None) -> Result:
    """A broker's session ends, without a timeout in the figure."""
    _require(peer.down is None, "broker_failure", "a broker is down already")
    peer.down = VICTIM
    peer.brokers.ask("catchup off")
    return measure(
        peer,
        Job(
            "broker_failure",
            lambda: Started(peer.brokers.ask(f"drop {VICTIM}")["at"], details=_hosted(peer)),
            is_sent=_is_sent("LEADER_AND_ISR"),
            is_right=_is_without_victim,
        ),
    )


def controlled_shutdown(peer: Peer, _: int | None) -> Result:
    """A broker asks to leave; it is still there when it has the answer (then: broker_leaves)."""
    _require(peer.down is None, "controlled_shutdown", "a broker is down already")
    peer.brokers.ask("catchup off")

    def act() -> Started:
        answer = peer.brokers.ask(f"shutdown {VICTIM}")
        details = _hosted(peer) | {"error": answer["error"], "remaining": answer["refused"]}
        return Started(answer["at"], answer["answered"], details)

    return measure(peer, Job("controlled_shutdown", act, is_right=_is_without_victim))


def broker_leaves(peer: Peer, _: int | None) -> Result:
    """The session of a broker that was shut down in order ends."""
    _require(peer.down is None, "broker_leaves", "controlled_shutdown comes before")
    peer.down = VICTIM
    details = _hosted(peer)
    return measure(
        peer,
        Job(
            "broker_leaves",
            lambda: Started(peer.brokers.ask(f"drop {VICTIM}")["at"], details=details),
            is_sent=_is_sent("UPDATE_METADATA"),
            is_right=_is_without_victim,
            n=details["hosted"],
        ),
    )


def broker_start(peer: Peer, _: int | None) -> Result:
    """The broker that is down registers; its replicas stay out of the ISR (then: isr_rejoin)."""
    _require(peer.down is not None, "broker_start", "no broker is down")
    peer.down = None
    details = _hosted(peer)
    return measure(
        peer,
        Job(
            "broker_start",
            lambda: Started(peer.brokers.ask(f"start {VICTIM}")["at"], details=details),
            is_sent=_leader_and_isr_sent(details["hosted"]),
            n=details["hosted"],
            catch_up_held=True,
        ),
    )


def isr_rejoin(peer: Peer, _: int | None) -> Result:
    """The replicas of the broker that came back have caught up: their leaders send AlterIsr."""
    return measure(
        peer,
        Job(
            "isr_rejoin",
            lambda: Started(peer.brokers.ask("catchup on")["at"]),
            is_right=_has_full_isr,
        ),
    )


def preferred_election(peer: Peer, _: int | None) -> Result:
    """Lead again from the first replica, wherever it does not, by /admin."""
    states = peer.client.read_states(peer.partitions)
    chosen = [
        partition
        for partition, state in states.items()
        if state is not None and state.leader != partition.replicas[0]
    ]
    _require(bool(chosen), "preferred_election", "every leader is the preferred one")
    size = len(scenarios.preferred_election_payload(chosen))
    chosen = chosen[: len(chosen) * MAX_ZNODE_BYTES // max(size, MAX_ZNODE_BYTES)]
    data = scenarios.preferred_election_payload(chosen)
    wanted = set(chosen)

    def is_right(partition: Partition, state: State) -> bool:
        return partition not in wanted or state.leader == partition.replicas[0]

    return measure(
        peer,
        Job(
            "preferred_election",
            lambda: _ask_by_znode(peer, PREFERRED_ELECTION, data),
            gone=znode_gone(peer.client, PREFERRED_ELECTION),
            is_right=is_right,
            n=len(wanted),
        ),
    )


def reassign_znode(peer: Peer, count: int | None) -> Result:
    """Move one replica of each of the first ``count`` partitions, by /admin."""
    plan, data = _moves(peer, "reassign_znode", count)
    peer.brokers.ask("catchup on")
    job = Job(
        "reassign_znode",
        lambda: _ask_by_znode(peer, REASSIGNMENT, data),
        gone=znode_gone(peer.client, REASSIGNMENT),
        is_right=_is_on_replicas,
        n=len(plan),
    )
    return _reassigned(peer, measure(peer, job))


def reassign_held(peer: Peer, count: int | None) -> Result:
    """The same, but no new replica catches up: the reassignments begin, none can end."""
    plan, data = _moves(peer, "reassign_held", count)
    peer.brokers.ask("catchup off")
    job = Job(
        "reassign_held",
        lambda: _ask_by_znode(peer, REASSIGNMENT, data),
        is_sent=_leader_and_isr_sent(len(plan) * (REPLICATION_FACTOR + 1)),
        n=len(plan),
        catch_up_held=True,
    )
    return measure(peer, job)


def reassign_released(peer: Peer, _: int | None) -> Result:
    """All of them catch up at once, after reassign_held."""
    found = peer.client.read([REASSIGNMENT])[0]
    if found is None:
        raise UsageError("step reassign_released: reassign_held comes before")
    job = Job(
        "reassign_released",
        lambda: Started(peer.brokers.ask("catchup on")["at"]),
        gone=znode_gone(peer.client, REASSIGNMENT),
        is_right=_is_on_replicas,
        n=len(json.loads(found[0])["partitions"]),
    )
    return _reassigned(peer, measure(peer, job))


def _moves(peer: Peer, step: str, count: int | None) -> tuple[list[Partition], bytes]:
    """The moves of the first ``count`` partitions and the znode that asks for them."""
    plan = scenarios.moves(peer.partitions[: count or 1000], peer.options.brokers)
    data = scenarios.reassignment_payload(plan)
    _require(len(data) <= MAX_ZNODE_BYTES, step, f"{len(data)} bytes in one znode")
    peer.moved(plan)
    return plan, data


def reassign_api(peer: Peer, count: int | None) -> Result:
    """The same by one AlterPartitionReassignments."""
    plan = scenarios.moves(peer.partitions[: count or 1000], peer.options.brokers)
    lines = [
        f"{item.topic} {item.partition} {','.join(map(str, item.replicas))}\n" for item in plan
    ]
    file = peer.options.work_dir / "reassignment"
    file.write_text("".join(lines))
    peer.brokers.ask("catchup on")
    peer.moved(plan)

    def act() -> Started:
        answer = peer.brokers.ask(f"reassign {file}")
        details = {"error": answer["error"], "refused": answer["refused"]}
        return Started(answer["at"], answer["answered"], details)

    job = Job("reassign_api", act, is_right=_is_on_replicas, n=len(plan))
    return _reassigned(peer, measure(peer, job))


def _reassigned(peer: Peer, result: Result) -> Result:
    """The assignment znodes must say what was asked, and that nothing is under way."""
    found = peer.client.read([topic.path for topic in peer.topics])
    bad = []
    for topic, item in zip(peer.topics, found, strict=True):
        value = json.loads(item[0]) if item is not None else {"partitions": {}}
        replicas = {str(each.partition): list(each.replicas) for each in topic.partitions}
        under_way = value.get("adding_replicas") or value.get("removing_replicas")
        if under_way or value["partitions"] != replicas:
            bad.append(f"{topic.path}: {value}")
    result["verified"] = result["verified"] and not bad
    result["bad"] += bad[:1]
    return result


def delete_topics(peer: Peer, count: int | None) -> Result:
    """Delete the last ``count`` topics, by /admin."""
    last = peer.topics[-(count or 10) :]
    peer.topics = peer.topics[: -len(last)]
    paths = [f"{TOPIC_DELETION}/{topic.name}" for topic in last]
    return measure(
        peer,
        Job(
            "delete_topics",
            lambda: Started(peer.client.create_all(paths), details={"topics": len(last)}),
            gone=children_gone(peer.client, TOPIC_DELETION),
            n=sum(len(topic.partitions) for topic in last),
        ),
    )


def _ask_by_znode(peer: Peer, path: str, data: bytes) -> Started:
    at_s = time.time()
    peer.client.kazoo.create(path, data)
    return Started(at_s, details={"znode_bytes": len(data)})


def _is_sent(api: str) -> Callable[[Stats], bool]:
    return lambda stats: stats["requests"][api]["requests"] > 0


def _leader_and_isr_sent(replicas: int) -> Callable[[Stats], bool]:
    return lambda stats: stats["requests"]["LEADER_AND_ISR"]["partitions"] >= replicas


def _hosted(peer: Peer) -> dict[str, int]:
    lists = [partition.replicas for partition in peer.partitions]
    return {
        "hosted": sum(VICTIM in replicas for replicas in lists),
        "led": sum(replicas[0] == VICTIM for replicas in lists),
    }


def _has_leader(_: Partition, state: State) -> bool:
    return state.leader != NO_LEADER


def _is_as_made(partition: Partition, state: State) -> bool:
    return state.leader == partition.replicas[0] and state.isr == partition.replicas


def _is_without_victim(_: Partition, state: State) -> bool:
    return state.leader not in (VICTIM, NO_LEADER) and VICTIM not in state.isr


def _has_full_isr(partition: Partition, state: State) -> bool:
    return len(state.isr) == len(partition.replicas)


def _is_on_replicas(partition: Partition, state: State) -> bool:
    return set(state.isr) == set(partition.replicas) and state.leader in partition.replicas


def _require(condition: bool, step: str, reason: str) -> None:
    if not condition:
        raise UsageError(f"step {step}: {reason}")


# What a step is asked for by: its name, or name:count.
STEPS: dict[str, Callable[[Peer, int | None], Result]] = {
    step.__name__: step
    for step in (
        create,
        failover,
        failover_standby,
        broker_failure,
        controlled_shutdown,
        broker_leaves,
        broker_start,
        isr_rejoin,
        preferred_election,
        reassign_znode,
        reassign_held,
        reassign_released,
        reassign_api,
        delete_topics,
    )
}
