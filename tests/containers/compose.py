"""One compose project of a test: docker-compose.yml under a unique name, on free ports."""

from __future__ import annotations

import secrets
from functools import cached_property
from pathlib import Path

from docker.models.containers import Container
from testcontainers.compose import DockerCompose
from testcontainers.core.docker_client import DockerClient

ROOT = Path(__file__).parents[2]
_ON_FREE_PORTS = {
    "KLAMM_PORT": "0",
    "KLAMM_LISTEN_PORTS": "",
    "KLAMM_ZOOKEEPER_PORT": "0",
    "KLAMM_ZOOKEEPER_1_PORT": "0",
    "KLAMM_ZOOKEEPER_2_PORT": "0",
    "KLAMM_ZOOKEEPER_3_PORT": "0",
}


class Project(DockerCompose):
    """A compose project; its containers, networks and volumes are removed after the block.

    ``services``: the services to start, of any profile; compose adds their dependencies.
    ``variables``: the variables of docker-compose.yml.
    """

    def __init__(self, *services: str, **variables: str) -> None:
        super().__init__(ROOT, profiles=["*"], services=list(services))
        self.name = f"klamm-test-{secrets.token_hex(4)}"
        self._variables = {**_ON_FREE_PORTS, **variables}

    @cached_property
    def compose_command_property(self) -> list[str]:
        """``docker compose`` for this project."""
        # Not an env file: the variables of the user's shell would take precedence.
        variables = [f"{name}={value}" for name, value in self._variables.items()]
        command = super().compose_command_property
        return ["env", *variables, *command, "--project-name", self.name]

    def stop(self, down: bool = True) -> None:
        """Remove the whole project, also services that an earlier ``start`` started."""
        services, self.services = self.services, None
        super().stop(down)
        self.services = services

    def container(self, service: str) -> Container:
        """Return the container of a service, running or not, to pause, kill or inspect."""
        found = self.get_container(service, include_all=True)
        return DockerClient().client.containers.get(found.ID)
