"""Puts a dump into the ZooKeeper that a cluster is about to go up on, and says how far it is.

Writing it is zk/dump_load.py's business, what a dump says of a cluster dumped_cluster.py's. Kafka
has nothing like it.
"""

from __future__ import annotations

from collections.abc import Callable

from klamm.admin.guard import MARKER_PATH, RunInfo, marker
from klamm.cluster.errors import KlammError
from klamm.server.config import ServerConfig
from klamm.server.dumped_cluster import DumpedCluster
from klamm.zk.dump_load import NotEmpty, cut_short, load, run_on_thread
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Create, SessionEvent, SessionState, StoreEvent

Say = Callable[[str], None]
"""Tells people of a step."""


class _Progress:
    """Says how far a load is, some ten times where there is much to do."""

    def __init__(self, say: Say) -> None:
        self.done = 0
        self._say = say
        self._told = 0

    def __call__(self, done: int, total: int) -> None:
        """So many znodes are written."""
        self.done = done
        if done - self._told >= max(total // 10, 10_000):
            self._told = done
            self._say(f"Znodes loaded: {done}/{total}")


def load_dump(
    dump: DumpedCluster, connect_string: str, config: ServerConfig, run: RunInfo, say: Say
) -> None:
    """Write a dump into ZooKeeper, which must be empty, and mark it as klamm's.

    Raises NotEmpty if it is not, KlammError.
    """
    for note in dump.notes:
        say(f"Dump: {note}")
    session = config.session(connect_string)
    session.add_listener(lambda event: _say_connection_is_lost(event, say))
    progress = _Progress(say)
    try:
        run_on_thread(
            lambda: load(
                KazooStore(session),
                dump.plan,
                last=[Create(MARKER_PATH, marker(run))],
                prepare=session.create_chroot,
                on_progress=progress,
            ),
            session.close,
        )
    except NotEmpty as error:
        raise NotEmpty(
            f"a dump is loaded into an empty ZooKeeper only: {error.message}",
            hint="choose another --data-dir" if config.zookeeper is None else error.hint,
        ) from None
    except KlammError:
        raise
    except BaseException:
        left = cut_short("Interrupted", progress.done, len(dump.plan.creates))
        say(f"{left.message}; {left.hint}")
        raise
    finally:
        session.close()
    say(f"Dump loaded: {len(dump.plan.creates)} znodes of {dump.source}")
    if dump.dead:
        say(f"Dead in the dump, not started: brokers {', '.join(map(str, dump.dead))}")


def _say_connection_is_lost(event: StoreEvent, say: Say) -> None:
    if event == SessionEvent(SessionState.DISCONNECTED):
        say("The connection is lost: waiting for ZooKeeper")
