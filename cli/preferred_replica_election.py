"""`klamm preferred-replica-election`: kafka-preferred-replica-election of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is
admin/preferred_election_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager

import typer

from admin.elections import ElectionAdmin
from admin.preferred_election_command import ElectionServices, run_preferred_election_command
from cli.connect import open_store
from cli.kafka_tools import OwnArguments, finish
from cluster.errors import UsageError

_OWN_HELP = """
klamm's own:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON, and end with klamm's exit codes

klamm has no answer to --bootstrap-server here yet: use --zookeeper.
The tool asks for elections; a controller carries them out.

Examples:
  klamm preferred-replica-election --zookeeper localhost:2181
  klamm preferred-replica-election --zookeeper localhost:2181 --path-to-json-file partitions.json
"""


def preferred_replica_election(context: typer.Context) -> None:
    """kafka-preferred-replica-election of Kafka 2.8.2: ask for preferred leaders by --zookeeper."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code."""
    own = OwnArguments(args)
    services = ElectionServices(open_store, _open_cluster, own.before_write)
    return finish(own, lambda: run_preferred_election_command(own.rest, services), _OWN_HELP)


def _open_cluster(address: str) -> AbstractContextManager[ElectionAdmin]:
    raise UsageError(
        f"klamm at {address} does not answer kafka-preferred-replica-election",
        hint="use --zookeeper",
    )
