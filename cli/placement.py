"""`klamm placement`: shows how Kafka would assign replicas, and which brokers would lead.

Only parses options and prints; needs no cluster and writes nothing. placement/assign.py implements
Kafka's algorithm.
"""

from __future__ import annotations

import re
import secrets
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import msgspec
import typer
from rich import box
from rich.table import Table as RichTable
from rich.text import Text

from klamm.cli.command_loading import command_group
from klamm.cli.console import HarmlessConsole
from klamm.cli.options import print_lines, table_lines
from klamm.cli.waiting import waiting
from klamm.cluster.counting import joined
from klamm.cluster.errors import AdminError, UsageError
from klamm.placement.assign import (
    Assignment,
    assign_replicas_to_brokers,
    get_rack_alternated_broker_list,
    starting_point,
)
from klamm.placement.broker_metadata import MAX_BROKERS, BrokerMetadata, broker_ids
from klamm.placement.draws import JavaRandom
from klamm.placement.table import BrokerShare, Takeover, broker_shares, takeovers
from klamm.report.values import Table

MAX_PARTITIONS = 1_000_000

_EXAMPLES = """
\b
Examples:
  klamm placement assign --brokers 0-4 --partitions 10 --rf 3 --start-index 0 --shift 0
  klamm placement assign --brokers 0-5 --racks a,c,c,b,b,a --partitions 7 --rf 3
  klamm placement assign --brokers 0-2 --racks 0:a,1:b,2:c --partitions 6 --rf 2 --seed 7 --json
"""

app = command_group(
    help="Show where Kafka would place the replicas of a topic.",
    epilog=_EXAMPLES,
)


@dataclass(frozen=True, slots=True)
class Placement:
    """A replica assignment, its inputs, and the leaders before and after the failure of each
    broker.
    """

    brokers: tuple[BrokerMetadata, ...]
    broker_list: tuple[int, ...]
    start_index: int
    next_replica_shift: int
    seed: int | None
    assignment: Assignment
    shares: tuple[BrokerShare, ...]
    takeovers: tuple[Takeover, ...]


