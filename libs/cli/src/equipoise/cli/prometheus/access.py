"""How a command reaches Prometheus: at a URL, or through the API server as a Service of the kubeconfig's cluster."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from equipoise.cli.cluster_access.port_forward import forwarded_port
from equipoise.cli.cluster_access.server_pods import SERVER_PODS, ServerPod
from equipoise.cli.effective.adopted import without_private
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.prometheus.services import SERVICES, Service, ServiceAddress, cluster_address, examined_services
from equipoise.collector.settings import PrometheusSettings
from equipoise.runtime.kubernetes.client import Forbidden, Kube, NotFound
from equipoise.runtime.kubernetes.http.api_server import ApiServer

PROMETHEUS_OPTION = "--prometheus URL; a Service of the cluster is http://NAME.NAMESPACE.svc:PORT"


class ForwardedPrometheus(PrometheusSettings, frozen=True, kw_only=True):
    """A Service of the cluster, at the address of a port-forward."""

    service: str
    """Its URL in the cluster."""

    @property
    def shown_url(self) -> str:
        return self.service


class ServerPort(msgspec.Struct, frozen=True, kw_only=True):
    """A port of a pod, and the Service that sends requests to it."""

    address: ServiceAddress
    pod: str
    port: int


class PrometheusServer(msgspec.Struct, frozen=True, kw_only=True):
    """The Prometheus pods of one owner, and the Service that selects them and the fewest pods of other owners."""

    address: ServiceAddress
    port: ServerPort | None
    """None if no pod is Ready."""

    accounts: tuple[str, ...]
    """The ServiceAccounts of all pods of the Service, in its namespace. Any of the pods may get a request."""


@asynccontextmanager
async def reached_prometheus(
    settings: PrometheusSettings, api: ApiServer, *, in_pod: bool, note: Callable[[str], None]
) -> AsyncIterator[PrometheusSettings]:
    """The settings with which this process reaches Prometheus.

    A Service of the cluster is reached by a port-forward through the API server. If the URL is the default, that is the
    Service that is found, and `note` gets a line about it. Any other URL is used as it is, and so is every URL with
    `in_pod`. Raises CommandFailed, InvalidInput and KubeError.
    """
    if in_pod:
        server = None
    elif settings.url == PrometheusSettings().url:
        server = await _only_server(api)
        # Credentials are for the server that is configured, not for any Service of this name.
        settings = without_private(settings)
        note(f"Prometheus {server.address}, found in the cluster. Choose another one with --prometheus URL")
    else:
        server = await _server_at(api, settings.url)
    if server is None:
        yield settings
        return
    address = server.address
    what, otherwise = f"Prometheus {address}", f"or give another address with {PROMETHEUS_OPTION}"
    async with forwarded_port(api, address.namespace, server.pod, server.port, what=what, otherwise=otherwise) as port:
        url = f"http://127.0.0.1:{port}{address.path}"
        yield ForwardedPrometheus(**msgspec.structs.asdict(settings) | {"url": url}, service=str(address))


async def _only_server(api: ApiServer) -> ServerPort:
    """The only Prometheus server of the cluster. Raises CommandFailed, InvalidInput and KubeError."""
    try:
        servers, left_out = await prometheus_servers(api)
    except Forbidden as error:
        raise InvalidInput(f"no Prometheus can be found: {error.message}. Give it with {PROMETHEUS_OPTION}") from None
    ports = [server.port for server in servers if server.port is not None]
    names = "".join(f"\n  --prometheus {port.address}   (pod {port.pod})" for port in ports)
    if left_out:
        raise InvalidInput(
            f"{not_examined(left_out)}: give its address with {PROMETHEUS_OPTION}. Examined:{names or ' none is Ready'}"
        )
    if len(ports) == 1:
        return ports[0]
    if ports:
        raise InvalidInput(f"the cluster has {len(ports)} Prometheus servers: choose one with{names}")
    if servers:
        raise CommandFailed(
            f"no pod of Prometheus is Ready ({', '.join(str(server.address) for server in servers)}): look at them "
            f"with kubectl, or give another address with {PROMETHEUS_OPTION}"
        )
    raise InvalidInput(
        f"no Service of the cluster looks like that of a Prometheus: give its address with {PROMETHEUS_OPTION}"
    )


def not_examined(services: int) -> str:
    """The text about a cluster with more Services of Prometheus than are examined."""
    return f"{services} more Services have the name of a Prometheus, and were not examined"


async def prometheus_servers(kube: Kube) -> tuple[list[PrometheusServer], int]:
    """The Prometheus servers that Services of the cluster select, and the number of Services that were not examined.

    Raises KubeError.
    """
    by_owner: dict[str, tuple[int, PrometheusServer]] = {}
    examined, left_out = examined_services(await kube.list(SERVICES))
    for address, service in examined.items():
        pods = await _pods(kube, service)
        ready = {pod.owner: pod for pod in pods if pod.ready}
        accounts = tuple(sorted({pod.account for pod in pods}))
        # The address identifies a Service without pods.
        for owner in dict.fromkeys(pod.owner for pod in pods) or [str(address)]:
            server = PrometheusServer(
                address=address,
                port=_port(address, service, ready[owner]) if owner in ready else None,
                accounts=accounts,
            )
            # A request to a Service with several owners may get to another one.
            if owner not in by_owner or len(ready) < by_owner[owner][0]:
                by_owner[owner] = len(ready), server
    return [server for _, server in by_owner.values()], left_out


async def _server_at(api: ApiServer, url: str) -> ServerPort | None:
    """The server at the URL of a Service; None if no Service of the cluster has this URL.

    Raises CommandFailed, InvalidInput and KubeError.
    """
    address = cluster_address(url)
    if address is None:
        return None
    try:
        service = await api.get(SERVICES, address.name, address.namespace)
    except (NotFound, Forbidden) as error:
        if ".svc" not in url:
            return None  # a name that this machine may resolve
        raise CommandFailed(f"{url} cannot be reached through the API server: {error.message}") from None
    if address.port not in (ports := [port.port for port in service.spec.ports]):
        raise InvalidInput(f"{url}: the Service has no port {address.port}, but {', '.join(map(str, ports))}")
    pods = [pod for pod in await _pods(api, service) if pod.ready]
    if not pods:
        raise CommandFailed(f"{url}: no pod of the Service is Ready. See `kubectl -n {address.namespace} get pods`")
    return _port(address, service, pods[0])


async def _pods(kube: Kube, service: Service) -> list[ServerPod]:
    if not service.spec.selector:
        return []
    selector = ",".join(f"{key}={value}" for key, value in service.spec.selector.items())
    return await kube.list(SERVER_PODS, service.metadata.namespace, selector)


def _port(address: ServiceAddress, service: Service, pod: ServerPod) -> ServerPort:
    """The targetPort of the Service's port, which may be the name of a container's port."""
    target = next(port.target_port for port in service.spec.ports if port.port == address.port) or address.port
    named = {port.name: port.container_port for container in pod.spec.containers for port in container.ports}
    number = target if isinstance(target, int) else named.get(target, address.port)
    return ServerPort(address=address, pod=pod.metadata.name, port=number)
