"""Text from outside as one short line: what a tenant or another system wrote is shown in logs and terminals."""

import re

_NOT_SHOWN = re.compile(
    r"[^\S ]|[\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ud800-\udfff\ufeff]"
)
"""Line breaks, control characters, and characters that change the direction of text or are not visible."""


def plain_text(text: str, limit: int) -> str:
    """At most `limit` characters without control characters; a longer text ends with `…`."""
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return _NOT_SHOWN.sub(" ", cut)
