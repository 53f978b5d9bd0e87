"""The client of the API server while certificates are replaced, on real TLS connections."""

import asyncio
import base64
import json
import socket
import ssl
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager, suppress
from ipaddress import ip_address
from pathlib import Path

import pytest
import yaml
from aiohttp import web

from equipoise.cli.certificates.issue import CertificatePair, client_pair, new_ca, server_pair
from equipoise.runtime.configuration.sections import Kubernetes
from equipoise.runtime.kubernetes.client import PODS, Kube, KubeError
from equipoise.runtime.kubernetes.connection import TLS_RELOAD_PERIOD, connect_kube
from equipoise.runtime.kubernetes.http.availability import FAILURE_SECONDS
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.memory.clock import ManualClock

TODAY = SystemClock().now()
"""OpenSSL reads the machine's own time: certificates must be valid today."""

CERTIFICATE_FAILED = "the certificate of the server is rejected"


class TlsServer:
    """An API server whose certificate can be replaced; open connections remain."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = new_ca(TODAY)
        self.clients = new_ca(TODAY)
        """The CA of the clients."""

        self.refuses: bytes | None = None
        """The certificate (DER) of a client whose requests get a 401."""

        self.token = ""
        """The only token that gets no 401; empty: none is required."""

        self.unauthorized = 0
        """The number of responses with 401."""

        self.go = asyncio.Event()
        """Ends the requests for pods named slow, and lets watches continue."""

        self.arrived = asyncio.Event()
        self.port = 0
        self._context = self._new_context()

    def replace_ca(self) -> None:
        """With its certificate."""
        self.ca = new_ca(TODAY)
        self.renew()

    def renew(self) -> None:
        self._context = self._new_context()

    def _new_context(self) -> ssl.SSLContext:
        pair = server_pair(self.ca, [], [ip_address("127.0.0.1")], 1, TODAY)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*write_pair(self.folder, "server", pair))
        context.load_verify_locations(cadata=self.clients.certificate_text.decode())
        context.verify_mode = ssl.CERT_OPTIONAL
        return context

    @asynccontextmanager
    async def running(self) -> AsyncIterator["TlsServer"]:
        def use_current(connection: ssl.SSLObject | ssl.SSLSocket, name: str | None, first: ssl.SSLContext) -> None:
            connection.context = self._context

        listening = self._new_context()
        listening.num_tickets = 0
        listening.sni_callback = use_current
        app = web.Application()
        app.router.add_get("/api/v1/namespaces/shop/pods/{name}", self._on_get)
        app.router.add_get("/api/v1/pods", self._on_watch)
        runner = web.AppRunner(app, access_log=None, shutdown_timeout=0.1)
        await runner.setup()
        await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=listening).start()
        self.port = runner.addresses[0][1]
        try:
            yield self
        finally:
            self.go.set()
            await runner.cleanup()

    async def _on_get(self, request: web.Request) -> web.Response:
        assert request.transport is not None
        presented = request.transport.get_extra_info("ssl_object").getpeercert(binary_form=True)
        if self._refuses_token(request) or (self.refuses is not None and presented == self.refuses):
            response = self._unauthorized()
        else:
            name = request.match_info["name"]
            if name == "slow":
                self.arrived.set()
                await self.go.wait()
            response = web.json_response(pod(name))
        response.force_close()  # the next request needs a new connection
        return response

    async def _on_watch(self, request: web.Request) -> web.StreamResponse:
        if self._refuses_token(request):
            return self._unauthorized()
        response = web.StreamResponse()
        await response.prepare(request)
        await response.write(event("a"))
        await self.go.wait()
        await response.write(event("b"))
        return response

    def _refuses_token(self, request: web.Request) -> bool:
        return self.token != "" and request.headers.get("Authorization") != f"Bearer {self.token}"

    def _unauthorized(self) -> web.Response:
        self.unauthorized += 1
        return web.json_response({"kind": "Status", "code": 401, "reason": "Unauthorized"}, status=401)


def pod(name: str) -> dict[str, object]:
    return {"metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "resourceVersion": "2"}}


def event(name: str) -> bytes:
    return json.dumps({"type": "ADDED", "object": pod(name)}).encode() + b"\n"


def write_pair(folder: Path, name: str, pair: CertificatePair) -> tuple[Path, Path]:
    certificate, key = folder / f"{name}.crt", folder / f"{name}.key"
    certificate.write_bytes(pair.certificate_text)
    key.write_bytes(pair.key_text)
    return certificate, key


def write_kubeconfig(server: TlsServer, client: CertificatePair | None = None) -> Path:
    """With the current certificates of the server inside, as kubeadm writes it."""

    def encoded(content: bytes) -> str:
        return base64.b64encode(content).decode()

    user = {"token": "t"}
    if client is not None:
        user = {
            "client-certificate-data": encoded(client.certificate_text),
            "client-key-data": encoded(client.key_text),
        }
    cluster = {
        "server": f"https://127.0.0.1:{server.port}",
        "certificate-authority-data": encoded(server.ca.certificate_text),
    }
    path = server.folder / "kubeconfig"
    path.write_text(
        yaml.safe_dump(
            {
                "current-context": "here",
                "clusters": [{"name": "here", "cluster": cluster}],
                "users": [{"name": "me", "user": user}],
                "contexts": [{"name": "here", "context": {"cluster": "here", "user": "me"}}],
            }
        )
    )
    return path


class InCluster:
    """A pod of a cluster with this API server: its files, and a client that reads them."""

    def __init__(self, server: TlsServer) -> None:
        self.server = server
        self.clock = ManualClock()
        self.account = server.folder / "account"
        self.account.mkdir()
        (self.account / "token").write_text("t")
        self.distribute()

    def distribute(self) -> None:
        """Write the CA of the server into the pod, as kubelet does."""
        (self.account / "ca.crt").write_bytes(self.server.ca.certificate_text)

    @asynccontextmanager
    async def connected(self) -> AsyncIterator[Kube]:
        environment = {"KUBERNETES_SERVICE_HOST": "127.0.0.1", "KUBERNETES_SERVICE_PORT": str(self.server.port)}
        settings = Kubernetes(service_account=str(self.account))
        async with asyncio.timeout(60), connect_kube(settings, "binder", self.clock, environment=environment) as kube:
            yield kube


@pytest.fixture
async def server(tmp_path: Path) -> AsyncIterator[TlsServer]:
    async with TlsServer(tmp_path).running() as running:
        yield running


@pytest.fixture
def inside(server: TlsServer) -> InCluster:
    return InCluster(server)


async def fails(kube: Kube, why: str) -> None:
    with pytest.raises(KubeError) as error:
        await kube.get(PODS, "web", "shop")
    assert why in f"{error.value.reason} {error.value}"


async def test_a_replaced_ca_is_used_without_a_restart(server: TlsServer, inside: InCluster) -> None:
    """Requests and watches succeed after ca.crt has changed; those in flight before are not interrupted."""
    async with inside.connected() as kube, aclosing(kube.watch(PODS, since="1")) as changes:
        assert (await anext(changes)).object is not None
        slow = asyncio.create_task(kube.get(PODS, "slow", "shop"))
        await server.arrived.wait()

        server.replace_ca()
        inside.distribute()

        names = await asyncio.gather(*(kube.get(PODS, f"web-{index}", "shop") for index in range(10)))
        assert [f"web-{index}" for index in range(10)] == [each.metadata.name for each in names]
        async with aclosing(kube.watch(PODS, since="1")) as others:
            assert (await anext(others)).object is not None
        server.go.set()
        assert (await slow).metadata.name == "slow"
        last = await anext(changes)
        assert last.object is not None
        assert last.object.metadata.name == "b"


async def test_a_ca_that_arrives_late_is_used_within_seconds(server: TlsServer, inside: InCluster) -> None:
    """The files are not read for every failed request, but again after a few seconds."""
    async with inside.connected() as kube:
        server.replace_ca()
        await fails(kube, CERTIFICATE_FAILED)
        inside.distribute()
        await fails(kube, CERTIFICATE_FAILED)
        await inside.clock.advance(TLS_RELOAD_PERIOD)
        await kube.get(PODS, "web", "shop")


async def test_a_removed_ca_is_no_longer_trusted(server: TlsServer, inside: InCluster) -> None:
    """Once the new one was read."""
    old = server.ca
    async with inside.connected() as kube:
        server.replace_ca()
        inside.distribute()
        await kube.get(PODS, "web", "shop")
        server.ca = old
        server.renew()
        await fails(kube, CERTIFICATE_FAILED)


async def test_a_file_that_is_being_written_ends_nothing(server: TlsServer, inside: InCluster) -> None:
    """The error names it; the next attempt reads it again."""
    async with inside.connected() as kube:
        server.replace_ca()
        (inside.account / "ca.crt").write_text("half")
        await fails(kube, "NoCredentials")
        inside.distribute()
        await inside.clock.advance(TLS_RELOAD_PERIOD)
        await kube.get(PODS, "web", "shop")


async def test_a_wrong_ca_is_reported_until_a_request_succeeds(server: TlsServer, inside: InCluster) -> None:
    """Not for a single failure: after a minute without a success, with the reason."""
    async with inside.connected() as kube:
        await kube.get(PODS, "web", "shop")
        server.replace_ca()
        await fails(kube, CERTIFICATE_FAILED)
        await inside.clock.advance(FAILURE_SECONDS - 1)
        await fails(kube, CERTIFICATE_FAILED)
        assert kube.problem == ""
        await inside.clock.advance(1)
        await fails(kube, CERTIFICATE_FAILED)
        assert "for 60 s" in kube.problem
        assert CERTIFICATE_FAILED in kube.problem
        inside.distribute()
        await inside.clock.advance(TLS_RELOAD_PERIOD)
        await kube.get(PODS, "web", "shop")
        assert kube.problem == ""


async def test_the_ca_of_a_kubeconfig_is_read_again(server: TlsServer) -> None:
    settings = Kubernetes(kubeconfig=str(write_kubeconfig(server)))
    async with asyncio.timeout(60), connect_kube(settings, "binder", SystemClock(), environment={}) as kube:
        await kube.get(PODS, "web", "shop")
        server.replace_ca()
        write_kubeconfig(server)
        await kube.get(PODS, "web", "shop")


async def test_a_client_certificate_that_gets_401_is_read_again(server: TlsServer) -> None:
    """As kube-apiserver responds to one that has expired."""
    old, new = client_pair(server.clients, 1, TODAY), client_pair(server.clients, 1, TODAY)
    settings = Kubernetes(kubeconfig=str(write_kubeconfig(server, old)))
    async with asyncio.timeout(60), connect_kube(settings, "binder", SystemClock(), environment={}) as kube:
        await kube.get(PODS, "web", "shop")
        server.refuses = ssl.PEM_cert_to_DER_cert(old.certificate_text.decode())
        await fails(kube, "401")
        write_kubeconfig(server, new)
        await kube.get(PODS, "web", "shop")


class ClientCheckingServer:
    """Responds only to clients with a certificate of `clients`; in a thread, as asyncio does not send the TLS alert."""

    def __init__(self, server: TlsServer, version: ssl.TLSVersion) -> None:
        self._folder = server.folder
        self._ca = server.ca
        self._version = version
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = self._listener.getsockname()[1]
        self.context = self._new_context(server.clients)

    def accept_only(self, clients: CertificatePair) -> None:
        self.context = self._new_context(clients)

    def close(self) -> None:
        self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()

    def _new_context(self, clients: CertificatePair) -> ssl.SSLContext:
        pair = server_pair(self._ca, [], [ip_address("127.0.0.1")], 1, TODAY)
        context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
        context.load_cert_chain(*write_pair(self._folder, "proxy", pair))
        context.load_verify_locations(cadata=clients.certificate_text.decode())
        context.verify_mode = ssl.CERT_REQUIRED
        context.minimum_version = context.maximum_version = self._version
        return context

    def serve(self) -> None:
        """Until it is closed."""
        while True:
            try:
                connection, _ = self._listener.accept()
            except OSError:
                return
            connection.settimeout(60)
            self._respond(self.context.wrap_socket(connection, server_side=True, do_handshake_on_connect=False))

    def _respond(self, connection: ssl.SSLSocket) -> None:
        body = json.dumps(pod("web")).encode()
        try:
            connection.do_handshake()
            connection.recv(65_536)
            head = f"HTTP/1.1 200 OK\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n"
            connection.sendall(head.encode() + body)
        except ssl.SSLError:
            pass
        with suppress(OSError), socket.socket(fileno=connection.detach()) as raw:
            raw.shutdown(socket.SHUT_WR)
            while raw.recv(65_536):  # closing with unread data would reset the connection, and lose the alert
                pass


@pytest.mark.parametrize("version", [ssl.TLSVersion.TLSv1_2, ssl.TLSVersion.TLSv1_3], ids=lambda version: version.name)
async def test_a_client_certificate_that_is_refused_is_read_again(server: TlsServer, version: ssl.TLSVersion) -> None:
    """As by a proxy before the API server. With TLS 1.3 the request may have been sent: it is not repeated."""
    checking = ClientCheckingServer(server, version)
    server.port = checking.port
    settings = Kubernetes(kubeconfig=str(write_kubeconfig(server, client_pair(server.clients, 1, TODAY))))
    serving = asyncio.create_task(asyncio.to_thread(checking.serve))
    try:
        async with asyncio.timeout(60), connect_kube(settings, "binder", SystemClock(), environment={}) as kube:
            await kube.get(PODS, "web", "shop")
            clients = new_ca(TODAY)
            checking.accept_only(clients)
            write_kubeconfig(server, client_pair(clients, 1, TODAY))
            if version == ssl.TLSVersion.TLSv1_3:
                await fails(kube, "Unreachable")
            await kube.get(PODS, "web", "shop")
    finally:
        checking.close()
        await serving
