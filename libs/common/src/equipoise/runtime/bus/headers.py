"""What travels beside a message: its id, the attributes of CloudEvents (binary mode), and the trace it belongs to.

The trace is that of the message in hand: whatever is said while one is handled carries its trace on (W3C
`traceparent`), in tasks that the handler starts as well.
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
_in_hand: ContextVar[str] = ContextVar("trace of the message in hand", default="")


class Envelope:
    """Writes the headers of everything that one service says. `chance` gives ids: nobody else's may be the same."""

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
            TRACE: f"00-{_in_hand.get() or self.new_id()}-{self._chance.getrandbits(64) or 1:016x}-01",
            **self._fixed,
        }


@contextmanager
def continuing_trace(headers: Headers | None) -> Iterator[None]:
    """While a message with these headers is handled, what is said belongs to its trace."""
    found = _TRACE.fullmatch(headers.get(TRACE, "")) if headers else None
    token = _in_hand.set(found[1] if found else "")
    try:
        yield
    finally:
        _in_hand.reset(token)
