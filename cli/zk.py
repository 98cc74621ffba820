"""`klamm zk`: looks into a ZooKeeper. Parses and prints only; zk/dump.py reads."""

from __future__ import annotations

from typing import Annotated

import msgspec
import typer

from cli.connect import open_store
from cluster.errors import UsageError
from zk.dump import dump

_EXAMPLES = """
\b
Examples:
  klamm zk dump --zookeeper localhost:2181/klamm
  klamm zk dump /brokers/topics --zookeeper localhost:2181 > before.json
"""

app = typer.Typer(
    help="Look into a ZooKeeper.",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
)


@app.callback()
def zk() -> None:
    """Look into a ZooKeeper."""


@app.command("dump", epilog=_EXAMPLES)
def dump_command(
    zookeeper: Annotated[
        str, typer.Option(help="host:port[,host:port][/chroot]", metavar="CONNECT")
    ],
    path: Annotated[str, typer.Argument(help="Where to begin, inside the chroot.")] = "/",
) -> None:
    """Print the znodes at and below a path as JSON, without loss: null data is not empty data,
    data that is no UTF-8 text is base64, with versions, zxids, times and the owning session."""
    if not path.startswith("/") or (path != "/" and "" in path[1:].split("/")):
        raise UsageError(f"'{path}' is no path of a znode", hint="write it as /brokers/topics")
    with open_store(zookeeper) as store:
        znodes = dump(store, path)
    typer.echo("[")
    last = len(znodes) - 1
    for index, znode in enumerate(znodes):
        typer.echo(msgspec.json.encode(znode).decode() + ("," if index < last else ""))
    typer.echo("]")
