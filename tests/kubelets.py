"""The side of a kubelet in a port-forward: protocol v4.channel.k8s.io in this process, and kwok's of a testbed."""

import asyncio
import struct
from collections.abc import Mapping
from contextlib import suppress
from ipaddress import ip_address
from pathlib import Path
from urllib.parse import urlsplit

import yaml
from aiohttp import WSMsgType, web

from equipoise.cli.certificates.issue import new_ca, server_pair
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.cluster import Cluster

PROTOCOL = "v4.channel.k8s.io"
DATA, ERROR = b"\0", b"\1"


class Kubelet:
    """With an API server that passes it on: each WebSocket is connected with a port of this machine, as the pod's."""

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


def kubelet_arguments(directory: Path, targets: Mapping[int, int]) -> dict[str, list[str]]:
    """Of a cluster whose kwok serves what a kubelet does, with TLS. `targets` as in Kubelet, for all pods."""
    now = SystemClock().now()
    pair = server_pair(new_ca(now), ["localhost"], [ip_address("127.0.0.1")], 1, now)
    (directory / "tls.crt").write_bytes(pair.certificate_text)
    (directory / "tls.key").write_bytes(pair.key_text)
    write_forwards(directory, targets)
    files = {"tls-cert-file": "tls.crt", "tls-private-key-file": "tls.key", "config": "forward.yaml"}
    kwok = [f"--{name}={directory / file}" for name, file in files.items()]
    return {"kwok": kwok, "kube-apiserver": ["--kubelet-preferred-address-types=InternalIP"]}


def write_forwards(directory: Path, targets: Mapping[int, int]) -> None:
    """kwok reads them when it starts."""
    forwards = [
        {"ports": [port], "target": {"address": "127.0.0.1", "port": target}} for port, target in targets.items()
    ]
    forward = {
        "apiVersion": "kwok.x-k8s.io/v1alpha1",
        "kind": "ClusterPortForward",
        "metadata": {"name": "targets"},
        "spec": {"forwards": forwards},
    }
    (directory / "forward.yaml").write_text(yaml.safe_dump(forward))


async def serve_kubelet(cluster: Cluster, node: str) -> None:
    """The API server finds kwok as the kubelet of the node."""
    port = {"daemonEndpoints": {"kubeletEndpoint": {"Port": urlsplit(cluster.kubelet_url).port}}}
    async with cluster.api() as api:
        path, patch = f"/api/v1/nodes/{node}/status", "application/merge-patch+json"
        await api.request("PATCH", path, {"status": port}, content_type=patch)
