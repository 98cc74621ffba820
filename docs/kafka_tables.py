"""Generated sections about drills on brokers of Kafka: what `klamm drill compare` showed.

The runs need Kafka's jars and minutes, so their results are kept in drills-on-kafka.json, which
`klamm drill compare DRILL... --json` writes.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Final

from docs.markdown import table
from klamm.lab.drills.library import named_drill
from klamm.lab.run.comparison import OF_WORLDS
from klamm.lab.run.possible_on_kafka import why_impossible
from klamm.lab.run.worlds import World

RESULTS: Final = Path(__file__).with_name("drills-on-kafka.json")


def results() -> dict[str, dict[str, Any]]:
    """Return the kept results, keyed by drill."""
    return {one["drill"]: one for one in json.loads(RESULTS.read_text())}


def compared_table() -> str:
    """Return the table of the drills that brokers of Kafka can run."""
    rows = [
        (
            f"`{name}`",
            *(_outcome(one["worlds"][str(world)]) for world in OF_WORLDS),
            "<br>".join(line for line in one["differences"] if line != "outcome"),
        )
        for name, one in sorted(results().items())
    ]
    return table(("drill", *map(str, OF_WORLDS), "partitions that differ at the end"), rows)


def seen_on_kafka(drill: str) -> str:
    """Return the outcome of a drill on brokers of Kafka 2.8.2 under their own controller."""
    if why_impossible(named_drill(drill), has_klamm=False) is not None:
        return "not possible"
    one = results().get(drill)
    return "not run" if one is None else _outcome(one["worlds"][str(World.KAFKA)])


def _outcome(result: dict[str, Any]) -> str:
    if result["outcome"] is None:
        return f"not possible: {result['reason']}"
    hidden = result["not_observable"]
    words: str = result["outcome"] + (f" ({hidden} not observable)" if hidden else "")
    if result["failure"] is not None:
        expected, _, _ = result["failure"].partition("; seen ")
        words += f": {expected}"
    return words


SECTIONS = {"compared": compared_table}
