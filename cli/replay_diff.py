"""`klamm replay diff`: compares two logs, or a log with a ZooKeeper.

Only parses options and prints; replay/diff.py compares.
"""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import msgspec
import typer

from klamm.cli.connect import open_store
from klamm.cli.errors import FINDINGS
from klamm.cli.options import AsJson, print_result
from klamm.cli.replay_input import (
    MEMORY_MB,
    Cores,
    EngineName,
    Master,
    Memory,
    Timezone,
    open_tables,
    read_resources,
)
from klamm.cluster.counting import counted
from klamm.cluster.errors import UsageError
from klamm.cluster.plain_text import harmless_line
from klamm.lab.checks.agreement import StoredCluster
from klamm.report.scales import time_text
from klamm.zk.dump_store import DumpStore
from klamm.zk.dump_text import read_dump
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.replay.diff import Differences, Divergence, Side
    from klamm.replay.event_table import EventTable
    from klamm.replay.opening import Input

_HEAD_BYTES = 64
_MALFORMED_SHOWN = 10
EXAMPLES = """
\b
Examples:
  klamm replay diff ./journal.jsonl ./zookeeper/version-2
  klamm replay diff ./journal.jsonl --zookeeper localhost:2181/klamm
  klamm replay diff ./events dump.json --json       # output of klamm zk dump
  klamm replay diff /var/log/kafka ./version-2 --source state-change.log --run /kafka
"""


def diff(
    a: Annotated[
        str, typer.Argument(metavar="A", help="A log, a directory of logs, or an event table.")
    ],
    b: Annotated[
        str | None,
        typer.Argument(
            metavar="B",
            help="A log, a directory of logs, an event table, or a file of klamm zk dump.",
        ),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT/CHROOT", help="Compare A with this ZooKeeper (read-only)."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="If A or B has several kinds of logs, use only this kind."
        ),
    ] = None,
    run: Annotated[
        str | None,
        typer.Option(help="If A or B has several runs or chroots, use only this run or chroot."),
    ] = None,
    json: AsJson = False,
    master: Master = None,
    timezone: Timezone = None,
    engine: EngineName = "auto",
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
) -> None:
    """Compare the final leaders, leader epochs, ISRs and states of two logs, and show where they
    first diverge. The exit code is 14 if they differ."""
    resources = read_resources(engine, master, cores, memory_mb, timezone)
    from klamm.replay.diff import compare, side_of, stored_side
    from klamm.replay.locations import given_location
    from klamm.replay.opening import inspect_paths

    if (b is None) == (zookeeper is None):
        neither, both = "give B or --zookeeper", "give either B or --zookeeper, but not both"
        raise UsageError(neither if b is None else both)
    inputs = [inspect_paths([given_location(a)])]
    other = None if b is None else given_location(b)
    tree = _tree(other, zookeeper)
    if tree is None and other is not None:
        inputs.append(inspect_paths([other]))
    runs = [_announce(given, source, run) or run for given in inputs]
    with open_tables(inputs, resources, Path(tempfile.gettempdir())) as opened:
        _check_held(opened.tables, source, run)
        named = zip(opened.tables, inputs, runs, strict=True)
        sides = [side_of(table, given.name, source, of_side) for table, given, of_side in named]
        if tree is not None:
            znodes = tree.stored.assignments, tree.stored.states
            sides.append(stored_side(opened.engine, tree.name, tree.what, *znodes))
        with opened.progress.step("compare"):
            found = compare(opened.engine, sides[0], sides[1])
    print_result(json, _as_json(sides, found), _lines(sides, found))
    raise typer.Exit(FINDINGS if found.total or found.divergence else 0)


def _announce(given: Input, source: str | None, run: str | None) -> str | None:
    """Choose the latest cluster of a journal that contains several, and print the choice.

    ``source`` and ``run``: the options --source and --run. Returns the chosen cluster, or None if
    there is only one, ``run`` selects one, or the input has no journal. Raises UsageError if an
    event table contains several logs and the options do not select one of them.
    """
    from klamm.replay.diff import choose
    from klamm.replay.event_schema import JOURNAL
    from klamm.replay.event_table import read_manifest
    from klamm.replay.sources.journal import clusters_at_ends

    latest = None
    if given.table is not None:
        choice = choose(read_manifest(given.table), given.name, source, run)
        latest = choice.run if choice.is_latest else None
    elif [files.source.name for files in given.found] == [JOURNAL]:
        clusters = clusters_at_ends(given.found[0].paths)
        if len(clusters) > 1 and run not in clusters:
            latest = clusters[-1]
    if latest is not None:
        typer.echo(
            f"{given.name}: comparing {latest}, the latest of several clusters; "
            "--run selects another",
            err=True,
        )
    return latest


