"""Commands reach NATS in the cluster with nothing but the kubeconfig, and name what is missing if they cannot."""

import asyncio
import base64
import signal
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from binder.ledgers import a_ledger
from bus_worlds import eventually, free_port
from cli.beating import a_heartbeat, beating, every_service
from cli.http_clusters import OWN, HttpCluster
from cli.programs import run, started
from kubelets import Kubelet
from tls_worlds import NOW, TlsWorld

from equipoise.cli.bus.access import forwarded, in_cluster_address, with_other_connection
from equipoise.cli.certificates.issue import CertificatePair, server_pair
from equipoise.cli.exit_codes import TERMINATED
from equipoise.cli.options import BusOptions
from equipoise.contracts.messages.health import REAL
from equipoise.runtime.bus.nats.connection import ForwardedNats
from equipoise.runtime.bus.nats.refusals import CLIENT_PORT
from equipoise.runtime.bus.permissions import USERS, User, permission_file
from equipoise.runtime.bus.setup import setup_streams
from equipoise.runtime.configuration import Kubernetes, Nats, Tls
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.testbed.processes.loopback import get_json

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

FORWARDED = f"pod {OWN}/nats-0:{CLIENT_PORT} through the API server"
SERVICE = f"nats.{OWN}.svc"
PODS = f"/api/v1/namespaces/{OWN}/pods"
SECRETS = f"/api/v1/namespaces/{OWN}/secrets"
PASSWORDS, CERTIFICATES = f"{SECRETS}/bus-passwords", f"{SECRETS}/bus-tls"


class ClusterNats(TlsWorld):
    """As in k8s/base: with users, and a certificate for the Service only."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        super().__init__(directory)
        users: dict[User, str] = {user: f"secret of {user}" for user in USERS}
        self.monitoring = f"127.0.0.1:{free_port()}"
        self.configuration += f"\n{permission_file(users)}\nhttp: {self.monitoring}\n"

    def serve(self, *, now: float, ca: CertificatePair | None = None, names: Sequence[str] = (SERVICE,)) -> None:
        pair = server_pair(ca or self.ca, list(names), [], 1, now)
        self._certificate.write_bytes(pair.certificate_text)
        self._key.write_bytes(pair.key_text)

    def of(self, user: User) -> Nats:
        """Without a port-forward."""
        file = self._directory / user
        file.write_text(f"secret of {user}")
        tls = Tls(ca_file=str(self.ca_file))
        url = f"tls://127.0.0.1:{self.port}"
        return ForwardedNats(
            url=url, user=user, password_file=str(file), tls=tls, client=user, pod="nats-0", server_name=SERVICE
        )


@pytest.fixture(scope="module")
async def server(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[ClusterNats]:
    world = ClusterNats(tmp_path_factory.mktemp("cluster-nats"))
    await world.start()
    await setup_streams(world.of("setup"), intent_max_age=60)
    yield world
    await world.stop()


def nats_pod(*conditions: dict[str, str], tls: bool = True) -> dict[str, Any]:
    """With Secrets of other names than those of k8s/base."""
    password = {"name": "TAP_PASSWORD", "valueFrom": {"secretKeyRef": {"name": "bus-passwords", "key": "tap"}}}
    certificates = [{"name": "tls", "secret": {"secretName": "bus-tls"}}] if tls else []
    return {
        "metadata": {"name": "nats-0", "namespace": OWN},
        "spec": {"subdomain": "nats", "containers": [{"name": "nats", "env": [password]}], "volumes": certificates},
        "status": {"phase": "Running", "conditions": list(conditions)},
    }


def a_secret(**values: bytes) -> dict[str, Any]:
    return {"metadata": {}, "data": {key: base64.b64encode(value).decode() for key, value in values.items()}}


READY = {"type": "Ready", "status": "True"}


@dataclass
class Installation:
    """The API server's side of an installation."""

    cluster: HttpCluster
    kubelet: Kubelet
    nats: ClusterNats

    def put_pods(self, *pods: dict[str, Any]) -> None:
        self.cluster.objects[PODS] = {"kind": "PodList", "metadata": {}, "items": list(pods) or None}

    async def run(self, *arguments: str) -> tuple[int, str]:
        """With the kubeconfig alone."""
        return await run(*arguments, KUBECONFIG=str(self.cluster.file))

    def evicting(self) -> AbstractAsyncContextManager[None]:
        """A binder that evicts publishes heartbeats."""
        return beating(self.nats.of, ("binder", a_heartbeat("binder", "b", evictions=REAL)))


