"""`klamm configs`: kafka-configs of Kafka 2.8.2 for topics and brokers, to the byte.

Passes its arguments on and prints what comes back; all of the tool is admin/configs/command.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from admin.configs.command import run_configs_command
from cli.kafka_tools import OwnArguments, finish, tool_services

_OWN_HELP = """
klamm's own:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON, and end with klamm's exit codes

klamm has configs of topics and brokers; while a broker runs, its three replication throttles and
unclean.leader.election.enable can be changed. --bootstrap-server is the HTTP address that klamm up
prints.

Examples:
  klamm configs --bootstrap-server localhost:8282 --describe --topic t --all
  klamm configs --bootstrap-server localhost:8282 --alter --topic t --add-config retention.ms=1000
  klamm configs --bootstrap-server localhost:8282 --alter --broker-defaults \\
      --add-config unclean.leader.election.enable=true
  klamm configs --zookeeper localhost:2181 --describe --entity-type topics
"""


def configs(context: typer.Context) -> None:
    """kafka-configs of Kafka 2.8.2: describe and alter configs of topics and brokers."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code."""
    own = OwnArguments(args)
    return finish(own, lambda: run_configs_command(own.rest, tool_services(own)), _OWN_HELP)
