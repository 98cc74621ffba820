"""`klamm pools`: shows resource isolation pools, checks a cluster against them, plans moves.

Only parses options and prints; never writes to a cluster. placement/pools.py checks the pools,
placement/minimal_moves.py plans the moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from klamm.cli.command_loading import command_group
from klamm.cli.connect import open_store, zookeeper_of
from klamm.cli.errors import FINDINGS, INCONCLUSIVE
from klamm.cli.options import AsJson, print_json, print_lines, table_lines
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.cluster.counting import counted
from klamm.cluster.errors import UnknownTopicOrPartition, UsageError
from klamm.cluster.yaml_reader import read_text
from klamm.placement.minimal_moves import PlannedMove, PlanOptions, plan_moves
from klamm.placement.pools import (
    ClusterPlacement,
    PartitionPlace,
    Pools,
    PoolViolation,
    topics_without_pool,
    violations,
)
from klamm.tools.pools.pool_cluster import ReadCluster, read_cluster
from klamm.tools.pools.pool_file import read_pools
from klamm.tools.reassignments.reassignment_json import (
    format_reassignment,
    parse_execute_arguments,
    reassignment_values,
)
from klamm.zk.dump_store import DumpStore
from klamm.zk.dump_text import read_dump

_EXAMPLES = """
\b
Examples:
  klamm pools show --pools pools.yaml
  klamm pools show --pools pools.yaml --zookeeper localhost:2181/kafka
  klamm pools check --pools pools.yaml --zookeeper localhost:2181/kafka
  klamm pools plan --pools pools.yaml --dump before.json > reassignment.json
"""
_CHECK_EXAMPLES = """
\b
Examples:
  klamm pools check --pools pools.yaml
  klamm pools check --pools pools.yaml --zookeeper localhost:2181/kafka
  klamm pools check --pools pools.yaml --dump before.json --json
  klamm pools check --pools pools.yaml --dump before.json --after reassignment.json
"""
_PLAN_EXAMPLES = """
\b
Examples:
  klamm pools plan --pools pools.yaml --zookeeper localhost:2181 > reassignment.json
  klamm pools plan --pools pools.yaml --dump before.json --replace-dead --json
  klamm pools plan --pools pools.yaml --dump before.json --topic T1 --replication-factor 3
"""

app = command_group(
    help="Check topics against pools of brokers, and plan moves.",
    epilog=_EXAMPLES,
)

PoolsFile = Annotated[Path, typer.Option(metavar="FILE", help="YAML file with the pools.")]
ZooKeeper = Annotated[
    str | None,
    typer.Option(
        metavar="CONNECT", help="The cluster's ZooKeeper: host:port[,host:port][/chroot]."
    ),
]
Dump = Annotated[
    Path | None,
    typer.Option(metavar="FILE", help="File written by klamm zk dump, read instead of ZooKeeper."),
]
DisableRackAware = Annotated[bool, typer.Option(help="Ignore racks.")]


@app.command()
def show(
    pools: PoolsFile, zookeeper: ZooKeeper = None, dump: Dump = None, json: AsJson = False
) -> None:
    """Print the pools, and the topic patterns in the order in which they are tried.

    If a cluster is given, the load of each broker and the pool of each topic are printed, too.
    """
    declared = read_pools(pools)
    found = None if zookeeper is None and dump is None else _read(zookeeper, dump)
    if json:
        print_json(_shown_as_json(declared, found))
        return
    print_lines(_broker_lines(declared, found))
    typer.echo("\nThe first pattern that matches the whole name of a topic selects its pool:")
    topics = Counter[str]()
    if found is not None:
        for topic in found.placement.topics():
            topics.update(rule.pattern for rule in declared.rules_of(topic)[:1])
    heading = ["Pattern", "Pool", *(["Topics"] if found else [])]
    rows = [
        [rule.pattern, rule.pool, *([topics[rule.pattern]] if found else [])]
        for rule in declared.rules
    ]
    print_lines(table_lines([heading, *rows]))
    if found is not None:
        free = topics_without_pool(declared, found.placement)
        typer.echo(f"\nTopics without a pool: {', '.join(free) or 'none'}")


@app.command(epilog=_CHECK_EXAMPLES)
def check(
    pools: PoolsFile,
    zookeeper: ZooKeeper = None,
    dump: Dump = None,
    after: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Check the cluster as it would be after this reassignment."
        ),
    ] = None,
    disable_rack_aware: DisableRackAware = False,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Check a cluster against the pools, and list the violations.

    Without --zookeeper and --dump, the cluster of the running klamm is checked.
    The exit code is 14 if there are violations, and 12 if there are none but a part of the cluster
    could not be read.
    """
    declared = read_pools(pools)
    found = _read(zookeeper, dump, server, data_dir)
    placement = found.placement if after is None else _as_left_by(found.placement, after)
    broken = violations(declared, placement, ignores_racks=disable_rack_aware)
    free = topics_without_pool(declared, placement)
    moving = [tp for tp, place in placement.partitions.items() if place.is_being_reassigned]
    if json:
        print_json(
            {
                "violations": [_violation_as_json(violation) for violation in broken],
                "topics_without_pool": free,
                "being_reassigned": [tp._asdict() for tp in moving],
                "unreadable": found.warnings,
            }
        )
    else:
        print_lines(violation.text for violation in broken)
        typer.echo(
            f"{counted(len(broken), 'violation')}, {counted(len(placement.topics()), 'topic')},"
            f" {counted(len(placement.partitions), 'partition')}"
        )
        if free:
            typer.echo(f"Topics without a pool: {', '.join(free)}")
        if moving:
            typer.echo(
                f"{counted(len(moving), 'partition')} being reassigned; the target replicas were"
                " checked instead of the current ones"
            )
    if broken or found.warnings:
        raise typer.Exit(FINDINGS if broken else INCONCLUSIVE)


