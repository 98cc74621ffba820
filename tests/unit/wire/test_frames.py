"""Requests as bytes: malformed ones raise InvalidRequestFrame, and nothing else."""

from __future__ import annotations

import contextlib
import random
import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.wire_frames import KEYS, Frames
from klamm.wire.api import Api
from klamm.wire.apis import APIS
from klamm.wire.frames import (
    InvalidRequestFrame,
    RequestKey,
    TooManyElements,
    encoded_response,
    parse_request,
    parse_response,
    request_body,
    request_header,
    request_key,
)
from klamm.wire.schema import RefusedRequest

DELETE_GROUPS = struct.pack(">hhih", 42, 0, 1, -1)
METADATA_V9 = struct.pack(">hhihx", 3, 9, 1, -1)
_REST = {
    "allow_auto_topic_creation": True,
    "include_cluster_authorized_operations": False,
    "include_topic_authorized_operations": False,
    "group_id": "g",
    "generation_id": 1,
    "member_id": "m",
}


def is_handled(frame: bytes) -> bool:
    """Whether a request is translated, refused or found malformed, without another error."""
    key = request_key(frame)
    api = APIS.get((key.api_key, key.api_version))
    if api is None:
        return True
    with contextlib.suppress(InvalidRequestFrame, RefusedRequest):
        body = parse_request(frame).body
        return not isinstance(api, Api) or api.request.read(body) is not None
    return True


@pytest.mark.parametrize(("key", "version"), KEYS)
def test_every_request_that_the_fuzzer_damages_is_valid(key: int, version: int) -> None:
    request = Frames(random.Random(1)).request(key, version)
    assert parse_request(request).key == request_key(request)


@settings(max_examples=300)
@given(st.integers(0, 2**32))
def test_a_damaged_request_is_malformed_or_translated(seed: int) -> None:
    frame = Frames(random.Random(seed)).draw().sent[4:]
    assert len(frame) < 8 or is_handled(frame)


@settings(max_examples=300)
@given(st.sampled_from(sorted(APIS)), st.binary(max_size=100))
def test_noise_after_a_header_is_malformed_or_translated(
    key: tuple[int, int], noise: bytes
) -> None:
    assert is_handled(request_header(RequestKey(*key, 1), "") + noise)


@pytest.mark.parametrize(
    "frame",
    [
        pytest.param(DELETE_GROUPS + struct.pack(">ih", 2**31 - 1, -2), id="strings of no bytes"),
        pytest.param(DELETE_GROUPS + struct.pack(">ihh", 3, 0, 0), id="more elements than bytes"),
        pytest.param(DELETE_GROUPS + struct.pack(">i", -1), id="null"),
        pytest.param(DELETE_GROUPS + struct.pack(">i", -2), id="a negative number of elements"),
        pytest.param(METADATA_V9 + b"\xff" * 5, id="an endless varint"),
        pytest.param(METADATA_V9 + b"\x02\xff\xff\xff\xff\x0f", id="a string of 4 GiB"),
    ],
)
def test_lengths_that_lie_are_malformed(frame: bytes) -> None:
    with pytest.raises(InvalidRequestFrame):
        parse_request(frame)


@pytest.mark.parametrize("field", ["topics", "group_instance_id"])
def test_a_compact_string_has_at_most_32767_bytes(field: str) -> None:
    def request(size: int) -> bytes:
        is_metadata = field == "topics"
        key = RequestKey(3, 9, 1) if is_metadata else RequestKey(12, 4, 1)
        values = {**_REST, field: [{"name": "t" * size}] if is_metadata else "t" * size}
        return request_header(key, "") + request_body(key, values)

    parse_request(request(32_767))
    with pytest.raises(InvalidRequestFrame):
        parse_request(request(32_768))


def test_an_unknown_tagged_field_may_end_with_its_message_but_no_later() -> None:
    body = METADATA_V9 + b"\x01\0\0\0" + b"\x01\x05"
    assert parse_request(body + b"\x03abc").body == parse_request(body + b"\x00").body
    with pytest.raises(InvalidRequestFrame):
        parse_request(body + b"\x04abc")


def test_elements_of_arrays_and_tagged_fields_are_counted() -> None:
    groups = request_header(RequestKey(42, 0, 1), "c") + request_body(
        RequestKey(42, 0, 1), {"groups_names": ["a", "b", "c"]}
    )
    assert parse_request(groups, 3).body.groups_names == ("a", "b", "c")
    with pytest.raises(TooManyElements):
        parse_request(groups, 2)
    tagged = struct.pack(">hhih", 3, 9, 1, -1) + b"\x03" + b"\x05\x00" * 3 + b"\x00\0\0\0\0"
    parse_request(tagged, 3)
    with pytest.raises(TooManyElements):
        parse_request(tagged, 2)
    parse_request(groups)
    parse_request(groups, 3)
    results = [{"group_id": name, "error_code": 0} for name in "abcd"]
    response = encoded_response(RequestKey(42, 0, 1), {"results": results})
    assert len(parse_response(RequestKey(42, 0, 1), response[4:]).results) == 4, "no such limit"


def test_a_response_with_an_overlong_string_is_refused_in_one_line() -> None:
    place = {"node_id": -1, "host": "", "port": -1}
    values = {"error_code": 15, "error_message": "x" * 32_768, **place}
    text = r"no response to API key 10, version 1: String is too long .*\(32768 > 32767\)"
    with pytest.raises(InvalidRequestFrame, match=text):
        encoded_response(RequestKey(10, 1, 0), values)
