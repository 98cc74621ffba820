"""`klamm pools`: shows resource isolation pools, checks a cluster against them, plans moves.

Parses options and prints only; never writes to a cluster. placement/pools.py checks,
placement/minimal_moves.py plans.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Annotated

import typer

from klamm.admin.pool_cluster import ReadCluster, read_cluster
from klamm.admin.pools import read_pools
from klamm.admin.reassignments.reassignment_json import (
    format_reassignment,
    parse_execute_arguments,
    reassignment_values,
)
from klamm.cli.command_loading import command_group
from klamm.cli.connect import open_store
from klamm.cli.options import AsJson, print_json, table_lines
from klamm.cluster.errors import UnknownTopicOrPartition, UsageError
from klamm.placement.broker_metadata import RackAwareMode
from klamm.placement.minimal_moves import PartitionMove, PlanOptions, plan_moves
from klamm.placement.pools import (
    ClusterPlacement,
    PartitionPlace,
    Pools,
    Violation,
    topics_without_pool,
    violations,
)
from klamm.zk.dump_store import DumpStore, parse_dump

INCONCLUSIVE = 12
FINDINGS = 14

_EXAMPLES = """
\b
Examples:
  klamm pools show --pools pools.yaml
  klamm pools check --pools pools.yaml --zookeeper localhost:2181/kafka
  klamm pools plan --pools pools.yaml --dump before.json > reassignment.json
"""
_CHECK_EXAMPLES = """
\b
Examples:
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
    help="Resource isolation pools: restrict topics to groups of brokers.",
)

PoolsFile = Annotated[
    Path, typer.Option("--pools", metavar="FILE", help="YAML file with the pools.")
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(metavar="CONNECT", help="host:port[,host:port][/chroot] of the cluster."),
]
Dump = Annotated[
    Path | None, typer.Option(metavar="FILE", help="Output of klamm zk dump for the cluster.")
]
DisableRackAware = Annotated[bool, typer.Option(help="Ignore racks.")]


@app.command(epilog=_EXAMPLES)
def show(
    pools: PoolsFile, zookeeper: ZooKeeper = None, dump: Dump = None, json: AsJson = False
) -> None:
    """Print the pools, and the topic patterns in the order in which they are tried; with a
    cluster, also the load of each broker and the pool of each topic."""
    declared = read_pools(pools)
    found = None if zookeeper is None and dump is None else _read(zookeeper, dump)
    if json:
        print_json(_shown_as_json(declared, found))
        return
    for line in _broker_lines(declared, found):
        typer.echo(line)
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
    for line in table_lines([heading, *rows]):
        typer.echo(line)
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
        typer.Option(metavar="FILE", help="Check the cluster as it is after this reassignment."),
    ] = None,
    disable_rack_aware: DisableRackAware = False,
    json: AsJson = False,
) -> None:
    """List violations of the pools. Exit code 14 if there are violations, 12 if there are none
    but a part of the cluster could not be read."""
    declared = read_pools(pools)
    found = _read(zookeeper, dump)
    placement = found.placement if after is None else _as_left_by(found.placement, after)
    broken = violations(declared, placement, _mode(disable_rack_aware))
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
        for violation in broken:
            typer.echo(violation.text)
        typer.echo(
            f"{_count(len(broken), 'violation')}, {_count(len(placement.topics()), 'topic')},"
            f" {_count(len(placement.partitions), 'partition')}"
        )
        if free:
            typer.echo(f"Topics without a pool: {', '.join(free)}")
        if moving:
            typer.echo(
                f"{_count(len(moving), 'partition')} being reassigned, checked by target replicas"
            )
    if broken or found.warnings:
        raise typer.Exit(FINDINGS if broken else INCONCLUSIVE)


@app.command(epilog=_PLAN_EXAMPLES)
def plan(
    pools: PoolsFile,
    zookeeper: ZooKeeper = None,
    dump: Dump = None,
    topic: Annotated[list[str] | None, typer.Option(help="Only this topic; repeatable.")] = None,
    replication_factor: Annotated[
        int | None,
        typer.Option(min=1, help="New replication factor of --topic. [default: no change]"),
    ] = None,
    replace_dead: Annotated[
        bool, typer.Option(help="Also move replicas off brokers of the pools that are not alive.")
    ] = False,
    disable_rack_aware: DisableRackAware = False,
    json: AsJson = False,
) -> None:
    """Print the reassignment that moves every topic into its pool with the fewest replica moves,
    as JSON for kafka-reassign-partitions; print its summary to standard error."""
    if replication_factor is not None and not topic:
        raise UsageError("--replication-factor requires --topic", hint="name the topics to change")
    declared = read_pools(pools)
    placement = _read(zookeeper, dump).placement
    unknown = sorted(set(topic or ()) - set(placement.topics()))
    if unknown:
        raise UnknownTopicOrPartition(f"Topic {unknown[0]} does not exist")
    options = PlanOptions(
        topics=topic or None,
        replication_factor=replication_factor,
        replace_dead=replace_dead,
        rack_mode=_mode(disable_rack_aware),
    )
    moves = plan_moves(declared, placement, options)
    if json:
        print_json(_plan_as_json(moves))
    else:
        typer.echo(format_reassignment({move.partition: move.new for move in moves}, {}))
        typer.echo(_summary(moves), err=True)
    for line in _stuck(moves, placement):
        typer.echo(line, err=True)


