"""Which topic names Kafka takes, and which of them collide as metric names.

Mirrors org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from typing import Final

from klamm.cluster.errors import InvalidTopic

MAX_NAME_LENGTH: Final = 249
INTERNAL_TOPICS: Final = frozenset({"__consumer_offsets", "__transaction_state"})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def validate_topic_name(topic: str) -> None:
    """Raise InvalidTopic, with Kafka's text, for a name that Kafka refuses."""
    if not topic:
        raise InvalidTopic("Topic name is illegal, it can't be empty")
    if topic in (".", ".."):
        raise InvalidTopic('Topic name cannot be "." or ".."')
    if len(topic) > MAX_NAME_LENGTH:
        raise InvalidTopic(
            f"Topic name is illegal, it can't be longer than {MAX_NAME_LENGTH} characters, "
            f"topic name: {topic}"
        )
    if not _LEGAL.fullmatch(topic):
        raise InvalidTopic(
            f'Topic name "{topic}" is illegal, it contains a character other than '
            "ASCII alphanumerics, '.', '_' and '-'"
        )


def is_internal(topic: str) -> bool:
    """True for the topics that Kafka keeps for itself."""
    return topic in INTERNAL_TOPICS


def has_collision_chars(topic: str) -> bool:
    """True if another name can collide with this one: a metric name turns "." into "_"."""
    return "_" in topic or "." in topic


def has_collision(topic: str, other: str) -> bool:
    """True if both names become the same metric name."""
    return topic.replace(".", "_") == other.replace(".", "_")
