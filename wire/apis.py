"""The APIs that a broker serves over the network, with the versions that Kafka 2.8.2 supports.

Mirrors org.apache.kafka.common.protocol.ApiKeys.
"""

from __future__ import annotations

import re
from typing import Any, Final

from klamm.cluster.api_errors import Errors
from klamm.wire import admin_apis as admin
from klamm.wire import config_apis as configs
from klamm.wire import control_apis as control
from klamm.wire import group_apis as groups
from klamm.wire import metadata_apis as metadata
from klamm.wire import quota_apis as quotas
from klamm.wire import record_apis as records
from klamm.wire import security_apis as security
from klamm.wire.api import Api, ListenerCall
from klamm.wire.schema import Values

API_VERSIONS: Final = 18
API_VERSIONS_RANGE: Final = range(4)
_SOFTWARE: Final = re.compile(r"[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?")

_ROWS: Final[tuple[Api | ListenerCall, ...]] = (
    *records.APIS,
    *metadata.APIS,
    *control.APIS,
    *groups.APIS,
    *security.APIS,
    *configs.APIS,
    *admin.APIS,
    *quotas.APIS,
)
APIS: Final = {(api.key, version): api for api in _ROWS for version in api.versions}
"""The supported APIs, keyed by API key and version."""
BY_REQUEST: Final = {api.request.kind: api for api in _ROWS if isinstance(api, Api)}
"""The APIs whose requests are values of klamm, with their newest version, keyed by its type."""


def api_versions(error: Errors) -> Values:
    """Return the response to ApiVersions: every API and its versions.

    If the version of the request itself is not supported, only those of ApiVersions (KIP-511).
    """
    supported = [(API_VERSIONS, version) for version in API_VERSIONS_RANGE]
    if error is Errors.NONE:
        supported += APIS
    elif error is not Errors.UNSUPPORTED_VERSION:
        supported = []
    versions: dict[int, list[int]] = {}
    for key, version in sorted(supported):
        versions.setdefault(key, []).append(version)
    return {
        "error_code": error,
        "api_keys": [
            {"api_key": key, "min_version": known[0], "max_version": known[-1]}
            for key, known in versions.items()
        ],
    }


def error_of_versions(body: Any) -> Errors:
    """Return INVALID_REQUEST if a request of ApiVersions names the client's software wrongly."""
    if body.__version__ < 3:
        return Errors.NONE
    software = (body.client_software_name, body.client_software_version)
    return Errors.NONE if all(map(_SOFTWARE.fullmatch, software)) else Errors.INVALID_REQUEST
