"""All services at once with what cannot be true in objects, messages and measurements: the short form of `poison`.

No service ends, no other object is hidden, and everything is named.
"""

import json
from collections.abc import Mapping
from typing import Any

import msgspec
import pytest
from collector.sources_in_memory import Usage
from descheduler.cluster import a_node_object, a_pod_object
from flow.loop import HOT, IDLE, Loop

from equipoise.contracts.bus import subjects
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, NodeUtilization
from equipoise.runtime.kubernetes.client import LEASES, NODES, PODS

AMOUNTS = ("1e308", "100e306", "10E", "9223372036854775807", "-5", "1e39")

QUIET = 12
"""Further nodes: with few, the nodes that are not known would be too large a share."""

MESSAGES: Mapping[str, Any] = {
    subjects.node_utilization("ghost-usage"): {"pods": {"u": {"cpu": 1e39, "memory": 1}}},
    subjects.node_utilization("ghost-time"): {"queried_at": 1e300},
    subjects.node_utilization("ghost-base"): {"base": {"cpu": 1e308, "memory": -1e39}},
    subjects.node_utilization("ghost-windows"): {"windows": {"5m": {"sampled_at": 1e12, "mean": {"cpu": 1}}}},
    subjects.node_utilization("ghost-sequence"): {"sequence": 10**30},
    subjects.node_utilization("ghost-type"): {"pods": [1]},
}
"""By subject: what a valid message contains instead."""


def encoded(change: Mapping[str, Any]) -> bytes:
    return json.dumps(msgspec.to_builtins(NODE_UTILIZATION) | change).encode()


def as_json(value: objects.Object, change: Mapping[str, Any]) -> bytes:
    """The JSON of an object with other values in it."""
    return json.dumps(merged(msgspec.to_builtins(value, str_keys=True, builtin_types=()), change)).encode()


def merged(document: Any, change: Any) -> Any:
    if isinstance(document, dict) and isinstance(change, Mapping):
        return document | {key: merged(document.get(key, {}), value) for key, value in change.items()}
    return change


class Poisoned(Loop):
    """The cluster of `Loop`, and one object of each kind that cannot be read or has amounts that cannot be true."""

    def _populate(self) -> None:
        super()._populate()
        for number in range(QUIET):
            self.kube.put(NODES, a_node_object(f"node-quiet-{number}", self.clock.now()))

    def poison(self) -> None:
        now = self.clock.now()
        containers = [{"name": "a", "resources": {"requests": {"cpu": "6e305"}}}] * 2
        odd = "x\x1b]52;c;aGFjaw==\x07" + "y" * 200_000
        pods: dict[str, Mapping[str, Any]] = {
            f"amount-{number}": {"spec": {"containers": [{"name": "a", "resources": {"requests": {"cpu": amount}}}]}}
            for number, amount in enumerate(AMOUNTS)
        } | {
            "sum": {"spec": {"containers": containers}},
            "batch": {
                "spec": {
                    "containers": [{"name": "a", "resources": {"requests": {"kubernetes.io/batch-cpu": "1e300"}}}],
                    "priority": 5_500,
                }
            },
            "year": {"status": {"startTime": "0000-01-01T00:00:00Z"}},
            "long": {"metadata": {"annotations": {"equipoise.dev/evict": odd}}},
            "type": {"spec": {"containers": "none"}},
        }
        for number, (name, change) in enumerate(pods.items()):
            pod = a_pod_object(f"poison-{name}", IDLE[number % 2], now, "poison")
            self.kube.put_json(PODS, as_json(pod, change))
        nodes: dict[str, Mapping[str, Any]] = {
            "allocatable": {"status": {"allocatable": {"cpu": "1e308"}, "capacity": {"cpu": "1e308"}}},
            "condition": {
                "status": {
                    "conditions": [{"type": "Ready", "status": "True", "lastTransitionTime": "0000-01-01T00:00:00Z"}]
                }
            },
            "cpus": {
                "metadata": {
                    "annotations": {
                        "node.koordinator.sh/reservation": json.dumps({"reservedCPUs": "0-" + "9" * 400}),
                        "node.koordinator.sh/raw-allocatable": "[" * 5_000,
                    }
                }
            },
        }
        for name, change in nodes.items():
            self.kube.put_json(NODES, as_json(a_node_object(f"poison-{name}", now), change))
        lease = objects.Lease(metadata=objects.ObjectMeta(name="equipoise-descheduler", namespace="tenant"))
        self.kube.put_json(LEASES, as_json(lease, {"spec": {"renewTime": "0000-01-01T00:00:00Z"}}))
        for subject, change in MESSAGES.items():
            self.bus.inject(subject, encoded(change))

    def _measure(self) -> None:
        super()._measure()
        if "poison-cpus" in self.source.nodes:
            self.source.nodes["poison-cpus"] = Usage(cpu=1e39, memory=1e300, interval=1e-300)

    @property
    def named(self) -> set[str]:
        """Everything that some service names."""
        registries = [self.kube.unreadable, self.bus.unreadable, *(each.unreadable for each in self.health.values())]
        return {name for registry in registries for _, name, _ in registry}


@pytest.mark.parametrize("late", [False, True], ids=["before the start", "while they run"])
async def test_nothing_that_one_object_message_or_measurement_contains_stops_the_others(late: bool) -> None:
    """Nine pods of the hot node are candidates as before, and the idle nodes are measured and reclaimed."""
    loop = Poisoned()
    if not late:
        loop.poison()
    async with loop.running(colocation=True):
        await loop.pass_time(30)
        if late:
            loop.poison()
        await loop.until(lambda: len(loop.evicted()) >= 1, limit=1_200)
        await loop.pass_time(60)

        evicted = loop.evicted()
        assert not [name for name in evicted if name.startswith("poison")]
        assert {name.rpartition("-1-")[0] for name in evicted} <= {"web", "api", "cart"}
        for node in (HOT, *IDLE):
            newest = loop.bus.published(NodeUtilization, subjects.node_utilization(node))[-1]
            assert newest.windows, node
            assert newest.queried_at > loop.clock.now() - 60
        reclaimed = {message.node for message in loop.bus.published(ReclaimedNode, "equipoise.reclaim.node.*")}
        assert reclaimed >= {HOT, *IDLE}
        assert loop.named >= set(MESSAGES)
        unnamed = {f"shop/poison-{name}" for name in ("sum", "batch", "year", "type")} - loop.named
        assert unnamed == set()
        assert {"poison-allocatable", "poison-condition"} <= loop.named
        assert any("poison-cpus" in problem for problem in loop.health["collector"].problems)
        for health in loop.health.values():
            assert all(problem.isprintable() for problem in health.problems)
            assert health.report().ready or health.leading is False
