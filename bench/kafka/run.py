"""``run_kafka``: the figures of Kafka 2.8.2's controller, one result a step.

Called by klamm's own benchmark, which shows them beside klamm's and takes the same steps, and by
``python -m bench.kafka``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from bench.kafka.peer import KafkaPeer, Options, Peer
from bench.kafka.steps import STEPS, Result
from klamm.cluster.errors import UsageError
from klamm.world.kafka.jars import require_kafka_libs

DEFAULT_STEPS = ("create:1000", "create", "failover", "failover", "broker_failure")
MIN_BROKERS = 4

Step = tuple[str, int | None]
"""A name of STEPS, and the count behind it."""


def run_kafka(
    partitions: int,
    partitions_per_topic: int,
    brokers: int,
    steps: Sequence[str] = DEFAULT_STEPS,
    *,
    work_dir: Path | None = None,
    settings: Sequence[str] = (),
    on_result: Callable[[Result], None] | None = None,
) -> list[Result]:
    """Start everything, do ``steps`` in order, end everything; one result a step.

    ``work_dir``: an empty folder for data and logs, kept; else a temporary one. ``on_result`` is
    called as soon as there is one. README.md says what a result holds. Raises UsageError for steps
    that are not possible, EnvironmentProblem without Kafka's jars or javac.
    """
    plan = parse_steps(steps, partitions, partitions_per_topic, brokers)
    require_kafka_libs()
    with folder_for(work_dir) as folder:
        options = Options(partitions, partitions_per_topic, brokers, folder, settings)
        with KafkaPeer(options) as peer:
            return do_steps(peer, plan, on_result)


def parse_steps(
    steps: Sequence[str], partitions: int, partitions_per_topic: int, brokers: int
) -> list[Step]:
    """Names of STEPS or ``name:count``; ``create`` makes ``partitions`` unless it has a count.

    Raises UsageError for steps that are not possible.
    """
    plan = [_parse(step, partitions_per_topic) for step in steps]
    if partitions % partitions_per_topic:
        raise UsageError(f"{partitions} partitions are not topics of {partitions_per_topic}")
    if brokers < MIN_BROKERS:
        raise UsageError(f"{brokers} brokers: at least {MIN_BROKERS}, so that a replica can move")
    return plan


@contextmanager
def folder_for(work_dir: Path | None) -> Iterator[Path]:
    """``work_dir``, which must be empty, or a temporary folder. Raises UsageError."""
    if work_dir is None:
        with tempfile.TemporaryDirectory(prefix="klamm-bench-") as folder:
            yield Path(folder)
        return
    work_dir.mkdir(parents=True, exist_ok=True)
    if any(work_dir.iterdir()):
        raise UsageError(f"{work_dir} is not empty")
    yield work_dir.resolve()


def do_steps(
    peer: Peer, plan: Sequence[Step], on_result: Callable[[Result], None] | None = None
) -> list[Result]:
    """Do the steps in order, with any product."""
    results = []
    for name, count in plan:
        result = STEPS[name](peer, count)
        results.append(result)
        if on_result is not None:
            on_result(result)
    return results


def problems(result: Result) -> list[str]:
    """Why a figure is worth nothing: empty when what was timed also came out right."""
    found = []
    if not result.get("verified", True):
        found.append(f"wrong states: {'; '.join(result['bad'])}")
    if result["timed_out"]:
        found.append("not done in time")
    if result["errors"]:
        found.append(f"{result['errors']} errors in the brokers")
    if result.get("not_applied"):
        found.append(f"{result['not_applied']} states not applied: {result['not_applied_shown']}")
    if result.get("error") or result.get("refused") or result.get("remaining"):
        found.append("the controller refused")
    return found


def _parse(step: str, partitions_per_topic: int) -> Step:
    name, colon, count = step.partition(":")
    if name not in STEPS:
        raise UsageError(f"no step {name!r}", hint=f"one of {', '.join(STEPS)}")
    if not colon:
        return name, None
    if not count.isdecimal() or int(count) == 0:
        raise UsageError(f"step {step!r}: a count is a number from 1")
    if name == "create" and int(count) % partitions_per_topic:
        raise UsageError(f"step {step!r}: not topics of {partitions_per_topic} partitions")
    return name, int(count)
