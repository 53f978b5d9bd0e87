"""Commands that read the API server know detached pods from the ledger."""

from typing import Any

import msgspec
import pytest
from binder.ledgers import a_ledger
from binder.replica_sets import a_move
from builders import NOW, a_workload
from collector.collectors import a_node
from kube_objects import a_deployment, a_pod, a_replica_set

from equipoise.binder.shell.ledger_store import KEY, NAME
from equipoise.binder.state.ledger_json import encode
from equipoise.cli.cluster_now.objects import list_nodes_and_pods
from equipoise.cli.cluster_now.open_moves import open_moves
from equipoise.cli.cluster_now.reading import placement_of
from equipoise.collector.settings import CollectorSettings
from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.eviction.detached import DETACHED_HASH
from equipoise.contracts.kubernetes.objects.cluster import ConfigMap
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.messages.placement import PlacedPod
from equipoise.runtime.kubernetes.client import CONFIG_MAPS, DEPLOYMENTS, NODES, PODS, REPLICA_SETS
from equipoise.testbed.memory.clock import ManualClock
from equipoise.testbed.memory.kube import MemoryKube

OWN = "equipoise-system"


def a_cluster(**metadata: Any) -> MemoryKube:
    """The pod web-1 has no owner, but the annotation of a detached pod."""
    kube = MemoryKube(ManualClock())
    kube.put(NODES, a_node("node-a"))
    kube.put(DEPLOYMENTS, a_deployment())
    kube.put(REPLICA_SETS, a_replica_set())
    pod = a_pod("web-1")
    fields = {"owner_references": [], "annotations": {DETACHED_HASH: "h1"}} | metadata
    kube.put(PODS, msgspec.structs.replace(pod, metadata=msgspec.structs.replace(pod.metadata, **fields)))
    return kube


def put_ledger(kube: MemoryKube, text: str) -> None:
    kube.put(CONFIG_MAPS, ConfigMap(metadata=ObjectMeta(name=NAME, namespace=OWN), data={KEY: text}))


async def placed(kube: MemoryKube) -> PlacedPod:
    listed = await list_nodes_and_pods(kube, ["Deployment"], volumes=False)
    moves = await open_moves(kube, OWN)
    placement = placement_of(CollectorSettings(), LoadSettings(), listed, moves, NOW).placement("node-a")
    assert placement is not None
    (pod,) = placement.pods
    return pod


async def test_a_pod_in_a_move_of_the_ledger_is_detached_and_has_its_workload() -> None:
    kube = a_cluster()
    put_ledger(kube, encode(a_ledger(surge_moves=(a_move(),))))
    pod = await placed(kube)

    assert (pod.detached, pod.workload) == (True, a_workload())


@pytest.mark.parametrize(
    "text",
    ["", "no ledger", encode(a_ledger()), encode(a_ledger(surge_moves=(a_move(pod="web-2"),)))],
    ids=["empty", "invalid", "no move", "another pod"],
)
async def test_without_a_move_the_annotation_is_not_believed(text: str) -> None:
    kube = a_cluster()
    put_ledger(kube, text)
    pod = await placed(kube)

    assert (pod.detached, pod.workload) == (False, None)


async def test_without_the_permission_to_read_the_ledger_such_a_pod_has_no_workload() -> None:
    """As in a cluster without Equipoise."""
    kube = a_cluster()
    assert (await placed(kube)).workload is None
    kube.refuse("get", status=500, resource="configmaps")
    assert (await placed(kube)).workload is None


async def test_a_pod_that_its_replica_set_still_has_is_not_detached() -> None:
    """Its move is only reserved."""
    kube = a_cluster(owner_references=a_pod("web-1").metadata.owner_references)
    put_ledger(kube, encode(a_ledger(surge_moves=(a_move(),))))
    pod = await placed(kube)

    assert (pod.detached, pod.workload) == (False, a_workload())
