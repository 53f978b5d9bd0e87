"""HTTP requests to one API server: connections, proxy and TLS, without credentials or decoding."""

import socket
import ssl
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult

from equipoise.runtime.async_tools.name_resolution import NameResolution

CONNECTIONS = 100
"""Maximum number of concurrent requests."""

RESOLVE_SECONDS = 10.0
"""Seconds in which a name must be resolved: less than a request may take, and enough for the second DNS server."""

READ_BYTES = 2**17
"""The approximate number of bytes of a response that are buffered. Limited, because no other task runs while a buffer
is decoded."""


class _Resolver(AbstractResolver):
    """The resolver of aiohttp, limited in time."""

    def __init__(self) -> None:
        resolver = aiohttp.ThreadedResolver()
        self._names = NameResolution(lambda host, port: resolver.resolve(host, port, socket.AF_UNSPEC), RESOLVE_SECONDS)

    async def resolve(
        self, host: str, port: int = 0, family: socket.AddressFamily = socket.AF_UNSPEC
    ) -> list[ResolveResult]:
        """The addresses of any family: a connection is attempted to each. Raises NameNotResolved."""
        return await self._names.addresses(host, port)

    async def close(self) -> None:
        """Ends nothing: a thread cannot be interrupted."""


class Transport:
    """HTTP requests to one API server. A .netrc is ignored, because it would replace the token."""

    def __init__(
        self, *, url: str, server_name: str | None, proxy: str | None, resolver: AbstractResolver | None = None
    ) -> None:
        """`server_name`: the name in the certificate, if it differs from the host of `url`. `resolver`: resolves
        names; by default the system does, within `RESOLVE_SECONDS`.

        Without a `proxy`, the environment may define one for this host. It is read once. Reading it for every request
        would take two threads and half of the time of the request.
        """
        self.url = url.rstrip("/")
        self._server_name = server_name
        if not proxy and not proxy_bypass((address := urlsplit(self.url)).hostname or ""):
            proxy = getproxies().get(address.scheme)
        self._proxy = proxy or None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS, resolver=resolver or _Resolver()),
            cookie_jar=aiohttp.DummyCookieJar(),
            read_bufsize=READ_BYTES,
        )

    async def request(
        self,
        method: str,
        path: str,
        *,
        query: Mapping[str, str],
        headers: Mapping[str, str],
        body: bytes | None,
        timeout: aiohttp.ClientTimeout,
        tls: ssl.SSLContext,
    ) -> aiohttp.ClientResponse:
        """Sends a request over a connection with this TLS context. Requests with an earlier context keep their
        connection."""
        address = f"{self.url}{path}?{urlencode(query)}" if query else f"{self.url}{path}"
        return await self._session.request(
            method,
            address,
            headers=headers,
            data=body,
            timeout=timeout,
            proxy=self._proxy,
            server_hostname=self._server_name,
            ssl=tls,
        )

    async def websocket(
        self, path: str, *, query: Mapping[str, str], headers: Mapping[str, str], protocol: str, tls: ssl.SSLContext
    ) -> aiohttp.ClientWebSocketResponse:
        """Opens a WebSocket. Raises aiohttp.WSServerHandshakeError for any response but an upgrade."""
        return await self._session.ws_connect(
            f"{self.url}{path}?{urlencode(query)}",
            headers=headers,
            protocols=(protocol,),
            max_msg_size=0,
            proxy=self._proxy,
            server_hostname=self._server_name,
            ssl=tls,
        )

    async def close(self) -> None:
        await self._session.close()
