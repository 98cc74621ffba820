"""`klamm preferred-replica-election`: kafka-preferred-replica-election of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is
admin/elections/preferred_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from admin.elections.preferred_command import run_preferred_election_command
from cli.kafka_tools import OwnArguments, finish, tool_services

_OWN_HELP = """
klamm's own:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON, and end with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints. By --zookeeper the tool writes a znode;
a controller carries the elections out.

Examples:
  klamm preferred-replica-election --bootstrap-server localhost:8282
  klamm preferred-replica-election --zookeeper localhost:2181 --path-to-json-file partitions.json
"""


def preferred_replica_election(context: typer.Context) -> None:
    """kafka-preferred-replica-election of Kafka 2.8.2: ask for preferred leaders."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code."""
    own = OwnArguments(args)
    services = tool_services(own)
    return finish(own, lambda: run_preferred_election_command(own.rest, services), _OWN_HELP)
