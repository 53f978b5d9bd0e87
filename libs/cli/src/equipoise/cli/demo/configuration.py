"""What the demo tells Equipoise and kube-scheduler, and how its time is compressed."""

from collections.abc import Mapping
from typing import Any

from equipoise.cli.demo.figures import WindowLimit
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.configuration.duration import Duration
from equipoise.runtime.configuration import compress, read_sections, to_document

Document = dict[str, Any]

EXTENDER_WEIGHT = 5

PATIENT = "1s"
"""httpTimeout of the demo, five times that of the shipped entry: here a whole cluster shares two cores with the scorer,
and a pod that is placed without its answer may go home.
"""


def scheduler_configuration(extender_url: str | None, *, timeout: str = "200ms") -> Document:
    """The stock kube-scheduler, with Equipoise as an extender once it has joined."""
    if extender_url is None:
        return {}
    extender = {
        "urlPrefix": extender_url,
        "prioritizeVerb": "prioritize",
        "weight": EXTENDER_WEIGHT,
        "nodeCacheCapable": True,
        "ignorable": True,
        "httpTimeout": timeout,
    }
    return {"extenders": [extender]}


def equipoise_document(
    *,
    kubeconfig: str,
    prometheus_url: str,
    nats_url: str,
    ports: Mapping[str, int],
    neutral: bool,
    sliced: bool,
) -> Document:
    """The configuration in the trace's own time, before compression.

    The demo's Prometheus scrapes once a second, which is minutes of the trace's day. So everything whose length
    follows from the scrape interval (windows, lives of samples, the life of an intent) is longer than its default;
    limits and cool-downs are the defaults, but for the two that need more than the demo has: nothing is usual yet on
    its first day, and a second without a word is no outage. A slice of a trace cuts most workloads down to one
    replica, which would protect them, and its memory is 80 % full everywhere: there, and only there, such pods may
    move, nodes may be filled further, and a node has to be further from the mean to be worth a move.
    """
    band = 12 if sliced else 8
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "nats": {"url": nats_url},
        "kubernetes": {"kubeconfig": kubeconfig},
        "load": {
            "windows": [
                {"name": "15m", "length": "15m", "refreshPeriod": "3m"},
                {"name": "1h", "length": "1h", "refreshPeriod": "3m"},
            ],
            "freshness": {"eviction": "12m", "score": "15m", "skewWarning": "30m", "skewUnknown": "1h"},
        },
        "namespaces": {"exclude": ["kube-system", "kube-public", "kube-node-lease", "equipoise-system", "payments"]},
        "thresholds": {"high": {"cpu": 65, "memory": 95}, "low": {"cpu": 45, "memory": 90}} if sliced else {},
        "protection": {"minReplicas": 1 if sliced else 2},
        "collector": {
            "health": f"127.0.0.1:{ports['collector']}",
            "prometheus": {"url": prometheus_url},
            "placementBatchPeriod": "10s",
            "profile": {"enabled": False},
        },
        "annotator": {"health": f"127.0.0.1:{ports['annotator']}"},
        "scorer": {
            "health": f"127.0.0.1:{ports['scorer']}",
            "listen": f"127.0.0.1:{ports['extender']}",
            "neutral": neutral,
        },
        "descheduler": {
            "health": f"127.0.0.1:{ports['descheduler']}",
            "intentLifetime": "12m",
            "strategies": [{"name": "low_node_load", "deviation": {"high": {"cpu": band}, "low": {"cpu": band}}}],
        },
        "binder": {
            "health": f"127.0.0.1:{ports['binder']}",
            "evict": True,
            "limits": {"unusualRate": {"max": "unlimited"}, "outageThreshold": "6h"},
        },
    }


def compressed_document(document: Document, factor: float) -> Document:
    """The same document, every default written out and every length of time divided by `factor`."""
    plain = {name: value for name, value in document.items() if name not in ("apiVersion", "kind")}
    shared, own = read_sections(plain, SERVICE_SETTINGS)
    return to_document(compress(shared, factor), {name: compress(section, factor) for name, section in own.items()})


def limits_in_force(document: Document) -> Document:
    """The binder's limits as they stand in a compressed document."""
    limits: Document = document["binder"]["limits"]
    return limits


def window_limits(limits: Document) -> list[WindowLimit]:
    """Those limits that the audit log can be held against: so many evictions in any window."""
    seconds = {name: Duration.parse(limit["window"]) for name, limit in limits.items() if "window" in (limit or ())}
    cluster = limits["evictionsPerCluster"]
    return [
        WindowLimit(
            scope="workload", count=limits["evictionsPerWorkload"]["max"], seconds=seconds["evictionsPerWorkload"]
        ),
        WindowLimit(
            scope="namespace", count=limits["evictionsPerNamespace"]["max"], seconds=seconds["evictionsPerNamespace"]
        ),
        WindowLimit(
            scope="cluster",
            count=cluster["maxCount"],
            share=float(cluster["max"].removesuffix("%")) / 100,
            seconds=seconds["evictionsPerCluster"],
        ),
    ]
