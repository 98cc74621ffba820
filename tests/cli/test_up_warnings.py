"""What klamm up says beside its progress: once, in one line, and to the end."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest
from kazoo.client import KazooClient

from tests.serving import klamm_up
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
        "(klamm status lists it until it is gone)"
    ]
    log = (tmp_path / "klamm.log").read_text()
    assert all(f"broker {id_}: ignoring the malformed znode {path}" in log for id_ in range(3))
