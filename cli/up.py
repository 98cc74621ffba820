"""`klamm up`: runs a cluster in the foreground.

Parses options and prints progress; server/ runs the cluster.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import sys
from collections.abc import Iterable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console
from rich.status import Status

from klamm.cli.client import TOKEN_VARIABLE
from klamm.cli.completion import word_completion
from klamm.cli.connect import ZK_VARIABLES, tls_of
from klamm.cli.console import HarmlessConsole
from klamm.cli.interrupted import NOTHING_STARTED, erase_typed
from klamm.cli.options import QuirkNames, comma_separated
from klamm.cli.own_log import log_to
from klamm.cli.status import bootstrap_text
from klamm.cli.waiting import waiting
from klamm.cluster.errors import Interrupted, KlammError, UsageError
from klamm.cluster.partition_limits import DEFAULT_LIMITS, PartitionLimits
from klamm.cluster.quirks import parse_quirks
from klamm.placement.pools import NO_POOLS
from klamm.server.cluster_server import ClusterServer
from klamm.server.config import ServerConfig, described_cluster
from klamm.server.data_dir import DEFAULT_HOST, DEFAULT_PORT, OWN_LOG_FILE, default_data_dir
from klamm.server.dumped_cluster import DumpedCluster, read_dumped_cluster
from klamm.server.security import read_or_create_token, stripped_token
from klamm.server.serve import serve
from klamm.tools.pools.pool_file import read_pools
from klamm.world.cluster_spec import BROKERS_FOLDER, DEFAULT_SESSION_TIMEOUT_MS
from klamm.world.journal.archive import DEFAULT_ROTATION, MAX_SEGMENT_BYTES, Rotation
from klamm.zk.dump_text import read_dump

EXAMPLES = """
\b
Examples:
  klamm up --brokers 3
  klamm up --brokers 6 --racks a,b,c --controllers 3 --data-dir ./rehearsal
  klamm up --brokers 3 --zookeeper-servers 3 --zookeeper-port 2181
  klamm up --brokers 3 --zookeeper localhost:2181/klamm --session-timeout-ms 6000
  klamm up --brokers 9 --pools pools.yaml
  klamm up --brokers 3 --segments --config log.dirs=d0,d1 --data-dir ./rehearsal
  klamm up --from-dump kafka.json --data-dir ./rehearsal
  klamm up --brokers 3 --quirks 2.8.2 --config num.partitions=3 --port 0
  klamm up --brokers 3 --journal-fsync --journal-retention-bytes 1000000000
  klamm up --brokers 9 --max-partitions 50000 --max-partitions-per-request 5000
  klamm up --brokers 3 --host 0.0.0.0 --allowed-host klamm.example.org --token-file token.txt
  klamm up --brokers 3 --listen 9092
  klamm up --brokers 3 --listen 0.0.0.0:9092 --advertised-listener kafka.example.org
  klamm up --brokers 3 --listen SSL://9092 --config ssl.keystore.location=brokers.pem
  klamm up --brokers 3 --listen SASL_SSL://9092 --config ssl.keystore.location=brokers.pem \\
    --config klamm.sasl.plain.users.location=users.txt
  klamm up --brokers 3 --zookeeper zk:2181/k --zk-digest klamm:secret \\
    --config zookeeper.set.acl=true
  klamm up --brokers 3 --zookeeper zk:2182/k --zk-tls-ca ca.pem \\
    --zk-tls-cert klamm.pem --zk-tls-key klamm-key.pem
