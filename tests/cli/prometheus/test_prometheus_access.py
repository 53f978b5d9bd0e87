"""The Prometheus of a cluster: which Services are one, and what is printed if there is not exactly one."""

import asyncio
from typing import Any

import pytest
from cli.http_clusters import HttpCluster
from cli.programs import invoke
from kubelets import Kubelet

from equipoise.cli.prometheus.access import reached_prometheus
from equipoise.cli.prometheus.services import (
    Service,
    ServiceAddress,
    ServicePort,
    ServiceSpec,
    cluster_address,
    prometheus_services,
)
from equipoise.collector.settings import PrometheusSettings
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.runtime.configuration import Kubernetes
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock


def a_service(name: str, port: int = 9090, target: int | str = 9090, *, program: str = "") -> Service:
    labels = {"app.kubernetes.io/name": program}
    spec = ServiceSpec(ports=[ServicePort(port=port, target_port=target)], selector={"app": "x"})
    return Service(metadata=ObjectMeta(name=name, namespace="monitoring", labels=labels), spec=spec)


@pytest.mark.parametrize(
    ("service", "url"),
    [
        (a_service("prometheus-operated", target="web"), "http://prometheus-operated.monitoring.svc:9090"),
        (a_service("stack-prometheus", target="http-web"), "http://stack-prometheus.monitoring.svc:9090"),
        (a_service("prometheus-server", port=80), "http://prometheus-server.monitoring.svc:80"),
        (a_service("metrics", program="prometheus"), "http://metrics.monitoring.svc:9090"),
        (a_service("vmsingle-main", 8428, "http"), "http://vmsingle-main.monitoring.svc:8428"),
        (
            a_service("vm", 8428, "http", program="victoria-metrics-single"),
            "http://vm.monitoring.svc:8428",
        ),
        (
            a_service("vmselect-main", 8481, "http"),
            "http://vmselect-main.monitoring.svc:8481/select/0/prometheus",
        ),
    ],
)
def test_the_services_of_each_installation_are_known(service: Service, url: str) -> None:
    """With the path of the server."""
    assert [url] == [str(address) for address in prometheus_services([service])]


@pytest.mark.parametrize(
    "service",
    [
        a_service("web"),
        a_service("prometheus-operator", 8080),
        a_service("prometheus-node-exporter", 9100),
        a_service("stack-alertmanager", 9093, "http-web", program="prometheus"),
        a_service("prometheus-thanos-query"),
        a_service("prometheus-ui", 8080, "http"),
        a_service("vmagent", 8429),
    ],
)
def test_their_neighbors_are_not(service: Service) -> None:
    """Nor a Service without pods."""
    assert not prometheus_services([service])
    spec = ServiceSpec(ports=service.spec.ports)
    assert not prometheus_services([Service(metadata=ObjectMeta(name="prometheus-operated"), spec=spec)])


@pytest.mark.parametrize(
    ("url", "address"),
    [
        ("http://p.monitoring:9090", ServiceAddress(namespace="monitoring", name="p", port=9090)),
        ("http://p.monitoring.svc/", ServiceAddress(namespace="monitoring", name="p", port=80)),
        (
            "http://vm.mon.svc.cluster.local:8481/select/0/prometheus",
            ServiceAddress(namespace="mon", name="vm", port=8481, path="/select/0/prometheus"),
        ),
        ("https://p.monitoring.svc:9090", None),
        ("http://localhost:9090", None),
        ("http://10.0.0.1:9090", None),
        ("http://prometheus.example.com:9090", None),
    ],
)
def test_urls_of_services_are_known(url: str, address: ServiceAddress | None) -> None:
    """A certificate would have another name than that of a forwarded port."""
    assert address == cluster_address(url)


def put(cluster: HttpCluster, *names: str, ready: bool = True) -> None:
    """Services in namespaces of the same names, each with a pod."""
    services = []
    for name in names:
        ports = [{"port": 9090, "targetPort": 9090}]
        metadata = {"name": "prometheus", "namespace": name}
        service = {"metadata": metadata, "spec": {"selector": {"app": name}, "ports": ports}}
        services.append(service)
        cluster.objects[f"/api/v1/namespaces/{name}/services/prometheus"] = service
        conditions = [{"type": "Ready", "status": str(ready)}]
        pod: dict[str, Any] = {
            "metadata": {"name": "prometheus-0", "namespace": name, "uid": name},
            "status": {"conditions": conditions},
        }
        cluster.objects[f"/api/v1/namespaces/{name}/pods"] = {"kind": "PodList", "metadata": {}, "items": [pod]}
    cluster.objects["/api/v1/services"] = {"kind": "ServiceList", "metadata": {}, "items": services or None}


