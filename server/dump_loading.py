"""Loads a dump into the ZooKeeper of a cluster that is about to start, and reports progress.

zk/dump_load.py writes the znodes; dumped_cluster.py reads the brokers and topics in a dump. Kafka
has no equivalent.
"""

from __future__ import annotations

from collections.abc import Callable

from klamm.cluster.errors import KlammError
from klamm.server.config import ServerConfig
from klamm.server.dumped_cluster import DumpedCluster
from klamm.zk.dump_load import NotEmpty, cut_short, load, run_on_thread
from klamm.zk.guard import MARKER_PATH, RunInfo, marker
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.store import Create, SessionEvent, SessionState, StoreEvent

Say = Callable[[str], None]
"""Function that prints a line about a startup step."""


class _LoadedLines:
    """Reports the progress of loading a dump: about ten times, or never if the dump is small."""

    def __init__(self, say: Say) -> None:
        self.done = 0
        self._say = say
        self._reported = 0

    def __call__(self, done: int, total: int) -> None:
        """Report that ``done`` of ``total`` znodes have been written."""
        self.done = done
        if done - self._reported >= max(total // 10, 10_000):
            self._reported = done
            self._say(f"Znodes loaded: {done}/{total}")


def load_dump(
    dump: DumpedCluster, connect_string: str, config: ServerConfig, run: RunInfo, say: Say
) -> None:
    """Write a dump into an empty ZooKeeper, and mark the chroot as created by klamm.

    Raises NotEmpty if ZooKeeper is not empty, and KlammError if the load fails.
    """
    for note in dump.notes:
        say(f"Dump: {note}")
    session = config.session(connect_string)
    session.add_listener(lambda event: _report_lost_connection(event, say))
    progress = _LoadedLines(say)
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
            f"a dump can be loaded only into an empty ZooKeeper: {error.message}",
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
    say(f"Dump loaded: {len(dump.plan.creates)} znodes from {dump.source}")
    if dump.dead:
        dead = ", ".join(map(str, dump.dead))
        say(f"Brokers not started, because they are dead in the dump: {dead}")


def _report_lost_connection(event: StoreEvent, say: Say) -> None:
    if event == SessionEvent(SessionState.DISCONNECTED):
        say("Connection lost: waiting for ZooKeeper")
