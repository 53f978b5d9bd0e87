"""The cluster for fault injection: its workloads, the configuration of Equipoise, and the guarantees that follow."""

from collections.abc import Mapping
from typing import Any

from equipoise.contracts.bus.subjects import ServiceName
from equipoise.contracts.colocation.bands import RESOURCE_NAMES
from equipoise.scorer.settings import ExtenderSettings
from equipoise.scorer.shell.connections import MAX_NEW_CONNECTIONS
from equipoise.testbed import objects
from equipoise.testbed.objects import constant_usage_annotations
from faults.history import Guarantees, Window

Document = dict[str, Any]

NAMESPACE = "shop"
PODS = f"/api/v1/namespaces/{NAMESPACE}/pods"
APPS = f"/apis/apps/v1/namespaces/{NAMESPACE}"
"""Paths of its pods, and of its Deployments and other workloads."""

OWN = "equipoise-system"
MOVES = "moves"
"""The namespace of the Deployments whose pods are moved without a gap."""

MAX_MOVES = 3
"""surge.maxMoves"""

BATCHES = "batches"
"""The namespace of pods that the harness creates in large numbers."""

BAND_POD = "reclaimed"
BAND_AMOUNTS = {"kubernetes.io/batch-cpu": 500.0, "kubernetes.io/batch-memory": 2.0**28}
"""The first part of the names of pods of the band batch, and what each of them requests."""

NODES = tuple(f"node-{number}" for number in range(10))
CORES = 10.0
MEMORY = 64 * 2.0**30

MOVABLE = ("amber", "basil", "cedar", "dill", "elder", "fern", "ginger", "hazel")
"""Deployments."""

HEAVY = MOVABLE[:3]
"""Those whose fake kubelets report high usage."""

STATEFUL = "vault"
REPLICAS = 6
FLOOR = 4
"""2 of 4 to 10 replicas may be unavailable (Koordinator, GetMaxUnavailable)."""

PINNED, TWICE = "pinned", "twice"
"""A Deployment whose budget allows nothing, and one with two budgets."""

PROTECTED = ("agent", "bare", "optout", "single", "scratch", "critical", "system")

FRESHNESS = 8.0
"""Seconds: load.freshness.eviction."""

SCORE_LAG = 4.0
"""Seconds by which a sample is fresh for longer for scores than for evictions."""

WINDOW = 10.0
"""Seconds: the only window of load."""

COOLDOWN = 4.0
"""Seconds after an eviction for which the descheduler proposes no pod of the same workload."""

LATE, LATE_AFTER = 3, 6.0
"""At this many replacements that are missing for this many seconds, evictions stop."""

MIGRATION_TIMEOUT = 25.0
"""Seconds after which a missing replica is no longer waited for."""


CANARIES = {
    "the password for NATS": "canary-5e0c2f-password",
    "the environment of a container": "canary-91b7aa-environment",
    "the annotations of a pod": "canary-c3d84e-annotation",
}
"""What no log may contain: by what they are."""


def workload_of(pod: str) -> str:
    """From the pod's name: the names of these workloads contain no hyphen."""
    return pod.partition("-")[0]


def manifests() -> list[Document]:
    def deployment(name: str, replicas: int, namespace: str = NAMESPACE, **template: Any) -> Document:
        labels = objects.pod_template(name, **template)
        return objects.deployment(name, _with_canaries(labels), replicas=replicas, namespace=namespace)

    bare = objects.pod_template("bare")
    return [
        *map(objects.namespace, (NAMESPACE, BATCHES, MOVES)),
        *(
            deployment(name, REPLICAS, annotations=constant_usage_annotations(900 if name in HEAVY else 100, 256))
            for name in MOVABLE
        ),
        objects.stateful_set(
            STATEFUL, _with_canaries(objects.pod_template(STATEFUL)), replicas=REPLICAS, namespace=NAMESPACE
        ),
        deployment(PINNED, 4),
        objects.pod_disruption_budget("none", PINNED, max_unavailable=0, namespace=NAMESPACE),
        deployment(TWICE, 4),
        objects.pod_disruption_budget("first", TWICE, max_unavailable=2, namespace=NAMESPACE),
        objects.pod_disruption_budget("second", TWICE, max_unavailable=2, namespace=NAMESPACE),
        objects.daemon_set("agent", objects.pod_template("agent"), namespace=NAMESPACE),
        objects.pod("bare-0", bare, namespace=NAMESPACE),
        deployment("optout", 3, annotations={"equipoise.dev/evict": "false"}),
        deployment("single", 1),
        deployment("scratch", 3, spec={"volumes": [{"name": "scratch", "emptyDir": {}}]}),
        deployment("critical", 3, spec={"priorityClassName": "system-cluster-critical"}),
        deployment("system", 2, namespace="kube-system"),
    ]


def _with_canaries(template: Document) -> Document:
    template["metadata"]["annotations"]["example.com/secret"] = CANARIES["the annotations of a pod"]
    for container in template["spec"]["containers"]:
        container["env"] = [{"name": "SECRET", "value": CANARIES["the environment of a container"]}]
    return template


