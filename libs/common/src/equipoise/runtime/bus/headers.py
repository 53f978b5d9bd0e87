"""The headers of a message: its id, the attributes of CloudEvents (binary mode), and its trace (W3C `traceparent`).

Messages that are published while another one is handled have its trace, also in tasks that the handler starts.
"""

import random
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import UTC, datetime

import msgspec

from equipoise.runtime.process.clock import Clock

Headers = Mapping[str, str]

MESSAGE_ID = "Nats-Msg-Id"
TRACE = "traceparent"

_TRACE = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-[0-9a-f]{2}")
_current_trace: ContextVar[str] = ContextVar("trace of the message that is handled", default="")


class Envelope:
    """Creates the headers of a service's messages. `chance` generates ids, which must be unique."""

    def __init__(self, service: str, clock: Clock, chance: random.Random) -> None:
        self._fixed = {
            "ce-specversion": "1.0",
            "ce-source": f"/equipoise/{service}",
            "ce-datacontenttype": "application/json",
        }
        self._clock = clock
        self._chance = chance

    def new_id(self) -> str:
        """128 bits as 32 hexadecimal digits."""
        return f"{self._chance.getrandbits(128):032x}"

    def around(self, message: msgspec.Struct, message_id: str | None = None) -> dict[str, str]:
        """The headers of a message; without an id it gets a new one."""
        identity = message_id or self.new_id()
        return {
            MESSAGE_ID: identity,
            "ce-id": identity,
            "ce-type": f"dev.equipoise.{type(message).__name__}.v1",
            "ce-time": datetime.fromtimestamp(self._clock.now(), UTC).isoformat(timespec="milliseconds"),
            TRACE: f"00-{_current_trace.get() or self.new_id()}-{self._chance.getrandbits(64) or 1:016x}-01",
            **self._fixed,
        }


@contextmanager
def continuing_trace(headers: Headers | None) -> Iterator[None]:
    """While a message with these headers is handled, published messages belong to its trace."""
    found = _TRACE.fullmatch(headers.get(TRACE, "")) if headers else None
    token = _current_trace.set(found[1] if found else "")
    try:
        yield
    finally:
        _current_trace.reset(token)
