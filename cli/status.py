"""`klamm status`: shows the state of a running cluster.

Sends a request to the server and prints the response. With --wait it asks until the cluster is
healthy.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Annotated, Final

import typer

from klamm.cli.client import ServerClient, find_server
from klamm.cli.options import AsJson, finite, print_result, table_lines
from klamm.cli.server_options import DataDirectory, Server
from klamm.cli.waiting import waiting
from klamm.cluster.counting import brokers_text, counted, joined, listed
from klamm.cluster.errors import WrongState
from klamm.cluster.status import (
    ActiveDiskFault,
    BrokerStatus,
    ClusterStatus,
    ControllerStatus,
    Deletion,
    FailedLogDir,
    RunningReassignment,
    unhealthy,
)
from klamm.server.states import Status

SHOWN: Final = 5
POLL_S: Final = 0.25
NOT_HEALTHY: Final = 11
"""The exit code if a cluster is not healthy in time."""
EXAMPLES = """
\b
Examples:
  klamm status
  klamm status --json --server localhost:8282
  klamm broker kill 1 && klamm broker start 1 && klamm status --wait 60

Exit codes: 11 if the cluster is not healthy after the SECONDS of --wait.
"""


def status(
    wait: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            min=0,
            callback=finite,
            help="First wait until the cluster is healthy, at most this long.",
        ),
    ] = None,
    server: Server = None,
    data_dir: DataDirectory = None,
    json: AsJson = False,
) -> None:
    """Show controller, brokers, pending work, faults and malformed znodes.

    A cluster is healthy if every broker is running, registered and not isolated, every partition
    has a live leader and all its replicas in sync, and no topic is being deleted and no partition
    reassigned.
    """
    client = find_server(server, data_dir)
    values = client.status() if wait is None else _healthy_status(client, wait)
    print_result(json, values, status_lines(values))


def _healthy_status(client: ServerClient, wait_s: float) -> Status:
    """Return the status once the cluster is healthy. Raises WrongState after ``wait_s``."""
    deadline_s = time.monotonic() + wait_s
    with waiting("a healthy cluster"):
        while True:
            values = client.status()
            reasons = list(unhealthy(values))
            if not reasons:
                return values
            left_s = deadline_s - time.monotonic()
            if left_s <= 0:
                raise WrongState(
                    f"the cluster is not healthy after {wait_s:g} s: {'; '.join(reasons)}",
                    hint="klamm status shows what is pending",
                    exit_code=NOT_HEALTHY,
                )
            time.sleep(min(POLL_S, left_s))


def status_lines(values: Status) -> list[str]:
    """Return the status as lines of text."""
    zookeeper = values.zookeeper
    embedded = ", embedded" if zookeeper.embedded else ""
    lines = [
        f"Cluster:     {values.cluster_id} at {values.url}, data in {values.data_dir}",
        f"ZooKeeper:   {zookeeper.connect} ({zookeeper.state.lower()}{embedded})",
    ]
    if values.bootstrap_servers:
        clients = bootstrap_text(values.bootstrap_servers, values.security_protocol)
        lines.insert(1, f"Clients:     {clients}")
    if len(zookeeper.servers) > 1:
        servers = (f"{one.id} {one.state}" for one in zookeeper.servers)
        lines.append(f"             servers: {', '.join(servers)}")
    if zookeeper.is_stale:
        lines.append(
            "             ZooKeeper is unreachable; the values below are the last known ones"
        )
    return lines + state_lines(values)


def bootstrap_text(servers: Sequence[str], protocol: str | None) -> str:
    """Return the options with which Kafka's tools connect."""
    secured = "" if protocol == "PLAINTEXT" else f" (security.protocol={protocol})"
    return f"--bootstrap-server {','.join(servers)}{secured}"


