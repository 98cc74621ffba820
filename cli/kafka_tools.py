"""`klamm topics`, `klamm configs` and the other tools of Kafka 2.8.2, with Kafka's output.

Removes klamm's own flags from the command line, passes Kafka's arguments unchanged to the tool in
admin/, and prints the result. Each tool is imported only when it runs.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
import typer

from klamm.cli.client import find_server
from klamm.cli.connect import open_cluster, open_store
from klamm.cli.errors import print_error_json
from klamm.cli.waiting import PLAIN_AFTER_S
from klamm.cluster.counting import parse_whole_number
from klamm.cluster.errors import KlammError, NotKlamm, UsageError
from klamm.placement.draws import JavaRandom
from klamm.placement.pools import NO_POOLS, Pools
from klamm.tools.command_result import CommandResult
from klamm.tools.tool_services import ToolServices
from klamm.zk.guard import foreign_cluster
from klamm.zk.kafka_zk_client import KafkaZkClient

if TYPE_CHECKING:
    from klamm.admin.kafka_admin import KafkaAdmin


class OwnArguments:
    """Parser that removes klamm's own flags from a tool's command line.

    ``kafka_args`` are the remaining arguments. Without --bootstrap-server and --zookeeper, a tool
    finds the server as other commands do: by --server, --data-dir, KLAMM_SERVER or server.json. If
    no server is found, the error is raised when the tool connects.
    """

    def __init__(self, args: Sequence[str]) -> None:
        self._rest = list(args)
        self.wants_help = "--help" in self._rest
        self.as_json = self.flag("--json")
        self.yes = self.flag("--yes")
        self._server = self.value("--server")
        data_dir = self.value("--data-dir")
        self._data_dir = None if data_dir is None else Path(data_dir)
        self._not_found: KlammError | None = None

    @property
    def kafka_args(self) -> list[str]:
        """Kafka's arguments, with the address of the server added if they contain no address.

        Raises UsageError if an address is given both to klamm and to the tool.
        """
        words = [word for word in self._rest if word.startswith("-")]
        names = {word.lstrip("-").partition("=")[0] for word in words}
        is_named = not names.isdisjoint(("bootstrap-server", "zookeeper"))
        has_place = self._server is not None or self._data_dir is not None
        if is_named and has_place:
            raise UsageError(
                "--server and --data-dir cannot be combined with --bootstrap-server or --zookeeper"
            )
        if is_named or names & {"help", "version"}:
            return self._rest
        if not (self._rest or has_place):
            if self.as_json:
                raise UsageError("no arguments are given", hint="--help lists them")
            return []
        return ["--bootstrap-server", self._found_server(), *self._rest]

    def _found_server(self) -> str:
        try:
            return find_server(self._server, self._data_dir).url
        except KlammError as error:
            # Wrong arguments are reported first: the tool has not checked them yet.
            self._not_found = error
            return "localhost"

    @contextmanager
    def open_cluster(self, address: str) -> Iterator[KafkaAdmin]:
        """Yield an admin client for the running klamm at ``address``.

        Raises EnvironmentProblem if no running klamm was found.
        """
        if self._not_found is not None:
            raise self._not_found
        with open_cluster(address, self._data_dir) as admin:
            yield admin

    def flag(self, name: str) -> bool:
        """Remove a flag from the command line; return True if it was present."""
        found = name in self._rest
        self._rest = [word for word in self._rest if word != name]
        return found

    def value(self, name: str) -> str | None:
        """Remove ``name VALUE`` or ``name=VALUE`` and return VALUE, or None if ``name`` is absent.

        Raises UsageError if VALUE is missing.
        """
        for position, word in enumerate(self._rest):
            flag, equals, value = word.partition("=")
            if flag != name:
                continue
            if not equals and position + 1 == len(self._rest):
                raise UsageError(f"{name} requires a value")
            taken = value if equals else self._rest[position + 1]
            del self._rest[position : position + (1 if equals else 2)]
            return taken
        return None


class _Pauses:
    """Sleeps for a tool that waits for brokers, and tells the user if the wait is long."""

    def __init__(self) -> None:
        self._slept_s = 0.0

    def sleep(self, wait_ms: float) -> None:
        """Sleep for ``wait_ms``; print a message when the total time slept becomes long."""
        was_said = self._slept_s >= PLAIN_AFTER_S
        self._slept_s += wait_ms / 1000
        if self._slept_s >= PLAIN_AFTER_S and not was_said:
            typer.echo("waiting for brokers to create the replicas that are to be moved", err=True)
        time.sleep(wait_ms / 1000)


def tool_services(
    own: OwnArguments, seed: int | None = None, pools: Pools = NO_POOLS
) -> ToolServices:
    """Return the services that a tool uses: connections, random numbers and a clock."""
    return ToolServices(
        open_store=open_store,
        open_cluster=own.open_cluster,
        before_write=(lambda _: None) if own.yes else ask_before_write,
        source=JavaRandom(secrets.randbits(48) if seed is None else seed),
        now_ms=lambda: time.monotonic() * 1000,
        sleep_ms=_Pauses().sleep,
        pools=pools,
    )


def finish(own: OwnArguments, result: CommandResult, own_help: str) -> None:
    """Print the result of a tool, and exit with the tool's exit code.

    With --json, the report goes to standard output and an error goes only to standard error.
    """
    if own.as_json and not own.wants_help:
        report = dict(result.report)
        error, exit_code = report.pop("error", None), int(report["exit_code"])
        typer.echo(msgspec.json.encode(report))
        if error is not None:
            print_error_json(error, exit_code)
        raise typer.Exit(exit_code)
    typer.echo(result.stdout, nl=False)
    typer.echo(result.stderr, nl=False, err=True)
    if result.hint:
        typer.echo(f"hint: {result.hint}", err=True)
    if own.wants_help:
        typer.echo(own_help, nl=False, err=True)
    raise typer.Exit(result.exit_code)


def ask_before_write(client: KafkaZkClient) -> None:
    """Ask for confirmation before a write to a ZooKeeper that klamm did not set up.

    Raises NotKlamm if the user declines, or if standard input is not a terminal.
    """
    owner = foreign_cluster(client)
    if owner is None:
        return
    typer.echo(f"This ZooKeeper was not set up by klamm. It belongs to {owner}.", err=True)
    if not sys.stdin.isatty():
        raise NotKlamm(
            "nothing was written: confirmation is required, but standard input is not a terminal",
            hint="--yes writes without asking",
        )
    if not typer.confirm("Write to it?", err=True):
        raise NotKlamm("nothing was written")


def _run(
    context: typer.Context,
    run: Callable[[Sequence[str], ToolServices], CommandResult],
    own_help: str,
) -> None:
    """Run a tool that has no options of klamm but those of all tools."""
    own = OwnArguments(context.args)
    finish(own, run(own.kafka_args, tool_services(own)), own_help)


# -- the tools


_ADDRESS_HELP = """
--bootstrap-server is the HTTP address that klamm up prints; without a port, port 8282. Without it
and without --zookeeper, a tool finds the running klamm as other commands do: --server or
--data-dir, else KLAMM_SERVER, else the data directory of klamm up.
"""
_TOPICS_HELP = f"""
klamm's options:
--pools FILE   with --zookeeper and --create or --alter: place every topic inside its pool
--yes          do not ask before writing to a ZooKeeper that klamm did not set up
--json         print JSON
{_ADDRESS_HELP}
Examples:
  klamm topics --create --topic t --partitions 6 --replication-factor 3
  klamm topics --bootstrap-server localhost --describe
  klamm topics --zookeeper localhost:2181 --create --topic u --replica-assignment 0:1:2,1:2:0
  klamm topics --zookeeper localhost:2181 --alter --topic u --partitions 3
  klamm topics --zookeeper localhost:2181 --alter --topic T1 --partitions 12 --pools pools.yaml
  klamm topics --zookeeper localhost:2181 --describe --under-replicated-partitions
  klamm topics --zookeeper localhost:2181 --list --json
