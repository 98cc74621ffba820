"""Validation of topic names, and detection of names that collide as metric names.

Mirrors org.apache.kafka.common.internals.Topic.
"""

from __future__ import annotations

import re
from typing import Final

from klamm.cluster.errors import InvalidTopic

MAX_NAME_LENGTH: Final = 249
"""Maximum length of a topic name, in UTF-16 units as in Java."""
OFFSETS_TOPIC: Final = "__consumer_offsets"
TRANSACTIONS_TOPIC: Final = "__transaction_state"
INTERNAL_TOPICS: Final = frozenset({OFFSETS_TOPIC, TRANSACTIONS_TOPIC})
_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+", re.ASCII)


def validate_topic_name(topic: str) -> None:
    """Validate a topic name. Raises InvalidTopic with Kafka's message if the name is illegal."""
    if not topic:
        raise InvalidTopic("Topic name is illegal, it can't be empty")
    if topic in (".", ".."):
        raise InvalidTopic('Topic name cannot be "." or ".."')
    if len(topic.encode("utf-16-le", "surrogatepass")) > 2 * MAX_NAME_LENGTH:
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
    """Return True if ``topic`` is one of Kafka's internal topics."""
    return topic in INTERNAL_TOPICS


def has_collision_chars(topic: str) -> bool:
    """Return True if ``topic`` contains "." or "_". In metric names, "." is replaced with "_"."""
    return "_" in topic or "." in topic


def has_collision(topic: str, other: str) -> bool:
    """Return True if both topic names result in the same metric name."""
    return topic.replace(".", "_") == other.replace(".", "_")
