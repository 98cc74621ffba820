"""`klamm leader-election`: kafka-leader-election of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is admin/elections/command.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from admin.elections.command import run_election_command
from cli.kafka_tools import OwnArguments, finish, tool_services

_OWN_HELP = """
klamm's own:
--json   print JSON, and end with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints.

Examples:
  klamm leader-election --bootstrap-server localhost:8282 --election-type preferred \\
      --all-topic-partitions
  klamm leader-election --bootstrap-server localhost:8282 --election-type unclean \\
      --topic t --partition 0
"""


def leader_election(context: typer.Context) -> None:
    """kafka-leader-election of Kafka 2.8.2: elect preferred or unclean leaders."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code."""
    own = OwnArguments(args)
    return finish(own, lambda: run_election_command(own.rest, tool_services(own)), _OWN_HELP)
