"""Which annotations the descheduler and `equipoise plan` keep of what they read."""

import asyncio
from typing import Any

from builders import NOW, a_workload
from hypothesis import given
from hypothesis import strategies as st
from kube_objects import a_deployment, a_pod, a_replica_set
from msgspec import structs

from equipoise.cli.cluster_now.objects import list_nodes_and_pods
from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Candidate, Rules
from equipoise.contracts.eviction.opt_out import OPT_OUT
from equipoise.contracts.eviction.protection import PROTECTIONS, protection
from equipoise.contracts.eviction.surge import SURGE_RULES, SurgeCandidate
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.descheduler.decisions.evaluation.read_annotations import LONGEST, READ, with_read_annotations
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.shell.cluster_watch import ClusterWatch
from equipoise.runtime.kubernetes.client import BUDGETS, CLAIMS, DEPLOYMENTS, NAMESPACES, PODS, VOLUMES
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

RULES = Rules(protection=Protection(), namespaces=Namespaces(), own_namespace="equipoise-system")
LONG = {"tenant/text": "<" * 250_000, OPT_OUT: "x" * 250_000}


class RecordedReads(dict[str, str]):
    """Annotations, and which of them were read."""

    read: set[str]

    def get(self, key: str, default: Any = None) -> Any:
        self.read.add(key)
        return super().get(key, default)

    def __contains__(self, key: object) -> bool:
        self.read.add(str(key))
        return super().__contains__(key)


def a_candidate(pod: Pod) -> Candidate:
    namespace = Namespace(metadata=ObjectMeta(name="shop"))
    return Candidate(pod=pod, namespace=namespace, workload=a_workload(), owners=(a_replica_set(), a_deployment()))


def test_every_annotation_is_kept_that_a_rule_reads() -> None:
    annotations = RecordedReads()
    annotations.read = set()
    pod = a_pod()
    pod = structs.replace(pod, metadata=structs.replace(pod.metadata, annotations=annotations))
    for rule in PROTECTIONS.values():
        rule(a_candidate(pod), RULES, NOW)
    for surge_rule in SURGE_RULES.values():
        surge_rule(SurgeCandidate(candidate=a_candidate(pod)))

    assert annotations.read
    assert annotations.read <= READ


@given(
    st.dictionaries(
        st.sampled_from(sorted(READ)), st.sampled_from(["false", "true", "", "1", "x" * 2_000, "9" * 2_000])
    )
)
def test_the_same_pods_are_protected(annotations: dict[str, str]) -> None:
    pod = a_pod(metadata={"annotations": {**annotations, "tenant/text": "false"}})
    kept = with_read_annotations(pod)

    assert protection(a_candidate(kept), RULES, NOW) == protection(a_candidate(pod), RULES, NOW)
    assert kept.metadata.annotations.keys() == annotations.keys()
    assert all(len(each) <= LONGEST + 1 for each in kept.metadata.annotations.values())


async def filled_cluster() -> MemoryKube:
    kube = MemoryKube(ManualClock())
    for resource in (NAMESPACES, PODS, BUDGETS, CLAIMS, VOLUMES, DEPLOYMENTS):
        namespace = "shop" if resource.namespaced else ""
        metadata = ObjectMeta(name="a", namespace=namespace, annotations=LONG)
        await kube.create(resource, resource.model(metadata=metadata))
    return kube


def assert_short(watched: Any) -> None:
    parts = (watched.namespaces, watched.workloads, watched.claims, watched.volumes)
    kept = [*watched.pods, *watched.budgets, *(each for part in parts for each in part.values())]
    assert len(kept) == 6
    assert [{key: len(text) for key, text in each.metadata.annotations.items()} for each in kept] == [
        {OPT_OUT: LONGEST + 1}
    ] * 6


async def test_the_descheduler_keeps_no_other_annotation() -> None:
    """Of any kind that tenants can create: thousands of objects with 256 KiB each would exhaust its memory."""
    kube = await filled_cluster()
    watch = ClusterWatch(kube, ManualClock(), DeschedulerSettings(), volumes=True)
    running = asyncio.create_task(watch.run())
    await watch.synced(60)
    running.cancel()

    assert_short(watch.objects())


async def test_a_plan_without_services_keeps_no_other_annotation() -> None:
    kube = await filled_cluster()
    listed = await list_nodes_and_pods(kube, ["Deployment"], volumes=True)

    assert_short(listed.watched)
