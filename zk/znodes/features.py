"""Version ranges of features (KIP-584), used in broker registrations and in /feature.

Mirrors org.apache.kafka.common.feature.{Features,BaseVersionRange}.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from klamm.zk.znodes.json_values import (
    as_object,
    illegal_content,
    to_int,
)


class VersionRange(NamedTuple):
    """Lowest and highest version (level) of a feature."""

    min: int
    max: int


def features_field(node: Mapping[str, Any]) -> dict[str, dict[str, int]] | None:
    """Return the JSON field ``features``, or None if it is absent.

    Versions are narrowed to 16-bit shorts, as in Kafka."""
    value = node.get("features")
    if value is None:
        return None
    return {
        name: {label: _to_short(to_int(version)) for label, version in as_object(labels).items()}
        for name, labels in as_object(value).items()
    }


def _to_short(value: int) -> int:
    return (value + 0x8000) % 0x10000 - 0x8000


def version_ranges(
    features: Mapping[str, Mapping[str, int]], min_label: str, max_label: str
) -> dict[str, VersionRange]:
    """Return version ranges, keyed by feature name.

    ``min_label`` and ``max_label`` are the JSON names of a range's two ends. Raises MalformedZNode
    if one of them is missing or a range is invalid.
    """
    ranges = {}
    for name, labels in features.items():
        for label in (min_label, max_label):
            if label not in labels:
                shown = ", ".join(f"{key}:{version}" for key, version in labels.items())
                raise illegal_content(f"{label} absent in [{shown}]")
        low, high = labels[min_label], labels[max_label]
        if low < 1 or high < 1 or high < low:
            raise illegal_content(
                "Expected minValue >= 1, maxValue >= 1 and maxValue >= minValue, but received "
                f"minValue: {low}, maxValue: {high}"
            )
        ranges[name] = VersionRange(low, high)
    return ranges
