"""Java's way to decode base64, in which the padding may be left out. Mirrors java.util.Base64."""

from __future__ import annotations

import base64
import re
from typing import Final

_TEXT: Final = "(?:{0}{{4}})*(?:{0}{{2}}(?:==)?|{0}{{3}}=?)?"
_STANDARD: Final = re.compile(_TEXT.format("[A-Za-z0-9+/]"))
_OF_URLS: Final = re.compile(_TEXT.format("[A-Za-z0-9_-]"))


def decode_base64(text: str) -> bytes | None:
    """Decode base64, or return None if Java throws IllegalArgumentException."""
    return base64.b64decode(f"{text}==") if _STANDARD.fullmatch(text) else None


def decode_url_base64(text: str) -> bytes | None:
    """Decode base64 with - and _ instead of + and /. Return None if Java throws an exception."""
    return base64.urlsafe_b64decode(f"{text}==") if _OF_URLS.fullmatch(text) else None