def _mode(disable_rack_aware: bool) -> RackAwareMode:
    return RackAwareMode.DISABLED if disable_rack_aware else RackAwareMode.ENFORCED


def _read(zookeeper: str | None, dump: Path | None) -> ReadCluster:
    if zookeeper is not None and dump is not None:
        raise UsageError("give either --zookeeper or --dump, not both")
    if zookeeper is not None:
        with open_store(zookeeper) as store:
            found = read_cluster(store)
    elif dump is not None:
        found = read_cluster(DumpStore(parse_dump(_bytes_of(dump))))
    else:
        raise UsageError(
            "no cluster is given",
            hint="--zookeeper HOST:PORT/CHROOT, or --dump FILE with the output of klamm zk dump",
        )
    for warning in found.warnings:
        typer.echo(f"warning: {warning}", err=True)
    return found


def _bytes_of(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(f"{path}: {error.strerror or error}") from error


def _as_left_by(placement: ClusterPlacement, reassignment: Path) -> ClusterPlacement:
    """Return the placement after the reassignment in a file."""
    try:
        targets, _ = parse_execute_arguments(_bytes_of(reassignment).decode())
    except UnicodeDecodeError as error:
        raise UsageError(f"{reassignment}: not UTF-8 text") from error
    unknown = [tp for tp in sorted(targets) if tp not in placement.partitions]
    if unknown:
        raise UnknownTopicOrPartition(f"{reassignment}: partition {unknown[0]} does not exist")
    moved = {tp: PartitionPlace(tuple(replicas)) for tp, replicas in targets.items()}
    return replace(placement, partitions={**placement.partitions, **moved})


def _violation_as_json(violation: Violation) -> dict[str, object]:
    partition = violation.partition
    return {
        "kind": violation.kind.value,
        "pool": violation.pool,
        "topic": None if partition is None else partition.topic,
        "partition": None if partition is None else partition.partition,
        "brokers": violation.brokers,
        "text": violation.text,
    }


def _plan_as_json(moves: Sequence[PartitionMove]) -> dict[str, object]:
    return {
        "replica_moves": sum(len(move.added) for move in moves),
        "leader_moves": sum(move.old[:1] != move.new[:1] for move in moves),
        "current": reassignment_values({move.partition: move.old for move in moves}, {}),
        "proposed": reassignment_values({move.partition: move.new for move in moves}, {}),
    }


def _summary(moves: Sequence[PartitionMove]) -> str:
    if not moves:
        return "Nothing to move."
    plan = _plan_as_json(moves)
    copies = Counter(broker for move in moves for broker in move.added)
    onto = ", ".join(f"{broker}: {copies[broker]}" for broker in sorted(copies))
    return (
        f"{_count(len(moves), 'partition')}, {plan['replica_moves']} replica moves"
        f" (to broker {onto or 'none'}), {plan['leader_moves']} preferred leaders change."
    )


def _stuck(moves: Sequence[PartitionMove], placement: ClusterPlacement) -> list[str]:
    """Return a warning for each partition without a live replica to copy from.

    Its reassignment cannot make progress until a broker of its old replicas is back.
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


def _broker_rows(pools: Pools, found: ReadCluster | None) -> list[dict[str, object]]:
    """Return one row per broker of a pool.

    ``foreign`` counts replicas of topics that do not belong to the pool.
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
    rows: list[dict[str, object]] = []
    for pool in pools.by_name.values():
        for id_ in pool.broker_ids:
            row: dict[str, object] = {"pool": pool.name, "broker": id_, "weight": pools.weight(id_)}
            if found is not None:
                row |= {"live": id_ in racks, "rack": racks.get(id_), "leads": leads[id_]}
                row |= {"replicas": replicas[id_], "foreign": foreign[id_]}
            rows.append(row)
    return rows


def _shown_as_json(pools: Pools, found: ReadCluster | None) -> dict[str, object]:
    shown: dict[str, object] = {
        "brokers": _broker_rows(pools, found),
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


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
