"""What `klamm up` makes of its options, and what it prints; no cluster is started."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import typer
from rich.console import Console

from klamm.cli import up
from klamm.cli.main import main
from klamm.cli.up import StartupOutput, parse_configs
from klamm.cluster.errors import KlammError
from klamm.cluster.partition_limits import PartitionLimits
from klamm.cluster.quirks import KAFKA_2_8_2
from klamm.server.config import ServerConfig
from klamm.world.journal.archive import Rotation
from klamm.zk.security import ZooKeeperTls
from tests.server_configs import server_config

MIB = 1 << 20
TLS = ZooKeeperTls(ca=Path("a"), certificate=Path("b"), key=Path("c"), key_password="d")


@pytest.fixture
def checked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Callable[..., ServerConfig]:
    """The configuration that options make; only --brokers is given."""
    monkeypatch.setenv("KLAMM_DATA_DIR", str(tmp_path / "default"))
    seen: list[ServerConfig] = []

    def serve(config: ServerConfig) -> None:
        seen.append(config)
        raise typer.Exit(0)

    monkeypatch.setattr(up, "_serve", serve)

    def checked(*options: str, brokers: str | None = "3") -> ServerConfig:
        given = () if brokers is None else ("--brokers", brokers)
        assert main(["up", *given, *options]) == 0
        return seen.pop()

    return checked


def test_without_options(checked: Callable[..., ServerConfig], tmp_path: Path) -> None:
    config = checked()
    seed = config.cluster.seed
    assert config == server_config(brokers=3, data_dir=tmp_path / "default", seed=seed)
    assert checked().cluster.seed != seed


@pytest.mark.parametrize(
    ("options", "changes"),
    [
        ("--racks a,b", {"racks": ("a", "b")}),
        ("--controllers 2", {"controllers": 2}),
        ("--zookeeper zk:1/k", {"zookeeper": "zk:1/k"}),
        ("--zookeeper-servers 3", {"zookeeper_servers": 3}),
        ("--zookeeper-port 2181", {"zookeeper_port": 2181}),
        ("--data-dir d", {"data_dir": Path("d")}),
        (
            "--config log.dirs=a,b --config min.insync.replicas=2",
            {"config": {"log.dirs": "a,b", "min.insync.replicas": "2"}},
        ),
        ("--session-timeout-ms 7000", {"session_timeout_ms": 7000}),
        ("--port 0", {"port": 0}),
        ("--token t", {"token": "t"}),
        (
            "--host 0.0.0.0 --token t --allowed-host a --allowed-host b",
            {"host": "0.0.0.0", "token": "t", "allowed_hosts": ("a", "b")},
        ),
        ("--state-change-level info", {"state_change_level": "INFO"}),
        ("--quirks 2.8.2", {"quirks": KAFKA_2_8_2}),
        ("--journal-messages", {"journal_messages": True}),
        ("--segments", {"segments": True}),
        (
            "--listen h:9092 --advertised-listener g:19092",
            {"listen": "h:9092", "advertised_listener": "g:19092"},
        ),
        ("--seed 9", {"seed": 9}),
        ("--zookeeper zk:1 --zk-digest u:p", {"zookeeper": "zk:1", "zookeeper_digest": "u:p"}),
        (
            "--zookeeper zk:1 --zk-tls-ca a --zk-tls-cert b --zk-tls-key c --zk-tls-key-password d",
            {
                "zookeeper": "zk:1",
                "zookeeper_tls": TLS,
            },
        ),
        ("--journal-fsync", {"journal_fsync": True}),
        (
            f"--journal-segment-bytes {MIB} --journal-segment-ms 60000 "
            f"--journal-retention-bytes {5 * MIB} --journal-retention-ms 70000",
            {"rotation": Rotation(MIB, 60_000, 5 * MIB, 70_000)},
        ),
        ("--max-partitions-per-request 7", {"partition_limits": PartitionLimits(7)}),
        (
            "--max-partitions 8 --max-partitions-per-request 7",
            {"partition_limits": PartitionLimits(7, 8)},
        ),
    ],
)
def test_each_option_has_its_place(
    checked: Callable[..., ServerConfig], tmp_path: Path, options: str, changes: dict[str, Any]
) -> None:
    config = checked(*options.split())
    drawn = {"seed": config.cluster.seed}
    wanted = {"brokers": 3, "data_dir": tmp_path / "default", **drawn, **changes}
    assert config == server_config(**wanted)


def test_variables_stand_for_options(
    checked: Callable[..., ServerConfig], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name, value in {
        "KLAMM_TOKEN": "t",
        "KLAMM_ZK_DIGEST": "u:p",
        "KLAMM_ZK_TLS_CA": "a",
        "KLAMM_ZK_TLS_CERT": "b",
        "KLAMM_ZK_TLS_KEY": "c",
        "KLAMM_ZK_TLS_KEY_PASSWORD": "d",
    }.items():
        monkeypatch.setenv(name, value)
    config = checked("--zookeeper", "zk:1")
    assert (config.token, config.zookeeper_digest) == ("t", "u:p")
    assert config.zookeeper_tls == TLS
    monkeypatch.setenv("KLAMM_TOKEN", "")
    assert checked("--zookeeper", "zk:1").token is None
    assert checked("--zookeeper", "zk:1", "--token", "").token is None


def test_files_that_options_name_are_read(
    checked: Callable[..., ServerConfig], tmp_path: Path
) -> None:
    pools, token = tmp_path / "pools.yaml", tmp_path / "token"
    pools.write_text("pools: {p: [0, 1]}\ntopics: {t: p}\n")
    token.write_text("secret\n")
    config = checked("--pools", str(pools), "--token-file", str(token))
    assert config.token == "secret"
    assert list(config.cluster.pools.by_name) == ["p"]


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ("--config a", "error: --config a: not NAME=VALUE\n"),
        ("--config =a", "error: --config =a: not NAME=VALUE\n"),
        ("--config log.dirs=a --config log.dirs=b", "error: --config log.dirs is given twice\n"),
        ("--config log.dirs=a --config 'log.dirs =b'", "error: --config log.dirs is given twice\n"),
        ("--token t --token-file f", "error: give either --token (KLAMM_TOKEN) or --token-file"),
        ("--token '\t'", "error: --token (KLAMM_TOKEN) is not one line of printable ASCII\n"),
        ("--token 'ab ü'", "error: --token (KLAMM_TOKEN) is not one line of printable ASCII\n"),
        ("--seed -1", "error: Invalid value for '--seed': must be at least 0"),
    ],
)
def test_options_that_contradict(
    options: str, said: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(up, "_serve", None)
    assert main(["up", "--brokers", "1", *shlex.split(options)]) == 2
    assert capsys.readouterr().err.startswith(said)


def test_spaces_around_names_and_values_are_dropped() -> None:
    assert parse_configs([" a = b ", "c=d=e"]) == {"a": "b", "c": "d=e"}


def test_an_interrupt_while_files_are_read_started_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupted(_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(up, "read_pools", interrupted)
    assert main(["up", "--brokers", "1", "--pools", "p"]) == 130
    assert capsys.readouterr() == ("", "Interrupted: nothing was started\n")


def played(folder: Path, *servers: str, protocol: str | None = None) -> Any:
    """A server that is up."""
    return SimpleNamespace(
        data_dir=SimpleNamespace(path=folder),
        url="http://u:1",
        bootstrap_servers=lambda: list(servers),
        config=SimpleNamespace(listen_protocol=protocol),
    )


@pytest.mark.parametrize(
    ("servers", "protocol", "line"),
    [
        ((), None, ""),
        (("h:1",), "PLAINTEXT", "Kafka's clients: --bootstrap-server h:1\n"),
        (
            ("h:1", "h:2"),
            "SASL_SSL",
            "Kafka's clients: --bootstrap-server h:1,h:2 (security.protocol=SASL_SSL)\n",
        ),
    ],
)
@pytest.mark.parametrize("code", [0, 130])
def test_a_cluster_that_comes_up_and_ends(
    servers: tuple[str, ...],
    protocol: str | None,
    line: str,
    code: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def serve(config: ServerConfig, say: Callable[[str], None], on_up: Callable[..., None]) -> int:
        say("a step")
        on_up(played(tmp_path, *servers, protocol=protocol))
        return code

    monkeypatch.setattr(up, "serve", serve)
    assert main(["up", "--brokers", "1", "--data-dir", str(tmp_path)]) == code
    out, err = capsys.readouterr()
    assert out == (
        f"Journal and logs: {tmp_path}\n{line}klamm is up: http://u:1\nklamm has ended\n"
    )
    assert err == "a step\n"


def test_a_cluster_that_ends_before_it_is_up(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(up, "serve", lambda *_: 143)
    assert main(["up", "--brokers", "1", "--data-dir", str(tmp_path)]) == 143
    assert capsys.readouterr() == (
        "klamm has ended before the cluster was up; nothing is left running\n",
        "",
    )


def test_a_cluster_that_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(*_: object) -> int:
        raise KlammError("no quorum")

    monkeypatch.setattr(up, "serve", fail)
    assert main(["up", "--brokers", "1", "--data-dir", str(tmp_path)]) == 1
    assert capsys.readouterr() == ("", "error: no quorum\n")


@pytest.mark.parametrize("is_default", [True, False])
def test_a_terminal_says_what_to_try_next(
    is_default: bool,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("KLAMM_DATA_DIR", str(tmp_path if is_default else tmp_path / "other"))
    output = StartupOutput(Console(force_terminal=True, force_interactive=False, highlight=False))
    output.say("[a] step")
    output.on_up(played(tmp_path))
    where = "" if is_default else f" --data-dir {tmp_path}"
    out = capsys.readouterr().out
    assert "[a] step" in out
    assert f"In another terminal, try klamm watch{where}. Ctrl-C ends the cluster.\n" in out
    assert output.is_up
