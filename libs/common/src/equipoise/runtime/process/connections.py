"""Connections of a server, limited in total and per address of the client: each costs a file descriptor."""

import asyncio
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar, cast

C = TypeVar("C", bound=Hashable)


class ConnectionPool(Generic[C]):
    """A new connection is always added. Above a limit it takes the place of the one that waits longest.

    So a client that opens many connections displaces its own, and the only connection of another client remains.
    """

    def __init__(self, total: int, per_address: int) -> None:
        self._total = total
        self._per_address = per_address
        self._sequence = 0
        self._addresses: dict[C, str] = {}
        self._by_address: dict[str, dict[C, int]] = {}
        """The connections of each address; the one that waits longest is first."""

    def __len__(self) -> int:
        return len(self._addresses)

    def __contains__(self, connection: C) -> bool:
        return connection in self._addresses

    def add(self, connection: C, address: str) -> C | None:
        """The connection that was removed for it: of the same address, else of the address that has the most."""
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
        """It has been used: of all connections it now waits shortest."""
        if connection in self._addresses:
            own = self._by_address[self._addresses[connection]]
            del own[connection]
            own[connection] = self._next()

    def remove(self, connection: C) -> None:
        """No effect if it is not in the pool."""
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


class RelayedConnection(asyncio.Protocol):
    """Passes everything on to `handler`, the protocol that aiohttp created."""

    handler: asyncio.Protocol
    transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self.handler.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self.handler.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self.handler.data_received(data)

    def eof_received(self) -> bool | None:
        return self.handler.eof_received()

    def pause_writing(self) -> None:
        self.handler.pause_writing()

    def resume_writing(self) -> None:
        self.handler.resume_writing()


class _LimitedConnection(RelayedConnection):
    def __init__(self, handler: asyncio.Protocol, pool: ConnectionPool["_LimitedConnection"]) -> None:
        self.handler = handler
        self._pool = pool

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        displaced = self._pool.add(self, transport.get_extra_info("peername")[0])
        super().connection_made(transport)
        if displaced is not None and displaced.transport is not None:
            displaced.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        self._pool.remove(self)
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        self._pool.renew(self)
        super().data_received(data)


def limited(
    create_handler: Callable[[], asyncio.Protocol], *, total: int, per_address: int
) -> Callable[[], asyncio.Protocol]:
    """A factory of protocols for `create_server`, of which so many have a connection at the same time."""
    pool = ConnectionPool[_LimitedConnection](total, per_address)
    return lambda: _LimitedConnection(create_handler(), pool)
