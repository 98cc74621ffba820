"""`klamm watch`: shows a running cluster live, full-screen on a terminal, otherwise as plain lines.

Only polls the server and prints.
"""

from __future__ import annotations

import sys
import time
from collections import deque
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Annotated, Final

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
from klamm.cli.options import finite
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.status import (
    counts,
    dead_leader_lines,
    failed_broker_lines,
    log_dir_text,
    network_lines,
    offline_text,
    queued_text,
    what_prevents_elections,
)
from klamm.cluster.status import BrokerStatus, ClusterStatus
from klamm.server.journal_tail import MAX_BYTES
from klamm.server.states import Status
from klamm.world.explain.journal_text import (
    EventNames,
    Row,
    row_text,
    row_time_text,
    summary_text,
    time_zone,
)

EXAMPLES = """
\b
Examples:
  klamm watch
  klamm watch --interval 0.5 | tee rehearsal.txt
"""

EVENTS_KEPT: Final = 200
_STYLES: Final = {
    "running": "green",
    "paused": "yellow",
    "starting": "yellow",
    "stopping": "yellow",
}
_BORDERS: Final = 2
"""Lines of the borders of a panel."""
_LEAST_EVENTS: Final = 3
"""Number of events that have priority over the table of brokers."""
_COLUMNS: Final = ("Broker", "Rack", "State", "Partitions", "Leads", "Under-replicated")
_DISPENSABLE: Final = ("Rack", "Under-replicated", "Partitions", "Leads")
"""Columns that are omitted if the terminal is too narrow, the least important first."""


class ClusterWatcher:
    """Polls the server, and holds the cluster's latest status and journal rows."""

    def __init__(self, server: str | None, data_dir: Path | None) -> None:
        self._client = find_server(server, data_dir)
        self._journal = ServerSource(self._client)
        self._place: int | None = None
        self.names = EventNames()
        self.rows: deque[Row] = deque(maxlen=EVENTS_KEPT)
        self.status: Status

    def poll(self) -> list[Row]:
        """Poll the server and return the new journal rows.

        If there are too many new rows, only the newest are returned.
        """
        self.status = self._client.status()
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
        float,
        typer.Option(min=0.1, max=60.0, callback=finite, help="Seconds between two polls."),
    ] = 1.0,
    server: Server = None,
    data_dir: DataDirectory = None,
) -> None:
    """Show the state of a running cluster live, until Ctrl-C.

    Shows the controller and its queue, the brokers, the number of partitions in each state, and the
    latest events with their causes.
    """
    watcher = ClusterWatcher(server, data_dir)
    console = HarmlessConsole(file=sys.stdout)
    if console.is_terminal:
        _watch_live(watcher, console, interval)
    else:
        _watch_plainly(watcher, interval)


def _watch_live(watcher: ClusterWatcher, console: Console, interval_s: float) -> None:
    watcher.poll()
    with Live(page(watcher, console), console=console, screen=True, auto_refresh=False) as live:
        while True:
            live.update(page(watcher, console), refresh=True)
            time.sleep(interval_s)
            watcher.poll()


def _watch_plainly(watcher: ClusterWatcher, interval_s: float) -> None:
    last = ""
    while True:
        for row in watcher.poll():
            typer.echo(row_text(row, watcher.names))
        summary = summary_line(watcher.status)
        if summary != last:
            typer.echo(summary)
            last = summary
        time.sleep(interval_s)


def summary_line(status: ClusterStatus) -> str:
    """Return the state of the cluster as one line."""
    controller = status.controller
    brokers = status.brokers
    running = sum(broker.state == "running" for broker in brokers)
    alive = f"brokers {running}/{len(brokers)} running"
    if controller is None:
        why = status.journal.failure or status.failovers.failure
        return f"== no controller{'' if why is None else f' ({why})'}; {alive}"
    known = "ZooKeeper is unreachable; last known " if status.zookeeper.is_stale else ""
    return (
        f"== {known}controller {controller.controller_id} epoch {controller.epoch}; {alive}; "
        f"queue {controller.event_queue_size}; "
        f"partitions: {counts(controller.partitions)}; "
        f"offline {controller.offline_partitions}, "
        f"{status.partitions_without_live_leader} without a live leader"
    )