async def invoked(cluster: HttpCluster, *arguments: str) -> tuple[int, str]:
    """Exit code and output, in this process: a process of its own takes a second to start."""
    result = await asyncio.to_thread(invoke, *arguments, KUBECONFIG=str(cluster.file))
    return result.exit_code, result.output


async def test_one_of_several_must_be_chosen(cluster: HttpCluster) -> None:
    """The output has what can be given."""
    put(cluster, "linkerd-viz", "monitoring")
    code, output = await invoked(cluster, "nodes")
    assert 2 == code
    assert "the cluster has 2 Prometheus servers: choose one with" in output
    assert "  --prometheus http://prometheus.monitoring.svc:9090   (pod prometheus-0)" in output.splitlines()


async def test_several_services_of_the_same_pods_are_one(cluster: HttpCluster) -> None:
    """The chart and the operator each create one. Here its port cannot be forwarded."""
    put(cluster, "monitoring")
    services = cluster.objects["/api/v1/services"]["items"]
    operated = {**services[0], "metadata": {"name": "prometheus-operated", "namespace": "monitoring"}}
    services.append(operated)
    code, output = await invoked(cluster, "nodes")
    assert 1 == code
    assert "Prometheus http://prometheus-operated.monitoring.svc:9090, found in the cluster" in output
    assert "cannot be forwarded" in output
    assert {"equipoise-nodes"} == {agent.partition("/")[0] for agent in cluster.agents}


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        (None, "no pod of Prometheus is Ready (http://prometheus.monitoring.svc:9090)"),
        ("http://prometheus.monitoring:9090", "no pod of the Service is Ready"),
        ("http://prometheus.monitoring:80", "the Service has no port 80, but 9090"),
    ],
)
async def test_what_is_wrong_with_the_service_is_named(cluster: HttpCluster, url: str | None, expected: str) -> None:
    """Of the one that was found, and of a given one."""
    put(cluster, "monitoring", ready=False)
    code, output = await invoked(cluster, "nodes", *(() if url is None else ("--prometheus", url)))
    assert code
    assert expected in output


@pytest.mark.parametrize(("url", "sent"), [(None, False), ("http://prometheus.monitoring:9090", True)])
async def test_credentials_are_sent_to_the_configured_server_alone(
    cluster: HttpCluster, url: str | None, sent: bool
) -> None:
    """Not to any Service of the right name."""
    put(cluster, "monitoring")
    cluster.kubelet = Kubelet({9090: 1})
    given = {} if url is None else {"url": url}
    settings = PrometheusSettings(**given, bearer_token_file="/token", headers={"X-Scope-OrgID": "a"})
    async with (
        connect_kube(Kubernetes(kubeconfig=str(cluster.file)), "test", SystemClock()) as api,
        reached_prometheus(settings, api, in_pod=False, note=lambda _: None) as reached,
    ):
        assert reached.url.startswith("http://127.0.0.1:")
        assert reached.shown_url == "http://prometheus.monitoring.svc:9090"
        assert (bool(reached.bearer_token_file), bool(reached.headers)) == (sent, sent)


@pytest.mark.parametrize("refused", [True, False])
@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://none.monitoring.svc:9090", "cannot be reached through the API server: get services monitoring/none"),
        ("http://none.monitoring:9090", "Prometheus at http://none.monitoring:9090 cannot be queried"),
    ],
)
async def test_only_a_url_that_ends_in_svc_must_be_a_service(
    cluster: HttpCluster, url: str, expected: str, refused: bool
) -> None:
    """This machine may know the other name."""
    for plural in ("api/v1/nodes", "api/v1/pods"):
        cluster.objects[f"/{plural}"] = {"kind": "List", "metadata": {}, "items": []}
    if refused:
        cluster.refused.add("/api/v1/namespaces/monitoring/services/none")
    code, output = await invoked(cluster, "nodes", "--prometheus", url)
    assert code == 1
    assert expected in output


async def test_without_a_prometheus_the_option_is_named(cluster: HttpCluster) -> None:
    """Also if Services may not be listed."""
    put(cluster)
    code, output = await invoked(cluster, "report")
    assert 2 == code
    assert "no Service of the cluster looks like that of a Prometheus: give its address with --prometheus" in output
    cluster.refused.add("/api/v1/services")
    code, output = await invoked(cluster, "nodes")
    assert 2 == code
    assert "no Prometheus can be found: list services: Forbidden. Give it with --prometheus" in output
