"""Shortens a message that is too large for the bus: cuts the ends of its texts and lists, and states what it lacks."""

from typing import Any, TypeVar

import msgspec

from equipoise.contracts.plain_text import plain_text

M = TypeVar("M", bound=msgspec.Struct)

TEXT_LIMITS = (1_000, 253)
"""The maximum lengths of texts, tried one after the other. No name in Kubernetes is longer than the last one."""


def shortened(message: M, limit: int) -> tuple[M, str]:
    """A message whose JSON has at most `limit` bytes, and what it lacks. Empty if it is the message itself.

    First, long texts are cut. Then the largest list is halved, again and again, until the message fits. Other fields
    remain complete.
    """
    whole = message
    for most in TEXT_LIMITS:
        if _size(message) <= limit:
            break
        message = _with_short_texts(whole, most)
    lists = {field: value for field in message.__struct_fields__ if isinstance(value := getattr(message, field), list)}
    kept = {field: list(value) for field, value in lists.items()}
    while _size(message) > limit and any(kept.values()):
        longest = max(kept, key=lambda field: _size(kept[field]))
        kept[longest] = kept[longest][: len(kept[longest]) // 2]
        message = msgspec.structs.replace(message, **kept)
    if message is whole:
        return message, ""
    missing = [f"{len(lists[field]) - len(kept[field])} of {len(lists[field])} {field}" for field in lists]
    parts = [text for text in missing if not text.startswith("0 ")]
    return message, f"without {', '.join(parts)}" if parts else "with shortened texts"


def _size(value: Any) -> int:
    return len(msgspec.json.encode(value))


def _with_short_texts(value: Any, most: int) -> Any:
    """The value with each text cut to `most` characters. Names of fields and keys remain."""
    match value:
        case str():
            return plain_text(value, most)
        case list():
            return [_with_short_texts(item, most) for item in value]
        case dict():
            return {key: _with_short_texts(item, most) for key, item in value.items()}
        case msgspec.Struct():
            changes = {field: _with_short_texts(getattr(value, field), most) for field in value.__struct_fields__}
            return msgspec.structs.replace(value, **changes)
    return value