"""


def topics(context: typer.Context) -> None:
    """kafka-topics of Kafka 2.8.2: create, list, describe, alter, delete topics."""
    from klamm.tools.topics.command import run_topic_command

    own = OwnArguments(context.args)
    services = tool_services(own, pools=_pools(own.value("--pools")))
    finish(own, run_topic_command(own.kafka_args, services), _TOPICS_HELP)


_REASSIGN_HELP = f"""
klamm's options:
--seed N                   with --generate: the same seed gives the same plan
--pools FILE               with --generate: place each topic inside its pool; with --execute:
                           refuse a plan that moves a partition out of its pool
--save-throttles FILE      with --execute --throttle: save the previous throttles in FILE
--restore-throttles FILE   with --verify or --cancel: when all reassignments are complete, restore
                           the throttles saved in FILE and delete FILE; Kafka removes all throttles
--show-throttles           with --verify, --cancel or --list: print the current throttles
--yes                      do not ask before writing to a ZooKeeper that klamm did not set up
--json                     print JSON; --verify then exits with 0 (complete), 12 (in progress)
                           or 1 (the replicas differ from the plan)

With --zookeeper, --execute writes a znode, and the controller carries out the reassignment.
{_ADDRESS_HELP}
Examples:
  klamm reassign-partitions --bootstrap-server localhost:8282 --generate --broker-list 1,2,3 \\
      --topics-to-move-json-file topics.json --seed 7 --pools pools.yaml
  klamm reassign-partitions --bootstrap-server localhost:8282 --execute --throttle 1000000 \\
      --reassignment-json-file plan.json --save-throttles before.json
  klamm reassign-partitions --zookeeper localhost:2181 --verify \\
      --reassignment-json-file plan.json --restore-throttles before.json
  klamm reassign-partitions --cancel --reassignment-json-file plan.json
  klamm reassign-partitions --list
