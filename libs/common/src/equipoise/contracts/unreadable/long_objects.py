"""Objects that are longer than a process can hold. Only their names are read.

An object may have 1.5 MiB in etcd. As JSON it has up to six times as many bytes, because `<` becomes `\\u003c`.
"""

import re

HEAD = 65_536
"""The number of bytes at the beginning that are searched for the names. The API server writes the names before any long
field."""

_NAMES = re.compile(
    rb'"metadata":(\{"name":"[^"\\]*+"(?:,"(?:generateName|namespace|uid|resourceVersion)":"[^"\\]*+")*+)'
)
_EVENT = re.compile(rb'\{"type":"[A-Z]++","object":')
_LIST = re.compile(rb'"metadata":\{[^{}]*+\}')


def event_of_long_object(line: bytes | bytearray) -> bytes:
    """Shortens a line of a watch to the names of its object, which is marked as unreadable.

    If there are no names at its beginning, returns the beginning, which cannot be decoded.
    """
    head = bytes(line[:HEAD])
    event, names = _EVENT.match(head), _NAMES.search(head)
    return b"%s%s}" % (event[0], _object(names)) if event and names else head


def page_of_long_object(body: bytes | bytearray) -> bytes:
    """Shortens a page of a list with one object in the same way."""
    head = bytes(body[:HEAD])
    metadata = _LIST.search(head)
    names = _NAMES.search(head, metadata.end()) if metadata else None
    return b'{%s,"items":[%s]}' % (metadata[0], _object(names)) if metadata and names else head


def _object(names: re.Match[bytes]) -> bytes:
    return b'{"metadata":%s,"unreadable":"it is too long"}}' % names[1]
