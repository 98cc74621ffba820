"""Config resources: the topics, brokers and users whose configs can be changed."""

from __future__ import annotations

from typing import Final, NamedTuple

from klamm.zk.znodes import DEFAULT_ENTITY
from klamm.zk.znodes.json_values import parse_int

TOPICS: Final = "topics"
BROKERS: Final = "brokers"
USERS: Final = "users"


class ConfigResource(NamedTuple):
    """A topic, broker or user that has configs.

    ``entity_type`` is TOPICS, BROKERS or USERS. ``name`` is a topic name, a broker id,
    DEFAULT_ENTITY for the dynamic defaults of all brokers, or a user as in the name of its znode.
    """

    entity_type: str
    name: str

    def with_parsed_id(self) -> ConfigResource:
        """Return the resource with a broker's id as brokers read it: 01 and +1 become 1.

        Raises MalformedZNode if the id is not an integer.
        """
        if self.entity_type != BROKERS or self.name == DEFAULT_ENTITY:
            return self
        return self._replace(name=str(parse_int(self.name)))
