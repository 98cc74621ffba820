"""`klamm zk`: dumps and loads znodes, protects them with ACLs, injects faults into servers.

Only parses options and prints; zk/dump.py reads znodes, zk/dump_load.py writes them.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Annotated
from urllib.parse import quote

import msgspec
import typer

from klamm.cli.client import find_server
from klamm.cli.command_loading import command_group
from klamm.cli.completion import complete_zookeeper_server
from klamm.cli.connect import open_session, security_of, zookeeper_of
from klamm.cli.options import AsJson, print_lines, print_result, table_lines
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.terminal import STATUS_LINE
from klamm.cli.waiting import waiting
from klamm.cluster.counting import listed
from klamm.cluster.errors import Interrupted, UsageError
from klamm.cluster.version import klamm_version
from klamm.zk.acl_migration import set_acls
from klamm.zk.dump import dump
from klamm.zk.dump_load import cut_short, load, run_on_thread, undo
from klamm.zk.dump_text import read_dump
from klamm.zk.ensemble import SINGLE_SERVER
from klamm.zk.guard import MARKER_PATH, RunInfo, check_may_run_in, marker
from klamm.zk.kafka_zk_client import KafkaZkClient
from klamm.zk.kazoo_store import KazooStore
from klamm.zk.load_plan import LoadPlan, plan_load
from klamm.zk.store import Create, SessionEvent, SessionState, StoreEvent, WriteOp
from klamm.zk.znodes import BrokerIdsZNode

_EXAMPLES = """
\b
Examples:
  klamm zk dump /brokers/ids
  klamm zk dump --zookeeper localhost:2181/klamm
  klamm zk dump /brokers/topics --zookeeper localhost:2181 > before.json
"""
_LOAD_EXAMPLES = """
\b
Examples:
  klamm zk load kafka.json --zookeeper localhost:2181/copy
  klamm zk load kafka.json --zookeeper localhost:2181/copy --mark
  klamm zk dump --zookeeper localhost:2181/kafka | klamm zk load - --zookeeper localhost:2181/copy
"""
_SECURE_EXAMPLES = """
\b
Examples:
  KLAMM_ZK_DIGEST=klamm:secret klamm zk secure --zookeeper localhost:2181/klamm
"""
_UNSECURE_EXAMPLES = """
\b
Examples:
  KLAMM_ZK_DIGEST=klamm:secret klamm zk unsecure --zookeeper localhost:2181/klamm
"""
_SERVERS_EXAMPLES = """
\b
Examples:
  klamm zk servers
  klamm zk servers --json
"""
_PROGRESS_INTERVAL_S = 1.0
_SHOWN_PATHS = 5

Chroot = Annotated[str, typer.Option(help="host:port[,host:port][/chroot]", metavar="CONNECT")]
ChrootToRead = Annotated[
    str | None,
    typer.Option(
        help="host:port[,host:port][/chroot] [default: of the running klamm]", metavar="CONNECT"
    ),
]
Which = Annotated[
    str,
    typer.Argument(
        metavar="SERVER",
        help="The server's id (see klamm zk servers), or leader or follower.",
        autocompletion=complete_zookeeper_server,
    ),
]

app = command_group(
    help="Dump, load or protect znodes, or inject faults into klamm's embedded ZooKeeper.",
    epilog="""
\b
Examples:
  klamm zk dump --zookeeper localhost:2181/kafka > kafka.json
  klamm zk load kafka.json --zookeeper localhost:2181/copy --mark
  klamm zk servers
  klamm zk kill leader
