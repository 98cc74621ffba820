"""What klamm takes of memory: the context alone, and all of it with five brokers' state.

By tracemalloc, in a klamm of its own that is several times slower for it, so that nothing is timed
here.
"""

from __future__ import annotations

from typing import Any

from bench.kafka.peer import Options
from bench.kafka.run import do_steps, folder_for, parse_steps, problems
from bench.klamm import KlammPeer
from klamm.cluster.errors import EnvironmentProblem

STEPS = ("create", "failover")


def bytes_per_partition(partitions: int, partitions_per_topic: int, brokers: int) -> dict[str, Any]:
    """Bytes a partition of three replicas, of Python's objects.

    ``context_bytes``: a ControllerContext, loaded as at a failover. ``klamm_bytes``: all that the
    process has more than before there was a partition, after a failover: context, recorder,
    channels and the state of all brokers. Raises EnvironmentProblem when a step came out wrong.
    """
    plan = parse_steps(STEPS, partitions, partitions_per_topic, brokers)
    with folder_for(None) as folder:
        options = Options(partitions, partitions_per_topic, brokers, folder)
        with KlammPeer(options, traced=True) as peer:
            empty = peer.brokers.ask("memory")["bytes"]
            for result in do_steps(peer, plan):
                for problem in problems(result):
                    raise EnvironmentProblem(f"memory, {result['step']}: {problem}")
            full = peer.brokers.ask("memory")["bytes"]
            context = peer.brokers.ask("context")
    return {
        "product": KlammPeer.product,
        "step": "memory",
        "partitions": partitions,
        "partitions_per_topic": partitions_per_topic,
        "brokers": brokers,
        "context_bytes": round(context["bytes"] / context["partitions"]),
        "klamm_bytes": round((full - empty) / partitions),
    }
