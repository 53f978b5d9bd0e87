"""Pages in the format of node-exporter, cAdvisor and kube-state-metrics, scraped as kube-prometheus-stack does."""

import time
from collections.abc import Callable, Mapping

from collector.exporter import Exporter

BEGUN = time.monotonic()

NODES = {"node-a": "10.0.0.1", "node-b": "10.0.0.2"}
SANDBOX = "registry.k8s.io/pause:3.9"
SLICE = "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod"


MEMORY = {"MemTotal": 16e9, "MemFree": 9e9, "MemAvailable": 12e9, "Inactive_file": 2e9, "AnonPages": 3e9}


def node_exporter(
    *, busy: float, cores: int = 4, stolen: float = 0.0, memory: Mapping[str, float] = MEMORY
) -> Callable[[], str]:
    """node-exporter's page of a machine of which this many cores are busy, two thirds of them as user, one as system.

    `stolen`: cores that its hypervisor gives to others. `memory`: bytes by the name in /proc/meminfo.
    """

    def text() -> str:
        lived = 5_000 + time.monotonic() - BEGUN
        used = busy * lived / cores
        modes = {
            "idle": lived - used, "iowait": 0.3 * lived, "irq": 0.0, "nice": 0.0, "softirq": 0.0,
            "steal": stolen * lived / cores, "system": used / 3, "user": used * 2 / 3,
        }  # fmt: skip
        lines = [
            "# HELP node_cpu_seconds_total Seconds the CPUs spent in each mode.",
            "# TYPE node_cpu_seconds_total counter",
            *(
                f'node_cpu_seconds_total{{cpu="{core}",mode="{mode}"}} {seconds:.3f}'
                for core in range(cores)
                for mode, seconds in modes.items()
            ),
            "# HELP node_cpu_guest_seconds_total Seconds the CPUs spent in guests (VMs) for each mode.",
            "# TYPE node_cpu_guest_seconds_total counter",
            *(f'node_cpu_guest_seconds_total{{cpu="{core}",mode="user"}} {used / 2:.3f}' for core in range(cores)),
            *(
                line
                for field, amount in memory.items()
                for name in [f"node_memory_{field}" if field.startswith("HugePages") else f"node_memory_{field}_bytes"]
                for line in (f"# TYPE {name} gauge", f"{name} {amount}")
            ),
            "# TYPE node_uname_info gauge",
            'node_uname_info{domainname="(none)",machine="x86_64",nodename="host",sysname="Linux"} 1',
        ]
        return "\n".join(lines) + "\n"

    return text


def cadvisor(pods: Mapping[str, float], *, twice: bool = False, sandbox: str = "") -> Callable[[], str]:
    """The kubelet's /metrics/cadvisor: cgroups of pods that use this many cores, of their sandboxes and containers.

    Its samples have times of their own. `twice`: each pod has a second cgroup. `sandbox`: the name of its container.
    """

    def text() -> str:
        lived = 5_000 + time.monotonic() - BEGUN
        at = int(time.time() * 1000)  # noqa: TID251
        cgroups = [("", "/", "", "", "", "", 3.0), ("", "/system.slice/kubelet.service", "", "", "", "", 0.2)]
        for number, (name, cores) in enumerate(pods.items()):
            namespace, _, pod = name.partition("/")
            root = f"{SLICE}{number}.slice"
            cgroups += [
                ("", root, "", "", namespace, pod, cores),
                *([("", f"/system.slice{root}", "", "", namespace, pod, cores)] if twice else []),
                (sandbox, f"{root}/cri-0.scope", SANDBOX, "0" * 64, namespace, pod, 0.01 * cores),
                ("main", f"{root}/cri-1.scope", "shop:1", "1" * 64, namespace, pod, 0.69 * cores),
                ("helper", f"{root}/cri-2.scope", "mesh:1", "2" * 64, namespace, pod, 0.3 * cores),
            ]
        lines = []
        for metric, kind, factor in (
            ("container_cpu_usage_seconds_total", "counter", lived),
            ("container_memory_rss", "gauge", 4e8),
            ("container_memory_working_set_bytes", "gauge", 1e9),
        ):
            lines.append(f"# TYPE {metric} {kind}")
            for container, cgroup, image, name, namespace, pod, cores in cgroups:
                cpu = ',cpu="total"' if kind == "counter" else ""
                labels = (
                    f'container="{container}"{cpu},id="{cgroup}",image="{image}",name="{name}",'
                    f'namespace="{namespace}",pod="{pod}"'
                )
                lines.append(f"{metric}{{{labels}}} {cores * factor:.6f} {at}")
        return "\n".join(lines) + "\n"

    return text


