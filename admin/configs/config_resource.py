"""Config resources: topics and brokers."""

from __future__ import annotations

from typing import Final, NamedTuple

TOPICS: Final = "topics"
BROKERS: Final = "brokers"


class ConfigResource(NamedTuple):
    """An entity with configs: its type, TOPICS or BROKERS, and its name."""

    entity_type: str
    name: str