def page(watcher: ClusterWatcher, console: Console) -> RenderableType:
    """Return the full-screen page for a terminal, the most important parts first.

    In a low terminal, the panels have fewer lines, and the end of the table of brokers is cut.
    """
    status = watcher.status
    notes = notes_text(status)
    head = Panel(_head(status), title="klamm", title_align="left")
    brokers = _brokers(status.brokers, console)
    room = console.height - (_lines(notes, console) if notes else 0)
    head.height = min(_lines(head, console), max(room, _BORDERS))
    room -= head.height + _BORDERS
    events_room = min(room, max(_LEAST_EVENTS, room - _lines(brokers, console)))
    parts: list[RenderableType] = [*([notes] if notes else []), head]
    if events_room > 0:
        events = events_table(watcher.rows, watcher.names, events_room)
        title = f"Last events ({time_zone()})"
        parts += [Panel(events, title=title, title_align="left"), brokers]
    return Group(*parts)


def _lines(part: RenderableType, console: Console) -> int:
    """Return the number of lines of a part of the page."""
    return len(console.render_lines(part, console.options.update(height=None)))


def notes_text(status: ClusterStatus) -> Text:
    """Return the lines of klamm status about failures and faults of the network."""
    lines = [
        *dead_leader_lines(status),
        *failed_broker_lines(status.brokers),
        *(f"Failed: {log_dir_text(one)}" for one in status.failed_log_dirs),
        *network_lines(status),
    ]
    return Text("\n".join(lines), style="yellow")


def _head(status: ClusterStatus) -> RenderableType:
    controller = status.controller
    table = Table.grid(padding=(0, 2))
    zookeeper = status.zookeeper
    table.add_row("ZooKeeper", Text(f"{zookeeper.connect} {zookeeper.state.lower()}"))
    if controller is None:
        table.add_row("Controller", Text("none", style="red"))
        for line in what_prevents_elections(status):
            label, _, text = line.partition(":")
            table.add_row(label, Text(text.strip(), style="yellow"))
        if zookeeper.malformed:
            table.add_row("Malformed", Text(", ".join(zookeeper.malformed), style="yellow"))
        return table
    known = "last known: " if zookeeper.is_stale else ""
    active = f"{known}broker {controller.controller_id}, epoch {controller.epoch}"
    table.add_row("Controller", Text(f"{active}, {controller.state}", style="bold"))
    leaderless = status.partitions_without_live_leader
    offline = Text(offline_text(controller, leaderless), style="red" if leaderless else "")
    table.add_row("Offline", offline)
    table.add_row("Queued", queued_text(controller))
    table.add_row("Partitions", counts(controller.partitions))
    table.add_row("Replicas", counts(controller.replicas))
    if controller.malformed:
        table.add_row("Malformed", Text(", ".join(controller.malformed), style="yellow"))
    return table


def _brokers(brokers: Sequence[BrokerStatus], console: Console) -> Table:
    """Return the table of brokers, with as many columns as fit into the terminal."""
    columns = list(_COLUMNS)
    unlimited = console.options.update_width(sys.maxsize)
    for dispensable in _DISPENSABLE:
        table = _broker_table(brokers, columns)
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
        columns.remove(dispensable)
    table = _broker_table(brokers, columns)
    table.expand = True
    return table


def _broker_table(brokers: Sequence[BrokerStatus], columns: list[str]) -> Table:
    table = Table(box=None, padding=(0, 1))
    for heading in columns:
        table.add_column(heading, justify="left" if heading in ("Rack", "State") else "right")
    for broker in brokers:
        crown = " (controller)" if broker.is_controller else ""
        cells: dict[str, RenderableType] = {
            "Broker": str(broker.id),
            "Rack": broker.rack or "-",
            "State": Text(broker.state + crown, style=_STYLES.get(broker.state, "red")),
            "Partitions": str(broker.partitions),
            "Leads": str(broker.leaders),
            "Under-replicated": str(broker.under_replicated),
        }
        table.add_row(*map(cells.__getitem__, columns))
    return table


def events_table(rows: Iterable[Row], names: EventNames, room: int) -> Table:
    """Return the last ``room`` rows of the journal, each in one line that ends with its cause."""
    table = Table.grid(padding=(0, 2), expand=True)
    table.add_column(no_wrap=True)
    table.add_column(no_wrap=True, overflow="ellipsis", ratio=1)
    for row in list(rows)[-room:]:
        text = Text(summary_text(row))
        cause = names.cause_of(row)
        table.add_row(row_time_text(row), text.append(f"  {cause}", style="dim") if cause else text)
    return table
