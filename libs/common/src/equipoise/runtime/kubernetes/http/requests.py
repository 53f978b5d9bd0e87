"""Sends requests to the API server with credentials, and converts errors to KubeErrors."""

import asyncio
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, Protocol, TypeVar

import aiohttp
import msgspec

from equipoise.contracts.unreadable.lenient_decoding import DECODE_ERRORS
from equipoise.runtime.kubernetes.client import KubeError, error_for_status
from equipoise.runtime.kubernetes.http import responses
from equipoise.runtime.kubernetes.http.availability import Availability
from equipoise.runtime.kubernetes.http.server_clock import ServerClock
from equipoise.runtime.kubernetes.http.transport import Transport
from equipoise.runtime.process.clock import Clock
from equipoise.runtime.process.failure_reason import failure_reason

Response = TypeVar("Response")

CONNECT_SECONDS = 5.0
REQUEST_SECONDS = 20.0

_REQUEST = aiohttp.ClientTimeout(total=REQUEST_SECONDS, sock_connect=CONNECT_SECONDS)


class Credentials(Protocol):
    @property
    def tls(self) -> ssl.SSLContext:
        """The TLS context for new connections."""
        ...

    async def authorization(self) -> str:
        """The value of the header; empty with a client certificate."""
        ...

    async def reload(self) -> None:
        """Reads the token and the certificates again, because the server rejected them."""
        ...

    async def reload_tls(self, failed: ssl.SSLContext) -> bool:
        """Reads the certificates again, at most once in some seconds. Returns whether `tls` differs from `failed`."""
        ...


