"""`klamm replay diff`: compare two logs, or a log with a ZooKeeper.

Parses options and prints; replay/diff.py compares.
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
from klamm.cli.options import AsJson, print_json
from klamm.cli.replay_input import (
    FINDINGS,
    MEMORY_MB,
    Cores,
    Master,
    Memory,
    SparkOptions,
    Timezone,
    open_tables,
)
from klamm.cluster.errors import UsageError
from klamm.report.scales import time_text
from klamm.runtime.checks.agreement import StoredCluster
from klamm.zk.dump_store import DumpStore
from klamm.zk.dump_text import read_dump
from klamm.zk.store import Store

if TYPE_CHECKING:
    from klamm.replay.diff import Difference, Differences, Divergence, Side
    from klamm.replay.event_table import EventTable
    from klamm.replay.spark import SparkSession

_HEAD_BYTES = 64
EXAMPLES = """
\b
Examples:
  klamm replay diff ./journal.jsonl ./zookeeper/version-2
  klamm replay diff ./journal.jsonl --zookeeper localhost:2181/klamm
  klamm replay diff ./events dump.json --json       # output of klamm zk dump
  klamm replay diff /var/log/kafka ./version-2 --source state-change.log --run /kafka
"""


def diff(
    a: Annotated[Path, typer.Argument(metavar="A", help="Logs of one kind, or an event table.")],
    b: Annotated[
        Path | None,
        typer.Argument(metavar="B", help="Like A, or the output of klamm zk dump."),
    ] = None,
    zookeeper: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT/CHROOT", help="Compare A with this ZooKeeper (read-only)."),
    ] = None,
    source: Annotated[
        str | None,
        typer.Option(
            metavar="KIND", help="If a side has several kinds of logs, use only this one."
        ),
    ] = None,
    run: Annotated[
        str | None, typer.Option(help="If a side has several runs or chroots, use only this one.")
    ] = None,
    master: Master = None,
    timezone: Timezone = None,
    cores: Cores = None,
    memory_mb: Memory = MEMORY_MB,
    json: AsJson = False,
) -> None:
    """Compare the final leaders, leader epochs, ISRs and states of two logs, and show where they
    first diverge. Exit code 14 if they differ."""
    from klamm.replay.diff import compare, side_of
    from klamm.replay.opening import look_at

    if (b is None) == (zookeeper is None):
        raise UsageError("give either B or --zookeeper, and not both")
    inputs = [look_at([a])]
    tree = _tree(b, zookeeper)
    if tree is None and b is not None:
        inputs.append(look_at([b]))
    options = SparkOptions(master, cores, memory_mb, timezone)
    with open_tables(inputs, options, Path(tempfile.gettempdir())) as opened:
        _check_held(opened.tables, source, run)
        named = zip(opened.tables, inputs, strict=True)
        sides = [side_of(table, given.name, source, run) for table, given in named]
        if tree is not None:
            sides.append(_tree_side(opened.spark, tree))
        with opened.progress.step(opened.spark, "compare"):
            found = compare(sides[0], sides[1])
    if json:
        print_json(_as_json(sides, found))
    else:
        for line in _lines(sides, found):
            typer.echo(line)
    raise typer.Exit(FINDINGS if found.total or found.divergence else 0)


def _check_held(tables: Sequence[EventTable], source: str | None, run: str | None) -> None:
    """Check that --source and --run name a source and a run of A or B. Raises UsageError."""
    summaries = [summary for table in tables for summary in table.manifest.sources]
    sources = {summary.source for summary in summaries}
    runs = {covered.run for summary in summaries for covered in summary.runs}
    for option, asked, held in (("--source", source, sources), ("--run", run, runs)):
        if asked is not None and asked not in held:
            raise UsageError(
                f"{option} {asked}: neither A nor B has it",
                hint=f"available: {', '.join(sorted(held))}",
            )


class _Tree(msgspec.Struct):
    """The cluster metadata of a live or dumped ZooKeeper; ``what`` describes which of the two."""

    name: str
    what: str
    stored: StoredCluster


def _tree(b: Path | None, zookeeper: str | None) -> _Tree | None:
    """Read --zookeeper, or B if B is a ZooKeeper dump; None if B is logs or an event table."""
    if zookeeper is not None:
        with open_store(zookeeper) as store:
            return _Tree(zookeeper, "a live ZooKeeper", _read(store, zookeeper))
    if b is None or not _is_dump(b):
        return None
    dump = DumpStore(read_dump(b))
    return _Tree(str(b), "a dump of ZooKeeper", _read(dump, str(b)))


def _is_dump(path: Path) -> bool:
    """Return whether a file is a ZooKeeper dump, by its suffix or its first bytes.

    One bracket is not enough: lines of Kafka's logs start with a bracket, too.
    """
    if not path.is_file():
        return False
    if path.suffix == ".json":
        return True
    with path.open("rb") as file:
        return re.match(rb"\s*\[\s*\{", file.read(_HEAD_BYTES)) is not None


def _read(store: Store, name: str) -> StoredCluster:
    stored = StoredCluster.read(store)
    if not stored.assignments:
        raise UsageError(
            f"{name} has no topics", hint="a cluster below a chroot needs its path, such as /kafka"
        )
    return stored


def _tree_side(spark: SparkSession, tree: _Tree) -> Side:
    from klamm.replay.diff import StoredState, stored_side

    states: list[StoredState] = []
    for tp in tree.stored.assignments:
        leadership = tree.stored.states.get(tp)
        at = None if leadership is None else leadership.leader_and_isr
        stored = () if at is None else (at.leader, at.leader_epoch, list(at.isr), at.zk_version)
        states.append(StoredState(*tp, *stored))
    return stored_side(spark, tree.name, tree.what, states)


def _lines(sides: Sequence[Side], found: Differences) -> Iterator[str]:
    for letter, side in zip("AB", sides, strict=True):
        yield f"{letter}: {side.name} ({side.what})"
    replicas = "" if found.replicas is None else f" and {found.replicas:,} replicas"
    yield f"Compared: {found.partitions:,} partitions{replicas}."
    for words in found.not_compared:
        yield f"Not compared: {words}."
    yield f"Differences: {found.total:,}" if found.total else "The final states agree."
    for difference in found.shown:
        yield f"  {_difference_line(difference)}"
    if found.total > len(found.shown):
        yield f"  and {found.total - len(found.shown):,} more"
    if found.divergence is not None:
        yield f"First divergence: {_divergence_line(found.divergence)}."


def _difference_line(at: Difference) -> str:
    replica = "" if at.replica < 0 else f" on broker {at.replica}"
    a, b = ("none" if value is None else value or "empty" for value in (at.a, at.b))
    return f"{at.topic}-{at.partition}{replica}: {at.field} {a} in A, {b} in B"


def _divergence_line(at: Divergence) -> str:
    other = "B" if at.side == "A" else "A"
    parts = [f"leader {at.leader}", f"leader epoch {at.leader_epoch}"]
    if at.isr is not None:
        parts.append(f"ISR {','.join(map(str, at.isr))}")
    if at.zk_version is not None:
        parts.append(f"version {at.zk_version}")
    place = f"{at.file}:{at.line} in {at.side}, {time_text(at.t_ms)}"
    return f"{place}: {at.topic}-{at.partition} {', '.join(parts)}; {other} never had it"


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
