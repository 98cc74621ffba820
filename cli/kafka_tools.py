"""`klamm topics`, `klamm configs` and the other tools of Kafka 2.8.2, with identical output.

Removes klamm's own flags from the command line, passes Kafka's arguments unchanged to the tool in
admin/, and prints its result. Each tool is imported when it runs.
"""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec
import typer

from klamm.admin.command_result import CommandResult, describe_error
from klamm.admin.guard import foreign_cluster
from klamm.admin.tool_services import ToolServices
from klamm.cli.connect import open_cluster, open_store
from klamm.cluster.errors import KlammError, NotKlamm, UsageError
from klamm.placement.draws import IntSource, JavaRandom
from klamm.placement.pools import Pools
from klamm.zk.kafka_zk_client import KafkaZkClient

EMPTY_REPORT: Final = {"action": None}


class OwnArguments:
    """Parser that removes klamm's own flags from a command line; ``rest`` is Kafka's."""

    def __init__(self, args: Sequence[str]) -> None:
        self.rest = list(args)
        self.wants_help = "--help" in self.rest
        self.as_json = self.flag("--json")
        self.yes = self.flag("--yes")

    def flag(self, name: str) -> bool:
        """Remove a flag; return True if it was present."""
        found = name in self.rest
        self.rest = [word for word in self.rest if word != name]
        return found

    def value(self, name: str) -> str | None:
        """Remove ``name VALUE`` or ``name=VALUE`` and return VALUE; None if it is absent.

        Raises UsageError if VALUE is missing.
        """
        for position, word in enumerate(self.rest):
            flag, equals, value = word.partition("=")
            if flag != name:
                continue
            if not equals and position + 1 == len(self.rest):
                raise UsageError(f"{name} requires a value")
            taken = value if equals else self.rest[position + 1]
            del self.rest[position : position + (1 if equals else 2)]
            return taken
        return None

    @property
    def before_write(self) -> Callable[[KafkaZkClient], None]:
        """Return the function to call before the first write to a ZooKeeper."""
        return _nothing if self.yes else ask_before_write


class SystemSource:
    """Unseeded random integers, as in Kafka's tool."""

    def next_int(self, bound: int) -> int:
        """Return a random integer of [0, bound)."""
        return secrets.randbelow(bound)


def tool_services(
    own: OwnArguments, source: IntSource | None = None, pools: Pools | None = None
) -> ToolServices:
    """Return the services of a tool: real connections, randomness and time."""
    return ToolServices(
        open_store=open_store,
        open_cluster=open_cluster,
        before_write=own.before_write,
        source=source or SystemSource(),
        now_ms=lambda: time.monotonic() * 1000,
        sleep_ms=lambda wait_ms: time.sleep(wait_ms / 1000),
        pools=pools,
    )


def finish(
    own: OwnArguments,
    tool: Callable[[], CommandResult],
    own_help: str,
    empty: Mapping[str, Any] = EMPTY_REPORT,
) -> None:
    """Run a tool, print its result, and exit with klamm's exit code (--json) or Kafka's.

    ``empty``: the report, apart from the error, of a tool that raised an error.
    """
    if own.as_json:
        try:
            report = tool().report
        except KlammError as error:
            report = {**empty, "error": describe_error(error), "exit_code": error.exit_code}
        typer.echo(msgspec.json.encode(report))
        raise typer.Exit(int(report["exit_code"]))
    result = tool()
    typer.echo(result.stdout, nl=False)
    typer.echo(result.stderr, nl=False, err=True)
    if result.hint:
        typer.echo(f"hint: {result.hint}", err=True)
    if own.wants_help:
        typer.echo(own_help, nl=False, err=True)
    raise typer.Exit(result.exit_code)


def ask_before_write(client: KafkaZkClient) -> None:
    """Ask for confirmation before a write to a ZooKeeper that klamm did not set up.

    Raises NotKlamm if the answer is no, or if standard input is not a terminal.
    """
    owner = foreign_cluster(client)
    if owner is None:
        return
    typer.echo(f"This ZooKeeper was not set up by klamm. It belongs to {owner}.", err=True)
    if not sys.stdin.isatty():
        raise NotKlamm(
            "nothing was written: standard input is not a terminal to confirm on",
            hint="--yes writes without asking",
        )
    if not typer.confirm("Write to it?", err=True):
        raise NotKlamm("nothing was written")


def _nothing(_: KafkaZkClient) -> None:
    return None


# -- the tools


_TOPICS_HELP = """
klamm's options:
--pools FILE   with --zookeeper and --create or --alter: place every topic inside its pool
--yes          do not ask before writing to a ZooKeeper that klamm did not set up
--json         print JSON, and exit with klamm's exit codes

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
    from klamm.admin.topics.command import run_topic_command

    own = OwnArguments(context.args)
    services = tool_services(own, pools=_pools(own.value("--pools")))
    empty: dict[str, Any] = {"action": None, "topics": [], "warnings": []}
    finish(own, lambda: run_topic_command(own.rest, services), _TOPICS_HELP, empty)


_REASSIGN_HELP = """
klamm's options:
--seed N                   with --generate: the same plan every time
--pools FILE               with --generate: place each topic inside its pool; with --execute:
                           refuse a plan that moves a partition out of its pool
