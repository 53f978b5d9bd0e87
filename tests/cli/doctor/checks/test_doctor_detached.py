"""What `equipoise doctor` finds about pods that moves without a gap have detached."""

from typing import Any, TypeVar

import msgspec
import pytest
from binder.ledgers import a_ledger
from binder.replica_sets import a_move
from builders import NOW, an_intent
from kube_objects import a_pod

from equipoise.binder.shell.ledger_store import KEY, NAME
from equipoise.binder.state.ledger_json import encode
from equipoise.cli.doctor.checks.evictions.detached_pods import MOST_PODS, detached_pods
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.service_settings import AllSettings
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap, Namespace
from equipoise.contracts.kubernetes.objects.metadata import Object, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, NAMESPACES, NODES, PODS, Resource
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

T = TypeVar("T", bound=Object)
OWN = AllSettings().shared.kubernetes.namespace


def a_detached_pod(name: str, **metadata: Any) -> Pod:
    pod = a_pod(name)
    fields = {"owner_references": [], "annotations": {DETACHED_HASH: "h1"}} | metadata
    return msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields))


class RestoringKube(MemoryKube):
    """A cluster in which a pod is restored just before the ledger is read."""

    restored: Pod | None = None

    async def get(self, resource: Resource[T], name: str, namespace: str = "") -> T:
        if resource.plural == CONFIG_MAPS.plural and self.restored is not None:
            self.put(PODS, self.restored)
        return await super().get(resource, name, namespace)


NODE = Node(metadata=ObjectMeta(name="node-a"))
CORDONED = msgspec.structs.replace(NODE, spec=NodeSpec(unschedulable=True))


def a_cluster(
    *pods: Pod, moving: str = "", restored: Pod | None = None, ready_by: float = NOW + 300, node: Node | None = NODE
) -> MemoryKube:
    """A cluster with these pods, and a ledger with a move of the pod with this name."""
    kube = RestoringKube(ManualClock())
    kube.restored = restored
    kube.put(NAMESPACES, Namespace(metadata=ObjectMeta(name=OWN)))
    if node is not None:
        kube.put(NODES, node)
    moves = (a_move(intent=an_intent(moving), ready_by=ready_by),) if moving else ()
    text = encode(a_ledger(surge_moves=moves))
    kube.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=NAME, namespace=OWN), data={KEY: text}))
    for pod in pods:
        kube.put(PODS, pod)
    return kube


async def found(kube: MemoryKube) -> list[Finding]:
    return await detached_pods(Environment(settings=AllSettings(), clock=ManualClock(NOW), kube=kube))


async def test_a_left_over_is_named_with_the_command_that_ends_it() -> None:
    """Not a pod whose move is in the ledger."""
    (finding,) = await found(a_cluster(a_detached_pod("web-1"), a_detached_pod("web-2"), moving="web-1"))

    assert (finding.state, finding.subject) == ("warning", "pod shop/web-2")
    assert finding.fix.endswith("kubectl delete pod --namespace shop web-2")


MOVING = a_detached_pod("web-1")


@pytest.mark.parametrize(
    ("pod", "node", "ready_by", "why", "fix"),
    [
        (MOVING, NODE, NOW - 1, "not ready without it in time", "kubectl delete pod --namespace shop web-1"),
        (MOVING, CORDONED, NOW + 1, "node node-a: node is cordoned, and `kubectl drain`", "kubectl delete pod"),
        (MOVING, None, NOW + 1, "node node-a: node was deleted", "kubectl delete pod"),
        (
            a_detached_pod("web-1", annotations={}),
            NODE,
            NOW + 1,
            "no binder can restore it",
            "kubectl label pod --overwrite --namespace shop web-1 pod-template-hash=h1",
        ),
        (a_detached_pod("web-1", annotations={DETACHED_HASH: "h2"}), NODE, NOW + 1, "edited", "pod-template-hash=h1"),
    ],
    ids=["late", "cordoned", "deleted", "annotation removed", "annotation edited"],
)
async def test_a_move_that_does_not_end_by_itself_is_named(
    pod: Pod, node: Node | None, ready_by: float, why: str, fix: str
) -> None:
    kube = a_cluster(pod, moving="web-1", ready_by=ready_by, node=node)
    (finding,) = await found(kube)
    assert (finding.state, finding.subject) == ("warning", "pod shop/web-1")
    assert why in finding.message
    assert fix in finding.fix


async def test_a_move_that_has_ended_meanwhile_is_not_named() -> None:
    kube = a_cluster(a_pod("web-1"), moving="web-1", ready_by=NOW - 1)
    assert [finding.state for finding in await found(kube)] == ["ok"]


@pytest.mark.parametrize(
    "pod",
    [
        a_pod("web-2"),
        a_detached_pod("web-2", annotations={}),
        a_detached_pod("web-2", owner_references=a_pod().metadata.owner_references),
    ],
    ids=["owned", "bare", "restored"],
)
async def test_other_pods_are_no_left_overs(pod: Pod) -> None:
    (finding,) = await found(a_cluster(a_detached_pod("web-1"), pod, moving="web-1"))

    assert (finding.state, finding.message) == ("ok", "1, and no left-over of a move")


async def test_a_pod_whose_move_ends_while_the_pods_are_listed_is_no_left_over() -> None:
    kube = a_cluster(a_detached_pod("web-1"), restored=a_pod("web-1"))

    assert [finding.state for finding in await found(kube)] == ["ok"]


async def test_without_a_ledger_it_is_unknown_whether_a_marked_pod_is_being_moved() -> None:
    kube = a_cluster(a_detached_pod("web-1"))
    kube.remove(CONFIG_MAPS, NAME, OWN)
    (finding,) = await found(kube)
    assert (finding.state, "1 pod without owner" in finding.message) == ("unknown", True)

    kube.remove(PODS, "web-1", "shop")
    (finding,) = await found(kube)
    assert finding.state == "ok"


@pytest.mark.parametrize(
    ("verb", "resource", "fix"),
    [("list", "pods", "run `equipoise doctor detached` as a user who may list all pods"), ("get", "configmaps", "")],
)
async def test_what_may_not_be_read_is_unknown(verb: str, resource: str, fix: str) -> None:
    """The Job of `helm test` may not list pods."""
    kube = a_cluster(a_detached_pod("web-1"))
    kube.refuse(verb, status=403, resource=resource)

    (finding,) = await found(kube)
    assert (finding.state, finding.fix.partition(".")[0]) == ("unknown", fix)


async def test_a_tenant_with_many_marked_pods_gets_a_limited_number_of_lines() -> None:
    findings = await found(a_cluster(*(a_detached_pod(f"web-{number}") for number in range(MOST_PODS + 5))))

    assert len(findings) == MOST_PODS + 1
    assert findings[-1].message.startswith("5 pods without owner")
