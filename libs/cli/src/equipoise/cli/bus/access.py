"""How a command reaches NATS: at the address of --nats, or through the API server of the cluster of the kubeconfig."""

import asyncio
import base64
import os
import tempfile
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import TypeVar
from urllib.parse import urlsplit

from equipoise.cli.cluster_access.kubeconfig import cluster_name
from equipoise.cli.cluster_access.port_forward import forwarded_port
from equipoise.cli.cluster_access.server_pods import SERVER_PODS, SecretKey, ServerPod
from equipoise.cli.exit_codes import CommandFailed, cancel_on_signals
from equipoise.cli.options import BusOptions, ClusterOptions
from equipoise.cli.up.running_up import RunningUp, note_use, running_up
from equipoise.contracts.kubernetes.objects.metadata import Object
from equipoise.runtime.bus import BusUnavailable
from equipoise.runtime.bus.nats.connection import ClusterNats, ForwardedNats
from equipoise.runtime.bus.nats.refusals import CLIENT_PORT
from equipoise.runtime.configuration import Kubernetes, Nats, Tls
from equipoise.runtime.kubernetes.client import Forbidden, KubeError, NotFound, Resource
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.kubernetes.http.api_server import ApiServer
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.failure_reason import failure_reason

R = TypeVar("R")

SELECTOR = "app.kubernetes.io/name=nats,app.kubernetes.io/part-of=equipoise"
TAP_PASSWORD = "TAP_PASSWORD"  # noqa: S105  the name of the variable in the pod
TLS_VOLUME = "tls"
CA = "ca.crt"

CONNECT_SECONDS = 2.0
OTHER_CONNECTION = "or give another connection with --nats, --user, --password-file and --nats-ca"


class SecretObject(Object, frozen=True, kw_only=True):
    data: dict[str, str] | None = None


SECRETS: Resource[SecretObject] = Resource(group="", version="v1", plural="secrets", kind="Secret", model=SecretObject)


def password_of(pod: ServerPod) -> SecretKey | None:
    """The key of the password of the user tap; None if the server has no users."""
    sources = (variable.value_from for variable in pod.variables if variable.name == TAP_PASSWORD)
    return next((source.secret_key_ref for source in sources if source is not None), None)


def ca_of(pod: ServerPod) -> SecretKey | None:
    """The key of the CA; None if the server has no TLS."""
    secrets = (volume.secret for volume in pod.spec.volumes if volume.name == TLS_VOLUME)
    return next((SecretKey(name=secret.secret_name, key=CA) for secret in secrets if secret is not None), None)


async def with_bus(bus: BusOptions, cluster: ClusterOptions, run: Callable[[Nats], Awaitable[R]]) -> R:
    """Run a command with a NATS server that accepts connections. Raises BusUnavailable and CommandFailed."""
    async with reached(bus, cluster) as server:
        if problem := await connect_problem(server):
            raise BusUnavailable(with_other_connection(problem, bus))
        return await run(server)


def run_with_bus(bus: BusOptions, cluster: ClusterOptions, run: Callable[[Nats], Awaitable[R]]) -> R:
    """Run a command as `with_bus` does, in a new event loop."""
    return asyncio.run(with_bus(bus, cluster, run))


def with_other_connection(problem: str, bus: BusOptions) -> str:
    """The problem, and other ways to reach NATS."""
    if bus.url:
        return f"{problem}; without --nats, the command uses the cluster of the kubeconfig"
    return f"there is no kubeconfig, and {problem}: use --kubeconfig or --nats"


@asynccontextmanager
async def reached(bus: BusOptions, cluster: ClusterOptions) -> AsyncIterator[Nats]:
    """The NATS server of the command, while the block runs.

    It is the server of --nats if given; else that of an `equipoise up` on this machine for the cluster of the
    kubeconfig; else the one in that cluster. Without a kubeconfig it is NATS on this machine. Raises CommandFailed if
    that is not possible, and InvalidInput for invalid options.
    """
    connection = None if bus.url else _kubeconfig(cluster)
    if connection is None:
        yield bus.settings()
        return
    if (local := nats_of_up(bus, connection)) is not None:
        yield local
        return
    async with forwarded(bus, connection) as server:
        yield server


def nats_of_up(bus: BusOptions, connection: Kubernetes) -> ClusterNats | None:
    """NATS of the `equipoise up` that runs on this machine for this cluster; None if none runs.

    Its use is noted on stderr.
    """
    running = up_of(connection)
    if running is None:
        return None
    as_tap = bus.user is None
    return ClusterNats(
        url=running.nats_url,
        user=running.user if as_tap else bus.user,
        password_file=running.password_file if as_tap else bus.password_file,
        client=bus.command,
    )


def up_of(connection: Kubernetes) -> RunningUp | None:
    """The `equipoise up` that runs on this machine for this cluster; None if none runs. Its use is noted on stderr."""
    running = running_up(cluster_name(connection, os.environ), os.environ)
    if running is not None:
        note_use(running)
    return running


@asynccontextmanager
async def forwarded(bus: BusOptions, connection: Kubernetes) -> AsyncIterator[ForwardedNats]:
    """NATS in the cluster, with the credentials of the options or else of its Secrets. Raises CommandFailed."""
    cancel_on_signals()  # so that the file with the password is deleted
    async with AsyncExitStack() as stack:
        try:
            server = await _forward(stack, bus, connection)
        except KubeError as error:
            raise CommandFailed(f"NATS cannot be reached through the API server: {error}; {OTHER_CONNECTION}") from None
        yield server


