"""Shell completion of brokers, topics and partitions of the running cluster.

Completion never fails: without a cluster, or if the cluster does not respond, it returns nothing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from importlib.resources import files
from typing import Any, Final

import typer

from klamm.cli.client import ServerClient, find_server
from klamm.cluster.errors import KlammError

Complete = Callable[[typer.Context, str], list[str]]


def _completion(values: Callable[[ServerClient], Iterable[str]]) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        given = ctx.params
        return _matching(values, given.get("server"), given.get("data_dir"), incomplete)

    return complete


def _matching(
    values: Callable[[ServerClient], Iterable[str]],
    server: str | None,
    data_dir: Any,
    incomplete: str,
) -> list[str]:
    try:
        found = values(find_server(server, data_dir))
        return sorted(value for value in found if value.startswith(incomplete))
    except KlammError:
        return []


def _brokers(client: ServerClient) -> Iterable[str]:
    return [str(broker["id"]) for broker in client.get("/status")["brokers"]]


def _topics(client: ServerClient) -> Iterable[str]:
    topics: list[str] = client.get("/topics")["topics"]
    return topics


def _partitions(client: ServerClient) -> Iterable[str]:
    answer = client.post("/topics/describe", {"topics": _topics(client)})
    return [
        f"{topic['topic']}-{partition['partition']}"
        for topic in answer["topics"]
        for partition in topic["partitions"]
    ]


complete_broker: Final = _completion(_brokers)
complete_topic: Final = _completion(_topics)
complete_partition: Final = _completion(_partitions)


def complete_tool(tool: str, args: Sequence[str], incomplete: str) -> list[str]:
    """Return completions for one of Kafka's tools: its options, and topics after --topic.

    ``args``: the preceding words of the command line.
    """
    if incomplete.startswith("-"):
        usage = (files("klamm.admin") / "texts" / f"{tool}.txt").read_text()
        names = {*re.findall(r"^--[\w.-]+", usage, re.MULTILINE), "--json"}
        return sorted(name for name in names if name.startswith(incomplete))
    if args and args[-1] == "--topic":
        return _matching(_topics, _value_of("--bootstrap-server", args), None, incomplete)
    return []


def _value_of(option: str, args: Sequence[str]) -> str | None:
    at = args.index(option) + 1 if option in args else len(args)
    return args[at] if at < len(args) else None
