"""Finds the jars of Kafka 2.8.2, which klamm does not ship. It must not fetch anything."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

from klamm.cluster.errors import EnvironmentProblem

LIBS_VARIABLE: Final = "KAFKA_LIBS"
KAFKA_JAR: Final = "kafka_2.13-2.8.2.jar"
_FETCHED: Final = Path(__file__).resolve().parents[2] / ".kafka" / "libs"


def kafka_libs() -> Path | None:
    """Return the folder with the jars: KAFKA_LIBS, else .kafka/libs; None if they are not there."""
    libs = Path(os.environ.get(LIBS_VARIABLE) or _FETCHED)
    return libs.resolve() if (libs / KAFKA_JAR).is_file() else None


def require_kafka_libs() -> Path:
    """Return the folder with the jars. Raises EnvironmentProblem."""
    libs = kafka_libs()
    if libs is None:
        where = os.environ.get(LIBS_VARIABLE) or _FETCHED
        raise EnvironmentProblem(
            f"no {KAFKA_JAR} in {where}",
            hint=f"make peer-kafka, or set {LIBS_VARIABLE}",
        )
    return libs
