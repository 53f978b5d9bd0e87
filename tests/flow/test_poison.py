"""All services at once with what cannot be true in objects, messages and measurements: the short form of `poison`.

No service ends, no other object is hidden, and everything is named.
"""

import json
import random
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import msgspec
import pytest
from collector.sources_in_memory import Usage
from descheduler.cluster import a_node_object, a_pod_object, a_workload_object
from flow.loop import HOT, IDLE, Loop
from readers.catalog import OBJECT, READERS
from readers.poisoned_pods import HARMLESS, UNKNOWN, generated, generated_pods

from equipoise.contracts.bus import subjects
from equipoise.contracts.bus.channels import CHANNELS
from equipoise.contracts.kubernetes.annotations import read_node_load
from equipoise.contracts.kubernetes.objects.cluster import Lease
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NODE_UTILIZATION, NodeUtilization
from equipoise.runtime.bus import AlreadyQueued
from equipoise.runtime.kubernetes.client import BUDGETS, DEPLOYMENTS, LEASES, NODES, PODS

QUIET = tuple(f"node-quiet-{number}" for number in range(12))
"""Further nodes: with few, the nodes that are not known would be too large a share."""

GENERATED = 40
"""Random pods, and random objects and messages of each kind."""

UNMEASURED = 3
"""Random nodes: with more, too large a share of the nodes would be unknown."""

NAME = (("metadata", "name"), ("metadata", "namespace"), ("metadata", "uid"))

MESSAGES: Mapping[str, Any] = {
    subjects.node_utilization("ghost-usage"): {"pods": {"u": {"cpu": 1e39, "memory": 1}}},
    subjects.node_utilization("ghost-time"): {"queried_at": 1e300},
    subjects.node_utilization("ghost-base"): {"base": {"cpu": 1e308, "memory": -1e39}},
    subjects.node_utilization("ghost-windows"): {"windows": {"5m": {"sampled_at": 1e12, "mean": {"cpu": 1}}}},
    subjects.node_utilization("ghost-sequence"): {"sequence": 10**30},
    subjects.node_utilization("ghost-epoch"): {"epoch": 2**53},
    subjects.node_utilization("ghost-type"): {"pods": [1]},
}
"""What a valid message contains instead, by subject."""


def encoded(change: Mapping[str, Any]) -> bytes:
    return json.dumps(msgspec.to_builtins(NODE_UTILIZATION) | change).encode()


def plain(value: Object) -> Any:
    """An object as JSON without the fields that have their defaults."""
    return msgspec.to_builtins(value, str_keys=True, builtin_types=())


def as_json(value: Object, change: Mapping[str, Any]) -> bytes:
    """The JSON of an object with other values in it."""
    return json.dumps(merged(plain(value), change)).encode()


def merged(document: Any, change: Any) -> Any:
    if isinstance(document, dict) and isinstance(change, Mapping):
        return document | {key: merged(document.get(key, {}), value) for key, value in change.items()}
    return change


