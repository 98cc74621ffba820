"""Table of one-shot watches of an in-memory ZooKeeper server."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, NamedTuple

from klamm.zk.data_tree import DataTree, TreeChange, split
from klamm.zk.store import WatchEvent, WatchKind

_CHILDREN_CHANGED: Final = WatchKind.CHILDREN_CHANGED


class SavedWatches(NamedTuple):
    """Watches that a client sets again when it reconnects, as sorted paths.

    ``present`` and ``absent``: data watches on existing znodes, and exist watches on missing ones.
    ``last_zxid``: the last zxid before the disconnection."""

    present: list[str]
    absent: list[str]
    children: list[str]
    last_zxid: int


class WatchManager:
    """Table of one-shot watches: for each path, the watching sessions, oldest watch first.

    Mirrors org.apache.zookeeper.server.WatchManager, the part of DataTree that triggers watches,
    and SetWatches.
    """

    def __init__(self) -> None:
        self._data: dict[str, dict[int, None]] = {}
        self._children: dict[str, dict[int, None]] = {}

    def watch_data(self, path: str, session_id: int) -> None:
        """Set a data watch, or an exist watch if the znode is missing."""
        self._data.setdefault(path, {})[session_id] = None

    def watch_children(self, path: str, session_id: int) -> None:
        """Set a child watch."""
        self._children.setdefault(path, {})[session_id] = None

    def fire(self, changes: Iterable[TreeChange]) -> list[tuple[int, WatchEvent]]:
        """Fire and remove the watches on ``changes``. Return (session id, event) pairs.

        A session gets at most one event per change.
        """
        fired: list[tuple[int, WatchEvent]] = []
        for kind, path in changes:
            sessions = self._data.pop(path, None)
            if kind is WatchKind.DELETED:
                watching_children = self._children.pop(path, None)
                if watching_children:
                    sessions = {**sessions, **watching_children} if sessions else watching_children
            if sessions:
                event = WatchEvent(kind, path)
                fired += [(session_id, event) for session_id in sessions]
            if kind is not WatchKind.DATA_CHANGED and self._children:
                parent = split(path)[0]
                sessions = self._children.pop(parent, None)
                if sessions:
                    event = WatchEvent(_CHILDREN_CHANGED, parent)
                    fired += [(session_id, event) for session_id in sessions]
        return fired

    def disarm(self, session_id: int, tree: DataTree, last_zxid: int) -> SavedWatches:
        """Remove and return all watches of a session that was disconnected."""
        data = _drop(self._data, session_id)
        return SavedWatches(
            [path for path in data if path in tree.nodes],
            [path for path in data if path not in tree.nodes],
            _drop(self._children, session_id),
            last_zxid,
        )

    def rearm(self, session_id: int, tree: DataTree, saved: SavedWatches) -> list[WatchEvent]:
        """Set the saved watches again. For znodes that have changed, return events instead."""
        events: dict[WatchEvent, None] = {}
        for path in saved.present:
            node = tree.nodes.get(path)
            if node is None:
                events[WatchEvent(WatchKind.DELETED, path)] = None
            elif node.mzxid > saved.last_zxid:
                events[WatchEvent(WatchKind.DATA_CHANGED, path)] = None
            else:
                self.watch_data(path, session_id)
        for path in saved.absent:
            if path in tree.nodes:
                events[WatchEvent(WatchKind.CREATED, path)] = None
            else:
                self.watch_data(path, session_id)
        for path in saved.children:
            node = tree.nodes.get(path)
            if node is None:
                events[WatchEvent(WatchKind.DELETED, path)] = None
            elif node.pzxid > saved.last_zxid:
                events[WatchEvent(_CHILDREN_CHANGED, path)] = None
            else:
                self.watch_children(path, session_id)
        return list(events)

    def armed(self) -> list[tuple[str, str, list[int]]]:
        """Return a sorted list of (kind, path, sessions) for all watches."""
        tables = (("children", self._children), ("data", self._data))
        return [
            (kind, path, sorted(table[path])) for kind, table in tables for path in sorted(table)
        ]


def _drop(table: dict[str, dict[int, None]], session_id: int) -> list[str]:
    paths = sorted(path for path, sessions in table.items() if session_id in sessions)
    for path in paths:
        del table[path][session_id]
        if not table[path]:
            del table[path]
    return paths