def state_lines(values: ClusterStatus) -> list[str]:
    """Return the state of a cluster as lines of text: all but where the cluster runs."""
    zookeeper = values.zookeeper
    lines = controller_lines(
        values.controller, values.partitions_without_live_leader, zookeeper.is_stale
    )
    lines += what_prevents_elections(values)
    for other in values.other_active_controllers:
        lines.append(f"             broker {other.id} also acts as controller, epoch {other.epoch}")
    lines += ["", *broker_lines(values.brokers)]
    lines += failed_broker_lines(values.brokers)
    dead_leaders = dead_leader_lines(values)
    lines += ["", *dead_leaders] if dead_leaders else []
    network = network_lines(values)
    lines += ["", *network] if network else []
    malformed = {} if values.controller is None else values.controller.malformed
    configs = {
        path: f"{found.reason} (brokers {', '.join(map(str, found.brokers))})"
        for path, found in values.malformed_configs.items()
    }
    for title, items in (
        (
            "Skewed clocks (klamm broker skew-clock N --ms 0)",
            (
                f"broker {broker.id}: {broker.clock_skew_ms:+} ms"
                for broker in values.brokers
                if broker.clock_skew_ms
            ),
        ),
        ("Disk faults (klamm disk heal)", map(fault_text, values.disk_faults)),
        (
            "Failed log directories (a restart of the broker brings them back)",
            map(log_dir_text, values.failed_log_dirs),
        ),
        (
            "Malformed znodes that prevent the election of a controller",
            map(": ".join, zookeeper.malformed.items()),
        ),
        ("Malformed znodes that the controller ignores", map(": ".join, malformed.items())),
        (
            "Malformed configs and change notifications that brokers ignore",
            map(": ".join, configs.items()),
        ),
        ("Errors inside klamm", values.errors),
    ):
        shown = [f"  {item}" for item in items]
        lines += ["", f"{title}:", *shown] if shown else []
    return lines


def dead_leader_lines(values: ClusterStatus) -> list[str]:
    """Describe partitions whose leader is dead although the leader's session has not expired."""
    lines = []
    outage = "ZooKeeper is reachable again and " if values.zookeeper.is_stale else ""
    for dead in values.dead_leaders:
        shown = listed(dead.partitions, SHOWN, dead.partition_count)
        who = "the controller" if values.controller is not None else "the next controller"
        lines.append(
            f"Broker {dead.broker} is dead but leads {shown}: {who} elects other "
            f"leaders when {outage}the broker's session expires, after at most "
            f"{values.session_timeout_ms} ms"
        )
    return lines


def failed_broker_lines(brokers: Sequence[BrokerStatus]) -> list[str]:
    """Describe why brokers have failed, e.g. because of their log directories."""
    return [
        f"Broker {broker.id} {broker.state}: {broker.reason} (klamm broker start {broker.id})"
        for broker in brokers
        if broker.reason is not None
    ]


def network_lines(values: ClusterStatus) -> list[str]:
    """Describe the isolation of brokers and all other faults of the network."""
    isolated = values.isolated_brokers
    lines = [f"Isolated: {brokers_text(isolated)} (klamm network heal)"] if isolated else []
    return lines + [f"Network {fault} (klamm network heal)" for fault in values.network_faults]


def log_dir_text(failed: FailedLogDir) -> str:
    """Describe a failed log directory: its broker and its path."""
    return f"broker {failed.broker}, log directory {failed.log_dir}"


def fault_text(fault: ActiveDiskFault) -> str:
    """Describe one disk fault: the disk and the kind of fault."""
    if fault.get("journal"):
        return f"journal: {fault['kind']}"
    rate = f", {fault['bytes_per_s']} bytes/s" if "bytes_per_s" in fault else ""
    return f"broker {fault['broker']}, log directory {fault['log_dir']}: {fault['kind']}{rate}"


def controller_lines(
    controller: ControllerStatus | None, leaderless: int | None, is_stale: bool
) -> list[str]:
    """Describe the controller, its queues, and the partitions and replicas in each state.

    - ``leaderless``: number of partitions without a live leader, some of which the controller may
      not yet count as offline.
    - ``is_stale``: the values are the last known ones.
    """
    if controller is None:
        return [
            "Controller:  none",
            "             Topics, partitions and replicas are shown once a controller is elected",
        ]
    return [
        f"Controller:  {'last known: ' if is_stale else ''}broker {controller.controller_id}, "
        f"epoch {controller.epoch}, {controller.state}",
        f"Queued:      {queued_text(controller)}",
        f"Topics:      {controller.topics}",
        f"Partitions:  {counts(controller.partitions)}",
        f"Replicas:    {counts(controller.replicas)}",
        f"Offline:     {offline_text(controller, leaderless)}",
        *work_lines(controller),
    ]


