"""Responses to LeaderAndIsr are read as kio reads them, or left to kio."""

from __future__ import annotations

from klamm.cluster.api_errors import Errors
from klamm.cluster.requests import LeaderAndIsrRequest, LeaderAndIsrResponse
from klamm.cluster.types import TopicPartition
from klamm.wire.apis import BY_REQUEST
from klamm.wire.control_reader import read_leader_and_isr_response as read
from klamm.wire.frames import InvalidRequestFrame, RequestKey, encoded_response, parse_response

KEY = RequestKey(4, 5, 0x01020304)
IDS = {"t": "AAAAAAAAAAAAAAAAAAAAAQ", "u": "AAAAAAAAAAAAAAAAAAAAAg"}
NAMES = {topic_id: name for name, topic_id in IDS.items()}
REQUEST = LeaderAndIsrRequest(9, 8, 70, (), IDS, ())
SIZE = 4
TRANSLATION = BY_REQUEST[LeaderAndIsrRequest].response_to(REQUEST)


def frame_of(response: LeaderAndIsrResponse) -> bytes:
    return encoded_response(KEY, TRANSLATION.write(response))[SIZE:]


def test_a_response_is_read_as_kio_reads_it() -> None:
    errors = {TopicPartition("t", number): Errors.NONE for number in range(300)}
    errors[TopicPartition("t", 7)] = Errors.KAFKA_STORAGE_ERROR
    errors[TopicPartition("u", 0)] = Errors.STALE_CONTROLLER_EPOCH
    for response in (
        LeaderAndIsrResponse(Errors.NONE, errors),
        LeaderAndIsrResponse(Errors.STALE_BROKER_EPOCH, {}),
    ):
        frame = frame_of(response)
        assert TRANSLATION.read(parse_response(KEY, frame)) == response
        assert read(frame, KEY.correlation_id, NAMES) == response
    assert read(frame_of(LeaderAndIsrResponse(Errors.NONE, errors)), KEY.correlation_id, {}) == (
        LeaderAndIsrResponse(Errors.NONE, {})
    )


def test_a_damaged_response_is_left_to_kio_or_read_as_kio_reads_it() -> None:
    errors = {TopicPartition("t", 1): Errors.NONE, TopicPartition("u", 2): Errors.NONE}
    frame = frame_of(LeaderAndIsrResponse(Errors.NONE, errors))
    damaged = [frame[:length] for length in range(len(frame))]
    for place in range(len(frame)):
        for byte in {0, 1, 2, 0x7F, 0x80, 0xFF} - {frame[place]}:
            damaged.append(frame[:place] + bytes([byte]) + frame[place + 1 :])
    answers = {one: read(one, KEY.correlation_id, NAMES) for one in damaged}
    read_too = {one: response for one, response in answers.items() if response is not None}
    assert 0 < len(read_too) < len(answers)
    for one, response in read_too.items():
        try:
            assert response == TRANSLATION.read(parse_response(KEY, one))
        except InvalidRequestFrame:  # kio refuses errors that Kafka does not have
            found = {response.error, *response.partition_errors.values()}
            assert Errors.UNKNOWN_SERVER_ERROR in found, one.hex()
