"""The configuration of the demo: the defaults in compressed time, except for a few settings that must differ."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal

import msgspec

from equipoise.cli.demo.figures import WindowLimit
from equipoise.cli.demo.manifests import EXCLUDED_NAMESPACE
from equipoise.cli.service_settings import SERVICE_SETTINGS
from equipoise.contracts.bus.subjects import ALL_SERVICES
from equipoise.contracts.configuration.duration import Duration
from equipoise.runtime.configuration import compress, read_sections, to_document, without_header

Document = dict[str, Any]
Placement = Literal["extender", "hints"]
"""How scores reach kube-scheduler."""

EXTENDER_WEIGHT = 5

EXTENDER_TIMEOUT = "1s"
"""httpTimeout of the extender, instead of the 200ms of the shipped entry.

After a timeout, a replacement is placed without scores and may return to the node that its pod was evicted from.
"""

REAL_TIME = (
    ("load", "freshness", "skewWarning"),
    ("load", "freshness", "skewUnknown"),
    ("collector", "placementBatchPeriod"),
    ("annotator", "hints", "validity"),
    ("binder", "limits", "outageThreshold"),
    ("surge", "readyTimeout"),
)
"""Durations that are not compressed, because they concern real clocks, connections and the start of pods, and not the
time of the trace.

Network timeouts and the durations of Leases are plain numbers of seconds, which are never compressed.
"""

RECLAIM_LIMIT = 65.0
"""Percent of a node's cores that high-priority and batch pods together should stay below: the default."""


class Difference(msgspec.Struct, frozen=True, kw_only=True):
    """Settings that differ from their defaults. Durations are in the time of the trace."""

    settings: str
    reason: str
    document: Document = {}


COMPRESSION = (
    Difference(
        settings="load.windows 15m and 1h (refreshed every 3m) and 1d; load.freshness.eviction 12m, .score 15m",
        reason="Prometheus scrapes once per second, which is once per 3.75 minutes of the trace",
        document={
            "load": {
                "windows": [
                    {"name": "15m", "length": "15m", "refreshPeriod": "3m"},
                    {"name": "1h", "length": "1h", "refreshPeriod": "3m"},
                    {"name": "1d", "length": "1d", "refreshPeriod": "30m"},
                ],
                "freshness": {"eviction": "12m", "score": "15m"},
            }
        },
    ),
    Difference(
        settings="descheduler.intentLifetime 12m",
        reason="requests to the API server are not compressed",
        document={"descheduler": {"intentLifetime": "12m"}},
    ),
)
"""Required by compression."""

LEVELING = Difference(
    settings="descheduler.strategies low_node_load, level_day with currentLoadWeight 1",
    reason="all nodes shall have the same load, and the current load counts because no past day is measured",
    document={
        "descheduler": {"strategies": [{"name": "low_node_load"}, {"name": "level_day", "currentLoadWeight": 1.0}]}
    },
)
"""What the demo shows. The defaults relieve hot nodes only, and level_day otherwise waits for a measured day."""

BY_PLACEMENT: Mapping[Placement, Difference] = {
    "extender": Difference(
        settings=f"httpTimeout of the extender {EXTENDER_TIMEOUT}",
        reason="the scorer shares the CPUs with the whole cluster",
    ),
    "hints": Difference(
        settings="scorer.hints.interval 3m",
        reason="loads do not change more often, as Prometheus scrapes once per second",
        document={
            "placement": {"extender": False, "hints": True},
            "scorer": {"hints": {"interval": "3m"}},
        },
    ),
}
"""Required by compression too."""

SLICE = Difference(
    settings="thresholds.high.memory 95, thresholds.low.memory 90",
    reason="in a slice of a trace memory is 80 % full",
    document={"thresholds": {"high": {"cpu": 65, "memory": 95}, "low": {"cpu": 45, "memory": 90}}},
)
"""Required for a slice of a recorded trace."""

SINGLE_REPLICAS = Difference(
    settings="protection.minReplicas 1",
    reason="in a slice of a trace most workloads have one replica",
    document={"protection": {"minReplicas": 1}},
)
"""Required for a slice of a recorded trace, unless single replicas are moved without a gap."""

SURGE = Difference(
    settings="surge.mode always, surge.maxMoves 10, surge.readyTimeout 30s (of real time)",
    reason="pods keep serving until their replacements are ready; what a move takes is not compressed",
    document={"surge": {"mode": "always", "maxMoves": 10, "readyTimeout": "30s"}},
)
"""Moves without a gap."""

REBALANCE = (
    Difference(
        settings="binder.limits.evictionsPerCluster 1 a day",
        reason="all moves are those of the campaign, whose budget replaces this limit",
        document={"binder": {"limits": {"evictionsPerCluster": {"max": 1, "maxCount": 1, "window": "1d"}}}},
    ),
    Difference(
        settings="descheduler.intentLifetime, binder.maxIntentLifetime 60m, load.freshness.eviction, .score 45m",
        reason="the moves of a campaign wait for one another, and what a move takes is not compressed",
        document={
            "descheduler": {"intentLifetime": "60m"},
            "binder": {"maxIntentLifetime": "60m"},
            "load": {"freshness": {"eviction": "45m", "score": "45m"}},
        },
    ),
)
"""A campaign."""

