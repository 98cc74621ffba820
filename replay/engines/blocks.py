"""Blocks of events: all events of a partition are in one block, and no block depends on another.

A replay's questions about partitions are answered within each block, by DuckDB. What they have in
common, such as sums over all partitions, is gathered from the blocks into one small relation. With
DuckDB as the engine, the whole table is one block. With Spark, blocks are spread over the cluster
(spark_blocks.py). See docs/adr/0017-blocks-of-partitions.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Protocol

from klamm.replay.engines import Engine


class Blocks(Protocol):
    """The events of a table, divided into blocks by partition, and queries over each block.

    Names of relations are unique: a relation has the same name in every block and at ``home``.
    """

    @property
    def home(self) -> Engine:
        """The engine for relations that concern more than one block; they must be small."""

    @property
    def events(self) -> str:
        """The relation with the events of a block."""

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view in each block. Return its unique name."""

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query in each block and keep its result there. Return its unique name."""

    def share(self, relation: str) -> str:
        """Copy a relation from ``home`` to each block, under the same name. Return the name."""

    def gather(self, queries: Mapping[str, str]) -> dict[str, str]:
        """Run queries in each block. Return a relation at ``home`` with the rows of all blocks."""

    def bring(self, relation: str) -> str:
        """Copy a relation of the table's engine to ``home``. Return its name there."""

    def of_all(self, sql: str) -> str:
        """Return a query for the table's engine: the rows of a query in all blocks."""

    def of_home(self, sql: str) -> str:
        """Return a query for the table's engine with the result of a query at ``home``."""

    def close(self) -> None:
        """Free everything that is kept in blocks and at ``home``."""


class OneBlock:
    """Implements ``Blocks`` with one block, the whole table, in the engine of the table itself."""

    def __init__(self, engine: Engine, events: str) -> None:
        self.home = engine
        self.events = events
        self._kept: list[str] = []

    def view(self, sql: str, name: str = "view") -> str:
        """Create a view."""
        return self.home.view(sql, name)

    def keep(self, sql: str, name: str = "kept") -> str:
        """Run a query and keep its result."""
        self._kept.append(self.home.keep(sql, name))
        return self._kept[-1]

    def share(self, relation: str) -> str:
        """Return the relation itself."""
        return relation

    def gather(self, queries: Mapping[str, str]) -> dict[str, str]:
        """Run queries. Return the relations with their results."""
        return {name: self.keep(sql, name) for name, sql in queries.items()}

    def bring(self, relation: str) -> str:
        """Return the relation itself."""
        return relation

    def of_all(self, sql: str) -> str:
        """Return the query itself."""
        return sql

    def of_home(self, sql: str) -> str:
        """Return the query itself."""
        return sql

    def close(self) -> None:
        """Free what is kept."""
        self.home.drop(self._kept)
