"""`klamm log-dirs`: kafka-log-dirs of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is admin/log_dirs_command.py.
"""

from __future__ import annotations

from collections.abc import Sequence

import typer

from admin.log_dirs_command import run_log_dirs_command
from cli.kafka_tools import OwnArguments, finish, tool_services

_OWN_HELP = """
klamm's own:
--json   print JSON, and end with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints. Sizes are the bytes of a replica's
segments; without klamm up --segments they are counted, and no file is there. A broker that is away
is waited for a minute, as by Kafka.

Examples:
  klamm log-dirs --bootstrap-server localhost:8282 --describe
  klamm log-dirs --bootstrap-server localhost:8282 --describe --broker-list 0,1 --topic-list t
"""


def log_dirs(context: typer.Context) -> None:
    """kafka-log-dirs of Kafka 2.8.2: what is in the log directories of brokers."""
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code."""
    own = OwnArguments(args)
    return finish(own, lambda: run_log_dirs_command(own.rest, tool_services(own)), _OWN_HELP)