@pytest.fixture
async def installed(cluster: HttpCluster, server: ClusterNats) -> Installation:
    cluster.kubelet = Kubelet({CLIENT_PORT: server.port})
    installation = Installation(cluster, cluster.kubelet, server)
    installation.put_pods(nats_pod(READY))
    cluster.objects[PASSWORDS] = a_secret(tap=b"secret of tap")
    cluster.objects[CERTIFICATES] = a_secret(**{"ca.crt": server.ca_file.read_bytes()})
    return installation


@pytest.mark.parametrize(
    ("arguments", "response"),
    [
        (("plan",), f"no descheduler leads at {FORWARDED}, "),
        (
            ("explain", "pod", "shop/web-1"),
            f"no scorer responds at {FORWARDED}: ",
        ),
        (("explain", "eviction", "shop/web-1"), "no eviction of shop/web-1 found"),
        (("report", "--since", "7d"), "no advice within the last 7d"),
    ],
)
async def test_a_command_needs_no_address_and_no_password(
    installed: Installation, arguments: tuple[str, ...], response: str
) -> None:
    """NATS responds, with TLS and as the user tap; no service runs here."""
    code, output = await installed.run(*arguments)
    assert code == 1
    assert response in output, output


async def test_doctor_needs_no_address_and_no_password(installed: Installation) -> None:
    async with beating(installed.nats.of, *every_service()):
        code, output = await installed.run("doctor")
    assert code == 1
    assert "tap has exactly the permissions it needs" in output, output


async def test_tap_and_status_see_what_services_publish(installed: Installation, tmp_path: Path) -> None:
    """A bus that is reached through the API server is that of the cluster, without a Lease. No password remains."""
    installed.cluster.put_ledger(a_ledger(created_at=NOW - 9_000, started_at=NOW - 9_000))
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    async with installed.evicting():
        tapping = await started("tap", "health", KUBECONFIG=str(installed.cluster.file), TMPDIR=str(temporary))
        await tapping.prints(r"health\.binder\.b +ready")
        tapping.process.terminate()
        assert await tapping.ends() == TERMINATED, tapping.output
        assert "waiting for" not in tapping.output  # that is for a terminal
        assert list(temporary.iterdir()) == []
        before = len(installed.kubelet.sockets)
        code, output = await installed.run("status")
    assert code == 0, output
    # The first connection of the port-forward shows that NATS can be reached; all messages come through the second.
    assert len(installed.kubelet.sockets) == before + 2
    assert "evictions: allowed" in output
    assert f"1 binder at {FORWARDED}: real" in output


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
async def test_no_password_remains_when_a_command_is_ended(
    installed: Installation, tmp_path: Path, number: signal.Signals
) -> None:
    """Also when its terminal is closed."""
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    tapping = await started("tap", "health", KUBECONFIG=str(installed.cluster.file), TMPDIR=str(temporary))
    await eventually(lambda: any(temporary.glob("*/tap")))
    tapping.process.send_signal(number)
    assert await tapping.ends() == TERMINATED, tapping.output
    assert list(temporary.iterdir()) == []


async def test_an_error_of_a_command_is_not_one_of_its_connection(installed: Installation) -> None:
    """A command that has reached NATS may read the API server too."""
    options = BusOptions(command="test", url=None, user=None, password_file=None, ca_file=None)
    with pytest.raises(KubeError, match="get nodes: no response in time"):
        async with forwarded(options, Kubernetes(kubeconfig=str(installed.cluster.file))):
            raise KubeError(0, "Timeout", "get nodes: no response in time")


@pytest.mark.parametrize(("arguments", "name"), [(("plan",), "plan"), (("explain", "pod", "a/b"), "explain-pod")])
async def test_servers_see_which_command_is_connected(
    installed: Installation, arguments: tuple[str, ...], name: str
) -> None:
    """NATS and the API server, though all commands are the user tap."""
    await installed.run(*arguments)
    assert {agent.partition("/")[0] for agent in installed.cluster.agents} == {f"equipoise-{name}"}
    closed = await asyncio.to_thread(get_json, f"http://{installed.nats.monitoring}/connz?state=closed")
    assert f"equipoise-{name}" in {each.get("name") for each in closed["connections"]}


async def test_what_ends_a_connection_is_printed(installed: Installation) -> None:
    """Once, though the command connects again and again; it goes on when the port is there again.

    Takes seconds: the client waits between its attempts to connect.
    """
    target = installed.kubelet.targets[CLIENT_PORT]
    tapping = await started("tap", "health", KUBECONFIG=str(installed.cluster.file))
    try:
        async with installed.evicting():
            await tapping.prints("health.binder.b +ready")
            installed.kubelet.targets[CLIENT_PORT] = free_port()
            installed.kubelet.abort()
            await tapping.prints("the connection through the API server has ended: .* was lost")
            await tapping.prints(
                "the connection through the API server has ended: .* error forwarding port 4222 to pod"
            )
            installed.kubelet.targets[CLIENT_PORT] = target
            await tapping.prints(r"(?s)error forwarding port.*health\.binder\.b +ready")
    finally:
        tapping.process.terminate()
    await tapping.ends()
    assert tapping.output.count("error forwarding port 4222 to pod") == 1, tapping.output