"""


def reassign_partitions(context: typer.Context) -> None:
    """kafka-reassign-partitions of Kafka 2.8.2: generate, execute, verify, cancel plans."""
    from klamm.tools.reassignments.command import run_reassign_command
    from klamm.tools.reassignments.common import OwnOptions

    own = OwnArguments(context.args)
    services = tool_services(own, _seed(own.value("--seed")))
    options = OwnOptions(
        save_throttles=_path(own.value("--save-throttles")),
        restore_throttles=_path(own.value("--restore-throttles")),
        show_throttles=own.flag("--show-throttles"),
        pools=_pools(own.value("--pools")),
    )
    finish(own, run_reassign_command(own.kafka_args, services, options), _REASSIGN_HELP)


def _seed(seed: str | None) -> int | None:
    if seed is None:
        return None
    number = parse_whole_number(seed)
    if number is None:
        raise UsageError(f"--seed {seed} is not a whole number from 0 on")
    return number


def _pools(name: str | None) -> Pools:
    from klamm.tools.pools.pool_file import read_pools

    return NO_POOLS if name is None else read_pools(Path(name))


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


_ELECTION_HELP = f"""
klamm's options:
--json   print JSON
{_ADDRESS_HELP}
Examples:
  klamm leader-election --election-type preferred --all-topic-partitions
  klamm leader-election --bootstrap-server localhost:8282 --election-type unclean \\
      --topic t --partition 0
"""


def leader_election(context: typer.Context) -> None:
    """kafka-leader-election of Kafka 2.8.2: elect preferred or unclean leaders."""
    from klamm.tools.elections.command import run_election_command

    _run(context, run_election_command, _ELECTION_HELP)


_CONFIGS_HELP = f"""
klamm's options:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON

klamm supports the configs of topics and brokers and, with --zookeeper, the SCRAM credentials of
users. docs/configs.md lists them and tells which can be changed while a broker runs.
{_ADDRESS_HELP}
Examples:
  klamm configs --describe --topic t --all
  klamm configs --bootstrap-server localhost:8282 --alter --topic t --add-config retention.ms=1000
  klamm configs --bootstrap-server localhost:8282 --alter --broker-defaults \\
      --add-config unclean.leader.election.enable=true
  klamm configs --zookeeper localhost:2181 --describe --entity-type topics
"""


def configs(context: typer.Context) -> None:
    """kafka-configs of Kafka 2.8.2: describe and alter configs of topics and brokers."""
    from klamm.tools.configs.command import run_configs_command

    _run(context, run_configs_command, _CONFIGS_HELP)


_LOG_DIRS_HELP = f"""
klamm's options:
--json   print JSON

The size of a replica is the total size of its log segments in bytes. Without klamm up --segments,
logs are in memory and have no files.
Like Kafka's tool, this one waits up to a minute for a broker that is not available.
{_ADDRESS_HELP}
Examples:
  klamm log-dirs --describe
  klamm log-dirs --bootstrap-server localhost:8282 --describe --broker-list 0,1 --topic-list t
"""


def log_dirs(context: typer.Context) -> None:
    """kafka-log-dirs of Kafka 2.8.2: describe the log directories of brokers."""
    from klamm.tools.log_dirs_command import run_log_dirs_command

    _run(context, run_log_dirs_command, _LOG_DIRS_HELP)


_PREFERRED_HELP = f"""
klamm's options:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON

With --zookeeper the tool writes a znode, and the controller carries out the elections.
{_ADDRESS_HELP}
Examples:
  klamm preferred-replica-election --bootstrap-server localhost:8282
  klamm preferred-replica-election --zookeeper localhost:2181 --path-to-json-file partitions.json
"""


def preferred_replica_election(context: typer.Context) -> None:
    """kafka-preferred-replica-election of Kafka 2.8.2: elect preferred leaders."""
    from klamm.tools.elections.preferred_command import run_preferred_election_command

    _run(context, run_preferred_election_command, _PREFERRED_HELP)
