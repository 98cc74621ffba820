"""Snapshots of simulated worlds, and digests that tell whether two worlds or servers are equal."""

from __future__ import annotations

import copy
import hashlib

from klamm.cluster.requests import Address
from klamm.world.simulated.world import SimulatedWorld
from klamm.zk.memory_server import MemoryServer
from tests.bandwidth import in_progress
from tests.journal_bytes import journal_bytes
from tests.sim.worlds import replicas_of


class Snapshot:
    """A snapshot of a simulated world. ``restore`` may be called any number of times.

    Take it only between events, because greenlets cannot be copied. To reach a state in the middle
    of an event, restore an earlier snapshot and run as many steps: the seed determines them.
    """

    def __init__(self, world: SimulatedWorld) -> None:
        inside = inside_an_event(world)
        assert not inside, f"no snapshot is possible: {inside} are in the middle of an event"
        self._world = copy.deepcopy(world)

    def restore(self) -> SimulatedWorld:
        """A world that continues from the snapshot."""
        return copy.deepcopy(self._world)


def inside_an_event(world: SimulatedWorld) -> list[Address]:
    """The addresses of actors with an event in progress."""
    actors = world.scheduler.actors.values()
    return [actor.address for actor in actors if actor.task is not None and not actor.stopped]


def fingerprint(world: SimulatedWorld) -> str:
    """A hash that is equal for equal worlds. Call this only between events."""
    assert not inside_an_event(world)
    logs = [
        (broker_id, *replica)
        for broker_id in sorted(world.log_stores)
        for replica in replicas_of(world, broker_id)
        if replica[1].log_end_offset
    ]
    digest = hashlib.sha256()
    digest.update(repr(world.clock.monotonic_ms()).encode())
    digest.update(server_fingerprint(world.server).encode())
    digest.update(repr(world.transport.in_flight).encode())
    digest.update(repr(in_progress(world.copying)).encode())
    digest.update(repr(logs).encode())
    digest.update(journal_bytes(world.journal.rows))
    return digest.hexdigest()


def server_fingerprint(server: MemoryServer) -> str:
    """A digest of the tree, watches and sessions of a ZooKeeper in memory."""
    digest = hashlib.blake2b(digest_size=16)
    for path, node in server.tree.items():
        digest.update(repr((path, node.data, node.stat(), node.creations)).encode())
    sessions = [
        (session_id, s.timeout_ms, s.watches, s.expired, s.notified)
        for session_id, s in server._sessions.items()
    ]
    expiries = sorted(server._expire_at_ms.items())
    digest.update(repr((server.zxid, server.watches.armed(), sessions, expiries)).encode())
    return digest.hexdigest()