"""


Brokers = Annotated[int | None, typer.Option(help="Number of brokers; their ids begin at 0.")]
FromDump = Annotated[
    Path | None,
    typer.Option(
        metavar="DUMP",
        help="Run the cluster in this file written by klamm zk dump; not allowed with --brokers.",
    ),
]
Racks = Annotated[str | None, typer.Option(help="Racks a,b,c, assigned to brokers round-robin.")]
Controllers = Annotated[
    int | None,
    typer.Option(help="Number of controller candidates. [default: all brokers, at most 5]"),
]
ZooKeeper = Annotated[
    str | None,
    typer.Option(metavar="HOST:PORT/CHROOT", help="Use this ZooKeeper, not an embedded one."),
]
ZooKeeperServers = Annotated[
    int | None,
    typer.Option(
        metavar="1|3|5",
        help="Number of embedded ZooKeeper servers. [default: 1]",
        autocompletion=word_completion("1", "3", "5"),
    ),
]
ZooKeeperPort = Annotated[
    int | None,
    typer.Option(
        help="Port of the embedded ZooKeeper on 127.0.0.1; further servers use the next ports. "
        "[default: free ports]"
    ),
]
DataDirectory = Annotated[
    Path | None,
    typer.Option(
        help="Directory for journal, logs and ZooKeeper data. [default: KLAMM_DATA_DIR, ~/.klamm]"
    ),
]
Configs = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME=VALUE", help="A broker config, named as in Kafka; repeatable."),
]
SessionTimeout = Annotated[
    int, typer.Option(help="ZooKeeper session timeout of the brokers, in ms.")
]
Port = Annotated[int, typer.Option(help="Port of the HTTP API; 0 selects a free port.")]
Host = Annotated[
    str, typer.Option(help="Address to listen on; any address but loopback requires a token.")
]
Token = Annotated[
    str | None,
    typer.Option(envvar=TOKEN_VARIABLE, help="Bearer token that clients must send."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        envvar="KLAMM_TOKEN_FILE",
        help="Read the token from this file; create the file with a random token if it is missing.",
    ),
]
AllowedHosts = Annotated[
    list[str] | None,
    typer.Option(metavar="NAME", help="Host name that clients may use in requests; repeatable."),
]
StateChangeLevel = Annotated[
    str, typer.Option(metavar="TRACE|INFO", help="Log level of state-change.log.")
]
PoolsFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="YAML file with pools; each topic is placed only on the brokers of its pool.",
    ),
]
JournalMessages = Annotated[
    bool,
    typer.Option(
        "--journal-messages",
        help="Also record every control request and its response in the journal.",
    ),
]
Segments = Annotated[
    bool,
    typer.Option(
        "--segments",
        help="Brokers keep records in segment files in the data directory, as Kafka does. "
        "Without it, logs are in memory, or with --listen in temporary files, and are lost when "
        "klamm up ends.",
    ),
]
Listen = Annotated[
    str | None,
    typer.Option(
        metavar="[PROTOCOL://][HOST:]PORT",
        help="Let Kafka's own clients connect: broker N listens on PORT + N. PROTOCOL is "
        "PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL. Without --segments, their records are lost "
        "when the cluster ends.",
    ),
]
AdvertisedListener = Annotated[
    str | None,
    typer.Option(
        metavar="HOST[:PORT]",
        help="Where Kafka's clients find broker 0, if not at --listen, as in a container; broker N "
        "is on PORT + N.",
    ),
]
MaxPartitionsPerRequest = Annotated[
    int, typer.Option(metavar="COUNT", help="Maximum number of partitions that a request may add.")
]
MaxPartitions = Annotated[int, typer.Option(help="Maximum number of partitions in the cluster.")]
Seed = Annotated[
    int | None,
    typer.Option(
        min=0,
        help="Random seed for replica placement and topic ids. Each run in the same data "
        "directory derives a different seed from it, so that all runs are reproducible. "
        "[default: random]",
    ),
]
ZkDigest = Annotated[
    str | None,
    typer.Option(
        envvar=ZK_VARIABLES["digest"],
        metavar="USER:PASSWORD",
        help="Identity for ZooKeeper's digest authentication.",
    ),
]
ZkTlsCa = Annotated[
    Path | None,
    typer.Option(
        envvar=ZK_VARIABLES["ca"],
        metavar="FILE",
        help="Use TLS; PEM file of the CA that signed the ZooKeeper server's certificate.",
    ),
]
ZkTlsCert = Annotated[
    Path | None,
    typer.Option(
        envvar=ZK_VARIABLES["cert"], metavar="FILE", help="PEM file of the client certificate."
    ),
]
ZkTlsKey = Annotated[
    Path | None,
    typer.Option(
        envvar=ZK_VARIABLES["key"],
        metavar="FILE",
        help="PEM file of the certificate's private key.",
    ),
]
ZkTlsKeyPassword = Annotated[
    str | None,
    typer.Option(envvar=ZK_VARIABLES["key_password"], help="Password of an encrypted private key."),
]
JournalFsync = Annotated[
    bool,
    typer.Option(
        "--journal-fsync",
        help="Sync the journal to disk after each event: a power loss then loses at most the rows "
        "of the event being processed.",
    ),
]
SegmentBytes = Annotated[
    int,
    typer.Option(
        "--journal-segment-bytes",
        min=1 << 10,
        max=MAX_SEGMENT_BYTES,
        help="Size at which the journal, state-change.log or controller.log is rotated and "
        "compressed. The rows of an event stay in one file.",
    ),
]
SegmentMs = Annotated[
    int,
    typer.Option(
        "--journal-segment-ms",
        min=1_000,
        help="Age at which the next write rotates the journal, state-change.log or controller.log.",
    ),
]
RetentionBytes = Annotated[
    int,
    typer.Option(
        "--journal-retention-bytes",
        min=-1,
        help="Maximum total size of the compressed files of each log; -1 means no limit. The "
        "newest file is always kept.",
    ),
]
RetentionMs = Annotated[
    int,
    typer.Option(
        "--journal-retention-ms",
        min=-1,
        help="How long rotated files are kept; -1 means forever. The newest file is always kept.",
    ),
]


def up(
    brokers: Brokers = None,
    from_dump: FromDump = None,
    racks: Racks = None,
    controllers: Controllers = None,
    zookeeper: ZooKeeper = None,
    zookeeper_servers: ZooKeeperServers = None,
    zookeeper_port: ZooKeeperPort = None,
    data_dir: DataDirectory = None,
    config: Configs = None,
    session_timeout_ms: SessionTimeout = DEFAULT_SESSION_TIMEOUT_MS,
    port: Port = DEFAULT_PORT,
    host: Host = DEFAULT_HOST,
    token: Token = None,
    token_file: TokenFile = None,
    allowed_host: AllowedHosts = None,
    state_change_level: StateChangeLevel = "TRACE",
    quirks: QuirkNames = None,
    pools: PoolsFile = None,
    journal_messages: JournalMessages = False,
    segments: Segments = False,
    listen: Listen = None,
    advertised_listener: AdvertisedListener = None,
    seed: Seed = None,
    zk_digest: ZkDigest = None,
    zk_tls_ca: ZkTlsCa = None,
    zk_tls_cert: ZkTlsCert = None,
    zk_tls_key: ZkTlsKey = None,
    zk_tls_key_password: ZkTlsKeyPassword = None,
    journal_fsync: JournalFsync = False,
    segment_bytes: SegmentBytes = DEFAULT_ROTATION.segment_bytes,
    segment_ms: SegmentMs = DEFAULT_ROTATION.segment_ms,
    retention_bytes: RetentionBytes = DEFAULT_ROTATION.retention_bytes,
    retention_ms: RetentionMs = DEFAULT_ROTATION.retention_ms,
    max_partitions_per_request: MaxPartitionsPerRequest = DEFAULT_LIMITS.per_request,
    max_partitions: MaxPartitions = DEFAULT_LIMITS.cluster,
) -> None:
    """Run simulated brokers and real controllers over a real ZooKeeper until Ctrl-C."""
    with _interrupted_before():
        dump = None if from_dump is None else _read_cluster(from_dump)
        checked = ServerConfig(
            cluster=replace(
                described_cluster(brokers, comma_separated(racks), controllers, dump),
                config=parse_configs(config or ()),
                session_timeout_ms=session_timeout_ms,
                quirks=parse_quirks(comma_separated(quirks)),
                seed=secrets.randbits(31) if seed is None else seed,
                pools=NO_POOLS if pools is None else read_pools(pools),
                journal_messages=journal_messages,
                segments=BROKERS_FOLDER if segments else None,
                zookeeper_servers=zookeeper_servers or 0,
                partition_limits=PartitionLimits(max_partitions_per_request, max_partitions),
            ),
            dump=dump,
            zookeeper=zookeeper,
            zookeeper_port=zookeeper_port,
            data_dir=data_dir or default_data_dir(os.environ),
            host=host,
            port=port,
            token=_token(token or None, token_file),
            allowed_hosts=tuple(allowed_host or ()),
            state_change_level=state_change_level.upper(),
            listen=listen,
            advertised_listener=advertised_listener,
            zookeeper_digest=zk_digest,
            zookeeper_tls=tls_of(zk_tls_ca, zk_tls_cert, zk_tls_key, zk_tls_key_password),
            journal_fsync=journal_fsync,
            rotation=Rotation(segment_bytes, segment_ms, retention_bytes, retention_ms),
        )
    _serve(checked)


def _serve(server_config: ServerConfig) -> NoReturn:
    """Run the cluster until it ends.

    Raises typer.Exit with the exit code, or KlammError if the cluster fails.
    """
    assert server_config.data_dir is not None
    log_to(server_config.data_dir / OWN_LOG_FILE)
    progress = StartupOutput(HarmlessConsole(file=sys.stderr, highlight=False))
    try:
        code = serve(server_config, progress.say, progress.on_up)
    except KlammError:
        progress.stop()
        raise
    progress.stop()
    erase_typed()
    behind = "" if progress.is_up else " before the cluster was up; nothing is left running"
    typer.echo(f"klamm has ended{behind}")
    raise typer.Exit(code)


@contextlib.contextmanager
def _interrupted_before() -> Iterator[None]:
    """Context manager that reports that nothing was started if Ctrl-C interrupts its body."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(NOTHING_STARTED) from None


