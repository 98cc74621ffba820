"""Integer types of Kafka's protocol, used to validate JSON request bodies."""

from __future__ import annotations

from typing import Annotated

from msgspec import Meta

INT32_MAX = 2**31 - 1
INT64_MAX = 2**63 - 1

Int16 = Annotated[int, Meta(ge=-(2**15), le=2**15 - 1)]
Int32 = Annotated[int, Meta(ge=-(2**31), le=INT32_MAX)]
Int64 = Annotated[int, Meta(ge=-(2**63), le=INT64_MAX)]
Count = Annotated[int, Meta(ge=0, le=INT32_MAX)]
"""Non-negative int32: a count, a broker id or a partition number."""
