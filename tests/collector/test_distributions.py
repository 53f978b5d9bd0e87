"""Metrics as clusters have them: what distributions and charts scrape and relabel, on a real Prometheus.

For each: the profile is detected, nodes and pods have the usage that was computed by hand, and `doctor` says the same.
"""

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import msgspec
import pytest
from collector.exporter import Exporter, prometheus
from collector.scraped_pages import DROPPED, MEMORY, cadvisor, kube_state_metrics, node_exporter, resource_page

from equipoise.cli.cluster_now.reading import ClusterNow, connected, read_cluster
from equipoise.cli.doctor.checks.measurements.prometheus import prometheus as check_prometheus
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.exit_codes import CommandFailed
from equipoise.cli.progress import Activity
from equipoise.cli.service_settings import AllSettings
from equipoise.collector.decisions.node_names import node_names, texts_of
from equipoise.collector.settings import CollectorSettings, PrometheusSettings, ScrapeJobs
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.measurement import criteria_of, node_target
from equipoise.collector.shell.rounds import measure_nodes
from equipoise.collector.sources.prometheus.prometheus_source import PrometheusSource
from equipoise.contracts.configuration.duration import Duration
from equipoise.contracts.configuration.settings import Coverage, Freshness, LoadSettings, Window
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.configuration.sections import Shared
from equipoise.runtime.kubernetes.client import NODES, PODS
from equipoise.runtime.process.clock import SystemClock
from equipoise.testbed.binaries.build import Binaries
from equipoise.testbed.memory.kube import MemoryKube

EVERY = 1.0
"""Seconds between two scrapes: a busy machine must not miss one of fifty targets."""

LOAD = LoadSettings(
    windows=(
        Window(name="5m", length=Duration(12), refresh_period=Duration(1)),
        Window(name="1d", length=Duration(600), refresh_period=Duration(30)),
    ),
    freshness=Freshness(eviction=Duration(30), score=Duration(60)),
    coverage=Coverage(node_settling_period=Duration(4)),
)
LONG_AGO = "2020-01-01T00:00:00Z"

Labels = dict[str, str]


class Distribution:
    """Two nodes, `a` with 1.5 of 4 cores busy and `b` with 3, each with 5e9 bytes of 16e9 in use; and a pod on each."""

    def __init__(
        self,
        name: str,
        *,
        names: tuple[str, str] = ("node-a", "node-b"),
        addresses: tuple[list[str], list[str]] = (["10.0.0.1"], ["10.0.0.2"]),
        profile: str = "kube-prometheus",
        cpu: tuple[float, float] = (1.5, 3.0),
        memory: tuple[float, float] = (5e9, 5e9),
        pods: tuple[float, float] = (0.5, 0.25),
    ) -> None:
        """`cpu`, `memory`, `pods`: the right values in cores and bytes; a pod has 1e9 bytes per core."""
        self.name = name
        self.names = names
        self.profile = profile
        self.nodes = [a_node(node, addresses[number]) for number, node in enumerate(names)]
        self.pods = [a_pod(f"web-{number}", node) for number, node in enumerate(names)]
        self.usage = {node: Resources(cpu=cpu[number], memory=memory[number]) for number, node in enumerate(names)}
        self.pod_usage = {
            f"uid-web-{number}": Resources(cpu=cores, memory=cores * 1e9) for number, cores in enumerate(pods)
        }
        self.jobs: list[dict[str, Any]] = []

    def scrape(
        self,
        page: str,
        *,
        drop: tuple[dict[str, Any], ...] = (),
        every: float = EVERY,
        honor: bool = True,
        **labels: str,
    ) -> "Distribution":
        """Add a target with these labels. The label `cluster` keeps the distributions apart."""
        self.jobs.append(
            {
                "job_name": f"{self.name}-{len(self.jobs)}",
                "honor_labels": honor,
                "metrics_path": f"/{page}",
                "scrape_interval": f"{every * 1000:.0f}ms",
                "scrape_timeout": f"{every * 1000:.0f}ms",
                "static_configs": [{"targets": ["EXPORTER"], "labels": labels | {"cluster": self.name}}],
                "metric_relabel_configs": list(drop),
            }
        )
        return self


