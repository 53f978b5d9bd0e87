"""Forwards a port of 127.0.0.1 to a pod through the API server, as `kubectl port-forward` does."""

import asyncio
import socket
import struct
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress

import aiohttp

from equipoise.runtime.kubernetes.client import PODS, KubeError
from equipoise.runtime.kubernetes.http.api_server import ApiServer
from equipoise.runtime.process.failure_reason import failure_reason

PROTOCOL = "v4.channel.k8s.io"
"""A protocol with binary messages, whose first byte is the channel. The API server passes them on to the kubelet, and
every kubelet supports it."""

_DATA, _ERROR = 0, 1
"""The channels of the first port. The first message on each channel is the number of the port."""

_CHUNK = 32_768
_PORT = struct.Struct("<H")

ANNOUNCE_SECONDS = 10.0
"""Seconds within which the kubelet must announce the port."""


MAX_CONNECTIONS = 64
"""The maximum number of connections at a time, each with a WebSocket of its own."""


class PortForward:
    """Opens a WebSocket for each connection to `port` of 127.0.0.1. The protocol cannot close only one direction."""

    def __init__(
        self, api: ApiServer, namespace: str, pod: str, pod_port: int, on_problem: Callable[[str], None]
    ) -> None:
        self.port = 0
        self._on_problem = on_problem
        self._api = api
        self._what = f"port-forward pods {namespace}/{pod} port {pod_port}"
        self._path = PODS.path(namespace, pod, "portforward")
        self._pod_port = pod_port
        self._first: aiohttp.ClientWebSocketResponse | None = None
        self._connections: set[asyncio.Task[None]] = set()

    async def open(self) -> None:
        """Opens a first connection, which shows that port-forwards work, and listens. Raises KubeError."""
        self._first = await self._connect()
        self._server = await asyncio.start_server(self._on_connection, "127.0.0.1", 0)
        self.port = self._server.sockets[0].getsockname()[1]

    async def close(self) -> None:
        if self.port:
            self._server.close()
        for task in self._connections:
            task.cancel()
        await asyncio.gather(*self._connections, return_exceptions=True)
        if self._first is not None:
            await self._first.close()

    async def _connect(self) -> aiohttp.ClientWebSocketResponse:
        """Connects, and returns once the kubelet has announced the port on both channels. Raises KubeError."""
        websocket = await self._api.requests.websocket(
            self._what, self._path, query={"ports": str(self._pod_port)}, protocol=PROTOCOL
        )
        expected = {bytes([channel]) + _PORT.pack(self._pod_port) for channel in (_DATA, _ERROR)}
        received: set[bytes] = set()
        try:
            async with asyncio.timeout(ANNOUNCE_SECONDS):
                while len(received) < len(expected) and (message := await websocket.receive()).data in expected:
                    received.add(message.data)
        except TimeoutError:
            await websocket.close()
            raise KubeError(0, "Timeout", f"{self._what}: no response of the kubelet in time") from None
        if received != expected:
            await websocket.close()
            raise KubeError(0, "PortForward", f"{self._what}: the connection was closed before the port was open")
        return websocket

    async def _on_connection(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if len(self._connections) >= MAX_CONNECTIONS:
            _reset(writer)  # a command needs few connections; others are of another user of this machine
            writer.close()
            return
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        websocket, self._first = self._first, None
        try:
            if websocket is None or websocket.closed:
                websocket = await self._connect()
            await self._pump(websocket, reader, writer)
        except asyncio.CancelledError:
            pass  # by close(); the server of asyncio would log it with a traceback
        except KubeError as error:
            self._on_problem(str(error))
            _reset(writer)
        except (aiohttp.ClientError, OSError) as error:
            self._on_problem(f"{self._what}: {failure_reason(error)}")
            _reset(writer)
        finally:
            writer.close()
            if websocket is not None:
                await websocket.close()

    async def _pump(
        self, websocket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Copies data in both directions until one end closes its connection, then closes the other connection."""
        both = [
            asyncio.create_task(self._send(websocket, reader)),
            asyncio.create_task(self._receive(websocket, writer)),
        ]
        try:
            done, _ = await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
            for task in done:
                task.result()
        finally:
            for task in both:
                task.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    async def _send(self, websocket: aiohttp.ClientWebSocketResponse, reader: asyncio.StreamReader) -> None:
        with suppress(ConnectionResetError):
            while data := await reader.read(_CHUNK):
                await websocket.send_bytes(bytes([_DATA]) + data)

    async def _receive(self, websocket: aiohttp.ClientWebSocketResponse, writer: asyncio.StreamWriter) -> None:
        async for message in websocket:
            if message.type is not aiohttp.WSMsgType.BINARY or not message.data:
                continue
            if message.data[0] == _DATA:
                writer.write(memoryview(message.data)[1:])
                await writer.drain()
            elif message.data[0] == _ERROR and len(message.data) > 1:
                raise KubeError(0, "PortForward", f"{self._what}: {message.data[1:].decode(errors='replace')}")
        if websocket.close_code is None or websocket.close_code == aiohttp.WSCloseCode.ABNORMAL_CLOSURE:
            raise KubeError(0, "PortForward", f"{self._what}: the connection to the API server was lost")


def _reset(writer: asyncio.StreamWriter) -> None:
    """Resets the connection instead of closing it, so that the client does not take its data for complete."""
    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    writer.transport.abort()


@asynccontextmanager
async def port_forward(
    api: ApiServer, namespace: str, pod: str, pod_port: int, on_problem: Callable[[str], None]
) -> AsyncIterator[PortForward]:
    """Forwards a local port to a port of a pod. Raises KubeError if the first connection fails.

    `on_problem` is called with the reason if a connection fails, or is not closed by one of its ends.
    """
    forward = PortForward(api, namespace, pod, pod_port, on_problem)
    try:
        await forward.open()
        yield forward
    finally:
        await forward.close()
