"""Results as rows of a Markdown table, Kafka's and klamm's alike. It must not compute a figure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

_COLUMNS = (
    ("product", "product"),
    ("step", "step"),
    ("partitions", "cluster_partitions"),
    ("a topic", "partitions_per_topic"),
    ("brokers", "brokers"),
    ("n", "n"),
    ("wall s", "wall_s"),
    ("n/s", "per_s"),
    ("CPU s: controller", "cpu_controller_s"),
    ("ZooKeeper", "cpu_zookeeper_s"),
    ("others", "cpu_others_s"),
    ("ZooKeeper packets", "zookeeper_packets"),
    ("right", "verified"),
)
HEADER = "\n".join(
    (
        f"| {' | '.join(title for title, _ in _COLUMNS)} |",
        f"|{'---|' * len(_COLUMNS)}",
    )
)


def row(result: Mapping[str, Any]) -> str:
    """One result as a row under HEADER; what it does not hold stays empty."""
    return f"| {' | '.join(_cell(result.get(key)) for _, key in _COLUMNS)} |"


def _cell(value: object) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "NO"
    return f"{value:,}" if isinstance(value, int | float) else str(value)
