"""Which Services of a cluster are a Prometheus, or a server with its HTTP API."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from urllib.parse import urlsplit

import msgspec

from equipoise.contracts.kubernetes.objects.metadata import ApiValue, Object
from equipoise.runtime.kubernetes.client import Resource


class ServicePort(ApiValue, frozen=True, kw_only=True):
    port: int = 0
    target_port: int | str = 0


class ServiceSpec(ApiValue, frozen=True, kw_only=True):
    ports: list[ServicePort] = []  # noqa: RUF012  msgspec copies the default
    selector: dict[str, str] = {}  # noqa: RUF012


class Service(Object, frozen=True, kw_only=True):
    """A Service, with the fields that a client needs."""

    spec: ServiceSpec = ServiceSpec()


SERVICES: Resource[Service] = Resource(group="", version="v1", plural="services", kind="Service", model=Service)


class ServiceAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One port of a Service, as the host and the path of a URL."""

    namespace: str
    name: str
    port: int
    path: str = ""

    def __str__(self) -> str:
        return f"http://{self.name}.{self.namespace}.svc:{self.port}{self.path}"


class ServerKind(msgspec.Struct, frozen=True, kw_only=True):
    """How to recognize the Services of a kind of server."""

    word: str
    """A part of the name of the Service, or of a label that names the program."""

    ports: frozenset[int | str]
    """Port numbers, or names of ports of the container."""

    path: str = ""
    """The path before /api/v1."""


KINDS = (
    ServerKind(word="prometheus", ports=frozenset({9090, "web", "http-web"})),
    ServerKind(word="vmsingle", ports=frozenset({8428, 8429})),
    ServerKind(word="victoria-metrics-single", ports=frozenset({8428})),
    ServerKind(word="vmselect", ports=frozenset({8481}), path="/select/0/prometheus"),
)
LABELS = ("app.kubernetes.io/name", "app.kubernetes.io/component", "app")
OTHERS = ("alertmanager", "node-exporter", "operator", "pushgateway", "adapter", "kube-state-metrics", "thanos")
"""Parts of the names of Services that are installed beside Prometheus."""

EXAMINED = 100
"""Services whose pods are read: anybody may create Services with such names."""

_CLUSTER_HOST = re.compile(r"(?P<name>[a-z0-9-]+)\.(?P<namespace>[a-z0-9-]*[a-z][a-z0-9-]*)(\.svc(\.[a-z0-9.-]+)?)?")
"""The host in the URL of a Service, as pods in other namespaces write it. It does not match IP addresses."""


def prometheus_services(services: Iterable[Service]) -> Mapping[ServiceAddress, Service]:
    """The Services of Prometheus by address. The Service that the operator creates precedes one of a chart."""
    by_address = {address: service for service in services if (address := _prometheus_address(service)) is not None}
    return dict(sorted(by_address.items(), key=lambda item: _order(item[0])))


def examined_services(services: Iterable[Service]) -> tuple[Mapping[ServiceAddress, Service], int]:
    """The Services of Prometheus that are examined, at most `EXAMINED`, and the number of the others.

    The first of each namespace precede the second ones, so that many in one namespace displace none of another.
    """
    found = prometheus_services(services)
    before: Counter[str] = Counter()
    ranks = {}
    for address in found:
        ranks[address] = before[address.namespace]
        before[address.namespace] += 1
    chosen = sorted(found, key=lambda address: ranks[address])[:EXAMINED]
    return {address: found[address] for address in found if address in set(chosen)}, len(found) - len(chosen)


def _prometheus_address(service: Service) -> ServiceAddress | None:
    meta = service.metadata
    if not service.spec.selector or any(other in meta.name for other in OTHERS):
        return None
    names = (meta.name, *(meta.labels.get(label, "") for label in LABELS))
    for kind in KINDS:
        if any(kind.word in name for name in names):
            for port in service.spec.ports:
                if {port.port, port.target_port} & kind.ports:
                    return ServiceAddress(namespace=meta.namespace, name=meta.name, port=port.port, path=kind.path)
    return None


def _order(address: ServiceAddress) -> tuple[bool, str, str]:
    return "operated" not in address.name, address.namespace, address.name


def cluster_address(url: str) -> ServiceAddress | None:
    """The Service to which a URL may point; None for other hosts, and for TLS, whose certificate has another name."""
    parts = urlsplit(url)
    match = _CLUSTER_HOST.fullmatch(parts.hostname or "")
    if match is None or parts.scheme != "http":
        return None
    path = parts.path.rstrip("/")
    return ServiceAddress(namespace=match["namespace"], name=match["name"], port=parts.port or 80, path=path)
