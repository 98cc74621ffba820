"""What klamm up says beside its progress: once, in one line, and to the end."""

from __future__ import annotations

import signal
import subprocess
from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from tests.serving import KLAMM, ROOT, environ_for, klamm_up, processes_naming, start_klamm
from tests.waiting import wait_until

CHANGES = "/config/changes"


@pytest.mark.slow
def test_what_every_broker_says_is_said_once_and_stays_in_the_status(tmp_path: Path) -> None:
    with klamm_up(tmp_path, "--brokers", "3") as up:
        status = up.json("status")
        where = msgspec.convert(status["zookeeper"], dict[str, object])["connect"]
        client = KazooClient(str(where))
        client.start()
        try:
            path = client.create(f"{CHANGES}/config_change_", b"{", sequence=True)
            line = f"  {path}: not JSON (brokers 0, 1, 2)"
            wait_until(lambda: line in up.ok("status").splitlines(), 20)
            assert up.json("status")["malformed_configs"] == {
                path: {"reason": "not JSON", "brokers": [0, 1, 2]}
            }
            client.delete(path)
        finally:
            client.stop()
            client.close()
        wait_until(lambda: up.json("status")["malformed_configs"] == {}, 20)
        output = up.end()
    assert [line for line in output.splitlines() if line.startswith("warning:")] == [
        f"warning: brokers ignore the malformed znode {path}: not JSON "
        "(klamm status lists it until it is resolved)"
    ]
    log = (tmp_path / "klamm.log").read_text()
    assert all(f"broker {id_}: ignoring the malformed znode {path}" in log for id_ in range(3))


@pytest.mark.slow
def test_an_interrupt_while_it_starts_leaves_nothing_and_says_so(tmp_path: Path) -> None:
    words = ("up", "--port", "0", "--brokers", "3")
    process = start_klamm(tmp_path, *words, stderr=subprocess.STDOUT)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "Starting ZooKeeper\n"
        process.send_signal(signal.SIGINT)
        output, _ = process.communicate(timeout=30)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
    assert process.returncode == 130
    assert output == "klamm has ended before the cluster was up; nothing is left running\n"
    assert not processes_naming(str(tmp_path))


def test_a_reader_of_the_journal_that_has_enough_hears_no_complaint(tmp_path: Path) -> None:
    about = b'{"v":1,"run_id":"r","t_ms":0,"seq":0,"controller":-1,"epoch":0,"kind":"run_start"'
    row = b'%s,"detail":"%s"}\n' % (about, b"x" * 1000)
    (tmp_path / "journal.jsonl").write_bytes(row * 1000)
    with subprocess.Popen(
        [*KLAMM, "journal", "tail", "-n", "1000", "--json"],
        cwd=ROOT,
        env=environ_for(tmp_path),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        assert process.stdout.readline() == row
        process.stdout.close()
        warnings = [msgspec.json.decode(line)["warning"] for line in process.stderr]
        assert len(warnings) == 1 and "has ended" in warnings[0]
        assert process.wait(60) == 141
