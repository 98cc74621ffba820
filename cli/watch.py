"""`klamm watch`: shows a running cluster live: one page on a terminal, else plain lines.

Polls the server and prints only.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Mapping
from typing import Annotated, Any, Final

import msgspec
import typer
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from klamm.cli.client import find_server
from klamm.cli.console import HarmlessConsole
from klamm.cli.journal import ServerSource
from klamm.cli.journal_text import EventNames, Row, row_text, summary_text, time_text
from klamm.cli.options import DataDirectory, Server
from klamm.cli.status import counts, what_prevents_elections
from klamm.server.journal_tail import MAX_BYTES

EXAMPLES = """
\b
Examples:
  klamm watch
  klamm watch --interval 0.5 | tee rehearsal.txt
"""

EVENTS_KEPT: Final = 200
_STYLES: Final = {"running": "green", "paused": "yellow", "starting": "yellow"}
_FRAME_LINES: Final = 14


class Watcher:
    """The cluster's last status and last journal rows, polled from the server."""

    def __init__(self, server: str | None, data_dir: Any) -> None:
        self._client = find_server(server, data_dir)
        self._journal = ServerSource(self._client)
        self._place: int | None = None
        self.names = EventNames()
        self.rows: deque[Row] = deque(maxlen=EVENTS_KEPT)
        self.status: dict[str, Any] = {}

    def poll(self) -> list[Row]:
        """Poll the server and return the new rows; only the last ones if there are too many."""
        self.status = self._client.get("/status")
        if self._place is None:
            part = self._journal.last(EVENTS_KEPT)
        else:
            part = self._journal.after(self._place)
            if sum(map(len, part.lines)) > MAX_BYTES // 2:
                part = self._journal.last(EVENTS_KEPT)
        self._place = part.next
        new: list[Row] = [msgspec.json.decode(line) for line in part.lines]
        for row in new:
            self.names.see(row)
        self.rows.extend(new)
        return new


def watch(
    interval: Annotated[
        float, typer.Option(min=0.1, max=60.0, help="Seconds between two polls.")
    ] = 1.0,
    server: Server = None,
    data_dir: DataDirectory = None,
) -> None:
    """Show controller, queue, brokers, counts of states, and the last events with their causes,
    until Ctrl-C."""
    watcher = Watcher(server, data_dir)
    console = HarmlessConsole(file=sys.stdout)
    if console.is_terminal:
        _watch_live(watcher, console, interval)
    else:
        _watch_plainly(watcher, interval)


def _watch_live(watcher: Watcher, console: Console, interval_s: float) -> None:
    watcher.poll()
    with Live(
        page(watcher, console.height), console=console, screen=True, auto_refresh=False
    ) as live:
        while True:
            live.update(page(watcher, console.height), refresh=True)
            time.sleep(interval_s)
            watcher.poll()


def _watch_plainly(watcher: Watcher, interval_s: float) -> None:
    last = ""
    while True:
        for row in watcher.poll():
            typer.echo(row_text(row, watcher.names))
        summary = summary_line(watcher.status)
        if summary != last:
            typer.echo(summary)
            last = summary
        sys.stdout.flush()
        time.sleep(interval_s)


def summary_line(status: Mapping[str, Any]) -> str:
    """Return the state of the cluster as one line."""
    controller = status["controller"]
    brokers = status["brokers"]
    running = sum(broker["state"] == "running" for broker in brokers)
    alive = f"brokers {running}/{len(brokers)} running"
    if controller is None:
        why = status["journal"]["failure"] or status["failovers"]["failure"]
        return f"== no controller{'' if why is None else f' ({why})'}; {alive}"
    known = "ZooKeeper is unreachable; last known " if status["zookeeper"]["is_stale"] else ""
    return (
        f"== {known}controller {controller['controller_id']} epoch {controller['epoch']}; {alive}; "
        f"queue {controller['event_queue_size']}; "
        f"partitions: {counts(controller['partitions'])}; "
        f"offline {controller['offline_partitions']}"
    )


def page(watcher: Watcher, height: int) -> RenderableType:
    """Return the page that fills a terminal of this height."""
    status = watcher.status
    room = max(3, height - _FRAME_LINES - len(status["brokers"]))
    return Group(
        Panel(_head(status), title="klamm", title_align="left"),
        _brokers(status["brokers"]),
        Panel(_events(watcher, room), title="Last events", title_align="left"),
    )


def _head(status: Mapping[str, Any]) -> RenderableType:
    controller = status["controller"]
    table = Table.grid(padding=(0, 2))
    zookeeper = status["zookeeper"]
    table.add_row("ZooKeeper", Text(f"{zookeeper['connect']} {zookeeper['state'].lower()}"))
    if controller is None:
        table.add_row("Controller", Text("none", style="red"))
        for line in what_prevents_elections(status):
            label, _, text = line.partition(":")
            table.add_row(label, Text(text.strip(), style="yellow"))
        if zookeeper["malformed"]:
            table.add_row("Malformed", Text(", ".join(zookeeper["malformed"]), style="yellow"))
        return table
    waiting = sum(controller["requests_waiting"].values())
    known = "last known: " if zookeeper["is_stale"] else ""
    active = f"{known}broker {controller['controller_id']}, epoch {controller['epoch']}"
    table.add_row("Controller", Text(f"{active}, {controller['state']}", style="bold"))
    table.add_row("Queued", f"{controller['event_queue_size']} events, {waiting} requests")
    table.add_row("Partitions", counts(controller["partitions"]))
    table.add_row("Replicas", counts(controller["replicas"]))
    offline = controller["offline_partitions"]
    imbalance = controller["preferred_replica_imbalance"]
    table.add_row(
        "Offline",
        Text(f"{offline} (not led by preferred: {imbalance})", style="red" if offline else ""),
    )
    if controller["malformed"]:
        table.add_row("Malformed", Text(", ".join(controller["malformed"]), style="yellow"))
    return table


def _brokers(brokers: list[dict[str, Any]]) -> Table:
    table = Table(box=None, padding=(0, 2))
    for heading in ("Broker", "Rack", "State", "Partitions", "Leads", "Under-replicated"):
        table.add_column(heading, justify="left" if heading in ("Rack", "State") else "right")
    for broker in brokers:
        crown = " (controller)" if broker["is_controller"] else ""
        state = Text(broker["state"] + crown, style=_STYLES.get(broker["state"], "red"))
        shown = (broker["partitions"], broker["leaders"], broker["under_replicated"])
        table.add_row(str(broker["id"]), broker["rack"] or "-", state, *map(str, shown))
    return table


def _events(watcher: Watcher, room: int) -> Table:
    table = Table.grid(padding=(0, 2))
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=2)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in list(watcher.rows)[-room:]:
        table.add_row(
            time_text(row), Text(summary_text(row)), Text(watcher.names.cause_of(row), style="dim")
        )
    return table
