"""``run_kafka``: the figures of Kafka 2.8.2's controller, one result a step.

Called by klamm's own benchmark, which shows them beside klamm's, and by ``python -m bench.kafka``.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

from bench.kafka.locate import require_kafka_libs
from bench.kafka.peer import Options, Peer
from bench.kafka.steps import STEPS, Result
from cluster.errors import UsageError

DEFAULT_STEPS = ("create:1000", "create", "failover", "failover", "broker_failure")
MIN_BROKERS = 4


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

    A step is a name of STEPS or ``name:count``; ``create`` makes ``partitions`` more unless it has
    a count. ``work_dir``: an empty folder for data and logs, kept; else a temporary one.
    ``on_result`` is called as soon as there is one. README.md says what a result holds. Raises
    UsageError for steps that are not possible, EnvironmentProblem without Kafka's jars or javac.
    """
    plan = [_parse(step, partitions_per_topic) for step in steps]
    if partitions % partitions_per_topic:
        raise UsageError(f"{partitions} partitions are not topics of {partitions_per_topic}")
    if brokers < MIN_BROKERS:
        raise UsageError(f"{brokers} brokers: at least {MIN_BROKERS}, so that a replica can move")
    require_kafka_libs()
    if work_dir is None:
        with tempfile.TemporaryDirectory(prefix="klamm-peer-") as folder:
            options = Options(partitions, partitions_per_topic, brokers, Path(folder), settings)
            return _run(options, plan, on_result)
    work_dir.mkdir(parents=True, exist_ok=True)
    if any(work_dir.iterdir()):
        raise UsageError(f"{work_dir} is not empty")
    options = Options(partitions, partitions_per_topic, brokers, work_dir.resolve(), settings)
    return _run(options, plan, on_result)


def problems(result: Result) -> list[str]:
    """Why a figure is worth nothing: empty when what was timed also came out right."""
    found = []
    if not result.get("verified", True):
        found.append(f"wrong states: {'; '.join(result['bad'])}")
    if result["timed_out"]:
        found.append("not done in time")
    if result["errors"]:
        found.append(f"{result['errors']} errors in the fake brokers")
    if result.get("error") or result.get("refused") or result.get("remaining"):
        found.append("the controller refused")
    return found


def _parse(step: str, partitions_per_topic: int) -> tuple[str, int | None]:
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


def _run(
    options: Options,
    plan: Sequence[tuple[str, int | None]],
    on_result: Callable[[Result], None] | None,
) -> list[Result]:
    results = []
    with Peer(options) as peer:
        for name, count in plan:
            result = STEPS[name](peer, count)
            results.append(result)
            if on_result is not None:
                on_result(result)
    return results