""",
)


@app.command("dump", epilog=_EXAMPLES)
def dump_command(
    path: Annotated[
        str, typer.Argument(help="Topmost znode to dump, relative to the chroot.")
    ] = "/",
    zookeeper: ChrootToRead = None,
    server: Server = None,
    data_dir: DataDirectory = None,
) -> None:
    """Print the znode at a path and all znodes below it as JSON.

    Includes versions, zxids, times and owning sessions. Null data and empty data are distinguished,
    and data that is not UTF-8 text is printed as base64.
    """
    if not path.startswith("/") or (path != "/" and "" in path[1:].split("/")):
        raise UsageError(f"'{path}' is not the path of a znode", hint="e.g. /brokers/topics")
    with (
        contextlib.closing(open_session(zookeeper_of(zookeeper, server, data_dir))) as session,
        waiting(f"the znodes below {path}"),
    ):
        znodes = dump(KazooStore(session), path, session.chroot.path)
    typer.echo("[")
    last = len(znodes) - 1
    for index, znode in enumerate(znodes):
        typer.echo(msgspec.json.encode(znode).decode() + ("," if index < last else ""))
    typer.echo("]")


@app.command("load", epilog=_LOAD_EXAMPLES)
def load_command(
    file: Annotated[
        Path,
        typer.Argument(
            metavar="DUMP", help="File written by klamm zk dump, or - for standard input."
        ),
    ],
    zookeeper: Chroot,
    mark: Annotated[
        bool,
        typer.Option("--mark", help="Mark the copy as klamm's, so that klamm up may run on it."),
    ] = False,
    undo_: Annotated[
        bool, typer.Option("--undo", help="Delete the znodes written by an interrupted load.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the outcome as JSON.")] = False,
) -> None:
    """Write a dump into an empty or missing chroot.

    Paths and data are kept; versions, zxids, times and ACLs are not. If the KLAMM_ZK_* variables
    contain an identity, the znodes get Kafka's ACLs, otherwise they are open to all clients.
    Ephemeral znodes are skipped, because their sessions do not exist in this ZooKeeper. To continue
    an interrupted load, repeat the command.
    """
    if mark and undo_:
        raise UsageError("give either --mark or --undo, but not both")
    znodes = read_dump(file)
    whole, without_mark = plan_load(znodes), plan_load(znodes, frozenset([MARKER_PATH]))
    plan = without_mark if mark else whole
    for path in plan.unreadable:
        typer.echo(f"warning: {path} is skipped: the dump could not read it", err=True)
    last: list[WriteOp] = []
    if mark:
        now_ms = round(time.time() * 1000)
        last.append(Create(MARKER_PATH, marker(RunInfo("zk load", now_ms, klamm_version()))))
    progress = _CountLine()
    session = open_session(zookeeper, waits_if_lost=True)
    session.add_listener(_report_disconnection)
    store = KazooStore(session)
    try:
        if undo_:
            count = run_on_thread(
                lambda: undo(store, (whole, without_mark), progress), session.close
            )
            text = f"{count} znodes of an interrupted load were deleted from {zookeeper}"
            _print_outcome({"zookeeper": zookeeper, "deleted": count}, as_json, text)
            return
        result = run_on_thread(
            lambda: load(
                store, plan, last=last, prepare=session.create_chroot, on_progress=progress
            ),
            session.close,
        )
    except KeyboardInterrupt:
        if undo_:
            raise Interrupted(
                "Interrupted: some of the loaded znodes are not deleted yet",
                hint="repeat the command to continue",
            ) from None
        left = cut_short("Interrupted", progress.done, len(plan.creates))
        raise Interrupted(left.message, hint=left.hint) from None
    finally:
        STATUS_LINE.erase()
        store.close()
    _print_loaded(plan, result.found, zookeeper, mark, as_json)


@app.command(epilog=_SECURE_EXAMPLES)
def secure(zookeeper: Chroot, as_json: AsJson = False) -> None:
    """Protect a cluster's znodes with ACLs, as Kafka's zookeeper-security-migration does.

    Only the identity in KLAMM_ZK_DIGEST or KLAMM_ZK_TLS_CERT can then change the znodes. All
    clients can still read them, except user and broker configs and delegation tokens.
    """
    if not security_of(os.environ).has_identity:
        raise UsageError(
            "the znodes cannot be protected: no ZooKeeper identity is configured",
            hint="set KLAMM_ZK_DIGEST=USER:PASSWORD, or KLAMM_ZK_TLS_CERT and KLAMM_ZK_TLS_KEY",
        )
    _set_acls(zookeeper, is_secure=True, as_json=as_json)


@app.command(epilog=_UNSECURE_EXAMPLES)
def unsecure(zookeeper: Chroot, as_json: AsJson = False) -> None:
    """Open a cluster's znodes to all clients again.

    Requires the identity that protected them.
    """
    _set_acls(zookeeper, is_secure=False, as_json=as_json)


def _set_acls(zookeeper: str, *, is_secure: bool, as_json: bool) -> None:
    progress = _CountLine()
    with contextlib.closing(open_session(zookeeper)) as session:
        check_may_run_in(KafkaZkClient(KazooStore(session)))
        count = set_acls(
            session,
            is_secure=is_secure,
            more_paths=[MARKER_PATH],
            on_progress=lambda done: progress(done, None),
        )
    STATUS_LINE.erase()
    what = "protected" if is_secure else "open to all clients"
    outcome = {"zookeeper": zookeeper, "znodes": count, "secure": is_secure}
    _print_outcome(outcome, as_json, f"{count} znodes of {zookeeper} are {what}")


def _print_outcome(outcome: dict[str, object], as_json: bool, *lines: str) -> None:
    """Print the outcome as JSON or as lines of text."""
    print_lines([msgspec.json.encode(outcome).decode()] if as_json else lines)


@app.command("servers", epilog=_SERVERS_EXAMPLES)
def servers_command(
    server: Server = None, data_dir: DataDirectory = None, json: AsJson = False
) -> None:
    """Show the embedded ZooKeeper servers of a running klamm up, and their states."""
    answer = find_server(server, data_dir).get("/zookeeper")
    rows = [(one["id"], one["address"], one["state"]) for one in answer["servers"]]
    print_result(json, answer, table_lines([("Server", "Address", "State"), *rows]))


def _command_of(action: str) -> Callable[..., None]:
    def act(
        which: Which, server: Server = None, data_dir: DataDirectory = None, json: AsJson = False
    ) -> None:
        client = find_server(server, data_dir)
        with waiting(f"ZooKeeper server {which} ({action})"):
            answer = client.post(f"/zookeeper/{quote(which, safe='')}/{action}")
        changed = f"{answer['before']} -> {answer['state']}"
        print_result(json, answer, [f"ZooKeeper server {answer['id']}: {changed}"])

    return act


for _action, _row in SINGLE_SERVER.items():
    _example = f"\n\b\nExamples:\n  klamm zk {_action} 2\n"
    app.command(_action, help=_row.about, epilog=_example)(_command_of(_action))


def _print_loaded(plan: LoadPlan, found: int, zookeeper: str, mark: bool, as_json: bool) -> None:
    outcome = {
        "zookeeper": zookeeper,
        "znodes": len(plan.creates),
        "found": found,
        "added": plan.added,
        "ephemeral": plan.ephemeral,
        "unreadable": plan.unreadable,
        "marked": mark,
    }
    before = f", {found} of them by an earlier load" if found else ""
    lines = [f"{len(plan.creates)} znodes were written to {zookeeper}{before}"]
    if plan.added:
        lines.append(f"not in the dump, created with null data: {listed(plan.added, _SHOWN_PATHS)}")
    if plan.ephemeral:
        lines.append(f"skipped because they are ephemeral: {listed(plan.ephemeral, _SHOWN_PATHS)}")
    lines.append("not kept: versions, zxids, times and ACLs")
    paths = {op.path for op in plan.creates}
    if not mark and BrokerIdsZNode.path in paths and MARKER_PATH not in paths:
        lines.append(f"klamm up refuses to run here without {MARKER_PATH}: --mark creates it")
    _print_outcome(outcome, as_json, *lines)


def _report_disconnection(event: StoreEvent) -> None:
    if event == SessionEvent(SessionState.DISCONNECTED):
        print("connection lost: waiting for ZooKeeper", file=sys.stderr, flush=True)


class _CountLine:
    """Prints progress to standard error at most once a second (on a terminal: as a status line)."""

    def __init__(self) -> None:
        self.done = 0
        self._printed_s = time.monotonic()

    def __call__(self, done: int, total: int | None) -> None:
        """Print the number of znodes processed so far; ``total`` is None if it is not known."""
        self.done = done
        now_s = time.monotonic()
        if now_s - self._printed_s >= _PROGRESS_INTERVAL_S:
            self._printed_s = now_s
            of_all = "" if total is None else f" of {total}"
            line = f"{done}{of_all} znodes"
            if sys.stderr.isatty():
                STATUS_LINE.show(line)
            else:
                print(line, file=sys.stderr, flush=True)