class Poisoned(Loop):
    """The cluster of `Loop`, and one object of each kind that cannot be read or has amounts that cannot be true."""

    def _populate(self) -> None:
        super()._populate()
        for name in QUIET:
            self.kube.put(NODES, a_node_object(name, self.clock.now()))

    def poison(self) -> None:
        now = self.clock.now()
        self._poison_pods()
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
        lease = Lease(metadata=ObjectMeta(name="equipoise-descheduler", namespace="tenant"))
        self.kube.put_json(LEASES, as_json(lease, {"spec": {"renewTime": "0000-01-01T00:00:00Z"}}))
        for subject, change in MESSAGES.items():
            self.bus.inject(subject, encoded(change))

    def _poison_pods(self) -> None:
        """On the hot node and the idle ones, and those with unknown amounts where nothing else is."""
        pods: dict[str, tuple[str, Mapping[str, Any]]] = {
            f"{name}-{node}": (node, change) for name, change in HARMLESS.items() for node in (HOT, *IDLE)
        }
        unknown = {
            **UNKNOWN,
            "year": {"status": {"startTime": "0000-01-01T00:00:00Z"}},
            "type": {"spec": {"containers": "none"}},
        }
        pods |= {name: (QUIET[0], change) for name, change in unknown.items()}
        for name, (node, change) in pods.items():
            self._put_pod(name, node, change)

    def generate(self, seed: int) -> None:
        """Random pods, objects of other kinds, and messages; the same ones for the same seed."""
        generator = random.Random(seed)
        for name, change in generated_pods(generator, GENERATED):
            self._put_pod(name, generator.choice(QUIET[1:]), change)
        now = self.clock.now()
        named = ObjectMeta(name="poison-random", namespace="poison")
        for resource, count, value in (
            (PODS, GENERATED, a_pod_object("poison-random", QUIET[1], now, "poison")),
            (NODES, UNMEASURED, a_node_object("poison-random", now)),
            (DEPLOYMENTS, GENERATED, a_workload_object("poison-random")),
            (BUDGETS, GENERATED, PodDisruptionBudget(metadata=named)),
            (LEASES, GENERATED, Lease(metadata=named)),
        ):
            own = merged(plain(value), {"metadata": {"namespace": value.metadata.namespace}})
            for number, text in enumerate(generated(generator, merged(OBJECT, own), count, NAME)):
                self.kube.put_json(resource, text.replace("poison-random", f"poison-random-{number}").encode())
        for channel in CHANNELS:
            subject, message = channel.example
            reader = READERS[f"message {type(message).__name__}"]
            for text in generated(generator, msgspec.to_builtins(message), GENERATED, ()):
                raw = text.encode(errors="surrogatepass")
                try:
                    reader.read(raw)
                except reader.errors:  # others are valid messages: lies of somebody who may publish
                    with suppress(AlreadyQueued):
                        self.bus.inject(subject, raw)

    def _put_pod(self, name: str, node: str, change: Mapping[str, Any]) -> None:
        self.kube.put_json(PODS, as_json(a_pod_object(f"poison-{name}", node, self.clock.now(), "poison"), change))

    def hidden(self) -> list[str]:
        """What a service does not know of the ordinary nodes and pods any more."""
        now, found = self.clock.now(), []
        annotations = {node.metadata.name: node.metadata.annotations for node in self.kube.stored(NODES)}
        placements = self.placements()
        for node in (HOT, *IDLE):
            pods = {f"uid-{name}" for name, each in placements.items() if each == node and "poison" not in name}
            measured = self.bus.published(NodeUtilization, subjects.node_utilization(node))[-1]
            placed = self.bus.published(NodePlacement, subjects.node_placement(node))[-1]
            reclaimed = self.bus.published(ReclaimedNode, subjects.reclaimed_node(node))[-1]
            if not measured.windows or measured.queried_at < now - 60 or not pods <= measured.pods.keys():
                found.append(f"collector: the usage of {node}")
            if not pods <= {pod.uid for pod in placed.pods}:
                found.append(f"collector: the pods of {node}")
            load, _ = read_node_load(annotations[node])
            if load is None or load.sampled_at.timestamp() < now - 600:
                found.append(f"annotator: the load of {node}")
            if not reclaimed.bands or reclaimed.evaluated_at < now - 120:
                found.append(f"reclaimer: the amounts of {node}")
        return found

    def _measure(self) -> None:
        super()._measure()
        if "poison-cpus" in self.source.nodes:
            self.source.nodes["poison-cpus"] = Usage(cpu=1e39, memory=1e300, interval=1e-300)

    @property
    def named(self) -> set[str]:
        """Everything that some service names."""
        registries = [self.kube.unreadable, self.bus.unreadable, *(each.unreadable for each in self.health.values())]
        return {name for registry in registries for _, name, _ in registry}


def check(loop: Poisoned) -> None:
    """No service names nothing, and none has lost what is beside."""
    for health in loop.health.values():
        assert all(problem.isprintable() for problem in health.problems)
        assert health.report().ready or health.leading is False
    assert loop.hidden() == []
    evicted = loop.evicted()
    assert not [name for name in evicted if name.startswith("poison")]
    assert {name.rpartition("-1-")[0] for name in evicted} <= {"web", "api", "cart"}


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

        check(loop)
        explanation = await loop.explanation("api")
        assert not explanation.neutral, explanation.why
        assert not [node.node for node in explanation.nodes if node.status == "unknown"]
        assert loop.named >= set(MESSAGES)
        assert {f"shop/poison-{name}" for name in (*UNKNOWN, "year", "type")} - loop.named == set()
        assert {"poison-allocatable", "poison-condition"} <= loop.named
        assert any("poison-cpus" in problem for problem in loop.health["collector"].problems)


@pytest.mark.parametrize("seed", [1, 2])
async def test_random_objects_and_messages_stop_no_others(seed: int) -> None:
    """Pods of other nodes, nodes, Deployments, budgets, Leases and messages of every kind."""
    loop = Poisoned()
    async with loop.running(colocation=True):
        await loop.pass_time(30)
        loop.generate(seed)
        await loop.until(lambda: len(loop.evicted()) >= 1, limit=1_200)
        await loop.pass_time(60)

        check(loop)
        assert len(loop.named) > GENERATED