def queued_text(controller: ControllerStatus) -> str:
    """Return the numbers of events and requests that wait in a controller's queues."""
    requests = sum(controller.requests_waiting.values())
    return f"{counted(controller.event_queue_size, 'event')}, {counted(requests, 'request')}"


def offline_text(controller: ControllerStatus, leaderless: int | None) -> str:
    """Return the numbers of offline, leaderless and imbalanced partitions.

    ``leaderless`` means the same as in ``controller_lines``.
    """
    offline = counted(controller.offline_partitions, "partition")
    return (
        f"{offline}; {leaderless} without a live leader; "
        f"{controller.preferred_replica_imbalance} not led by their preferred replica"
    )


def what_prevents_elections(values: ClusterStatus) -> Iterator[str]:
    """Describe what prevents controller elections: an unwritable journal or failed failovers."""
    journal, failovers = values.journal, values.failovers
    if not journal.is_writable:
        yield (
            f"Journal:     {journal.failure}, for {journal.failed_for_ms / 1000:.1f} s; "
            "no controller is elected until the journal is writable"
        )
    if failovers.failed:
        yield (
            f"Failovers:   the last {failovers.failed} failed; the next attempt is in "
            f"{failovers.pause_ms / 1000:.1f} s: {failovers.failure}"
        )


def work_lines(controller: ControllerStatus) -> list[str]:
    """Describe pending shutdowns, deletions and reassignments, and what each waits for."""
    lines = []
    stopping = controller.shutting_down_brokers
    if stopping:
        lines.append(f"Stopping:    {brokers_text(stopping)}")
    deletions, moved = controller.deletions, controller.reassignments
    texts = [f"topic {d.topic} {_waiting(d)}" for d in deletions[:SHOWN]]
    lines += _listed("Deleting:", texts, len(deletions))
    texts = [
        f"{r.topic}-{r.partition} from {joined(r.replicas)} to {joined(r.target)} {_waiting(r)}"
        for r in moved[:SHOWN]
    ]
    return lines + _listed("Reassigning:", texts, controller.partitions_being_reassigned)


def _listed(label: str, texts: list[str], count: int) -> list[str]:
    more = [f"and {count - len(texts)} more"] if count > len(texts) else []
    return [f"{label if not n else '':<12} {text}" for n, text in enumerate([*texts, *more])]


def _waiting(work: Deletion | RunningReassignment) -> str:
    live: list[int] = []
    if isinstance(work, Deletion):
        if work.waits_for_reassignment:
            return "waits for its reassignment"
        live = work.waits_for_log_dirs_of
    if work.waits_for_brokers:
        failed = f" (failed log directories of {brokers_text(live)})" if live else ""
        return f"waits for {brokers_text(work.waits_for_brokers)}{failed}"
    return "is under way"


def broker_lines(brokers: Sequence[BrokerStatus]) -> list[str]:
    """Return a table of the brokers as lines."""
    heading = ("Broker", "Rack", "State", "Live", "Role", "Partitions", "Leads", "Under-replicated")
    rows = [
        (
            broker.id,
            broker.rack or "-",
            broker.state,
            {True: "yes", False: "no", None: "?"}[broker.live],
            "controller"
            if broker.is_controller
            else {True: "candidate", False: "-"}[broker.is_candidate],
            broker.partitions,
            broker.leaders,
            broker.under_replicated,
        )
        for broker in brokers
    ]
    return table_lines([heading, *rows])


def counts(by_state: Mapping[str, int]) -> str:
    """Return the number of items in each state, e.g. ``12 OnlinePartition, 1 OfflinePartition``."""
    return ", ".join(f"{count} {state}" for state, count in by_state.items()) or "none"