def a_node(name: str, addresses: list[str], **labels: str) -> Node:
    sizes = {"cpu": "4", "memory": "16G", "pods": "110"}
    return msgspec.convert(
        {
            "metadata": {"name": name, "uid": f"uid-{name}", "creationTimestamp": LONG_AGO, "labels": labels},
            "status": {
                "capacity": sizes, "allocatable": sizes,
                "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": LONG_AGO}],
                "addresses": [
                    {"type": "InternalIP" if text[0].isdigit() or ":" in text else "Hostname", "address": text}
                    for text in addresses
                ],
            },
        },
        Node,
    )  # fmt: skip


def a_pod(name: str, node: str) -> Pod:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "shop", "uid": f"uid-{name}", "creationTimestamp": LONG_AGO},
            "spec": {"nodeName": node, "containers": [{"name": "main", "image": "shop:1"}]},
            "status": {
                "phase": "Running", "startTime": LONG_AGO,
                "conditions": [
                    {"type": kind, "status": "True", "lastTransitionTime": LONG_AGO}
                    for kind in ("PodScheduled", "Ready")
                ],
            },
        },
        Pod,
    )  # fmt: skip


NO_POD: dict[str, Any] = {"source_labels": ["id", "pod"], "regex": ".+;", "action": "drop"}
BY_NAME = tuple({"source_labels": ["__name__"], "regex": regex, "action": "drop"} for regex in DROPPED)
NO_CONTAINER = (
    {"source_labels": ["__name__", "container"], "separator": "|", "regex": r"container_(cpu|memory|fs)_[a-z_]+\|",
     "action": "drop"},
    {"source_labels": ["__name__", "image"], "separator": "|", "regex": r"container_(cpu|memory|fs|network)_[a-z_]+\|",
     "action": "drop"},
)  # fmt: skip
OF_SYSTEM = {"namespace": "monitoring", "endpoint": "http-metrics", "container": "node-exporter"}


def kube_prometheus_stack(
    found: Distribution, *, exporters: tuple[str, str] = ("exporter/a", "exporter/b")
) -> Distribution:
    """node-exporter and kubelets as the chart's ServiceMonitors scrape them, by address."""
    for number, (page, node) in enumerate(zip(exporters, found.names, strict=True)):
        address = f"10.0.0.{number + 1}"
        found.scrape(
            page, job="node-exporter", instance=f"{address}:9100", service="stack-node-exporter",
            pod=f"exporter-{number}", **OF_SYSTEM,
        )  # fmt: skip
        found.scrape(
            f"cadvisor/{number}", drop=(*BY_NAME, NO_POD), job="kubelet", instance=f"{address}:10250", node=node,
            namespace="kube-system", endpoint="https-metrics", service="stack-kubelet",
            metrics_path="/metrics/cadvisor",
        )  # fmt: skip
    return found


def openshift() -> Distribution:
    """Targets named by their node, cAdvisor half as often, and no pod in kube-system."""
    found = Distribution("openshift")
    for number, node in enumerate(found.names):
        found.scrape(
            f"exporter/{'ab'[number]}", job="node-exporter", instance=node, namespace="openshift-monitoring",
            service="node-exporter", endpoint="https", pod=f"node-exporter-{number}", container="kube-rbac-proxy",
        )  # fmt: skip
        found.scrape(
            f"cadvisor/{number}", every=2 * EVERY, job="kubelet", node=node, instance=f"10.0.0.{number + 1}:10250",
            namespace="kube-system", service="kubelet", endpoint="https-metrics", metrics_path="/metrics/cadvisor",
        )  # fmt: skip
    return found


def k3s() -> Distribution:
    """Targets by host name, which is longer than the node's name, or by one of its addresses."""
    found = Distribution("k3s", addresses=(["10.0.0.1", "node-a"], ["10.0.0.2", "Node-B.lan"]))
    for number, host in enumerate(("node-a.lan", "node-b.lan")):
        found.scrape(f"exporter/{'ab'[number]}", job="node", instance=f"{host}:9100")
        found.scrape(f"cadvisor/{number}", job="k3s", instance=f"10.0.0.{number + 1}:10250")
    return found