@app.command(epilog=_PLAN_EXAMPLES)
def plan(
    pools: PoolsFile,
    zookeeper: ZooKeeper = None,
    dump: Dump = None,
    topic: Annotated[
        list[str] | None, typer.Option(help="Only plan moves of this topic; repeatable.")
    ] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, help="New replication factor of --topic. [default: no change]"),
    ] = None,
    replace_dead: Annotated[
        bool, typer.Option(help="Also move replicas away from brokers that are not alive.")
    ] = False,
    disable_rack_aware: DisableRackAware = False,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Print the reassignment that moves every topic into its pool with the fewest replica moves.

    The reassignment is JSON for kafka-reassign-partitions; a summary is printed to standard error.
    Without --zookeeper and --dump, the moves are for the cluster of the running klamm.
    Partitions that do not fit into their pool are omitted from the reassignment and listed in the
    summary, and the exit code is 14.
    """
    if replication_factor is not None and not topic:
        raise UsageError("--replication-factor requires --topic", hint="add --topic TOPIC")
    declared = read_pools(pools)
    placement = _read(zookeeper, dump, server, data_dir).placement
    unknown = sorted(set(topic or ()) - set(placement.topics()))
    if unknown:
        raise UnknownTopicOrPartition(f"Topic {unknown[0]} does not exist")
    options = PlanOptions(
        topics=topic or None,
        replication_factor=replication_factor,
        replace_dead=replace_dead,
        ignores_racks=disable_rack_aware,
    )
    with waiting("the plan"):
        moves, unplanned = plan_moves(declared, placement, options)
    if json:
        left_out = [{**one.partition._asdict(), "reason": one.reason} for one in unplanned]
        print_json({**_plan_as_json(moves), "not_planned": left_out})
    else:
        typer.echo(format_reassignment({move.partition: move.new for move in moves}, {}))
        typer.echo(_summary(moves), err=True)
        reasons = (f"not planned: {one.partition}: {one.reason}" for one in unplanned)
        print_lines(reasons, err=True)
    print_lines(_stuck(moves, placement), err=True)
    if unplanned:
        raise typer.Exit(FINDINGS)


def _read(
    zookeeper: str | None,
    dump: Path | None,
    server: str | None = None,
    data_dir: Path | None = None,
) -> ReadCluster:
    """Read a dump, the ZooKeeper of --zookeeper, or the ZooKeeper of the running klamm."""
    if dump is not None:
        if zookeeper is not None or server is not None or data_dir is not None:
            raise UsageError("--dump cannot be combined with --zookeeper, --server or --data-dir")
        with waiting(f"{dump} to be read"):
            found = read_cluster(DumpStore(read_dump(dump)))
    else:
        place = zookeeper_of(zookeeper, server, data_dir)
        with open_store(place) as store, waiting("the topics to be read"):
            found = read_cluster(store)
    print_lines((f"warning: {warning}" for warning in found.warnings), err=True)
    return found


def _as_left_by(placement: ClusterPlacement, reassignment: Path) -> ClusterPlacement:
    """Return the replica placement after the reassignment described in a file."""
    targets, _ = parse_execute_arguments(read_text(reassignment))
    unknown = [tp for tp in sorted(targets) if tp not in placement.partitions]
    if unknown:
        raise UnknownTopicOrPartition(f"{reassignment}: partition {unknown[0]} does not exist")
    moved = {tp: PartitionPlace(tuple(replicas)) for tp, replicas in targets.items()}
    return replace(placement, partitions={**placement.partitions, **moved})


def _violation_as_json(violation: PoolViolation) -> dict[str, object]:
    partition = violation.partition
    return {
        "kind": violation.kind.value,
        "pool": violation.pool,
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "brokers": violation.brokers,
        "text": violation.text,
    }


def _plan_as_json(moves: Sequence[PlannedMove]) -> dict[str, object]:
    return {
        "replica_moves": sum(len(move.added) for move in moves),
        "leader_moves": _leader_moves(moves),
        "current": reassignment_values({move.partition: move.old for move in moves}, {}),
        "proposed": reassignment_values({move.partition: move.new for move in moves}, {}),
    }


def _leader_moves(moves: Sequence[PlannedMove]) -> int:
    return sum(move.old[:1] != move.new[:1] for move in moves)


def _summary(moves: Sequence[PlannedMove]) -> str:
    if not moves:
        return "Nothing to move."
    copies = Counter(broker for move in moves for broker in move.added)
    onto = ", ".join(f"{copies[broker]} to broker {broker}" for broker in sorted(copies))
    return (
        f"{counted(len(moves), 'partition')}, {counted(copies.total(), 'replica move')}"
        f"{f' ({onto})' if onto else ''},"
        f" {counted(_leader_moves(moves), 'change')} of preferred leader."
    )


def _stuck(moves: Sequence[PlannedMove], placement: ClusterPlacement) -> list[str]:
    """Return a warning for each partition that has no live replica to copy from.

    The reassignment of such a partition cannot make progress until a broker with one of its old
    replicas is back.
    """
    live = {broker.id for broker in placement.live_brokers}
    return [
        f"warning: {move.partition} has no live replica to copy from: it waits for broker"
        f" {' or '.join(map(str, move.old))}"
        for move in moves
        if move.added and live.isdisjoint(move.old)
    ]


def _broker_lines(pools: Pools, found: ReadCluster | None) -> list[str]:
    rows: list[list[object]] = [["Pool", "Broker", "Weight"]]
    if found is not None:
        rows[0] += ["Live", "Rack", "Leads", "Replicas", "Foreign"]
    for row in _broker_rows(pools, found):
        cells: list[object] = [row["pool"], row["broker"], f"{row['weight']:g}"]
        if found is not None:
            cells += ["yes" if row["live"] else "no", "-" if row["rack"] is None else row["rack"]]
            cells += [row["leads"], row["replicas"], row["foreign"]]
        rows.append(cells)
    return table_lines(rows)


def _broker_rows(pools: Pools, found: ReadCluster | None) -> Iterator[dict[str, object]]:
    """Yield one row for each broker of each pool.

    ``foreign`` counts the broker's replicas of topics that do not belong to the pool.
    """
    leads, replicas, foreign = Counter[int](), Counter[int](), Counter[int]()
    racks: dict[int, str | None] = {}
    if found is not None:
        racks = {broker.id: broker.rack for broker in found.placement.live_brokers}
        pool_of = {topic: pools.pool_of(topic) for topic in found.placement.topics()}
        for partition, place in found.placement.partitions.items():
            pool = pool_of[partition.topic]
            replicas.update(place.replicas)
            leads.update([place.leader] if place.leader is not None else [])
            foreign.update(
                id_ for id_ in place.replicas if pool is None or id_ not in pool.broker_ids
            )
    for pool in pools.by_name.values():
        for id_ in pool.broker_ids:
            row: dict[str, object] = {"pool": pool.name, "broker": id_, "weight": pools.weight(id_)}
            if found is not None:
                row |= {"live": id_ in racks, "rack": racks.get(id_), "leads": leads[id_]}
                row |= {"replicas": replicas[id_], "foreign": foreign[id_]}
            yield row


def _shown_as_json(pools: Pools, found: ReadCluster | None) -> dict[str, object]:
    shown: dict[str, object] = {
        "brokers": [*_broker_rows(pools, found)],
        "patterns": [{"pattern": rule.pattern, "pool": rule.pool} for rule in pools.rules],
    }
    if found is not None:
        shown["topics"] = [
            {
                "topic": topic,
                "pool": rules[0].pool if rules else None,
                "patterns": [rule.pattern for rule in rules],
            }
            for topic in found.placement.topics()
            for rules in (pools.rules_of(topic),)
        ]
        shown["unreadable"] = found.warnings
    return shown