--save-throttles FILE      with --execute --throttle: save the previous throttles in FILE
--restore-throttles FILE   with --verify or --cancel: when all reassignments are complete, restore
                           the throttles saved in FILE and delete FILE; Kafka removes all throttles
--show-throttles           with --verify, --cancel or --list: print the throttles that are set now
--yes                      do not ask before writing to a ZooKeeper that klamm did not set up
--json                     print JSON, and exit with klamm's exit codes; --verify: 0 complete,
                           12 still in progress, 1 the replicas differ from the plan

--bootstrap-server is the HTTP address that klamm up prints. With --zookeeper, --execute writes a
znode, and the controller carries out the reassignment.

Examples:
  klamm reassign-partitions --bootstrap-server localhost:8282 --generate --broker-list 1,2,3 \\
      --topics-to-move-json-file topics.json --seed 7 --pools pools.yaml
  klamm reassign-partitions --bootstrap-server localhost:8282 --execute --throttle 1000000 \\
      --reassignment-json-file plan.json --save-throttles before.json
  klamm reassign-partitions --zookeeper localhost:2181 --verify \\
      --reassignment-json-file plan.json --restore-throttles before.json
  klamm reassign-partitions --bootstrap-server localhost:8282 --cancel \\
      --reassignment-json-file plan.json
  klamm reassign-partitions --bootstrap-server localhost:8282 --list
"""


def reassign_partitions(context: typer.Context) -> None:
    """kafka-reassign-partitions of Kafka 2.8.2: generate, execute, verify, cancel plans."""
    from klamm.admin.reassignments.command import run_reassign_command
    from klamm.admin.reassignments.common import OwnOptions

    own = OwnArguments(context.args)
    services = tool_services(own, _source(own.value("--seed")))
    options = OwnOptions(
        save_throttles=_path(own.value("--save-throttles")),
        restore_throttles=_path(own.value("--restore-throttles")),
        show_throttles=own.flag("--show-throttles"),
        pools=_pools(own.value("--pools")),
    )
    finish(own, lambda: run_reassign_command(own.rest, services, options), _REASSIGN_HELP)


def _source(seed: str | None) -> IntSource:
    if seed is None:
        return SystemSource()
    try:
        return JavaRandom(int(seed))
    except ValueError:
        raise UsageError(f"--seed {seed} is not a whole number") from None


def _pools(name: str | None) -> Pools | None:
    from klamm.admin.pools import read_pools

    return None if name is None else read_pools(Path(name))


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)


_ELECTION_HELP = """
klamm's options:
--json   print JSON, and exit with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints.

Examples:
  klamm leader-election --bootstrap-server localhost:8282 --election-type preferred \\
      --all-topic-partitions
  klamm leader-election --bootstrap-server localhost:8282 --election-type unclean \\
      --topic t --partition 0
"""


def leader_election(context: typer.Context) -> None:
    """kafka-leader-election of Kafka 2.8.2: elect preferred or unclean leaders."""
    from klamm.admin.elections.command import run_election_command

    own = OwnArguments(context.args)
    finish(own, lambda: run_election_command(own.rest, tool_services(own)), _ELECTION_HELP)


_CONFIGS_HELP = """
klamm's options:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON, and exit with klamm's exit codes

klamm supports the configs of topics and brokers. Dynamic broker configs are the three replication
throttles and unclean.leader.election.enable. --bootstrap-server is the HTTP address that klamm up
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
    from klamm.admin.configs.command import run_configs_command

    own = OwnArguments(context.args)
    finish(own, lambda: run_configs_command(own.rest, tool_services(own)), _CONFIGS_HELP)


_LOG_DIRS_HELP = """
klamm's options:
--json   print JSON, and exit with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints. The size of a replica is the total
size of its segments in bytes; without klamm up --segments its log is in memory and has no files.
Waits a minute for a broker that is not available, as Kafka does.

Examples:
  klamm log-dirs --bootstrap-server localhost:8282 --describe
  klamm log-dirs --bootstrap-server localhost:8282 --describe --broker-list 0,1 --topic-list t
"""


def log_dirs(context: typer.Context) -> None:
    """kafka-log-dirs of Kafka 2.8.2: describe the log directories of brokers."""
    from klamm.admin.log_dirs_command import run_log_dirs_command

    own = OwnArguments(context.args)
    finish(own, lambda: run_log_dirs_command(own.rest, tool_services(own)), _LOG_DIRS_HELP)


_PREFERRED_HELP = """
klamm's options:
--yes    do not ask before writing to a ZooKeeper that klamm did not set up
--json   print JSON, and exit with klamm's exit codes

--bootstrap-server is the HTTP address that klamm up prints. With --zookeeper the tool writes a
znode, and the controller carries out the elections.

Examples:
  klamm preferred-replica-election --bootstrap-server localhost:8282
  klamm preferred-replica-election --zookeeper localhost:2181 --path-to-json-file partitions.json
"""


def preferred_replica_election(context: typer.Context) -> None:
    """kafka-preferred-replica-election of Kafka 2.8.2: elect preferred leaders."""
    from klamm.admin.elections.preferred_command import run_preferred_election_command

    own = OwnArguments(context.args)
    finish(
        own, lambda: run_preferred_election_command(own.rest, tool_services(own)), _PREFERRED_HELP
    )
