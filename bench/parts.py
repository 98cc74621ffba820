"""Which steps a run takes, in which order: the parts of the benchmark, and what each needs before.

Names and counts only; bench/kafka/steps.py does them. It must not know what a figure means.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from bench.figures import KLAMM, Layout, plan_sizes

PARTS = (
    "creation",
    "failover",
    "shutdown",
    "election",
    "reassignment",
    "deletion",
    "broker-failure",
)
WARM_UP_PARTITIONS = 1_000
WARM_UP_REASSIGNED = 100
DELETED_PARTITIONS = 1_000
# A broker leaves in order, returns, and gets back what it led: each step needs those before it.
_RELIEVE = ("controlled_shutdown", "broker_leaves")
_RETURN = ("broker_start", "isr_rejoin")


# What a tenfold size is compared in.
GROWING = ("creation", "failover", "broker-failure")


def steps_for(layout: Layout, product: str, parts: Collection[str] = PARTS) -> tuple[str, ...]:
    """The steps of one run; of each kind the last counts, those before it warm the code up."""
    return tuple(_steps(layout, product, parts))


def _steps(layout: Layout, product: str, parts: Collection[str]) -> Iterator[str]:
    per_topic = layout.partitions_per_topic
    yield f"create:{max(per_topic, min(WARM_UP_PARTITIONS, layout.partitions // 10))}"
    cycle = tuple(_cycle(parts))
    yield from cycle
    yield "create"
    if "failover" in parts:
        yield from ("failover", "failover")
    yield from cycle
    if "reassignment" in parts:
        sizes = plan_sizes(layout)
        yield f"reassign_znode:{min(WARM_UP_REASSIGNED, max(1, sizes[0] // 10))}"
        for size in sizes if product == KLAMM else sizes[:1]:
            yield f"reassign_znode:{size}"
        if product == KLAMM:
            for size in sizes:
                yield from (f"reassign_held:{size}", "reassign_released")
    if "deletion" in parts:
        partitions = min(DELETED_PARTITIONS, layout.partitions // 2)
        yield f"delete_topics:{max(1, partitions // per_topic)}"
    if "broker-failure" in parts:
        yield "broker_failure"


def _cycle(parts: Collection[str]) -> Iterator[str]:
    if "shutdown" in parts or "election" in parts:
        yield from (*_RELIEVE, *_RETURN)
    if "election" in parts:
        yield "preferred_election"
