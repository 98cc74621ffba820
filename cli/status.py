"""`klamm status`: shows the state of a running cluster. Sends a request and prints only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from klamm.cli.client import ServerClient
from klamm.cli.options import Answered, asks_server, table_lines
from klamm.cluster.plain_text import harmless_line

SHOWN: Final = 5
EXAMPLES = """
\b
Examples:
  klamm status
  klamm status --json --server localhost:8282
"""


@asks_server
def status(client: ServerClient) -> Answered:
    """Show controller, brokers, pending work, faults and malformed znodes."""
    values = client.get("/status")
    return values, "\n".join(map(harmless_line, status_lines(values)))


def status_lines(values: Mapping[str, Any]) -> list[str]:
    """Return the status as lines of text."""
    zookeeper = values["zookeeper"]
    embedded = ", embedded" if zookeeper["embedded"] else ""
    lines = [
        f"Cluster:     {values['cluster_id']} at {values['url']}, data in {values['data_dir']}",
        f"ZooKeeper:   {zookeeper['connect']} ({zookeeper['state'].lower()}{embedded})",
    ]
    if len(zookeeper["servers"]) > 1:
        servers = (f"{one['id']} {one['state']}" for one in zookeeper["servers"])
        lines.append(f"             servers: {', '.join(servers)}")
    if zookeeper["is_stale"]:
        lines.append("             ZooKeeper is unreachable; the values below are the last known")
    lines += controller_lines(values["controller"], zookeeper["is_stale"])
    lines += what_prevents_elections(values)
    for other in values["other_active_controllers"]:
        lines.append(
            f"             broker {other['id']} also acts as controller, epoch {other['epoch']}"
        )
    lines += ["", *broker_lines(values["brokers"])]
    lines += [
        f"Broker {broker['id']} {broker['state']}: {broker['reason']}"
        for broker in values["brokers"]
        if broker["reason"] is not None
    ]
    isolated = values["isolated_brokers"]
    if isolated:
        lines += ["", f"Isolated: {_brokers(isolated)} (klamm network heal)"]
    malformed = {} if values["controller"] is None else values["controller"]["malformed"]
    configs = {
        path: f"{found['reason']} (brokers {', '.join(map(str, found['brokers']))})"
        for path, found in values["malformed_configs"].items()
    }
    for title, items in (
        ("Disk faults (klamm disk heal)", map(fault_text, values["disk_faults"])),
        (
            "Malformed znodes that prevent the election of a controller",
            map(": ".join, zookeeper["malformed"].items()),
        ),
        ("Malformed znodes that the controller ignores", map(": ".join, malformed.items())),
        (
            "Malformed configs and change notifications that brokers ignore",
            map(": ".join, configs.items()),
        ),
        ("Errors inside klamm", values["errors"]),
    ):
        shown = [f"  {item}" for item in items]
        lines += ["", f"{title}:", *shown] if shown else []
    return lines


def fault_text(fault: Mapping[str, Any]) -> str:
    """Describe one disk fault: the disk and the kind of fault."""
    if fault.get("journal"):
        return f"journal: {fault['kind']}"
    rate = f", {fault['bytes_per_s']} bytes/s" if "bytes_per_s" in fault else ""
    return f"broker {fault['broker']}, log directory {fault['log_dir']}: {fault['kind']}{rate}"


def controller_lines(controller: Mapping[str, Any] | None, is_stale: bool) -> list[str]:
    """Describe the controller and its counts; the last known ones if ``is_stale``."""
    if controller is None:
        return [
            "Controller:  none",
            "             Topics, partitions and replicas are shown once a controller is elected",
        ]
    waiting = controller["requests_waiting"]
    requests = sum(waiting.values())
    return [
        f"Controller:  {'last known: ' if is_stale else ''}broker {controller['controller_id']}, "
        f"epoch {controller['epoch']}, {controller['state']}",
        f"Queued:      {controller['event_queue_size']} events, {requests} requests",
        f"Topics:      {controller['topics']}",
        f"Partitions:  {counts(controller['partitions'])}",
        f"Replicas:    {counts(controller['replicas'])}",
        f"Offline:     {controller['offline_partitions']} partitions; "
        f"{controller['preferred_replica_imbalance']} not led by their preferred replica",
        *work_lines(controller),
    ]


def what_prevents_elections(values: Mapping[str, Any]) -> list[str]:
    """Describe a journal that cannot be written, and failed failovers."""
    lines = []
    journal, failovers = values["journal"], values["failovers"]
    if not journal["is_writable"]:
        lines.append(
            f"Journal:     {journal['failure']}, for {journal['failed_for_ms'] / 1000:.1f} s; "
            "no controller is elected until the journal is writable"
        )
    if failovers["failed"]:
        lines.append(
            f"Failovers:   {failovers['failed']} failed in a row, the next attempt is in "
            f"{failovers['pause_ms'] / 1000:.1f} s: {failovers['failure']}"
        )
    return lines


def work_lines(controller: Mapping[str, Any]) -> list[str]:
    """Describe pending shutdowns, deletions and reassignments, and what each waits for."""
    lines = []
    stopping = controller["shutting_down_brokers"]
    if stopping:
        lines.append(f"Stopping:    {_brokers(stopping)}")
    deletions, moved = controller["deletions"], controller["reassignments"]
    texts = [f"topic {d['topic']} {_waiting(d)}" for d in deletions[:SHOWN]]
    lines += _listed("Deleting:", texts, len(deletions))
    texts = [
        f"{r['topic']}-{r['partition']} from {_ids(r['replicas'])} to {_ids(r['target'])} "
        f"{_waiting(r)}"
        for r in moved[:SHOWN]
    ]
    return lines + _listed("Reassigning:", texts, controller["partitions_being_reassigned"])


def _listed(label: str, texts: list[str], count: int) -> list[str]:
    more = [f"and {count - len(texts)} more"] if count > len(texts) else []
    return [f"{label if not n else '':<12} {text}" for n, text in enumerate([*texts, *more])]


def _waiting(work: Mapping[str, Any]) -> str:
    if work.get("waits_for_reassignment"):
        return "waits for its reassignment"
    if work["waits_for_brokers"]:
        live = work.get("waits_for_log_dirs_of")
        failed = f" (failed log directories of {_brokers(live)})" if live else ""
        return f"waits for {_brokers(work['waits_for_brokers'])}{failed}"
    return "is under way"


def _brokers(ids: list[int]) -> str:
    return f"broker{'s' if len(ids) > 1 else ''} {_ids(ids)}"


def _ids(ids: list[int]) -> str:
    return ",".join(map(str, ids))


def broker_lines(brokers: list[dict[str, Any]]) -> list[str]:
    """Return a table of the brokers as lines."""
    heading = ("Broker", "Rack", "State", "Live", "Role", "Partitions", "Leads", "Under-replicated")
    rows: list[tuple[object, ...]] = [heading]
    for broker in brokers:
        live = {True: "yes", False: "no", None: "?"}[broker["live"]]
        role = "candidate" if broker["is_candidate"] else "-"
        rows.append(
            (
                broker["id"],
                broker["rack"] or "-",
                broker["state"],
                live,
                "controller" if broker["is_controller"] else role,
                broker["partitions"],
                broker["leaders"],
                broker["under_replicated"],
            )
        )
    return table_lines(rows)


def counts(by_state: Mapping[str, int]) -> str:
    """Return counts of states, e.g. ``12 OnlinePartition, 1 OfflinePartition``."""
    return ", ".join(f"{count} {state}" for state, count in by_state.items()) or "none"
