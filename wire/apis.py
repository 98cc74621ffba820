"""The APIs that a broker serves over the network, with the versions that Kafka 2.8.2 supports.

Mirrors org.apache.kafka.common.protocol.ApiKeys.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, NamedTuple

from klamm.admin.kafka_admin import KafkaAdmin
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import ApiError, Request
from klamm.wire import admin_apis as admin
from klamm.wire import config_apis as configs
from klamm.wire import control_apis as control
from klamm.wire import group_apis as groups
from klamm.wire import metadata_apis as metadata
from klamm.wire import quota_apis as quotas
from klamm.wire import record_apis as records
from klamm.wire import security_apis as security
from klamm.wire.schema import Values, values_of

API_VERSIONS: Final = 18
API_VERSIONS_RANGE: Final = range(4)


class Api(NamedTuple):
    """Versions of an API: how requests become values of klamm, and responses become Kafka's.

    ``response`` is called with the response, or for LeaderAndIsr with the request and the response.
    """

    key: int
    versions: range
    request: Callable[[Any], Request]
    response: Callable[..., Values]


class ListenerCall(NamedTuple):
    """Versions of an API that the listener answers, with klamm's admin client if it is needed.

    ``answer`` runs on a thread and may wait. ``refuse`` returns the response to a request that
    fails as a whole.
    """

    key: int
    versions: range
    answer: Callable[[KafkaAdmin, configs.Asked], Values]
    refuse: Callable[[Any, ApiError], Values]


_ROWS: Final[tuple[Api | ListenerCall, ...]] = (
    Api(0, range(10), records.produce_request, records.produce_response),
    Api(1, range(13), records.fetch_request, records.fetch_response),
    Api(2, range(7), records.list_offsets_request, records.list_offsets_response),
    Api(3, range(12), metadata.metadata_request, metadata.metadata_response),
    Api(4, range(6), control.leader_and_isr_request, control.leader_and_isr_response),
    Api(5, range(4), control.stop_replica_request, control.stop_replica_response),
    Api(6, range(8), control.update_metadata_request, values_of),
    Api(7, range(4), control.controlled_shutdown_request, control.controlled_shutdown_response),
    Api(8, range(9), groups.offset_commit_request, groups.offset_commit_response),
    Api(9, range(8), groups.offset_fetch_request, groups.offset_fetch_response),
    Api(10, range(4), groups.find_coordinator_request, groups.find_coordinator_response),
    Api(11, range(8), groups.join_group_request, groups.join_group_response),
    Api(12, range(5), groups.heartbeat_request, values_of),
    Api(13, range(3), groups.leave_group_request_of_one, groups.leave_group_response_of_one),
    Api(13, range(3, 5), groups.leave_group_request, groups.leave_group_response),
    Api(14, range(6), groups.sync_group_request, values_of),
    Api(15, range(6), groups.describe_groups_request, groups.describe_groups_response),
    Api(16, range(5), groups.list_groups_request, groups.list_groups_response),
    ListenerCall(17, range(2), security.sasl_handshake, security.refuse_sasl_handshake),
    Api(19, range(8), metadata.create_topics_request, metadata.create_topics_response),
    Api(20, range(7), metadata.delete_topics_request, metadata.delete_topics_response),
    Api(21, range(3), records.delete_records_request, records.delete_records_response),
    Api(22, range(5), records.init_producer_id_request, values_of),
    Api(
        23,
        range(5),
        records.offsets_for_leader_epoch_request,
        records.offsets_for_leader_epoch_response,
    ),
    ListenerCall(29, range(3), security.describe_acls, security.refuse_describe_acls),
    ListenerCall(30, range(3), security.create_acls, security.refuse_create_acls),
    ListenerCall(31, range(3), security.delete_acls, security.refuse_delete_acls),
    ListenerCall(32, range(5), configs.describe_configs, configs.refuse_describe_configs),
    ListenerCall(33, range(3), configs.alter_configs, configs.refuse_alter_configs),
    Api(34, range(3), admin.alter_replica_log_dirs_request, admin.alter_replica_log_dirs_response),
    Api(35, range(3), admin.describe_log_dirs_request, admin.describe_log_dirs_response),
    ListenerCall(36, range(3), security.sasl_authenticate, security.refuse_sasl_authenticate),
    ListenerCall(37, range(4), configs.create_partitions, configs.refuse_create_partitions),
    Api(42, range(3), groups.delete_groups_request, groups.delete_groups_response),
    Api(43, range(3), admin.elect_leaders_request, admin.elect_leaders_response),
    ListenerCall(44, range(2), configs.incremental_alter_configs, configs.refuse_alter_configs),
    Api(45, range(1), admin.alter_reassignments_request, admin.alter_reassignments_response),
    Api(46, range(1), admin.list_reassignments_request, admin.list_reassignments_response),
    Api(47, range(1), groups.offset_delete_request, groups.offset_delete_response),
    ListenerCall(48, range(2), quotas.describe_client_quotas, quotas.refuse_describe_client_quotas),
    ListenerCall(49, range(2), quotas.alter_client_quotas, quotas.refuse_alter_client_quotas),
    ListenerCall(
        50,
        range(1),
        security.describe_user_scram_credentials,
        security.refuse_describe_user_scram_credentials,
    ),
    ListenerCall(
        51,
        range(1),
        security.alter_user_scram_credentials,
        security.refuse_alter_user_scram_credentials,
    ),
    Api(56, range(1), control.alter_isr_request, control.alter_isr_response),
    ListenerCall(60, range(1), metadata.describe_cluster, metadata.refuse_describe_cluster),
)
APIS: Final = {(api.key, version): api for api in _ROWS for version in api.versions}
"""The supported APIs, keyed by API key and version."""


def api_versions(error: Errors) -> Values:
    """Return the response to ApiVersions: every API and its versions."""
    supported = [*APIS, *((API_VERSIONS, version) for version in API_VERSIONS_RANGE)]
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
