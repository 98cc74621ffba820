"""Reading many znodes of a kind in one wave, with the malformed ones set apart.

It knows how to read and what to do with a znode that cannot be decoded; the kinds themselves are
in kafka_zk_client.py and admin_znodes.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

import msgspec

from cluster.quirks import NO_QUIRKS, Quirks
from zk.store import GetData, ReadResult, Store
from zk.znode_client import ZNodeClient
from zk.znodes import MalformedZNode

K = TypeVar("K")
V = TypeVar("V")


class Decoded(msgspec.Struct, Generic[K, V]):
    """What a wave of reads found: every key is in ``values`` or ``missing``, or it is malformed.

    ``malformed``: each error carries the ``path`` of its znode.
    """

    values: dict[K, V]
    missing: list[K]
    malformed: list[MalformedZNode]


class DecodingClient(ZNodeClient):
    """A ZNodeClient that decodes.

    ``quirks.hazard_c2``: a malformed znode raises MalformedZNode as in Kafka 2.8.2, and one that
    is not JSON counts as empty or absent.
    """

    def __init__(self, store: Store, quirks: Quirks = NO_QUIRKS) -> None:
        super().__init__(store)
        self.quirks = quirks

    def read_each(
        self,
        keys: Sequence[K],
        path_of: Callable[[K], str],
        decode: Callable[[K, ReadResult], V | None],
        watch: bool = False,
    ) -> Decoded[K, V]:
        """Read and decode one znode a key; where ``decode`` gives None there is nothing."""
        paths = [path_of(key) for key in keys]
        results = self.read([GetData(path, watch) for path in paths])
        values: dict[K, V] = {}
        missing: list[K] = []
        malformed: list[MalformedZNode] = []
        for key, path, result in zip(keys, paths, results, strict=True):
            if result.stat is None:
                missing.append(key)
                continue
            try:
                value = decode(key, result)
            except MalformedZNode as error:
                self.set_apart(error, path, malformed)
                continue
            if value is None:
                missing.append(key)
            else:
                values[key] = value
        return Decoded(values, missing, malformed)

    def set_apart(self, error: MalformedZNode, path: str, malformed: list[MalformedZNode]) -> None:
        """Keep a malformed znode's error as a value; with hazard C2 raise it if Kafka does."""
        if self.quirks.hazard_c2 and error.kafka_class is not None:
            raise error.at(path)
        malformed.append(error.at(path))

    def not_json(self) -> None:
        """Refuse what is not JSON; with hazard C2 go on, as Kafka does, and overwrite it later."""
        if not self.quirks.hazard_c2:
            raise MalformedZNode("not JSON", kafka_class=None)