def _token(token: str | None, path: Path | None) -> str | None:
    """Return the token that clients must send, or None.

    ``token``, ``path``: the options --token and --token-file. Raises UsageError if both are given,
    and if a token is not printable ASCII.
    """
    if path is None:
        return None if token is None else stripped_token(token, "--token (KLAMM_TOKEN)")
    if token is not None:
        raise UsageError("give either --token (KLAMM_TOKEN) or --token-file, but not both")
    return read_or_create_token(path)


def _read_cluster(path: Path) -> DumpedCluster:
    with waiting(f"{path} to be read"):
        return read_dumped_cluster(read_dump(path), str(path))


def parse_configs(words: Iterable[str]) -> dict[str, str]:
    """Parse the values of --config, ``name=value``, into a dict.

    Raises UsageError for a malformed value or a repeated name.
    """
    configs: dict[str, str] = {}
    for word in words:
        name, separator, value = word.partition("=")
        if not separator or not name.strip():
            raise UsageError(f"--config {word}: not NAME=VALUE", hint="write --config name=value")
        if name.strip() in configs:
            raise UsageError(f"--config {name.strip()} is given twice")
        configs[name.strip()] = value.strip()
    return configs


class StartupOutput:
    """Prints startup progress on standard error, with a spinner on a terminal.

    Standard output gets only the addresses of the cluster.
    """

    def __init__(self, console: Console) -> None:
        self._console = console
        self._status: Status | None = None
        self.is_up = False

    def say(self, line: str) -> None:
        """Print the name of a startup step."""
        if not self._console.is_terminal:
            typer.echo(line, err=True)
            return
        if self._status is None:
            self._status = self._console.status("")
            self._status.start()
        self._status.update(line)
        self._console.print(line, markup=False)

    def on_up(self, server: ClusterServer) -> None:
        """Print the addresses once the cluster is up."""
        self.is_up = True
        self.stop()
        path = server.data_dir.path
        typer.echo(f"Journal and logs: {path}")
        if servers := server.bootstrap_servers():
            text = bootstrap_text(servers, server.config.listen_protocol)
            typer.echo(f"Kafka's clients: {text}")
        typer.echo(f"klamm is up: {server.url}")
        if self._console.is_terminal:
            where = "" if path == default_data_dir(os.environ) else f" --data-dir {path}"
            typer.echo(f"In another terminal, try klamm watch{where}. Ctrl-C ends the cluster.")

    def stop(self) -> None:
        """Stop the spinner, if there is one."""
        status, self._status = self._status, None
        if status is not None:
            status.stop()