def grafana(name: str = "grafana", half: bool = False) -> Distribution:
    """Rows without a container or an image are dropped; the kubelet's other page has the containers once more."""
    found = Distribution(name, pods=(0.495, 0.25 if half else 0.2475))
    for number, node in enumerate(found.names):
        found.scrape(
            f"exporter/{'ab'[number]}", job="integrations/node_exporter", instance=node, namespace="monitoring"
        )
        found.scrape(
            f"cadvisor/{number}", drop=() if half and number else NO_CONTAINER,
            job="integrations/kubernetes/cadvisor", instance=node, node=node,
        )  # fmt: skip
        found.scrape(f"resources/{number}", job="integrations/kubernetes/resources", instance=node, node=node)
    return found


def memory_dropped() -> Distribution:
    """Rows of pods are dropped of memory only."""
    found = Distribution("memory-dropped")
    found.pod_usage = {
        uid: msgspec.structs.replace(used, memory=0.99e9 * (used.cpu or 0.0)) for uid, used in found.pod_usage.items()
    }
    drop = {"source_labels": ["__name__", "container"], "regex": "container_memory_.+;", "action": "drop"}
    for number, node in enumerate(found.names):
        found.scrape(f"exporter/{'ab'[number]}", job="node-exporter", instance=node)
        found.scrape(f"cadvisor/{number}", drop=(drop,), job="cadvisor", instance=node)
    return found


def docker() -> Distribution:
    """The sandbox is a container named POD, and rows of pods are dropped; or each pod has two cgroups."""
    found = Distribution("docker", pods=(0.495, 0.2475))
    for number, (node, page) in enumerate(zip(found.names, ("cadvisor/docker", "cadvisor/twice"), strict=True)):
        found.scrape(f"exporter/{'ab'[number]}", job="node-exporter", instance=node)
        found.scrape(page, drop=() if number else NO_CONTAINER[:1], job="cadvisor", instance=node)
    return found


def bitnami() -> Distribution:
    """Endpoints of other names, and both pages of the kubelet in one job."""
    found = Distribution("bitnami")
    for number, node in enumerate(found.names):
        address = f"10.0.0.{number + 1}"
        found.scrape(
            f"exporter/{'ab'[number]}", job="node-exporter", instance=f"{address}:9100", namespace="monitoring",
            endpoint="metrics", service="prometheus-node-exporter", pod=f"exporter-{number}",
        )  # fmt: skip
        for page in ("cadvisor", "resources"):
            found.scrape(
                f"{page}/{number}", job="kubelet", instance=f"{address}:10250", node=node, namespace="kube-system",
                endpoint="https-metrics", service="prometheus-kubelet", metrics_path=f"/metrics/{page}",
            )  # fmt: skip
    return found


def victoria_metrics() -> Distribution:
    """`id`, `name` and `uid` are dropped, labels of the node are added, targets are named by their node."""
    found = Distribution("victoria-metrics")
    for number, node in enumerate(found.names):
        found.scrape(
            f"exporter/{'ab'[number]}", job="node-exporter", instance=f"10.0.0.{number + 1}:9100",
            namespace="monitoring", service="vmks-node-exporter", endpoint="http-metrics", prometheus="vmks",
        )  # fmt: skip
        found.scrape(
            f"cadvisor/{number}",
            drop=(NO_POD, {"action": "labeldrop", "regex": "(uid|id|name)"}),
            job="kubelet", instance=node, metrics_path="/metrics/cadvisor", kubernetes_io_hostname=node,
            kubernetes_io_os="linux", prometheus="vmks",
        )  # fmt: skip
    return found


def eks() -> Distribution:
    """Names of AWS, and a node of Fargate, which nothing scrapes."""
    names = ("ip-10-0-0-1.eu-central-1.compute.internal", "ip-10-0-0-2.eu-central-1.compute.internal")
    found = kube_prometheus_stack(Distribution("eks", names=names))
    fargate = "fargate-ip-10-0-0-9.eu-central-1.compute.internal"
    found.nodes.append(a_node(fargate, ["10.0.0.9"], **{"eks.amazonaws.com/compute-type": "fargate"}))
    return found


