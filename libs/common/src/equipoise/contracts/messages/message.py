"""The base classes of all messages."""

import msgspec


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a message."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole message."""
