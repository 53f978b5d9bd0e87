"""HTTP requests to one API server: connections, proxy and TLS, without credentials or decoding."""

import ssl
from collections.abc import Mapping
from urllib.parse import urlencode, urlsplit
from urllib.request import getproxies, proxy_bypass

import aiohttp

CONNECTIONS = 100
"""Maximum number of concurrent requests."""

READ_BYTES = 2**17
"""Approximate bytes of a response that are buffered: a list is decoded while no other task runs."""


class Transport:
    """HTTP to one API server. Of the environment it uses only the proxy: a .netrc would replace the token."""

    def __init__(self, *, url: str, server_name: str | None, proxy: str | None) -> None:
        """`server_name` is the name in the certificate, if it is not the host of `url`.

        Without a `proxy` that of the environment is used, if it has one for this host. It is read once: for every
        request that would take two threads, and half of the request's time.
        """
        self.url = url.rstrip("/")
        self._server_name = server_name
        if not proxy and not proxy_bypass((address := urlsplit(self.url)).hostname or ""):
            proxy = getproxies().get(address.scheme)
        self._proxy = proxy or None
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=CONNECTIONS),
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
        """Sends a request over a connection with this context. Requests with an earlier one continue on theirs."""
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
        """Raises aiohttp.WSServerHandshakeError for any response but an upgrade."""
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