def in_cluster_address(server: Nats, connection: Kubernetes) -> bool:
    """Whether the address is the default, or has names that only pods of the cluster can resolve."""
    if not connection.kubeconfig:
        return False
    if server.url == Nats().url:
        return True
    names = {urlsplit(url).hostname or "" for url in server.urls} - {"localhost"}
    # A name without a dot is that of a Service in the same namespace; an IPv6 address has colons.
    services = [name for name in names if f".{connection.namespace}" in name or not ("." in name or ":" in name)]
    return bool(services) and len(services) == len(names)


async def connect_problem(server: Nats) -> str:
    """Why no address accepts a connection; empty if one does.

    A port-forward is not tested, because it serves only one connection, which the client needs.
    """
    if isinstance(server, ForwardedNats):
        return ""
    problems = []
    for url in server.urls:
        address = urlsplit(url)
        try:
            async with asyncio.timeout(CONNECT_SECONDS):
                _, writer = await asyncio.open_connection(address.hostname, address.port or CLIENT_PORT)
        except TimeoutError:
            problems.append(f"cannot connect to NATS at {url}: no response within {CONNECT_SECONDS:g} s")
        except OSError as error:
            problems.append(f"cannot connect to NATS at {url}: {failure_reason(error)}")
        else:
            writer.close()
            return ""
    return "; ".join(problems)


def _kubeconfig(cluster: ClusterOptions) -> Kubernetes | None:
    """The connection of the kubeconfig; None in a pod, or if there is no kubeconfig and no option names one."""
    connection = cluster.optional_connection()
    return None if isinstance(connection, str) or not connection.kubeconfig else connection


async def _forward(stack: AsyncExitStack, bus: BusOptions, connection: Kubernetes) -> ForwardedNats:
    """Forwards NATS until the stack is closed. Raises CommandFailed, and KubeError if the API server is unavailable."""
    api = await stack.enter_async_context(connect_kube(connection, bus.command, SystemClock()))
    namespace = connection.namespace
    pod = await _nats_pod(api, namespace)
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="equipoise-")))  # only this user may read it
    user, password = await _credentials(api, namespace, pod, bus, folder)
    ca = bus.ca_file or await _ca(api, namespace, pod, folder)
    port = await stack.enter_async_context(
        forwarded_port(api, namespace, pod.metadata.name, CLIENT_PORT, what="NATS", otherwise=OTHER_CONNECTION)
    )
    return ForwardedNats(
        url=f"{'nats' if ca is None else 'tls'}://127.0.0.1:{port}",
        user=user,
        password_file=password,
        tls=None if ca is None else Tls(ca_file=ca),
        client=bus.command,
        pod=f"{namespace}/{pod.metadata.name}:{CLIENT_PORT}",
        server_name=f"{pod.spec.subdomain}.{namespace}.svc" if pod.spec.subdomain else "",
    )


async def _nats_pod(api: ApiServer, namespace: str) -> ServerPod:
    """A pod of NATS that is Ready. Raises CommandFailed, and KubeError if the API server does not respond."""
    try:
        pods = await api.list(SERVER_PODS, namespace, SELECTOR)
    except Forbidden as error:
        raise CommandFailed(
            f"NATS cannot be found: {error.message}. Needed is the right to list pods in namespace {namespace}, "
            f"{OTHER_CONNECTION}"
        ) from None
    ready = next((pod for pod in pods if pod.ready), None)
    if ready is not None:
        return ready
    if not pods:
        raise CommandFailed(
            f"there is no pod of NATS in namespace {namespace} ({SELECTOR}): check --context and --namespace, "
            f"{OTHER_CONNECTION}. `equipoise up` and the demo print theirs"
        )
    pod = pods[0]
    reasons = [each.message or each.reason for each in pod.status.conditions if each.status == "False"]
    why = next((reason for reason in reasons if reason), f"phase {pod.status.phase or 'unknown'}")
    raise CommandFailed(
        f"the pod {pod.metadata.name} of NATS is not Ready: {why}. See `kubectl -n {namespace} describe pod "
        f"{pod.metadata.name}`"
    )


async def _credentials(
    api: ApiServer, namespace: str, pod: ServerPod, bus: BusOptions, folder: Path
) -> tuple[str | None, str | None]:
    """The user and password file of the options, or else the user tap with the password of the Secret."""
    if bus.user is not None:
        return bus.user, bus.password_file
    key = password_of(pod)
    if key is None:
        return None, None
    what = "the password of the user tap"
    return "tap", await _from_secret(api, namespace, key, folder, what, "--user tap --password-file FILE")


async def _ca(api: ApiServer, namespace: str, pod: ServerPod, folder: Path) -> str | None:
    key = ca_of(pod)
    if key is None:
        return None
    return await _from_secret(api, namespace, key, folder, "the CA of NATS", "--nats-ca FILE")


async def _from_secret(api: ApiServer, namespace: str, source: SecretKey, folder: Path, what: str, options: str) -> str:
    """The name of a file with the value of a key of a Secret. Raises CommandFailed."""
    name = f"{namespace}/{source.name}"
    try:
        secret = await api.get(SECRETS, source.name, namespace)
    except Forbidden:
        raise CommandFailed(
            f"you may not read the Secret {name}, which has {what}: needed is the right to get it, or {options}"
        ) from None
    except NotFound:
        raise CommandFailed(
            f"the Secret {name}, which has {what}, does not exist: create it, or use {options}"
        ) from None
    data = secret.data or {}
    if source.key not in data:
        raise CommandFailed(f"the Secret {name} has no key {source.key} with {what}: add it, or use {options}")
    file = folder / source.key
    file.write_bytes(base64.b64decode(data[source.key]))
    return str(file)
