"""Which pods are no victims of a preemption by `equipoise scheduler`."""

import random

import msgspec
import pytest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.scheduling.cluster_scheduler import ClusterScheduler
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.preemption.protected_pods import ProtectedPods

OPTED_OUT = {"equipoise.dev/evict": "false"}


def victim(namespace: str = "shop", priority: int = 0, **metadata: object) -> PodInfo:
    pod = a_pod("victim", {"cpu": "3"}, priority=priority, node_name="node-1").pod
    changed = msgspec.structs.replace(pod.metadata, namespace=namespace, **metadata)
    return PodInfo(msgspec.structs.replace(pod, metadata=changed))


@pytest.mark.parametrize(
    ("pod", "preempted"),
    [
        (victim(), True),
        (victim("kube-system"), False),
        (victim("kube-public"), False),
        (victim("kube-node-lease"), False),
        (victim("equipoise-system"), False),
        (victim("quiet"), False),
        (victim(annotations=OPTED_OUT), False),
        (victim(priority=2_000_000_000), False),
    ],
)
def test_pods_that_must_stay_are_no_victims(pod: PodInfo, preempted: bool) -> None:
    """The pod that waits is more important than all of them."""
    rules = ProtectedPods("equipoise-system")
    quiet = Namespace(metadata=ObjectMeta(name="quiet", annotations=OPTED_OUT))
    rules.apply(None, quiet)
    scheduler = ClusterScheduler(random.Random(1), may_preempt=rules.may_preempt)
    scheduler.put(a_node("node-1", cpu="4"))
    scheduler.put_pod(pod)

    decision = scheduler.decide(a_pod("important", {"cpu": "3"}, priority=2_000_001_000))

    assert decision.preemption is not None
    assert bool(decision.preemption.victims) == preempted
    assert rules.may_preempt(pod) == preempted


def test_a_namespace_may_change_its_mind() -> None:
    """Or be deleted."""
    rules = ProtectedPods("equipoise-system")
    quiet = Namespace(metadata=ObjectMeta(name="quiet", annotations=OPTED_OUT))
    rules.apply(None, quiet)
    rules.apply(quiet, Namespace(metadata=ObjectMeta(name="quiet")))
    assert rules.may_preempt(victim("quiet"))
    rules.apply(None, quiet)
    rules.apply(quiet, None)
    assert rules.may_preempt(victim("quiet"))