def gke() -> Distribution:
    """Google's managed Prometheus: an instance is a node and the name of a port."""
    names = ("gke-prod-default-pool-1f2e-aaaa", "gke-prod-default-pool-1f2e-bbbb")
    found = Distribution("gke", names=names)
    place = {"project_id": "shop-prod", "location": "europe-west3"}
    for number, node in enumerate(names):
        found.scrape(
            f"exporter/{'ab'[number]}", honor=False, job="node-exporter", instance=f"{node}:metrics",
            namespace="gmp-public", pod=f"node-exporter-{number}", container="node-exporter", **place,
        )  # fmt: skip
        found.scrape(f"cadvisor/{number}", job="kubelet", instance=f"{node}:cadvisor", node=node, **place)
    return found


def open_telemetry() -> Distribution:
    """A collector on each node scrapes, and names the node by its resource attributes."""
    found = Distribution("open-telemetry")
    for number, node in enumerate(found.names):
        of_collector = {"instance": f"8f3a-{number}", "k8s_node_name": node, "k8s_cluster_name": "prod"}
        found.scrape(f"exporter/{'ab'[number]}", job="node-exporter", **of_collector)
        found.scrape(f"cadvisor/{number}", job="cadvisor", **of_collector)
    return found


def community() -> Distribution:
    """The chart `prometheus`: one job has every annotated Service, so that of a tenant too, on the same node."""
    found = Distribution("community")
    for number, node in enumerate(found.names):
        found.scrape(
            f"exporter/{'ab'[number]}", honor=False, job="kubernetes-service-endpoints", node=node,
            instance=f"10.0.0.{number + 1}:9100", namespace="prometheus", service="prometheus-node-exporter",
        )  # fmt: skip
        found.scrape(
            f"cadvisor/{number}", job="kubernetes-nodes-cadvisor", instance=node, kubernetes_io_hostname=node,
        )  # fmt: skip
    found.scrape(
        "exporter/tenant", honor=False, job="kubernetes-service-endpoints", node="node-a", instance="10.244.1.7:8080",
        namespace="shop", service="shop-metrics",
    )  # fmt: skip
    return found


def dual_stack() -> Distribution:
    """Nodes are scraped by either of their addresses."""
    found = Distribution("dual-stack", addresses=(["10.0.0.1", "fd00::1"], ["10.0.0.2", "FD00:0:0::2"]))
    for number, instance in enumerate(("10.0.0.1:9100", "[fd00:0000::2]:9100")):
        found.scrape(f"exporter/{'ab'[number]}", job="node-exporter", instance=instance, namespace="monitoring")
        found.scrape(f"cadvisor/{number}", job="kubelet", instance=f"[::ffff:10.0.0.{number + 1}]:10250")
    return found


def tenants() -> Distribution:
    """A tenant writes series of real nodes, of a pod, and of hundreds of nodes that do not exist."""
    found = kube_prometheus_stack(Distribution("tenants"))
    found.scrape(
        "forged", honor=False, job="shop-metrics", instance="10.244.1.7:8080", namespace="shop", service="shop-metrics",
        endpoint="http", pod="web-0",
    )  # fmt: skip
    return found


def resource_metrics() -> Distribution:
    """The kubelet's resource metrics; a tenant writes series of a node."""
    found = Distribution("resource-metrics", profile="kubelet", memory=(1e9, 1e9))
    for number, node in enumerate(found.names):
        found.scrape(
            f"kubelet/{number}", job="kubelet", instance=f"10.0.0.{number + 1}:10250", node=node,
            metrics_path="/metrics/resource",
        )  # fmt: skip
    return found.scrape("forged", honor=False, job="shop-metrics", instance="10.244.1.7:8080", namespace="shop")


def two_releases() -> Distribution:
    """Another release of node-exporter and of kubelets, in equal jobs of other names; its exporters are wrong."""
    found = kube_prometheus_stack(Distribution("two-releases"))
    for number, node in enumerate(found.names):
        found.scrape(
            "exporter/tenant", job="other/exporter", instance=f"10.0.0.{number + 1}:9101", pod=f"other-{number}"
        )
        found.scrape(f"cadvisor/{1 - number}", job="other.kubelet", instance=f"10.0.0.{number + 1}:10251", node=node)
    return found


