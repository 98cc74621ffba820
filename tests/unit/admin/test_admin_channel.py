"""What a response says of the controller, and Kafka's text of a call that timed out."""

from __future__ import annotations

import pytest

from klamm.admin.admin_channel import is_not_controller, timed_out
from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import (
    AlterPartitionReassignmentsResponse,
    ApiError,
    CreatableTopicResult,
    CreateTopicsResponse,
    DeletableTopicResult,
    DeleteTopicsResponse,
    ElectLeadersResponse,
    ListPartitionReassignmentsResponse,
    PartitionResponse,
    TopicResponse,
)


def responses(error: Errors) -> list[TopicResponse | PartitionResponse]:
    """Each response of a controller, with one error; that of a single topic is the last one."""
    return [
        CreateTopicsResponse((CreatableTopicResult("t"), CreatableTopicResult("u", error))),
        DeleteTopicsResponse((DeletableTopicResult("t"), DeletableTopicResult("u", error))),
        AlterPartitionReassignmentsResponse(ApiError(error)),
        ListPartitionReassignmentsResponse(ApiError(error)),
        ElectLeadersResponse(error),
    ]


@pytest.mark.parametrize("error", [Errors.NOT_CONTROLLER, Errors.NONE, Errors.INVALID_REQUEST])
def test_only_the_error_not_controller_means_another_controller(error: Errors) -> None:
    is_other = error is Errors.NOT_CONTROLLER
    assert [is_not_controller(one) for one in responses(error)] == [is_other] * 5


def test_the_text_of_a_timeout() -> None:
    error = timed_out("createTopics", 1_000, "a hint")
    assert error.message == (
        "Call(callName=createTopics, deadlineMs=999, tries=1, nextAllowedTryMs=1100) timed out at "
        "1000 after 1 attempt(s)"
    )
    assert (error.hint, error.definite) == ("a hint", True)