def band_pods(run: str, count: int) -> list[Document]:
    """On different nodes if possible; without a controller, so that nothing moves them, and with other names in each
    run."""
    amounts = {name: f"{amount:.0f}" for name, amount in BAND_AMOUNTS.items()}
    container = {"name": "main", "image": "fake", "resources": {"requests": amounts, "limits": amounts}}
    spread = {
        "maxSkew": 1,
        "topologyKey": "kubernetes.io/hostname",
        "whenUnsatisfiable": "ScheduleAnyway",
        "labelSelector": {"matchLabels": {"app": BAND_POD}},
    }
    template = objects.pod_template(BAND_POD, spec={"containers": [container], "topologySpreadConstraints": [spread]})
    return [objects.pod(f"{BAND_POD}-{run}-{number}", template, namespace=BATCHES) for number in range(count)]


def node_manifests() -> list[Document]:
    return [objects.node(name, cpu=10, memory="64Gi") for name in NODES]


POD_COUNT = (len(MOVABLE) + 1) * REPLICAS + 4 + 4 + len(NODES) + 1 + 3 + 1 + 3 + 3 + 2

LIMITS: Document = {
    # High enough for traffic, low enough to be reached all the time.
    "evictionsPerWorkload": {"max": 2, "window": "4s"},
    "evictionsPerNamespace": {"max": 24, "window": "8s"},
    "evictionsPerCluster": {"max": "50%", "maxCount": 20, "window": "8s"},
    "migratingPerNode": {"max": 4},
    # The cluster is too new to have a usual rate.
    "unusualRate": {"max": "unlimited"},
    # The ledger keeps entries for the longest window: in an hour of evictions at this rate, it would be full.
    "preemptions": {"max": 1, "window": "60s"},
    "lateReplacements": {"max": LATE, "after": f"{LATE_AFTER:g}s"},
    "rate": {"max": 10, "window": "1s"},
    "migrationTimeout": f"{MIGRATION_TIMEOUT:g}s",
    "replacementSettlingPeriod": "500ms",
    "startupGracePeriod": "0s",
}


def guarantees() -> Guarantees:
    """The guarantees that follow from `LIMITS` and the rest of the configuration."""
    workloads = (*MOVABLE, STATEFUL)
    return Guarantees(
        windows=(
            Window(scope="workload", max=2, seconds=4.0),
            Window(scope="namespace", max=24, seconds=8.0),
            Window(scope="cluster", max=20, seconds=8.0),
        ),
        migrating_per_node=4,
        migration_timeout=MIGRATION_TIMEOUT,
        replicas=dict.fromkeys(workloads, REPLICAS),
        floors=dict.fromkeys(workloads, FLOOR),
        # The API server itself protects pods whose budget allows nothing, or that have two.
        protected=frozenset((*PROTECTED, PINNED, TWICE)),
        max_moves=MAX_MOVES,
        freshness=FRESHNESS,
        score_lag=SCORE_LAG,
        node_amounts={
            name: limit
            for names in RESOURCE_NAMES.values()
            for name, limit in zip(names, (1_000 * CORES, MEMORY), strict=True)
        },
        nodes=len(NODES),
        connections={"scorer": ExtenderSettings().max_connections + MAX_NEW_CONNECTIONS},
    )


def document(
    service: ServiceName, *, kubeconfig: str, nats: str, prometheus: str, health: str, own: Mapping[str, Any]
) -> Document:
    """The configuration of one process of a service; `own` adds to its section."""
    sections: dict[ServiceName, Document] = {
        "collector": {
            "prometheus": {"url": prometheus, "timeout": 3},
            "profile": {"enabled": False},
            "leaderElection": False,
            "placementResyncPeriod": "2s",
        },
        "descheduler": {
            "leaderElection": {"leaseDuration": 3, "renewDeadline": 2, "retryPeriod": 0.4},
            "interval": "1s",
            "consecutiveAbnormalities": 2,
            "warmUp": "1s",
            "intentLifetime": "12s",
            "cooldown": {"eviction": f"{COOLDOWN:g}s", "refusal": "4s"},
        },
        "binder": {"evict": True, "limits": LIMITS},
        "scorer": {},
        "annotator": {},
        "reclaimer": {
            "enabled": True,
            "mode": "enforce",
            "leaderElection": {"leaseDuration": 3, "renewDeadline": 2, "retryPeriod": 0.4},
            "interval": "1s",
            "degrade": {"keep": f"{FRESHNESS + SCORE_LAG + 2:g}s", "expire": f"{FRESHNESS + SCORE_LAG + 8:g}s"},
            "offer": {"growth": 50},
            "writesPerSecond": 50,
        },
    }
    return {
        "apiVersion": "equipoise.dev/v1alpha1",
        "kind": "EquipoiseConfiguration",
        "logging": {"format": "json", "level": "debug"},
        "nats": {"url": nats},
        "kubernetes": {"kubeconfig": kubeconfig, "namespace": OWN},
        "load": {
            "windows": [{"name": "5m", "length": f"{WINDOW:g}s", "refreshPeriod": "1s"}],
            "freshness": {"eviction": f"{FRESHNESS:g}s", "score": f"{FRESHNESS + SCORE_LAG:g}s"},
            "coverage": {"nodeSettlingPeriod": "1s"},
        },
        # New replicas do not come from an autoscaler here.
        "protection": {"replicasSettlingPeriod": "1s"},
        service: {"health": health, **sections[service], **own},
    }
