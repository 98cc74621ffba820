"""Which heavy libraries each command imports: commands that only ask a server start fast."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.serving import ROOT

PROGRAM = """
import contextlib, io, sys
from klamm.cli.main import main
with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(SystemExit):
    main(sys.argv[2:])
print(*(name for name in sys.argv[1].split() if name in sys.modules))
"""
HEAVY = (
    "aiokafka asyncio cramjam duckdb google_crc32c greenlet javaproperties jinja2 kazoo numpy"
    " prometheus_client pyarrow pyspark sqlglot starlette transitions uvicorn yaml"
)
SIMULATION = "aiokafka asyncio cramjam google_crc32c greenlet kazoo prometheus_client yaml"


@pytest.mark.parametrize(
    ("words", "allowed"),
    [
        ("--help", ""),
        ("--version", ""),
        ("status", ""),
        ("watch", ""),
        ("explain t-0", ""),
        ("journal tail", ""),
        ("broker kill 1", ""),
        ("network heal", ""),
        ("disk heal", ""),
        ("consume --topic t", ""),
        ("produce --topic t --records 1", "google_crc32c"),
        ("placement assign --brokers 0-2 --partitions 3 --rf 2", ""),
        ("topics --list --bootstrap-server localhost:1", "kazoo yaml"),
        ("zk dump --help", "kazoo"),
        ("drill list", SIMULATION),
        ("up --help", f"{SIMULATION} starlette uvicorn"),
        ("demo --help", "google_crc32c greenlet jinja2 kazoo prometheus_client"),
        ("replay --help", ""),
        ("replay run JOURNAL", "duckdb jinja2 numpy pyarrow transitions yaml"),
    ],
)
def test_a_command_imports_only_what_it_needs(words: str, allowed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, HEAVY, *words.split()],
        cwd=ROOT,
        env={"KLAMM_DATA_DIR": "none"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert set(done.stdout.split()) <= set(allowed.split()), done.stderr
    assert done.returncode == 0, done.stderr