FORBIDDEN_PORTS = f"{PODS}/nats-0/portforward"


@pytest.mark.parametrize(
    ("refused", "expected"),
    [
        (PODS, "the right to list pods in namespace equipoise-system, or give"),
        (
            PASSWORDS,
            "may not read the Secret equipoise-system/bus-passwords, which has the password of the user tap",
        ),
        (CERTIFICATES, "the right to get it, or --nats-ca FILE"),
        (FORBIDDEN_PORTS, "the rights to get and create pods/portforward, or give another connection with --nats"),
    ],
)
async def test_a_missing_right_is_named(installed: Installation, refused: str, expected: str) -> None:
    """With what to do instead."""
    installed.cluster.refused.add(refused)
    code, output = await installed.run("plan")
    assert code == 1
    assert expected in output, output


async def test_options_replace_secrets_that_may_not_be_read(installed: Installation, tmp_path: Path) -> None:
    """Each on its own."""
    installed.cluster.refused |= {PASSWORDS, CERTIFICATES}
    password = tmp_path / "tap"
    password.write_text("secret of tap")
    access = ("--user", "tap", "--password-file", str(password), "--nats-ca", str(installed.nats.ca_file))
    _, output = await installed.run("plan", *access)
    assert "no descheduler leads" in output, output


async def test_what_is_wrong_in_the_cluster_is_named(installed: Installation) -> None:
    """A pod that is not Ready, a missing Secret or key, no pod, and a port that cannot be opened."""
    unready = {"type": "Ready", "status": "False", "message": "containers with unready status: [nats]"}
    for pods, secret, expected in (
        ((nats_pod(unready),), b"x", "pod nats-0 of NATS is not Ready: containers with unready status: [nats]"),
        ((nats_pod(READY),), None, "has no key tap with the password of the user tap"),
        ((), b"x", "there is no pod of NATS in namespace equipoise-system"),
    ):
        installed.put_pods(*pods)
        installed.cluster.objects[PASSWORDS] = a_secret(tap=secret) if secret is not None else a_secret()
        code, output = await installed.run("plan")
        assert code == 1
        assert expected in output, output
    installed.put_pods(nats_pod(READY))
    installed.cluster.objects[PASSWORDS] = a_secret(tap=b"secret of tap")
    installed.kubelet.announces = False
    _, output = await installed.run("doctor")
    assert "the port of NATS cannot be forwarded" in output, output
    assert "kubectl -n equipoise-system port-forward pod/nats-0 4222` works" in output
    assert "not checked: NATS cannot be reached, see the check bus" in output  # nor at another address


async def test_a_certificate_of_another_ca_is_refused(installed: Installation, tmp_path: Path) -> None:
    """The CA of the Secret is what is trusted, not whatever is behind the port."""
    other = ClusterNats(tmp_path)
    installed.cluster.objects[CERTIFICATES] = a_secret(**{"ca.crt": other.ca_file.read_bytes()})
    code, output = await installed.run("report", "--since", "7d")
    assert code == 1
    assert "the certificate of the server is rejected" in output, output


async def test_without_nats_a_refused_connection_is_named_at_once(cluster: HttpCluster) -> None:
    """Not after 20 s, and with another way."""
    code, output = await cluster.run("plan")
    assert code == 1
    assert output == (
        "Error: cannot connect to NATS at nats://127.0.0.1:1: connection refused; without --nats, the command uses the "
        "cluster of the kubeconfig\n"
    )


def test_without_nats_and_kubeconfig_both_options_are_named() -> None:
    options = BusOptions(command="plan", url=None, user=None, password_file=None, ca_file=None)
    assert with_other_connection("connection refused", options) == (
        "there is no kubeconfig, and connection refused: use --kubeconfig or --nats"
    )


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("nats://127.0.0.1:4222", True),
        ("tls://nats:4222", True),
        ("tls://nats-0.nats.equipoise-system.svc:4222,tls://nats-1.nats.equipoise-system.svc:4222", True),
        ("nats://127.0.0.1:4333", False),
        ("nats://localhost:4333", False),
        ("tls://nats.example.com:4222", False),
    ],
)
def test_doctor_forwards_to_addresses_of_the_cluster_only(url: str, expected: bool) -> None:
    """Another address of the configuration is used as it is."""
    assert in_cluster_address(Nats(url=url), Kubernetes(kubeconfig="/a")) is expected
    assert not in_cluster_address(Nats(url=url), Kubernetes())
