"""What klamm's stand-ins for Kafka's tools share: klamm's own flags, and printing what comes back.

Kafka's arguments go through untouched. Knows no tool.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Sequence

import msgspec
import typer

from admin.command_result import CommandResult, describe_error
from admin.guard import foreign_cluster
from admin.tool_services import ToolServices
from cli.connect import open_cluster, open_store
from cluster.errors import KlammError, NotKlamm, UsageError
from placement.draws import IntSource
from placement.pools import Pools
from zk.kafka_zk_client import KafkaZkClient


class OwnArguments:
    """A command line from which klamm's own flags are taken; ``rest`` is Kafka's."""

    def __init__(self, args: Sequence[str]) -> None:
        self.rest = list(args)
        self.wants_help = "--help" in self.rest
        self.as_json = self.flag("--json")
        self.yes = self.flag("--yes")

    def flag(self, name: str) -> bool:
        """Take a flag; True if it was there."""
        found = name in self.rest
        self.rest = [word for word in self.rest if word != name]
        return found

    def value(self, name: str) -> str | None:
        """Take ``name VALUE`` or ``name=VALUE``; None if it is absent. Raises UsageError."""
        for position, word in enumerate(self.rest):
            flag, equals, value = word.partition("=")
            if flag != name:
                continue
            if not equals and position + 1 == len(self.rest):
                raise UsageError(f"{name} needs a value")
            taken = value if equals else self.rest[position + 1]
            del self.rest[position : position + (1 if equals else 2)]
            return taken
        return None

    @property
    def before_write(self) -> Callable[[KafkaZkClient], None]:
        """What is to be called before a ZooKeeper is written to."""
        return _nothing if self.yes else ask_before_write


class SystemSource:
    """Draws from the machine's entropy, as nobody seeds Kafka's tool either."""

    def next_int(self, bound: int) -> int:
        """Return an integer of [0, bound)."""
        return secrets.randbelow(bound)


def tool_services(
    own: OwnArguments, source: IntSource | None = None, pools: Pools | None = None
) -> ToolServices:
    """Return connections, randomness and time of this machine."""
    return ToolServices(
        open_store=open_store,
        open_cluster=open_cluster,
        before_write=own.before_write,
        source=source or SystemSource(),
        now_ms=lambda: time.monotonic() * 1000,
        sleep_ms=lambda wait_ms: time.sleep(wait_ms / 1000),
        pools=pools,
    )


def finish(own: OwnArguments, tool: Callable[[], CommandResult], own_help: str) -> int:
    """Run a tool and print its result; the exit code, klamm's with ``--json``, else Kafka's."""
    if not own.as_json:
        result = tool()
        typer.echo(result.stdout, nl=False)
        typer.echo(result.stderr, nl=False, err=True)
        if result.hint:
            typer.echo(f"hint: {result.hint}", err=True)
        if own.wants_help:
            typer.echo(own_help, nl=False, err=True)
        return result.exit_code
    try:
        report = tool().report
    except KlammError as error:
        report = {"action": None, "error": describe_error(error), "exit_code": error.exit_code}
    typer.echo(msgspec.json.encode(report))
    return int(report["exit_code"])


def ask_before_write(client: KafkaZkClient) -> None:
    """Ask on standard error before a ZooKeeper is changed that klamm did not set up.

    Raises NotKlamm if the answer is no, or if nobody is there to answer.
    """
    owner = foreign_cluster(client)
    if owner is None:
        return
    typer.echo(f"This ZooKeeper was not set up by klamm. It belongs to {owner}.", err=True)
    if not sys.stdin.isatty():
        raise NotKlamm("nobody is here to say yes: nothing was written", hint="pass --yes")
    if not typer.confirm("Write to it?", err=True):
        raise NotKlamm("nothing was written")


def _nothing(_: KafkaZkClient) -> None:
    return None
