"""Config resources: the topics and brokers whose configs can be changed."""

from __future__ import annotations

from typing import Final, NamedTuple

TOPICS: Final = "topics"
BROKERS: Final = "brokers"


class ConfigResource(NamedTuple):
    """A topic or broker that has configs.

    ``entity_type`` is TOPICS or BROKERS. ``name`` is a topic name, a broker id, or DEFAULT_ENTITY
    for the dynamic defaults of all brokers.
    """

    entity_type: str
    name: str
