"""A port-forward through a real API server, to the streaming server of the kubelet that kwok contains."""

import asyncio
import random
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml
from bus_worlds import free_port
from cluster_fixtures import StartCluster
from kubelets import kubelet_arguments, serve_kubelet

from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.client import Forbidden, KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.port_forward import port_forward
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed import objects
from equipoise.testbed.cluster import Cluster

pytestmark = pytest.mark.weekly

POD_PORT = 4222
POD = "/api/v1/namespaces/default/pods/nats-0"


def a_kubeconfig_of(cluster: Cluster, token: str) -> Path:
    document = yaml.safe_load(Path(cluster.kubeconfig).read_text())
    document["users"][0]["user"] = {"token": token}
    other = cluster.directory / "nobody.kubeconfig"
    other.write_text(yaml.safe_dump(document))
    return other


@dataclass
class World:
    cluster: Cluster
    target: int
    """The port of this machine that the port of the pod is."""

    @property
    def settings(self) -> Kubernetes:
        return Kubernetes(kubeconfig=str(self.cluster.kubeconfig))


@pytest.fixture(scope="module")
async def world(start_cluster: StartCluster, tmp_path_factory: pytest.TempPathFactory) -> World:
    target = free_port()
    arguments = kubelet_arguments(tmp_path_factory.mktemp("kubelet"), {POD_PORT: target})
    cluster = start_cluster(arguments=arguments)
    await cluster.add_nodes([objects.node("node-a")])
    await serve_kubelet(cluster, "node-a")
    containers = [{"name": "nats", "image": "nats", "ports": [{"containerPort": POD_PORT}]}]
    pod = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": "nats-0", "namespace": "default"},
        "spec": {"containers": containers},
    }
    await cluster.apply([pod])
    await cluster.wait(POD, lambda pod: pod["status"].get("phase") == "Running")
    return World(cluster, target)


async def test_bytes_pass_through_the_api_server(world: World) -> None:
    """In both directions, on several connections at once."""

    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
        writer.close()

    async def exchanged(port: int, payload: bytes) -> bytes:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(payload)
        received = await reader.readexactly(len(payload))
        writer.close()
        return received

    payloads = [random.Random(seed).randbytes(300_000) for seed in range(3)]
    problems: list[str] = []
    server = await asyncio.start_server(echo, "127.0.0.1", world.target)
    async with (
        server,
        connect_kube(world.settings, "test", SystemClock()) as api,
        port_forward(api, "default", "nats-0", POD_PORT, problems.append) as forward,
        asyncio.timeout(60),
    ):
        received = await asyncio.gather(*(exchanged(forward.port, payload) for payload in payloads))
        assert [received[n] == payloads[n] for n in range(3)] == [True] * 3
        assert problems == []


async def test_refusals_of_the_api_server_are_named(world: World) -> None:
    """An unknown pod, and a user without rights."""
    async with connect_kube(world.settings, "test", SystemClock()) as api:
        with pytest.raises(KubeError, match='pods "nats-7" not found'):
            async with port_forward(api, "default", "nats-7", POD_PORT, print):
                pass
    token = await world.cluster.service_account_token("default", "default")
    other = a_kubeconfig_of(world.cluster, token.read_text())
    async with connect_kube(Kubernetes(kubeconfig=str(other)), "test", SystemClock()) as api:
        with pytest.raises(Forbidden, match="pods/portforward"):
            async with port_forward(api, "default", "nats-0", POD_PORT, print):
                pass
