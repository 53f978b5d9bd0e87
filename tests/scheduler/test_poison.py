"""`equipoise scheduler` with objects of every kind that it watches, in which one part is anything."""

import json
import random
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from scheduler.live_schedulers import live_scheduler, pending
from scheduling.pods import a_node

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.storage import PersistentVolumeClaim
from equipoise.runtime.kubernetes.client import (
    BUDGETS,
    CLAIMS,
    CSI_NODES,
    NODES,
    PODS,
    SERVICES,
    STORAGE_CLASSES,
    VOLUMES,
    Resource,
)

TERM = {"nodeSelectorTerms": [{"matchExpressions": [{"key": "a", "operator": "Gt", "values": ["5"]}]}]}
POD = msgspec.to_builtins(pending("bad")) | {
    "spec": msgspec.to_builtins(pending("bad").spec)
    | {
        "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": TERM}},
        "tolerations": [{"key": "a", "operator": "Gt", "value": "5"}],
        "overhead": {"cpu": "10m"},
        "volumes": [{"name": "v", "persistentVolumeClaim": {"claimName": "c"}}],
        "topologySpreadConstraints": [{"maxSkew": 1, "topologyKey": "z", "labelSelector": {"matchLabels": {"a": "b"}}}],
    }
}
DOCUMENTS: list[tuple[Resource[Any], dict[str, Any]]] = [
    (PODS, POD),
    (NODES, msgspec.to_builtins(a_node("bad"))),
    (VOLUMES, {"spec": {"capacity": {"storage": "1Gi"}, "storageClassName": "s", "nodeAffinity": {"required": TERM}}}),
    (CLAIMS, {"spec": {"storageClassName": "s", "resources": {"requests": {"storage": "1Gi"}}}}),
    (STORAGE_CLASSES, {"volumeBindingMode": "WaitForFirstConsumer", "provisioner": "p"}),
    (BUDGETS, {"spec": {"selector": {"matchLabels": {"a": "b"}}, "minAvailable": 1}}),
    (SERVICES, {"spec": {"selector": {"a": "b"}}}),
    (CSI_NODES, {"spec": {"drivers": [{"name": "d", "allocatable": {"count": 5}}]}}),
]
VALUES: list[Any] = [
    None, True, -1, 1e308, 10**30, "", "0000-01-01T00:00:00Z", "1e308", "10E", "-1", "9" * 5_000,
    "9223372036854775807", [], {}, [None], [5], {"a": None}, {"cpu": "1e308"}, {"cpu": 5}, "\x1b[2J", "\ud800",
]  # fmt: skip


def places(part: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The places of every part of a document."""
    if place and place[0] != "metadata":
        yield place
    for key, inner in part.items() if isinstance(part, dict) else enumerate(part) if isinstance(part, list) else ():
        yield from places(inner, (*place, key))


def changed(document: dict[str, Any], place: tuple[Any, ...], value: Any, name: str) -> bytes:
    found = json.loads(json.dumps(document))
    part = found
    for key in place[:-1]:
        part = part[key]
    part[place[-1]] = value
    found["metadata"] = {"name": name, "namespace": "default", "uid": name}
    return json.dumps(found).encode()


CASES = [(resource, document, place, value) for resource, document in DOCUMENTS for place in places(document)
         for value in VALUES]  # fmt: skip


@pytest.mark.parametrize("part", range(12))
async def test_whatever_an_object_contains_the_other_pods_are_scheduled(part: int) -> None:
    chosen = random.Random(part).sample(CASES, 25)
    async with live_scheduler() as live:
        live.add_node(cpu="1000")
        live.kube.put(CLAIMS, PersistentVolumeClaim(metadata=ObjectMeta(name="c", namespace="default")))
        for number, (resource, document, place, value) in enumerate(chosen):
            live.kube.put_json(resource, changed(document, place, value, f"bad-{number}"))
        live.add_pod("good")
        await live.settle()
        await live.clock.advance(5)

        assert live.node_of("good"), chosen
        assert not live.running.done(), chosen
        assert not [event.note for event in live.kube.events if "nothing could be decided" in event.note]