class Requests:
    """Sends requests. From the responses, it determines whether the server is available, and estimates its clock."""

    def __init__(self, *, transport: Transport, credentials: Credentials, user_agent: str, clock: Clock) -> None:
        self._transport = transport
        self._credentials = credentials
        self._user_agent = user_agent
        self._clock = clock
        self.server_time = ServerClock()
        self.availability = Availability(clock)

    async def request(
        self,
        what: str,
        method: str,
        path: str,
        read: Callable[[bytes], Response],
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
    ) -> Response:
        """Sends a request and returns the response as decoded by `read`. Raises KubeError, also for a status of 400 or
        more."""
        sending = self.send(what, method, path, query=query, body=body, content_type=content_type, accept=accept)
        async with sending as response:
            await raise_for_status(response, what)
            return read(await response.read())

    async def websocket(
        self, what: str, path: str, *, query: Mapping[str, str], protocol: str
    ) -> aiohttp.ClientWebSocketResponse:
        """Opens a WebSocket. Raises KubeError. aiohttp drops the response to a failed upgrade, so a second request gets
        the reason."""
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                try:
                    return await self._upgrade(path, query, protocol)
                except aiohttp.WSServerHandshakeError as error:
                    if error.status != 401:
                        raise
                    await self._credentials.reload()
                    return await self._upgrade(path, query, protocol)
        except aiohttp.WSServerHandshakeError as error:
            try:
                await self.request(what, "GET", path, bytes, query=query)
            except KubeError as refused:
                if refused.status == error.status:
                    raise
            raise error_for_status(error.status, "NoWebSocket", f"{what}: {error.message}") from error
        except TimeoutError as error:
            raise KubeError(0, "Timeout", f"{what}: no response in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._unreachable(what, error) from error

    async def _upgrade(self, path: str, query: Mapping[str, str], protocol: str) -> aiohttp.ClientWebSocketResponse:
        headers = {"User-Agent": self._user_agent}
        if authorization := await self._credentials.authorization():
            headers["Authorization"] = authorization
        return await self._transport.websocket(
            path, query=query, headers=headers, protocol=protocol, tls=self._credentials.tls
        )

    @asynccontextmanager
    async def send(
        self,
        what: str,
        method: str,
        path: str,
        *,
        query: Mapping[str, str] | None = None,
        body: Any = None,
        content_type: str = "application/json",
        accept: str = "application/json",
        timeout: aiohttp.ClientTimeout = _REQUEST,
        within: float | None = None,
    ) -> AsyncIterator[aiohttp.ClientResponse]:
        """Yields the response, with any status. After a 401, the request is repeated with a new token; after a failed
        TLS handshake, with changed certificates.

        `within`: seconds within which the request must be sent, or it fails. Every error, also while the response is
        read, is raised as a KubeError.
        """
        deadline = None if within is None else self._clock.monotonic() + within
        response: aiohttp.ClientResponse | None = None
        content = None if body is None else msgspec.json.encode(body)

        async def attempt(tls: ssl.SSLContext) -> aiohttp.ClientResponse:
            headers = {"Accept": accept, "Content-Type": content_type, "User-Agent": self._user_agent}
            if authorization := await self._credentials.authorization():
                headers["Authorization"] = authorization
            sent = self._clock.now()
            received = await self._transport.request(
                method, path, query=query or {}, headers=headers, body=content,
                timeout=self._until(deadline, timeout), tls=tls,
            )  # fmt: skip
            self.server_time.observe(received.headers.get("Date", ""), sent=sent, received=self._clock.now())
            return received

        async def send() -> aiohttp.ClientResponse:
            tls = self._credentials.tls
            try:
                return await attempt(tls)
            except aiohttp.ClientSSLError:  # during the handshake, so the request was not sent
                if not await self._credentials.reload_tls(tls):
                    raise
                return await attempt(self._credentials.tls)
            except aiohttp.ClientOSError as error:
                # With TLS 1.3, the request may already have been sent when the server rejects the certificate of the
                # client, so it is not repeated.
                if isinstance(error.__cause__, ssl.SSLError):
                    await self._credentials.reload_tls(tls)
                raise

        try:
            response = await send()
            if response.status == 401:
                response.close()
                await self._credentials.reload()
                response = await send()
            if response.status == 401 or response.status >= 500:
                self.availability.failed(f"{what}: {response.status} {response.reason}")
            else:
                self.availability.succeeded()
            yield response
        except TimeoutError as error:
            raise self._failed(KubeError(0, "Timeout", f"{what}: no response in time")) from error
        except (aiohttp.ClientError, OSError) as error:
            raise self._failed(self._unreachable(what, error)) from error
        except asyncio.CancelledError:
            if response is None:  # the caller waited for less than the timeout
                self.availability.failed(f"{what}: no response in time")
            raise
        except KubeError as error:
            if error.status == 0:  # there are no credentials, or the response was incomplete
                self._failed(error)
            raise
        except DECODE_ERRORS as error:
            raise KubeError(0, "Unreadable", f"{what}: the response cannot be decoded: {error}") from error
        finally:
            if response is not None:
                response.release() if response.content.at_eof() else response.close()

    def _unreachable(self, what: str, error: Exception) -> KubeError:
        problem = f"{what}: the API server at {self._transport.url} cannot be reached: {failure_reason(error)}"
        return KubeError(0, "Unreachable", problem)

    def _failed(self, error: KubeError) -> KubeError:
        self.availability.failed(str(error))
        return error

    def _until(self, deadline: float | None, timeout: aiohttp.ClientTimeout) -> aiohttp.ClientTimeout:
        """The timeout, shortened so that a connection must be made before the deadline. Raises TimeoutError if the
        deadline has passed."""
        if deadline is None:
            return timeout
        remaining = deadline - self._clock.monotonic()
        if remaining <= 0:
            raise TimeoutError
        return aiohttp.ClientTimeout(total=timeout.total, sock_connect=timeout.sock_connect, connect=remaining)


async def raise_for_status(response: aiohttp.ClientResponse, what: str) -> None:
    if response.status >= 400:
        raise responses.read_error(response.status, response.headers, await response.read(), what)
