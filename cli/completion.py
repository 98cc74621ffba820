"""Shell completion of the names in the running cluster, of drills, and of fixed words.

Completion never fails: if no cluster is running or it does not respond, nothing is suggested.
"""

from __future__ import annotations

import io
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import redirect_stderr
from glob import escape, glob
from importlib.resources import files
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

import typer

from klamm.cli.client import ServerClient, find_server

_OWN_OPTIONS: Final = ("--json", "--server", "--data-dir")
Given = Mapping[str, Any]
"""Preceding options and arguments of the command line, keyed by parameter, such as ``data_dir``."""
Complete = Callable[[typer.Context, str], list[str]]
Values = Callable[[ServerClient, Given], Iterable[str]]
"""Function that returns all values of an option in the running cluster."""


def _completion(values: Values) -> Complete:
    def complete(ctx: typer.Context, incomplete: str) -> list[str]:
        return _matching(values, ctx.params, incomplete)

    return complete


def word_completion(*words: str) -> Callable[[str], list[str]]:
    """Return a function that completes fixed words."""

    def complete(incomplete: str) -> list[str]:
        return _beginning(words, incomplete)

    return complete


def _beginning(words: Iterable[str], incomplete: str) -> list[str]:
    return [word for word in words if word.startswith(incomplete)]


def _in_list(words: Iterable[str], incomplete: str) -> list[str]:
    """Complete the last word of a comma-separated list with a word that the list does not have."""
    before, comma, last = incomplete.rpartition(",")
    rest = [word for word in words if word not in before.split(",")]
    return [f"{before}{comma}{word}" for word in _beginning(rest, last)]


def _matching(values: Values, given: Given, incomplete: str, *, is_list: bool = False) -> list[str]:
    data_dir = given.get("data_dir")
    try:
        with redirect_stderr(io.StringIO()):
            # The shell's words are not parsed: --data-dir is a str.
            place = None if data_dir is None else Path(data_dir)
            found = sorted(values(find_server(given.get("server"), place), given))
        return _in_list(found, incomplete) if is_list else _beginning(found, incomplete)
    except Exception:
        # Nothing may be printed into the line that the user is typing, whatever the server or the
        # file server.json contains. The command itself reports the error.
        return []


def _brokers(client: ServerClient, _: Given) -> Iterable[str]:
    return [str(broker.id) for broker in client.status().brokers]


def _log_dirs(client: ServerClient, given: Given) -> Iterable[str]:
    """Return the log directories of the broker that is named before."""
    wanted = int(given["broker"])
    answer = client.post("/log-dirs/describe", {"brokers": [wanted]})
    return [log_dir["path"] for broker in answer["brokers"] for log_dir in broker["log_dirs"]]


def _topics(client: ServerClient, _: Given) -> Iterable[str]:
    topics: list[str] = client.get("/topics")["topics"]
    return topics


def _partitions(client: ServerClient, given: Given) -> Iterable[str]:
    answer = client.post("/topics/describe", {"topics": _topics(client, given)})
    return [
        f"{topic['topic']}-{partition['partition']}"
        for topic in answer["topics"]
        for partition in topic["partitions"]
    ]


def _partition_ids(client: ServerClient, given: Given) -> Iterable[str]:
    """Return the partitions of the topic that is named before."""
    (topic,) = client.post("/topics/describe", {"topics": [given["topic"]]})["topics"]
    return [str(partition["partition"]) for partition in topic["partitions"]]


def _entities(client: ServerClient, given: Given) -> Iterable[str]:
    return (_brokers if given["entity_type"] == "brokers" else _topics)(client, given)


def _zookeeper_servers(client: ServerClient, _: Given) -> Iterable[str]:
    servers = client.status().zookeeper.servers
    return [*(str(server.id) for server in servers), "leader", "follower"]


complete_broker: Final = _completion(_brokers)
complete_log_dir: Final = _completion(_log_dirs)
complete_topic: Final = _completion(_topics)
complete_partition: Final = _completion(_partitions)
complete_partition_id: Final = _completion(_partition_ids)
complete_zookeeper_server: Final = _completion(_zookeeper_servers)
_TOOL_WORDS: Final = {
    "--election-type": ("preferred", "unclean"),
    "--entity-type": ("topics", "brokers"),
}
_TOOL_VALUES: Final[Mapping[str, Values]] = {
    "--topic": _topics,
    "--partition": _partition_ids,
    "--broker": _brokers,
    "--entity-name": _entities,
}
_TOOL_LISTS: Final[Mapping[str, Values]] = {"--broker-list": _brokers, "--topic-list": _topics}
"""Values of the options of Kafka's tools: fixed words, names, and comma-separated names."""


def complete_fault(incomplete: str) -> list[str]:
    """Complete a comma-separated list of the faults of klamm hunt."""
    from klamm.lab.hunt.drawn_steps import FAULTS  # imported late: other commands need no drills

    return _in_list(FAULTS, incomplete)


def complete_drill(incomplete: str) -> list[str]:
    """Return the shipped drills and the drill files whose names begin with ``incomplete``."""
    return [*complete_shipped_drill(incomplete), *complete_drill_file(incomplete)]


def complete_shipped_drill(incomplete: str) -> list[str]:
    """Return the names of the shipped drills that begin with ``incomplete``."""
    from klamm.lab.drills.library import ALL  # imported late: other commands need no drills

    return _beginning(ALL, incomplete)


def complete_drill_file(incomplete: str) -> list[str]:
    """Return the YAML files whose path begins with ``incomplete``."""
    return sorted(
        path for path in glob(f"{escape(incomplete)}*") if path.endswith((".yaml", ".yml"))
    )


def complete_tool(tool: str, args: Sequence[str], incomplete: str) -> list[str]:
    """Return completions for one of Kafka's tools: its options, and the values of some of them.

    ``args`` are the preceding words of the command line.
    """
    if incomplete.startswith("-"):
        usage = (files("klamm.tools") / "texts" / f"{tool}.txt").read_text()
        names = {*re.findall(r"^--[\w.-]+", usage, re.MULTILINE), *_OWN_OPTIONS}
        return sorted(name for name in names if name.startswith(incomplete))
    option = args[-1] if args else ""
    if option in _TOOL_WORDS:
        return _beginning(_TOOL_WORDS[option], incomplete)
    is_list = option in _TOOL_LISTS
    values = _TOOL_LISTS.get(option) or _TOOL_VALUES.get(option)
    if values is None:
        return []
    given: dict[str, str | None] = {
        name.removeprefix("--").replace("-", "_"): value
        for name, value in pairwise(args)
        if name.startswith("--")
    }
    given.setdefault("server", given.get("bootstrap_server"))
    return _matching(values, given, incomplete, is_list=is_list)
