"""One compose project of a test: docker-compose.yml under a unique name, on free ports."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tests.waiting import wait_until

ROOT = Path(__file__).parents[2]
COMMAND_TIMEOUT_S = 180.0
_ON_FREE_PORTS = {
    "KLAMM_PORT": "0",
    "KLAMM_ZOOKEEPER_PORT": "0",
    "KLAMM_ZOOKEEPER_1_PORT": "0",
    "KLAMM_ZOOKEEPER_2_PORT": "0",
    "KLAMM_ZOOKEEPER_3_PORT": "0",
}


def why_no_docker() -> str | None:
    """Return why containers cannot run here; None if they can."""
    if shutil.which("docker") is None:
        return "no docker command"
    for command in ("version --format {{.Server.Version}}", "compose version"):
        done = subprocess.run(["docker", *command.split()], capture_output=True, text=True)
        if done.returncode != 0:
            said = done.stderr.strip().splitlines() or ["no reason given"]
            return f"docker {command.split()[0]} failed: {said[0]}"
    return None


class Project:
    """A compose project; its containers, networks and volumes are gone after the block."""

    def __init__(self, **variables: str) -> None:
        self.name = f"klamm-test-{secrets.token_hex(4)}"
        self._environ = {**os.environ, **_ON_FREE_PORTS, **variables}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self("--profile", "*", "down", "--volumes", "--timeout", "2", "--remove-orphans")

    def __call__(self, *arguments: str) -> str:
        """Run ``docker compose`` and return what it prints; it must succeed."""
        done = self.run(*arguments)
        assert done.returncode == 0, f"docker compose {' '.join(arguments)}: {done.stderr}"
        return done.stdout

    def run(
        self, *arguments: str, timeout_s: float = COMMAND_TIMEOUT_S
    ) -> subprocess.CompletedProcess[str]:
        """Run ``docker compose`` to its end."""
        return subprocess.run(
            ["docker", "compose", "--project-name", self.name, *arguments],
            cwd=ROOT,
            env=self._environ,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=timeout_s,
            check=False,
        )

    def up(self, *services: str, profile: str = "") -> None:
        """Start services and wait until they are healthy."""
        options = ["--profile", profile] if profile else []
        self(*options, "up", "--detach", "--wait", *services)

    def container(self, service: str) -> str:
        """The id of a service's container, running or not."""
        return self("ps", "--all", "--quiet", service).strip()

    def address(self, service: str, port: int) -> str:
        """Return ``127.0.0.1:port`` of a service's published port."""
        return self("port", service, str(port)).strip()

    def inspect(self, service: str) -> dict[str, Any]:
        """Return ``docker inspect`` of a service's container."""
        found: list[dict[str, Any]] = json.loads(docker("inspect", self.container(service)))
        return found[0]

    def execute(self, service: str, *command: str) -> str:
        """Run a command in a service's container; its output."""
        return self("exec", "-T", service, *command)

    def wait_for_health(self, service: str, timeout_s: float = 60.0) -> None:
        """Wait until Docker calls the service healthy."""
        wait_until(
            lambda: self.inspect(service)["State"]["Health"]["Status"] == "healthy",
            timeout_s,
            f"{service} to be healthy",
        )


def docker(*arguments: str) -> str:
    """Run ``docker``; its output. It must succeed."""
    done = subprocess.run(
        ["docker", *arguments],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, f"docker {' '.join(arguments)}: {done.stderr}"
    return done.stdout
