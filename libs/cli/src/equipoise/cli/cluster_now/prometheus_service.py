"""Finds the Service of Prometheus in the cluster, to name the command that makes it reachable from this machine."""

from collections.abc import Iterable

from equipoise.contracts.kubernetes.objects import ApiValue, Object
from equipoise.runtime.kubernetes.client import Kube, KubeError, Resource

PORT = 9090
OTHERS = ("alertmanager", "node-exporter", "operator", "pushgateway", "adapter", "kube-state-metrics")
"""Parts of the names of Services that are installed beside Prometheus."""


class ServicePort(ApiValue, frozen=True, kw_only=True):
    port: int = 0
    target_port: int | str = 0


class ServiceSpec(ApiValue, frozen=True, kw_only=True):
    ports: list[ServicePort] = []  # noqa: RUF012  msgspec copies it


class Service(Object, frozen=True, kw_only=True):
    """What a client must know of it."""

    spec: ServiceSpec = ServiceSpec()


SERVICES: Resource[Service] = Resource(group="", version="v1", plural="services", kind="Service", model=Service)

ADVICE = "give the Prometheus of this cluster: {command}then --prometheus http://localhost:9090"
ANY = "run `kubectl -n NAMESPACE port-forward service/NAME 9090` for one inside the cluster, "


async def prometheus_advice(kube: Kube) -> str:
    """How to give Prometheus to a command; with the Service of this cluster if there is one that may be listed."""
    try:
        found = prometheus_service(await kube.list(SERVICES))
    except KubeError:
        found = None
    if found is None:
        return ADVICE.format(command=ANY)
    meta, port = found.metadata, _port(found)
    ports = str(PORT) if port == PORT else f"{PORT}:{port}"
    command = f"run `kubectl -n {meta.namespace} port-forward service/{meta.name} {ports}`, "
    return ADVICE.format(command=command)


def prometheus_service(services: Iterable[Service]) -> Service | None:
    """The Service that the operator creates before one of a chart; None without any."""
    candidates = [
        service
        for service in services
        if "prometheus" in service.metadata.name
        and not any(other in service.metadata.name for other in OTHERS)
        and _port(service)
    ]
    return min(
        candidates,
        key=lambda each: ("operated" not in each.metadata.name, each.metadata.namespace, each.metadata.name),
        default=None,
    )


def _port(service: Service) -> int:
    """9090, or the port behind which it is; 0 without one."""
    for port in service.spec.ports:
        if PORT in (port.port, port.target_port) or port.target_port in ("http-web", "web"):
            return port.port
    return 0