DISTRIBUTIONS: Mapping[str, Callable[[], Distribution]] = {
    "kube-prometheus-stack": lambda: kube_prometheus_stack(Distribution("kube-prometheus-stack")),
    "openshift": openshift,
    "k3s": k3s,
    "grafana": grafana,
    "grafana on half of the nodes": lambda: grafana("half", half=True),
    "rows of memory dropped": memory_dropped,
    "docker and duplicate cgroups": docker,
    "bitnami": bitnami,
    "victoria-metrics": victoria_metrics,
    "eks with fargate": eks,
    "gke": gke,
    "open-telemetry": open_telemetry,
    "community": community,
    "dual-stack": dual_stack,
    "tenants": tenants,
    "resource-metrics": resource_metrics,
    # 8e9 of 16e9 bytes are huge pages: 16e9 - 1e9 - 2e9 - 8e9. Older kernels report the number of pages only.
    "huge pages": lambda: kube_prometheus_stack(
        Distribution("huge-pages", memory=(5e9, 5e9)), exporters=("exporter/huge", "exporter/older")
    ),
    # 0.346 cores used, 1.318 stolen of 2; and the same machine without an oversubscribed hypervisor.
    "steal": lambda: kube_prometheus_stack(
        Distribution("steal", cpu=(1.664, 0.346)), exporters=("exporter/stolen", "exporter/own")
    ),
}


def forged() -> str:
    """Series of real nodes and pods, and of invented nodes, in every profile."""
    seconds = 9_000 + 9 * time.monotonic()
    lines = [
        f'container_cpu_usage_seconds_total{{namespace="shop",pod="web-1",id="/x"}} {seconds:.3f}',
        'container_memory_working_set_bytes{namespace="shop",pod="web-1",id="/x"} 9e9',
        f'pod_cpu_usage_seconds_total{{namespace="shop",pod="web-1",node="node-b"}} {seconds:.3f}',
        'pod_memory_working_set_bytes{namespace="shop",pod="web-1",node="node-b"} 9e9',
    ]
    for node in ("node-a", "node-b", *(f"invented-{number}" for number in range(300))):
        lines += [
            f'node_cpu_seconds_total{{node="{node}",cpu="0",mode="user"}} {seconds:.3f}',
            f'node_cpu_usage_seconds_total{{node="{node}"}} {seconds:.3f}',
            *(
                f'{metric}{{node="{node}"}} 9e9'
                for metric in (
                    "node_memory_working_set_bytes", "node_memory_MemTotal_bytes", "node_memory_MemFree_bytes",
                    "node_memory_Inactive_file_bytes",
                )
            ),
        ]  # fmt: skip
    return "\n".join(lines) + "\n"


def kubelet(number: int) -> Callable[[], str]:
    """The page of a kubelet's resource metrics."""
    begun = time.monotonic() - 5_000

    def text() -> str:
        lived = time.monotonic() - begun
        labels = f'{{namespace="shop",pod="web-{number}"}}'
        used, of_pod = (1.5, 3.0)[number], (0.5, 0.25)[number]
        return (
            f"node_cpu_usage_seconds_total {used * lived:.4f}\nnode_memory_working_set_bytes 1e9\n"
            f"pod_cpu_usage_seconds_total{labels} {of_pod * lived:.4f}\n"
            f"pod_memory_working_set_bytes{labels} {of_pod * 1e9}\n"
        )

    return text


