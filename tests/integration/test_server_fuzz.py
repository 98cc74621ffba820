"""Every operation of the OpenAPI document, with valid and invalid requests: no answer is 500."""

from __future__ import annotations

from pathlib import Path

import pytest

from bench import fuzz_http
from klamm.zk.embedded import EmbeddedZooKeeper

REQUESTS = 150
MEMORY_MIB = 300


@pytest.mark.slow
def test_no_request_is_answered_with_500(zookeeper: EmbeddedZooKeeper, tmp_path: Path) -> None:
    chroot = f"{zookeeper.connect_string}/server-fuzz"
    with fuzz_http.served(tmp_path, chroot, segments=True) as fuzz:
        before_mib = fuzz_http.peak_rss_mib()
        fuzz.run(REQUESTS, seed_number=12)
        fuzz.check_alive()
    assert fuzz.by_status[500] == 0
    assert {200, 400, 404} <= fuzz.by_status.keys()
    assert fuzz_http.peak_rss_mib() - before_mib < MEMORY_MIB
