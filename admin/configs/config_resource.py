"""What can have configs."""

from __future__ import annotations

from typing import Final, NamedTuple

TOPICS: Final = "topics"
BROKERS: Final = "brokers"


class ConfigResource(NamedTuple):
    """An entity that has configs: of type TOPICS or BROKERS, and its name."""

    entity_type: str
    name: str
