"""A port of a pod through the API server: bytes in both directions, and every way in which it ends."""

import asyncio
import hashlib
import random
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from aiohttp import web
from aiohttp.test_utils import TestServer
from bus_worlds import eventually, free_port
from cli.http_clusters import a_kubeconfig
from kubelets import Kubelet

from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import Forbidden, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.port_forward import PortForward, port_forward
from equipoise.runtime.process.clock import SystemClock

POD_PORT = 4222


class Echo:
    """The program in the pod: sends every byte back, and closes after `quit`."""

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
            if data.endswith(b"quit"):
                break
        writer.close()


@pytest.fixture
async def kubelet() -> AsyncIterator[Kubelet]:
    server = await asyncio.start_server(Echo().serve, "127.0.0.1", 0)
    yield Kubelet({POD_PORT: server.sockets[0].getsockname()[1]})
    server.close()


@pytest.fixture
async def settings(kubelet: Kubelet, tmp_path: Path) -> AsyncIterator[Kubernetes]:
    """The API server in front of the kubelet."""
    app = web.Application()
    app.router.add_get("/api/v1/namespaces/shop/pods/web-0/portforward", kubelet.portforward)
    async with TestServer(app) as server:
        file = a_kubeconfig(tmp_path / "kubeconfig", str(server.make_url("")))
        yield Kubernetes(kubeconfig=str(file))


@pytest.fixture
def problems() -> list[str]:
    """Those that were reported."""
    return []


@pytest.fixture
async def forward(settings: Kubernetes, problems: list[str]) -> AsyncIterator[PortForward]:
    async with (
        connect_kube(settings, "test", SystemClock()) as api,
        port_forward(api, "shop", "web-0", POD_PORT, problems.append) as forward,
    ):
        yield forward


async def exchanged(port: int, payload: bytes) -> bytes:
    """What comes back."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port)

    async def send() -> None:
        writer.write(payload)
        await writer.drain()

    sending = asyncio.create_task(send())
    received = await reader.readexactly(len(payload))
    await sending
    writer.close()
    return received


async def test_bytes_pass_in_both_directions_on_several_connections(
    kubelet: Kubelet, forward: PortForward, problems: list[str]
) -> None:
    """A megabyte on each, so that frames are split; each connection has a WebSocket of its own, with the token."""
    payloads = [random.Random(seed).randbytes(1_000_000) for seed in range(4)]
    async with asyncio.timeout(60):
        received = await asyncio.gather(*(exchanged(forward.port, payload) for payload in payloads))
    digests = [[hashlib.sha256(each).hexdigest() for each in some] for some in (payloads, received)]
    assert digests[0] == digests[1]
    assert len(kubelet.sockets) == 4
    assert kubelet.authorizations == ["Bearer t"] * 4
    await eventually(lambda: kubelet.open == 0)
    assert problems == []


async def test_the_end_of_the_pod_arrives_after_its_last_bytes(forward: PortForward, problems: list[str]) -> None:
    """The connection is closed, not aborted."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    writer.write(b"the last words, then quit")
    async with asyncio.timeout(60):
        assert await reader.read() == b"the last words, then quit"
    writer.close()
    assert problems == []


async def test_a_half_close_ends_the_connection(kubelet: Kubelet, forward: PortForward) -> None:
    """The protocol cannot end one direction only; nothing stays open."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    writer.write(b"x")
    async with asyncio.timeout(60):
        assert await reader.readexactly(1) == b"x"
        writer.write_eof()
        assert await reader.read() == b""
    await eventually(lambda: kubelet.open == 0)
    writer.close()


async def test_an_error_of_the_kubelet_is_the_problem(
    kubelet: Kubelet, forward: PortForward, problems: list[str]
) -> None:
    """It comes on a channel of its own. Later connections work if the port does."""
    target, kubelet.targets[POD_PORT] = kubelet.targets[POD_PORT], free_port()
    assert await exchanged(forward.port, b"made before the port was closed") != b""
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    async with asyncio.timeout(60):
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b"reset"
    writer.close()
    assert "error forwarding port 4222 to pod: Connect" in problems[0]
    kubelet.targets[POD_PORT] = target
    assert await exchanged(forward.port, b"again") == b"again"


async def test_a_lost_connection_to_the_api_server_is_not_an_end(
    kubelet: Kubelet, forward: PortForward, problems: list[str]
) -> None:
    """The client sees a reset: data may be missing. A new connection works."""
    reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
    writer.write(b"x")
    async with asyncio.timeout(60):
        assert await reader.readexactly(1) == b"x"
        kubelet.abort()
        with pytest.raises(ConnectionResetError):
            assert await reader.read() == b"reset"
    writer.close()
    assert "the connection to the API server was lost" in problems[0]
    assert await exchanged(forward.port, b"again") == b"again"


async def test_nothing_stays_open_at_the_end(
    kubelet: Kubelet, settings: Kubernetes, caplog: pytest.LogCaptureFixture
) -> None:
    """Neither the connection that was never used, nor those in use. Nothing is logged about these."""
    async with connect_kube(settings, "test", SystemClock()) as api:
        async with port_forward(api, "shop", "web-0", POD_PORT, print) as forward:
            reader, writer = await asyncio.open_connection("127.0.0.1", forward.port)
            writer.write(b"x")
            assert await reader.readexactly(1) == b"x"
        async with port_forward(api, "shop", "web-0", POD_PORT, print):
            pass
        await eventually(lambda: kubelet.open == 0)
    writer.close()
    assert caplog.records == []


@pytest.mark.parametrize(
    ("status", "text", "kind"),
    [(403, "User me cannot get pods/portforward", Forbidden), (502, "error dialing backend", KubeError)],
)
async def test_a_refusal_has_the_reason_of_the_api_server(
    kubelet: Kubelet, settings: Kubernetes, status: int, text: str, kind: type[KubeError]
) -> None:
    """Although the response to an upgrade is lost."""
    body = {"kind": "Status", "code": status, "reason": "Refused", "message": text}
    kubelet.refusal = web.json_response(body, status=status)
    async with connect_kube(settings, "test", SystemClock()) as api:
        with pytest.raises(kind, match=text):
            async with port_forward(api, "shop", "web-0", POD_PORT, print):
                pass


def replace_token(file: Path, kubelet: Kubelet) -> None:
    file.write_text(file.read_text().replace('"token": "t"', '"token": "new"'))
    kubelet.token = "new"


async def test_a_token_that_has_been_replaced_is_read_again(
    kubelet: Kubelet, settings: Kubernetes, tmp_path: Path
) -> None:
    """As for every other request."""
    file = Path(settings.kubeconfig)
    async with connect_kube(settings, "test", SystemClock()) as api:
        replace_token(file, kubelet)
        async with port_forward(api, "shop", "web-0", POD_PORT, print) as forward:
            assert await exchanged(forward.port, b"x") == b"x"


async def test_a_kubelet_that_does_not_open_the_port_is_an_error(kubelet: Kubelet, settings: Kubernetes) -> None:
    """It closes the WebSocket instead of announcing the port."""
    kubelet.announces = False
    async with connect_kube(settings, "test", SystemClock()) as api:
        with pytest.raises(KubeError, match="closed before the port was open"):
            async with port_forward(api, "shop", "web-0", POD_PORT, print):
                pass
