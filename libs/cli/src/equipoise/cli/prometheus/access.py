"""How a command reaches Prometheus: at a URL, or in the cluster of the kubeconfig, through the API server."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import msgspec

from equipoise.cli.effective.adopted import without_private
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.port_forward import forwarded_port
from equipoise.cli.prometheus.services import SERVICES, Service, ServiceAddress, cluster_address, examined_services
from equipoise.cli.server_pods import SERVER_PODS, ServerPod
from equipoise.collector.settings import PrometheusSettings
from equipoise.runtime.kubernetes.client import Forbidden, Kube, NotFound
from equipoise.runtime.kubernetes.http.api_server import ApiServer

GIVEN = "--prometheus URL; a Service of the cluster is http://NAME.NAMESPACE.svc:PORT"


class ForwardedPrometheus(PrometheusSettings, frozen=True, kw_only=True):
    """A Service of the cluster, at the address of a port-forward."""

    service: str
    """Its URL in the cluster."""

    @property
    def shown_url(self) -> str:
        return self.service


class ServerPort(msgspec.Struct, frozen=True, kw_only=True):
    """The port of a pod that a Service has."""

    address: ServiceAddress
    pod: str
    port: int


class PrometheusServer(msgspec.Struct, frozen=True, kw_only=True):
    """The pods of one owner, as the Service names them that names fewest others."""

    address: ServiceAddress
    port: ServerPort | None
    """None: no pod is Ready."""

    accounts: tuple[str, ...]
    """The ServiceAccounts of all pods of the Service, any of which may get its requests; in its namespace."""


@asynccontextmanager
async def reached_prometheus(
    settings: PrometheusSettings, api: ApiServer, *, in_pod: bool, note: Callable[[str], None]
) -> AsyncIterator[PrometheusSettings]:
    """The URL of the settings; a Service of the cluster through the API server; with the default URL, the Service that
    is found, with a note of it.

    `in_pod`: the URL as it is. Raises CommandFailed, InvalidInput and KubeError.
    """
    if in_pod:
        place = None
    elif settings.url == PrometheusSettings().url:
        place = await _found(api)
        # Credentials are for the server that is configured, not for any Service of this name.
        settings = without_private(settings)
        note(f"Prometheus {place.address}, found in the cluster. Choose another one with --prometheus URL")
    else:
        place = await _given(api, settings.url)
    if place is None:
        yield settings
        return
    where, what, otherwise = place.address, f"Prometheus {place.address}", f"or give another address with {GIVEN}"
    async with forwarded_port(api, where.namespace, place.pod, place.port, what=what, otherwise=otherwise) as port:
        url = f"http://127.0.0.1:{port}{where.path}"
        yield ForwardedPrometheus(**msgspec.structs.asdict(settings) | {"url": url}, service=str(where))


async def _found(api: ApiServer) -> ServerPort:
    """The only one of the cluster. Raises CommandFailed, InvalidInput and KubeError."""
    try:
        servers, left_out = await prometheus_servers(api)
    except Forbidden as error:
        raise InvalidInput(f"no Prometheus can be found: {error.message}. Give it with {GIVEN}") from None
    places = [server.port for server in servers if server.port is not None]
    if left_out:
        names = "".join(f"\n  --prometheus {place.address}   (pod {place.pod})" for place in places)
        raise InvalidInput(
            f"{not_examined(left_out)}: give its address with {GIVEN}. Examined:{names or ' none is Ready'}"
        )
    if len(places) == 1:
        return places[0]
    if places:
        names = "".join(f"\n  --prometheus {place.address}   (pod {place.pod})" for place in places)
        raise InvalidInput(f"the cluster has {len(places)} Prometheus servers: choose one with{names}")
    if servers:
        raise CommandFailed(
            f"no pod of Prometheus is Ready ({', '.join(str(each.address) for each in servers)}): look at them with "
            f"kubectl, or give another address with {GIVEN}"
        )
    raise InvalidInput(f"no Service of the cluster looks like that of a Prometheus: give its address with {GIVEN}")


def not_examined(services: int) -> str:
    """What is known of a cluster with more Services of Prometheus than are examined."""
    return f"{services} more Services have the name of a Prometheus, and were not examined"


async def prometheus_servers(kube: Kube) -> tuple[list[PrometheusServer], int]:
    """The Prometheus servers of the cluster, by its Services, and the number of Services that were not examined.

    Raises KubeError.
    """
    found: dict[str, tuple[int, PrometheusServer]] = {}
    examined, left_out = examined_services(await kube.list(SERVICES))
    for address, service in examined.items():
        pods = await _pods(kube, service)
        ready = {pod.owner: pod for pod in pods if pod.ready}
        accounts = tuple(sorted({pod.account for pod in pods}))
        for owner in dict.fromkeys(pod.owner for pod in pods) or {str(address): None}:
            server = PrometheusServer(
                address=address,
                port=_port(address, service, ready[owner]) if owner in ready else None,
                accounts=accounts,
            )
            # A Service of several is worse: it does not name this one.
            if owner not in found or len(ready) < found[owner][0]:
                found[owner] = len(ready), server
    return [server for _, server in found.values()], left_out


async def _given(api: ApiServer, url: str) -> ServerPort | None:
    """None if the URL is not of a Service of the cluster. Raises CommandFailed, InvalidInput and KubeError."""
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
    """The target of the Service's port, which may be the name of a port of a container."""
    target = next(port.target_port for port in service.spec.ports if port.port == address.port) or address.port
    named = {port.name: port.container_port for container in pod.spec.containers for port in container.ports}
    number = target if isinstance(target, int) else named.get(target, address.port)
    return ServerPort(address=address, pod=pod.metadata.name, port=number)