COLOCATION = (
    Difference(
        settings="reclaimer.enabled true, reclaimer.mode enforce",
        reason="batch pods run on what the reclaimer writes to the status of nodes",
        document={"reclaimer": {"enabled": True, "mode": "enforce"}},
    ),
    Difference(
        settings="reclaimer.strategy.cpuThreshold 82.5, reclaimer.forecast.margin 2.5",
        reason=f"the capacity of a fake node is twice its cores: these are {RECLAIM_LIMIT:g} % and 5 % of its cores",
        document={"reclaimer": {"strategy": {"cpuThreshold": 82.5}, "forecast": {"margin": 2.5}}},
    ),
    Difference(
        settings="reclaimer.interval 3m, .degrade.keep 15m, .degrade.expire 45m, .offer.refreshPeriod 30m",
        reason="Prometheus scrapes once per second, and requests to the API server are not compressed",
        document={
            "reclaimer": {
                "interval": "3m",
                "degrade": {"keep": "15m", "expire": "45m"},
                "offer": {"refreshPeriod": "30m"},
            }
        },
    ),
)
"""Required for batch pods."""


def differences(
    placement: Placement, *, sliced: bool, colocation: bool = False, surge: bool = False, rebalance: bool = False
) -> Sequence[Difference]:
    """All settings that differ from their defaults. `sliced`: the trace is a slice of a recorded one."""
    return (
        *COMPRESSION,
        LEVELING,
        BY_PLACEMENT[placement],
        *([SLICE] if sliced else []),
        *([SINGLE_REPLICAS] if sliced and not surge else []),
        *(COLOCATION if colocation else ()),
        *([SURGE] if surge else []),
        *(REBALANCE if rebalance else ()),
    )


def scheduler_configuration(extender_url: str | None, *, timeout: str = "200ms") -> Document:
    """The configuration of the stock kube-scheduler, or, with a URL, of one that has Equipoise as an extender."""
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


def services_scrape(ports: Mapping[str, int]) -> Document:
    """The scrape job of the services' metrics for Prometheus, so that alerts and dashboards can be tried."""
    targets = [
        {"targets": [f"127.0.0.1:{ports[service]}"], "labels": {"namespace": "equipoise-system", "pod": service}}
        for service in ALL_SERVICES
        if service in ports
    ]
    return {"job_name": "equipoise", "static_configs": targets}


def equipoise_document(
    *,
    kubeconfig: str,
    prometheus_url: str,
    nats_url: str,
    ports: Mapping[str, int],
    neutral: bool,
    differences: Sequence[Difference],
) -> Document:
    """The configuration before compression: addresses, evictions enabled, an excluded namespace, and differences."""
    document: Document = {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "nats": {"url": nats_url},
        "kubernetes": {"kubeconfig": kubeconfig},
        "namespaces": {
            "exclude": ["kube-system", "kube-public", "kube-node-lease", "equipoise-system", EXCLUDED_NAMESPACE]
        },
        **{service: {"health": f"127.0.0.1:{ports[service]}"} for service in ALL_SERVICES if service in ports},
    }
    document["collector"]["prometheus"] = {"url": prometheus_url}
    document["scorer"] |= {"listen": f"127.0.0.1:{ports['extender']}", "neutral": neutral}
    document["binder"]["evict"] = True
    for difference in differences:
        for section, settings in difference.document.items():
            document[section] = document.get(section, {}) | settings
    return document


def compressed_document(document: Document, factor: float) -> Document:
    """The document with all defaults filled in, and with every duration except REAL_TIME divided by `factor`."""
    shared, own = read_sections(without_header(document), SERVICE_SETTINGS)
    compressed = to_document(
        compress(shared, factor), {name: compress(section, factor) for name, section in own.items()}
    )
    uncompressed = to_document(shared, own)
    for *sections, setting in REAL_TIME:
        source, target = uncompressed, compressed
        for section in sections:
            source, target = source[section], target[section]
        target[setting] = source[setting]
    return compressed


def window_limits(document: Document) -> list[WindowLimit]:
    """The limits of a complete document that can be verified with the audit log: evictions in any window."""
    limits = document["binder"]["limits"]

    def seconds(name: str) -> float:
        return Duration.parse(limits[name]["window"])

    cluster = limits["evictionsPerCluster"]
    return [
        *(
            WindowLimit(scope=scope, count=limits[name]["max"], seconds=seconds(name))
            for scope, name in (("workload", "evictionsPerWorkload"), ("namespace", "evictionsPerNamespace"))
        ),
        WindowLimit(
            scope="cluster",
            count=cluster["maxCount"],
            share=float(cluster["max"].removesuffix("%")) / 100,
            seconds=seconds("evictionsPerCluster"),
        ),
    ]
