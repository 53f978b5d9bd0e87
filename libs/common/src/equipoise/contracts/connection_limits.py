"""Limits of the number and duration of connections to a port. Each costs a file descriptor and memory."""

from collections.abc import Hashable
from typing import Generic, TypeVar

import msgspec

C = TypeVar("C", bound=Hashable)


class ConnectionLimits(msgspec.Struct, frozen=True, kw_only=True):
    """The limits of one port. A connection that exceeds a limit is closed; it does not wait."""

    total: int = 64
    per_address: int = 16
    """The maximum per client address. Beyond it, a new connection replaces the one that was unused for the longest
    time."""

    handshake_seconds: float = 5.0
    """Seconds for the TLS handshake, on ports with TLS."""

    request_seconds: float = 5.0
    """Seconds for the head of a request, from its first byte, or from the start of the connection for the first
    request. Infinite on ports whose requests have bodies."""

    response_seconds: float = 10.0
    """Seconds within which the client must read a byte of a response."""


class ConnectionPool(Generic[C]):
    """The connections of a port. A new connection is always added. Above a limit, the one unused for the longest time
    is removed.

    So a client that opens many connections loses its own, and the only connection of another client remains.
    """

    def __init__(self, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = per_address
        self._sequence = 0
        self._addresses: dict[C, str] = {}
        self._by_address: dict[str, dict[C, int]] = {}
        """The connections of each address. The one unused for the longest time is first."""

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, connection: C) -> bool:
        return connection in self._addresses

    def add(self, connection: C, address: str) -> C | None:
        """Adds a connection. Returns the connection that was removed for it, or None. It is of the same address, or
        else of the address with the most connections."""
        self._addresses[connection] = address
        own = self._by_address.setdefault(address, {})
        own[connection] = self._next()
        if len(own) <= self._per_address:
            if len(self._addresses) <= self._total:
                return None
            own = max(self._by_address.values(), key=_size_and_wait)
        displaced = next(iter(own))
        self.remove(displaced)
        return displaced

    def renew(self, connection: C) -> None:
        """Marks a connection as just used, so that others are removed before it."""
        if connection in self._addresses:
            own = self._by_address[self._addresses[connection]]
            del own[connection]
            own[connection] = self._next()

    def remove(self, connection: C) -> None:
        """Removes a connection. Does nothing if it is not in the pool."""
        address = self._addresses.pop(connection, None)
        if address is not None:
            own = self._by_address[address]
            del own[connection]
            if not own:
                del self._by_address[address]

    def _next(self) -> int:
        self._sequence += 1
        return self._sequence


def _size_and_wait(own: dict[C, int]) -> tuple[int, int]:
    return len(own), -next(iter(own.values()))
