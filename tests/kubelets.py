"""The side of a kubelet (and of an API server that passes it on) in a port-forward, protocol v4.channel.k8s.io."""

import asyncio
import struct
from contextlib import suppress

from aiohttp import WSMsgType, web

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\0", b"\1"


class Kubelet:
    """Connects each WebSocket with a port of this machine, as if it were the port of the pod."""

    def __init__(self, targets: dict[int, int]) -> None:
        self.targets = targets
        """The port of this machine by the port of the pod."""

        self.sockets: list[web.WebSocketResponse] = []
        self.authorizations: list[str] = []
        self.open = 0
        self.announces = True
        self.refusal: web.Response | None = None
        self.token = ""
        """The only valid one; empty: each is."""

    async def portforward(self, request: web.Request) -> web.StreamResponse:
        if self.refusal is not None:
            return web.Response(
                body=self.refusal.body, status=self.refusal.status, content_type=self.refusal.content_type
            )
        if self.token not in request.headers.get("Authorization", ""):
            return web.json_response({"kind": "Status", "code": 401, "message": "Unauthorized"}, status=401)
        if request.headers.get("Upgrade", "").lower() != "websocket":
            return web.Response(text="Upgrade request required", status=400)
        self.authorizations.append(request.headers.get("Authorization", ""))
        port = int(request.query["ports"])
        socket = web.WebSocketResponse(protocols=(PROTOCOL,), max_msg_size=0)
        await socket.prepare(request)
        self.sockets.append(socket)
        if not self.announces:
            await socket.close()
            return socket
        self.open += 1
        try:
            for channel in (DATA, ERROR):
                await socket.send_bytes(channel + struct.pack("<H", port))
            await self._forward(socket, port)
        finally:
            self.open -= 1
            with suppress(ConnectionError):
                await socket.close()
        return socket

    async def _forward(self, socket: web.WebSocketResponse, port: int) -> None:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.targets[port])
        except OSError as error:
            await socket.send_bytes(ERROR + f"error forwarding port {port} to pod: {error.strerror}".encode())
            return

        async def from_pod() -> None:
            while data := await reader.read(32_768):
                await socket.send_bytes(DATA + data)

        async def to_pod() -> None:
            async for message in socket:
                if message.type is WSMsgType.BINARY and message.data[:1] == DATA:
                    writer.write(message.data[1:])
                    await writer.drain()

        both = [asyncio.create_task(from_pod()), asyncio.create_task(to_pod())]
        try:
            await asyncio.wait(both, return_when=asyncio.FIRST_COMPLETED)
        finally:
            writer.close()  # first: this task may be cancelled while it waits for the others
            for each in both:
                each.cancel()
            await asyncio.gather(*both, return_exceptions=True)

    def abort(self) -> None:
        """The connections end without a close, as when the API server restarts."""
        for socket in self.sockets:
            assert socket._req is not None
            assert socket._req.transport is not None
            socket._req.transport.abort()
