"""The base classes of all messages, and a conversion between structs with common fields."""

from collections.abc import Iterator
from functools import cache
from typing import Any, ClassVar, Self, TypeVar

import msgspec

S = TypeVar("S", bound=msgspec.Struct)

MUST_BE_KNOWN = msgspec.Meta(extra={"unknown members": "invalid"})
"""Marks an enumeration that the meaning of other fields depends on: a message with an unknown member is invalid."""


class Value(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True, gc=False):
    """A part of a message."""


class Message(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """A whole message."""

    checked: ClassVar[bool] = False
    """Whether the publisher decodes the message as readers will, before it publishes it. True for messages with sums of
    requests, which may be implausible."""

    @property
    def implausible(self) -> str:
        """Why the contents cannot be true although each field is within its bounds. Empty if they can. Readers skip a
        message with a reason."""
        return ""

    @property
    def measured_at(self) -> float | None:
        """Unix seconds of the query or evaluation; None for a message that contains no measurement."""
        return None

    @property
    def max_age(self) -> float | None:
        """Seconds for which the stream keeps the message; None for the default of the stream."""
        return None

    def smaller(self) -> Iterator[tuple[Self, str]]:
        """Smaller messages, to publish instead of one that is too large for the bus, and what each of them lacks.

        Each message is at most as large as the one before. If there are none, a message that is too large is not
        published.
        """
        return iter(())


def type_name(kind: type[msgspec.Struct]) -> str:
    """The `ce-type` of the messages of this struct. The version is raised when earlier readers must skip them, not for
    a new field. `MessageReader` (runtime.bus.codec) skips other types."""
    return f"dev.equipoise.{kind.__name__}.v1"


def converted(source: msgspec.Struct, kind: type[S], /, **fields: Any) -> S:
    """A new `kind` with these fields. All other fields are copied from `source`, or have their default if it has none.

    Raises TypeError when a field without a default is missing.
    """
    return kind(**{name: getattr(source, name) for name in _common_fields(type(source), kind)} | fields)


@cache  # for pairs of structs in the code, of which there are some dozens
def _common_fields(source: type[msgspec.Struct], kind: type[msgspec.Struct]) -> tuple[str, ...]:
    return tuple(name for name in kind.__struct_fields__ if name in source.__struct_fields__)