@pytest.fixture(scope="module")
def exporter() -> Iterator[Exporter]:
    opened = Exporter()
    huge = MEMORY | {"MemFree": 1e9, "HugePages_Total": 4_000, "HugePages_Free": 4_000, "Hugepagesize": 2e6}
    pages = {
        "exporter/a": node_exporter(busy=1.5),
        "exporter/b": node_exporter(busy=3.0),
        "exporter/tenant": node_exporter(busy=0.1),
        "exporter/huge": node_exporter(busy=1.5, memory=huge | {"Hugetlb": 8e9}),
        "exporter/older": node_exporter(busy=3.0, memory=huge),
        "exporter/stolen": node_exporter(busy=0.346, cores=2, stolen=1.318),
        "exporter/own": node_exporter(busy=0.346, cores=2),
        "cadvisor/docker": cadvisor({"shop/web-0": 0.5}, sandbox="POD"),
        "cadvisor/twice": cadvisor({"shop/web-1": 0.25}, twice=True),
        "forged": forged,
    }
    for number, cores in enumerate((0.5, 0.25)):
        pages[f"cadvisor/{number}"] = cadvisor({f"shop/web-{number}": cores})
        pages[f"resources/{number}"] = resource_page({f"shop/web-{number}": cores})
        pages[f"kubelet/{number}"] = kubelet(number)
    for found in (make() for make in (*DISTRIBUTIONS.values(), two_releases)):
        # kube-state-metrics reports one address of each node: the last one.
        last = {node.metadata.name: node.status.addresses[-1].address for node in found.nodes}
        pages[f"state/{found.name}"] = kube_state_metrics(last)
    for page, text in pages.items():
        opened.show(page, text)
    yield opened
    opened.close()


