"""`klamm topics`: kafka-topics of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is admin/topics/. Three flags
are klamm's own: `--pools`, `--yes` and `--json`.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import msgspec
import typer

from admin.command_result import CommandResult, describe_error
from admin.pools import read_pools
from admin.topics.command import run_topic_command
from cli.kafka_tools import OwnArguments, tool_services
from cluster.errors import KlammError

_OWN_HELP = """
klamm's own:
--pools FILE   with --zookeeper and --create or --alter: place every topic inside its pool
--yes          do not ask before writing to a ZooKeeper that klamm did not set up
--json         print JSON, and end with klamm's exit codes

Examples:
  klamm topics --zookeeper localhost:2181 --create --topic t --partitions 6 --replication-factor 3
  klamm topics --zookeeper localhost:2181 --create --topic u --replica-assignment 0:1:2,1:2:0
  klamm topics --zookeeper localhost:2181 --alter --topic u --partitions 3
  klamm topics --zookeeper localhost:2181 --alter --topic T1 --partitions 12 --pools pools.yaml
  klamm topics --zookeeper localhost:2181 --describe --under-replicated-partitions
  klamm topics --zookeeper localhost:2181 --list --json
"""


def topics(context: typer.Context) -> None:
    """kafka-topics of Kafka 2.8.2: create, list, describe, alter, delete topics."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code. Raises UsageError."""
    own = OwnArguments(args)
    pools = own.value("--pools")
    services = tool_services(own, pools=None if pools is None else read_pools(Path(pools)))
    if not own.as_json:
        code = _print(run_topic_command(own.rest, services))
        if own.wants_help:
            typer.echo(_OWN_HELP, nl=False, err=True)
        return code
    try:
        report = run_topic_command(own.rest, services).report
    except KlammError as error:
        report = {
            "action": None,
            "topics": [],
            "warnings": [],
            "error": describe_error(error),
            "exit_code": error.exit_code,
        }
    typer.echo(msgspec.json.encode(report))
    return int(report["exit_code"])


def _print(result: CommandResult) -> int:
    typer.echo(result.stdout, nl=False)
    typer.echo(result.stderr, nl=False, err=True)
    if result.hint:
        typer.echo(f"hint: {result.hint}", err=True)
    return result.exit_code
