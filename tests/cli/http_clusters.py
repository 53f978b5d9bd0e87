"""An API server of a few objects over HTTP, and commands that are run with its kubeconfig."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from aiohttp.test_utils import TestServer
from cli.programs import PROGRAM, run
from kubelets import Kubelet

from equipoise.binder.shell.ledger_store import KEY, NAME
from equipoise.binder.state.ledger import Ledger
from equipoise.binder.state.ledger_json import decode, encode

OWN = "equipoise-system"
LEDGER_PATH = f"/api/v1/namespaces/{OWN}/configmaps/{NAME}"


def a_kubeconfig(file: Path, server: str) -> Path:
    context = {"name": "home", "context": {"cluster": "castle", "user": "me"}}
    clusters = [{"name": "castle", "cluster": {"server": server}}]
    users = [{"name": "me", "user": {"token": "t"}}]
    file.write_text(
        json.dumps({"current-context": "home", "contexts": [context], "clusters": clusters, "users": users})
    )
    return file


class HttpCluster:
    """Objects by path; a PUT replaces one, a POST of a ConfigMap needs its namespace."""

    def __init__(self, file: Path, url: str) -> None:
        self.file = file
        self.url = url
        self.objects: dict[str, Any] = {}
        self.leases: list[Any] = []
        self.refused: set[str] = set()
        """Paths that are answered with 403."""

        self.agents: set[str] = set()
        """Of all requests."""

        self.kubelet: Kubelet | None = None
        self.broken: set[tuple[str, str]] = set()
        """Method and path that are answered with 500."""

    def put_namespace(self) -> None:
        self.objects[f"/api/v1/namespaces/{OWN}"] = {"metadata": {"name": OWN}}

    def put_ledger(self, ledger: Ledger) -> None:
        self.put_namespace()
        metadata = {"name": NAME, "namespace": OWN, "resourceVersion": "1"}
        self.objects[LEDGER_PATH] = {"metadata": metadata, "data": {KEY: encode(ledger)}}

    @property
    def ledger(self) -> Ledger:
        return decode(self.objects[LEDGER_PATH]["data"][KEY])

    async def respond(self, request: web.Request) -> web.StreamResponse:
        path = request.path
        self.agents.add(request.headers["User-Agent"])
        if path in self.refused:
            return _status(403, "Forbidden")
        if path.endswith("/portforward") and self.kubelet is not None:
            return await self.kubelet.portforward(request)
        body = await request.read()
        if (request.method, path) in self.broken:
            return _status(500, "InternalError")
        if request.method == "POST":
            made = json.loads(body)
            if path.removesuffix("/configmaps") not in self.objects:
                return _status(404, "NotFound")
            self.objects[f"{path}/{made['metadata']['name']}"] = made
            return web.json_response(made, status=201)
        if path.endswith("/leases"):
            return web.json_response({"kind": "LeaseList", "metadata": {}, "items": self.leases})
        if path not in self.objects:
            return _status(404, "NotFound")
        if request.method == "PUT":
            self.objects[path] = json.loads(body)
        return web.json_response(self.objects[path])

    async def run(self, *arguments: str, **variables: str) -> tuple[int, str]:
        """Exit code and output of a command. There is no NATS server."""
        return await run(
            *arguments, KUBECONFIG=str(self.file), **{"EQUIPOISE_NATS__URL": "nats://127.0.0.1:1"} | variables
        )

    async def run_split(self, *arguments: str) -> tuple[int, str, str]:
        """Exit code, stdout and stderr."""
        process = await asyncio.create_subprocess_exec(
            *PROGRAM,
            *arguments,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "KUBECONFIG": str(self.file), "EQUIPOISE_NATS__URL": "nats://127.0.0.1:1"},
        )
        async with asyncio.timeout(60):
            output, errors = await process.communicate()
        assert process.returncode is not None
        return process.returncode, output.decode(), errors.decode()


def _status(code: int, reason: str) -> web.Response:
    return web.json_response({"kind": "Status", "code": code, "reason": reason, "message": reason}, status=code)


@asynccontextmanager
async def http_cluster(directory: Path) -> AsyncIterator[HttpCluster]:
    cluster = HttpCluster(directory / "kubeconfig", "")
    app = web.Application()
    app.router.add_route("*", "/{path:.*}", cluster.respond)
    async with TestServer(app) as server:
        cluster.url = str(server.make_url("")).rstrip("/")
        a_kubeconfig(cluster.file, cluster.url)
        yield cluster