def resource_page(pods: Mapping[str, float]) -> Callable[[], str]:
    """The kubelet's /metrics/resource, as `kubelet.serviceMonitor.resource: true` adds it: containers once more."""

    def text() -> str:
        lived = 5_000 + time.monotonic() - BEGUN
        lines = []
        for name, cores in pods.items():
            namespace, _, pod = name.partition("/")
            labels = f'container="main",namespace="{namespace}",pod="{pod}"'
            lines.append(f"container_cpu_usage_seconds_total{{{labels}}} {cores * lived:.6f}")
            lines.append(f"container_memory_working_set_bytes{{{labels}}} {cores * 1e9:.0f}")
        return "\n".join(lines) + "\n"

    return text


def kube_state_metrics(nodes: Mapping[str, str]) -> Callable[[], str]:
    """kube_node_info of these nodes and their addresses, and kube_pod_info beside it."""

    def text() -> str:
        lines = ["# HELP kube_node_info [STABLE] Information about a cluster node.", "# TYPE kube_node_info gauge"]
        lines += [
            f'kube_node_info{{node="{node}",kernel_version="6.1.0",os_image="Debian",'
            f'container_runtime_version="containerd://1.7.13",kubelet_version="v1.31.0",kubeproxy_version="",'
            f'provider_id="",pod_cidr="10.244.0.0/24",system_uuid="u",internal_ip="{address}"}} 1'
            for node, address in nodes.items()
        ]
        lines.append("# TYPE kube_pod_info gauge")
        lines += [
            f'kube_pod_info{{namespace="monitoring",pod="exporter-{node}",node="{node}",host_network="true"}} 1'
            for node in nodes
        ]
        return "\n".join(lines) + "\n"

    return text


DROPPED = [
    "container_cpu_(cfs_throttled_seconds_total|load_average_10s|system_seconds_total|user_seconds_total)",
    "container_memory_(mapped_file|swap)",
    "container_(file_descriptors|tasks_state|threads_max)",
    "container_spec.*",
]
"""What the chart drops of cAdvisor by name."""


def exporter_job(exporter: Exporter, node: str, address: str, *, job: str = "node-exporter") -> dict[str, object]:
    """A target as the chart's ServiceMonitor of node-exporter makes it: its node is named by its address only."""
    labels = {
        "job": "node-exporter", "instance": f"{address}:9100", "namespace": "monitoring", "endpoint": "http-metrics",
        "service": "stack-prometheus-node-exporter", "pod": f"exporter-{node}", "container": "node-exporter",
    }  # fmt: skip
    return _job(f"{job}-{node}", exporter, f"node-exporter/{node}", labels)


def kubelet_job(exporter: Exporter, node: str, address: str, path: str = "cadvisor") -> dict[str, object]:
    """A target as the chart's ServiceMonitor of kubelets makes it: the page's own labels win, times are kept."""
    labels = {
        "job": "kubelet", "instance": f"{address}:10250", "namespace": "kube-system", "endpoint": "https-metrics",
        "service": "stack-kubelet", "node": node, "metrics_path": f"/metrics/{path}",
    }  # fmt: skip
    job = _job(f"kubelet-{path}-{node}", exporter, f"{path}/{node}", labels)
    if path == "cadvisor":
        job["metric_relabel_configs"] = [
            *({"source_labels": ["__name__"], "regex": regex, "action": "drop"} for regex in DROPPED),
            # "Drop cgroup metrics with no pod."
            {"source_labels": ["id", "pod"], "regex": ".+;", "action": "drop"},
        ]
    return job


def _job(name: str, exporter: Exporter, page: str, labels: dict[str, str]) -> dict[str, object]:
    return {
        "job_name": name,
        "honor_labels": "kubelet" in name or "state" in name,
        "honor_timestamps": True,
        "metrics_path": f"/{page}",
        "static_configs": [{"targets": [exporter.address], "labels": labels}],
    }
