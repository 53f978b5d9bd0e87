"""Objects that are longer than what a process can hold: their names are read, and nothing else.

An object has 1.5 MiB in etcd, and as JSON six times as many bytes if its author wrote `<` only: `\\u003c`.
"""

import re

HEAD = 65_536
"""Bytes of the beginning, which has the names: the API server writes them before everything of any length."""

_NAMES = re.compile(
    rb'"metadata":(\{"name":"[^"\\]*+"(?:,"(?:generateName|namespace|uid|resourceVersion)":"[^"\\]*+")*+)'
)
_EVENT = re.compile(rb'\{"type":"[A-Z]++","object":')
_LIST = re.compile(rb'"metadata":\{[^{}]*+\}')


def event_of_long_object(line: bytes | bytearray) -> bytes:
    """A line of a watch with the names of its object only, which is marked as unreadable.

    The beginning of the line itself if it has no names there: it cannot be decoded.
    """
    head = bytes(line[:HEAD])
    event, names = _EVENT.match(head), _NAMES.search(head)
    return b"%s%s}" % (event[0], _object(names)) if event and names else head


def page_of_long_object(body: bytes | bytearray) -> bytes:
    """The same for a page of a list that has one object."""
    head = bytes(body[:HEAD])
    metadata = _LIST.search(head)
    names = _NAMES.search(head, metadata.end()) if metadata else None
    return b'{%s,"items":[%s]}' % (metadata[0], _object(names)) if metadata and names else head


def _object(names: re.Match[bytes]) -> bytes:
    return b'{"metadata":%s,"unreadable":"it is too long"}}' % names[1]
