"""`klamm reassign-partitions`: kafka-reassign-partitions of Kafka 2.8.2, to the byte.

Passes its arguments on and prints what comes back; all of the tool is admin/reassignments/.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import typer

from admin.pools import read_pools
from admin.reassignments.command import run_reassign_command
from admin.reassignments.common import OwnOptions
from cli.kafka_tools import OwnArguments, SystemSource, finish, tool_services
from cluster.errors import UsageError
from placement.draws import IntSource, JavaRandom
from placement.pools import Pools

_OWN_HELP = """
klamm's own:
--seed N                   with --generate: the same plan every time
--pools FILE               with --generate: place each topic inside its pool; with --execute:
                           refuse a plan by which a partition leaves its pool
--save-throttles FILE      with --execute --throttle: keep in FILE what the throttles were before
--restore-throttles FILE   with --verify or --cancel: once nothing moves, put back what FILE holds
                           and remove FILE, where Kafka removes every throttle
--show-throttles           with --verify, --cancel or --list: print the throttles that are set now
--yes                      do not ask before writing to a ZooKeeper that klamm did not set up
--json                     print JSON, and end with klamm's exit codes; --verify: 0 complete,
                           12 still in progress, 1 the replicas are others

--bootstrap-server is the HTTP address that klamm up prints. By --zookeeper, --execute writes a
znode; a controller carries it out.

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
    code = run(context.args)
    if code:
        raise typer.Exit(code)


def run(args: Sequence[str]) -> int:
    """Run the tool with klamm's own flags among ``args``; the exit code. Raises UsageError."""
    own = OwnArguments(args)
    source = _source(own.value("--seed"))
    options = OwnOptions(
        save_throttles=_path(own.value("--save-throttles")),
        restore_throttles=_path(own.value("--restore-throttles")),
        show_throttles=own.flag("--show-throttles"),
        pools=_pools(own.value("--pools")),
    )
    services = tool_services(own, source)
    return finish(own, lambda: run_reassign_command(own.rest, services, options), _OWN_HELP)


def _source(seed: str | None) -> IntSource:
    if seed is None:
        return SystemSource()
    try:
        return JavaRandom(int(seed))
    except ValueError:
        raise UsageError(f"--seed {seed} is not a whole number") from None


def _pools(name: str | None) -> Pools | None:
    return None if name is None else read_pools(Path(name))


def _path(name: str | None) -> Path | None:
    return None if name is None else Path(name)