def _check_held(tables: Sequence[EventTable], source: str | None, run: str | None) -> None:
    """Raise UsageError if --source or --run selects something that neither A nor B contains."""
    summaries = [summary for table in tables for summary in table.manifest.sources]
    sources = {summary.source for summary in summaries}
    runs = {covered.run for summary in summaries for covered in summary.runs}
    for option, asked, held in (("--source", source, sources), ("--run", run, runs)):
        if asked is not None and asked not in held:
            raise UsageError(
                f"{option} {asked} is neither in A nor in B",
                hint=f"available: {', '.join(sorted(held))}",
            )


class _Tree(msgspec.Struct):
    """Cluster metadata read from ZooKeeper. ``what`` describes the source: live or a dump."""

    name: str
    what: str
    stored: StoredCluster


def _tree(b: Path | None, zookeeper: str | None) -> _Tree | None:
    """Read the ZooKeeper of --zookeeper, or B if B is a ZooKeeper dump.

    Return None if B is a log, a directory of logs or an event table.
    """
    if zookeeper is not None:
        with open_store(zookeeper) as store:
            hint = "if the cluster is in a chroot, add it, e.g. /kafka"
            return _Tree(zookeeper, "a live ZooKeeper", _read(store, zookeeper, hint))
    if b is None or not _is_dump(b):
        return None
    dump = DumpStore(read_dump(b))
    hint = "if the cluster is in a chroot, dump it with klamm zk dump --zookeeper HOST:PORT/CHROOT"
    return _Tree(str(b), "a dump of ZooKeeper", _read(dump, str(b), hint))


def _is_dump(path: Path) -> bool:
    """Return whether a file is a ZooKeeper dump, judging by its suffix or its first bytes.

    A dump starts with a bracket and a brace. A bracket alone is not enough, because lines of
    Kafka's logs also start with one.
    """
    if not path.is_file():
        return False
    if path.suffix == ".json":
        return True
    with path.open("rb") as file:
        return re.match(rb"\s*\[\s*\{", file.read(_HEAD_BYTES)) is not None


def _read(store: Store, name: str, hint: str) -> StoredCluster:
    """Read the znodes, and print warnings about malformed ones, which count as missing.

    Raises UsageError, with ``hint`` unless the topics are malformed, if there are no topics.
    """
    stored = StoredCluster.read(store)
    for error in stored.malformed[:_MALFORMED_SHOWN]:
        typer.echo(harmless_line(f"warning: {error.message}; it counts as missing"), err=True)
    if len(stored.malformed) > _MALFORMED_SHOWN:
        more = counted(len(stored.malformed) - _MALFORMED_SHOWN, "more malformed znode")
        typer.echo(f"warning: {more}", err=True)
    if not stored.assignments:
        raise UsageError(f"{name} has no topics", hint=None if stored.malformed else hint)
    return stored


def _lines(sides: Sequence[Side], found: Differences) -> Iterator[str]:
    for letter, side in zip("AB", sides, strict=True):
        yield f"{letter}: {side.name} ({side.what})"
    replicas = "" if found.replicas is None else f" and {found.replicas:,} replicas"
    yield f"Compared: {found.partitions:,} partitions{replicas}."
    for words in found.not_compared:
        yield f"Not compared: {words}."
    yield f"Differences: {found.total:,}" if found.total else "The final states agree."
    for difference in found.shown:
        yield f"  {difference.text('in A', 'in B')}"
    if found.total > len(found.shown):
        yield f"  and {found.total - len(found.shown):,} more"
    if found.divergence is not None:
        yield f"First divergence: {_divergence_line(found.divergence)}."


def _divergence_line(at: Divergence) -> str:
    other = "B" if at.side == "A" else "A"
    parts = [f"leader {at.leader}", f"leader epoch {at.leader_epoch}"]
    if at.isr is not None:
        parts.append(f"ISR {','.join(map(str, at.isr))}")
    if at.zk_version is not None:
        parts.append(f"version {at.zk_version}")
    place = f"{at.file}:{at.line} in {at.side}, {time_text(at.t_ms)}"
    return f"{place}: {at.topic}-{at.partition} {', '.join(parts)}; {other} never had this state"


def _as_json(sides: Sequence[Side], found: Differences) -> dict[str, object]:
    return {
        **{x: {"name": s.name, "what": s.what} for x, s in zip("ab", sides, strict=True)},
        "partitions": found.partitions,
        "replicas": found.replicas,
        "differences": found.total,
        "shown": [at._asdict() for at in found.shown],
        "not_compared": found.not_compared,
        "first_parting": None if found.divergence is None else found.divergence._asdict(),
    }