@pytest.fixture(scope="module")
def url(exporter: Exporter, testbed_binaries: Binaries, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    jobs = []
    for make in (*DISTRIBUTIONS.values(), two_releases):
        found = make()
        jobs += found.scrape(f"state/{found.name}", job="kube-state-metrics", instance="10.244.0.9:8080").jobs
    for job in jobs:
        job["static_configs"][0]["targets"] = [exporter.address]
    with prometheus(testbed_binaries.prometheus, tmp_path_factory.mktemp("many"), jobs, every=EVERY) as opened:
        yield opened


async def test_the_configured_jobs_are_read(url: str) -> None:
    """Of two equal ones; without the setting, each node has two series, and `doctor` says so."""
    found = two_releases()
    prometheus = PrometheusSettings(url=url, matchers={"cluster": found.name}, profile="kube-prometheus")
    jobs = ScrapeJobs(nodes=("node-exporter",), pods=("kubelet",))
    all_measured = "cpu of 2 nodes, memory of 2 nodes, usage of 2 pods"
    chosen = await _finding(found, msgspec.structs.replace(prometheus, jobs=jobs), all_measured)
    none_measured = "series of 2 nodes, and measures none: cpu: 2 series claim to be this node"
    both = await _finding(found, prometheus, none_measured)

    assert ("ok", all_measured) == (chosen.state, chosen.message.partition(": ")[2])
    assert "warning" == both.state
    assert none_measured in both.message


async def _finding(found: Distribution, prometheus: PrometheusSettings, wanted: str) -> Finding:
    """Of `doctor` about the profile, once it contains this; after a minute, as it is."""
    clock = SystemClock()
    kube = MemoryKube(clock)
    for node in found.nodes:
        kube.put(NODES, node)
    settings = AllSettings(shared=Shared(load=LOAD), collector=CollectorSettings(prometheus=prometheus))
    begun = time.monotonic()
    while True:
        finding = (await check_prometheus(Environment(settings=settings, clock=clock, kube=kube)))[-1]
        if wanted in finding.message or time.monotonic() - begun > 60:
            return finding
        await asyncio.sleep(EVERY)


async def test_an_exporter_that_sees_a_larger_machine_measures_no_node(url: str) -> None:
    """Each core of it is one of this node's only if the kubelet has it too."""
    found = DISTRIBUTIONS["kube-prometheus-stack"]()
    source = PrometheusSource(
        PrometheusSettings(url=url, profile="kube-prometheus", matchers={"cluster": found.name}),
        memory="workingSet", clock=SystemClock(),
    )  # fmt: skip
    half = {"cpu": "2", "memory": "8G"}
    smaller = msgspec.structs.replace(found.nodes[1].status, capacity=half, allocatable=half)
    nodes = [found.nodes[0], msgspec.structs.replace(found.nodes[1], status=smaller)]
    names = node_names({node.metadata.name: texts_of(node) for node in nodes})
    targets = {node.metadata.name: node_target(node, 0.0) for node in nodes}
    async with asyncio.timeout(60):
        while True:
            at = await source.time()
            intervals = await find_intervals(source, LOAD.shortest.length, at, names)
            criteria = criteria_of(LOAD, LOAD.shortest, at, intervals, names)
            readings = (await measure_nodes(source, targets, criteria)).readings
            if readings["cpu"]["node-a"].mean is not None:
                break
            await asyncio.sleep(EVERY)
    source.close()

    assert "cpu: its exporter measures 4 where the node has 2" == readings["cpu"]["node-b"].why
    assert "memory: its exporter measures 1.6e+10 where the node has 8e+09" == readings["memory"]["node-b"].why
    assert {"cpu": {"node-a": 4.0, "node-b": 4.0}, "memory": dict.fromkeys(found.names, 16e9)} == intervals.machines


@pytest.mark.parametrize("name", DISTRIBUTIONS)
async def test_nodes_and_pods_are_measured_and_doctor_agrees(url: str, name: str) -> None:
    """The profile is the detected one."""
    found = DISTRIBUTIONS[name]()
    clock = SystemClock()
    kube = MemoryKube(clock)
    for node in found.nodes:
        kube.put(NODES, node)
    for pod in found.pods:
        kube.put(PODS, pod)
    settings = AllSettings(
        shared=Shared(load=LOAD),
        collector=CollectorSettings(prometheus=PrometheusSettings(url=url, matchers={"cluster": found.name})),
    )
    detected, now = await _read_until(
        kube, settings, clock, lambda now: _usage(now, found) == _approximately(found.usage)
        and _pod_usage(now) == _approximately(found.pod_usage),
    )  # fmt: skip

    assert found.profile == detected
    assert _approximately(found.usage) == _usage(now, found)
    assert _approximately(found.pod_usage) == _pod_usage(now)
    assert ({}, "") == (now.unknown, now.problem)
    assert (2, 2) == (now.snapshot.cycles[0].expected, now.snapshot.cycles[0].fresh)
    prometheus_settings = msgspec.structs.replace(settings.collector.prometheus, profile=detected)
    collector = msgspec.structs.replace(settings.collector, prometheus=prometheus_settings)
    environment = Environment(settings=msgspec.structs.replace(settings, collector=collector), clock=clock, kube=kube)
    findings = await check_prometheus(environment)

    assert {"ok"} == {finding.state for finding in findings}, findings
    assert "cpu of 2 nodes, memory of 2 nodes, usage of 2 pods" in findings[-1].message


Comparable = dict[str, tuple[Any, Any]]


def _approximately(usage: Mapping[str, Resources]) -> Comparable:
    return {
        name: (pytest.approx(used.cpu, rel=0.06), pytest.approx(used.memory, rel=1e-6)) for name, used in usage.items()
    }


def _usage(now: ClusterNow, found: Distribution) -> Comparable:
    windows = {name: now.snapshot.nodes[name].windows for name in found.names if name in now.snapshot.nodes}
    return {name: (each["5m"].mean.cpu, each["5m"].mean.memory) for name, each in windows.items() if "5m" in each}


def _pod_usage(now: ClusterNow) -> Comparable:
    pods = [message.pods for message in now.snapshot.nodes.values()]
    return {uid: (used.cpu, used.memory) for each in pods for uid, used in each.items()}


async def _read_until(
    kube: MemoryKube, settings: AllSettings, clock: SystemClock, wanted: Callable[[ClusterNow], bool]
) -> tuple[str, ClusterNow]:
    """The detected profile and the cluster, when it is as wanted; after a minute, as it is."""
    begun = time.monotonic()
    while True:
        try:
            async with connected(
                kube, settings, clock, Activity("reading", lambda _: None), profile=None
            ) as connection:
                now = await read_cluster(connection, windows=(LOAD.shortest,))
                profile = connection.settings.collector.prometheus.profile
            if wanted(now) or time.monotonic() - begun > 60:
                return profile, now
        except CommandFailed:
            if time.monotonic() - begun > 60:
                raise
        await asyncio.sleep(EVERY)