@app.command()
def assign(
    brokers: Annotated[str, typer.Option(help="Broker ids: 0,1,2 or 0-8 or 0-2,7.")],
    partitions: Annotated[int, typer.Option(help="Number of partitions.")],
    replication_factor: Annotated[
        int, typer.Option("--rf", "--replication-factor", help="Replicas of each partition.")
    ],
    racks: Annotated[
        str | None,
        typer.Option(help="Racks, in the order of --brokers (a,b,c) or by broker id (0:a,1:b)."),
    ] = None,
    start_index: Annotated[
        int | None,
        typer.Option(min=0, help="Position of partition 0's leader in the broker list."),
    ] = None,
    shift: Annotated[
        int | None,
        typer.Option(
            "--shift",
            "--next-replica-shift",
            min=0,
            help="Number of brokers between the leader and the second replica of partition 0.",
        ),
    ] = None,
    seed: Annotated[
        int | None,
        typer.Option(
            min=0, help="Seed of java.util.Random, which chooses the start index and the shift."
        ),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
) -> None:
    """Print the replica assignment that Kafka 2.8.2 would make.

    Also prints the leaders on each broker, and the new leaders after the failure of each broker.
    Brokers are sorted by id, as in kafka-topics.
    """
    metadatas = parse_brokers(brokers, racks)
    with waiting(f"the placement of {partitions} partitions"):
        placed = _place(metadatas, partitions, replication_factor, start_index, shift, seed)
    if json:
        typer.echo(msgspec.json.encode(as_json(placed)).decode())
    else:
        _print_text(placed)


def parse_brokers(brokers: str, racks: str | None) -> tuple[BrokerMetadata, ...]:
    """Parse the values of `--brokers` and `--racks` into brokers sorted by id.

    Raises UsageError for a malformed or inconsistent list.
    """
    ids = _parse_ids(brokers)
    by_id = _parse_racks(racks, ids) if racks is not None else {}
    return tuple(BrokerMetadata(id_, by_id.get(id_)) for id_ in sorted(ids))


def as_json(placed: Placement) -> dict[str, object]:
    """Return the values that `--json` prints."""
    return {
        "brokers": [{"id": broker.id, "rack": broker.rack} for broker in placed.brokers],
        "broker_list": placed.broker_list,
        "start_index": placed.start_index,
        "next_replica_shift": placed.next_replica_shift,
        "seed": placed.seed,
        "partitions": [
            {"partition": partition, "leader": replicas[0], "replicas": replicas}
            for partition, replicas in placed.assignment.items()
        ],
        "leaders": [
            {"broker": share.broker_id, "leads": share.leads, "follows": share.follows}
            for share in placed.shares
        ],
        "takeovers": placed.takeovers,
    }


def _place(
    brokers: tuple[BrokerMetadata, ...],
    partitions: int,
    replication_factor: int,
    start_index: int | None,
    shift: int | None,
    seed: int | None,
) -> Placement:
    if partitions > MAX_PARTITIONS:
        raise UsageError(f"--partitions {partitions} exceeds the maximum of {MAX_PARTITIONS}")
    is_drawn = start_index is None or shift is None
    if seed is not None and not is_drawn:
        raise UsageError(
            "--seed has no effect if --start-index and --shift are both given",
            hint="omit --seed, --start-index or --shift",
        )
    if is_drawn and seed is None:
        seed = secrets.randbits(31)
    source = None if seed is None else JavaRandom(seed)
    start, first_shift = starting_point(len(brokers), start_index, shift, source)
    try:
        assignment = assign_replicas_to_brokers(
            brokers,
            partitions,
            replication_factor,
            start_index=start,
            next_replica_shift=first_shift,
        )
    except AdminError as error:
        raise UsageError(error.message, hint=error.hint) from error
    ids = tuple(broker.id for broker in brokers)
    racks = {broker.id: broker.rack for broker in brokers if broker.rack is not None}
    return Placement(
        brokers=brokers,
        broker_list=get_rack_alternated_broker_list(racks) if racks else ids,
        start_index=start,
        next_replica_shift=first_shift,
        seed=seed,
        assignment=assignment,
        shares=broker_shares(assignment, ids),
        takeovers=takeovers(assignment, ids),
    )


def _parse_ids(text: str) -> list[int]:
    ids: list[int] = []
    for item in text.split(","):
        try:
            ids += broker_ids(item.strip())
        except ValueError as error:
            raise UsageError(f"--brokers: {error}", hint="use 0,1,2 or 0-8") from None
        if len(ids) > MAX_BROKERS:
            raise UsageError(f"--brokers: more than {MAX_BROKERS} brokers")
    repeated = [id_ for id_, times in Counter(ids).items() if times > 1]
    if repeated:
        raise UsageError(f"--brokers: broker {joined(repeated)} is listed twice")
    return ids


def _parse_racks(text: str, ids: Sequence[int]) -> dict[int, str]:
    items = [item.strip() for item in text.split(",")]
    if not all(items):
        raise UsageError("--racks: a rack name is empty", hint="use a,b,c or 0:a,1:b")
    by_id = [re.fullmatch(r"([0-9]{1,10}):(.+)", item) for item in items]
    pairs = [(int(match[1]), match[2]) for match in by_id if match is not None]
    if not pairs:
        if len(items) != len(ids):
            raise UsageError(
                f"--racks lists {len(items)} racks for {len(ids)} brokers",
                hint="give one rack for each broker, or broker ids as in 0:a,1:b",
            )
        return dict(zip(ids, items, strict=True))
    if len(pairs) < len(items):
        raise UsageError("--racks mixes a,b,c with 0:a,1:b", hint="use either a,b,c or 0:a,1:b")
    racks: dict[int, str] = {}
    for broker_id, rack in pairs:
        if broker_id not in ids:
            raise UsageError(f"--racks: broker {broker_id} is not in --brokers")
        if broker_id in racks:
            raise UsageError(f"--racks: broker {broker_id} is listed twice")
        racks[broker_id] = rack
    return racks


def _print_text(placed: Placement) -> None:
    where = f"Broker list: {joined(placed.broker_list)}"
    seed = "" if placed.seed is None else f"  Seed: {placed.seed}"
    start = f"Start index: {placed.start_index}  Next replica shift: {placed.next_replica_shift}"
    console = HarmlessConsole(file=sys.stdout, highlight=False)
    if not console.is_terminal:
        print_lines((where, start + seed))
        for section in _sections(placed):
            _print_plain(section)
        return
    console.print(where, start + seed, sep="\n", markup=False)
    for section in _sections(placed):
        table = RichTable(title=section.title, title_justify="left", box=box.SIMPLE_HEAD)
        for column in section.columns:
            table.add_column(column, overflow="fold")
        for row in section.rows:
            table.add_row(*map(Text, map(str, row)))
        console.print(table)


def _print_plain(section: Table) -> None:
    typer.echo(f"\n{section.title}")
    print_lines(table_lines([section.columns, *section.rows]))


def _sections(placed: Placement) -> list[Table]:
    racks = {broker.id: broker.rack for broker in placed.brokers}
    replicas_of = placed.assignment.items()
    has_racks = any(rack is not None for rack in racks.values())

    def with_rack(rack: str, *cells: str) -> tuple[str, ...]:
        return (*cells, rack) if has_racks else cells

    table = [
        with_rack(
            ",".join(str(racks[id_]) for id_ in replicas),
            *(str(partition), str(replicas[0]), joined(replicas)),
        )
        for partition, replicas in replicas_of
    ]
    shares = [
        with_rack(
            str(racks[share.broker_id]),
            str(share.broker_id),
            str(len(share.leads)),
            str(len(share.leads) + len(share.follows)),
            _runs(share.leads),
        )
        for share in placed.shares
    ]
    deaths: list[tuple[str, ...]] = [
        (
            str(takeover.dead),
            "; ".join(f"{id_} leads {_runs(parts)}" for id_, parts in takeover.new_leaders.items())
            or "-",
            _runs(takeover.leaderless),
        )
        for takeover in placed.takeovers
    ]
    return [
        Table("Assignment", with_rack("Racks", "Partition", "Leader", "Replicas"), table),
        Table(
            "Leaders per broker",
            with_rack("Rack", "Broker", "Leads", "Replicas", "Leads partitions"),
            shares,
        ),
        Table("If one broker dies", ("Dead", "New leaders", "Without a leader"), deaths),
    ]


def _runs(partitions: Sequence[int]) -> str:
    if not partitions:
        return "-"
    runs: list[tuple[int, int]] = []
    for partition in partitions:
        if runs and partition == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], partition)
        else:
            runs.append((partition, partition))
    return ",".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
