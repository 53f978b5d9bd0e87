"""With co-location: the reclaimer, the scorer and the annotator act on the bands of the nodes."""

import msgspec
from descheduler.cluster import a_pod_object
from flow.loop import HOT, IDLE, Loop, annotations_of, scores_of

from equipoise.contracts.bus.subjects import SCORE_EXPLAIN
from equipoise.contracts.kubernetes.annotations import RECLAIMED
from equipoise.contracts.kubernetes.objects.metadata import ResourceRequirements
from equipoise.contracts.kubernetes.objects.pod import Container
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.score import ExplainRequest, Explanation
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.kubernetes.client import NODES, PODS

GIB = float(2**30)
FULLER, EMPTIER = IDLE
ONE_CORE = Resources(cpu=1.0)


def place_batch_pod(loop: Loop, name: str, node: str, cores: int) -> None:
    """It requests this many cores of the band batch."""
    requests = {"kubernetes.io/batch-cpu": str(1_000 * cores), "kubernetes.io/batch-memory": "1Gi"}
    container = Container(resources=ResourceRequirements(requests=requests, limits=requests))
    pod = a_pod_object(name, node, loop.clock.now(), containers=[container], priority=5_500)
    metadata = msgspec.structs.replace(pod.metadata, owner_references=[])
    loop.kube.put(PODS, msgspec.structs.replace(pod, metadata=metadata))


async def explanation(loop: Loop) -> Explanation:
    """The scores for a new batch pod."""
    pod = PodDemand(
        namespace="shop", name="job", uid="job", priority=5_500, priority_class="batch", reclaimed_requests=ONE_CORE
    )
    request = ExplainRequest(pod=pod, nodes=[HOT, *IDLE])
    return await loop.bus.request(SCORE_EXPLAIN, request, Explanation, timeout=1.0)


async def test_a_batch_pod_is_ranked_to_the_node_whose_band_is_emptier() -> None:
    """Both nodes offer about as much, and one of them has a batch pod already. The hot one has nothing to offer."""
    loop = Loop()
    for node in loop.kube.stored(NODES):
        status = msgspec.structs.replace(node.status, capacity=node.status.allocatable)
        loop.kube.put(NODES, msgspec.structs.replace(node, status=status))
    place_batch_pod(loop, "job-1", FULLER, cores=3)
    async with loop.running(evict=False, colocation=True):
        await loop.until(lambda: len(loop.bus.published(ReclaimedNode, "equipoise.reclaim.node.*")) >= 3, limit=300)
        await loop.pass_time(120)
        found = await explanation(loop)
        annotations = annotations_of(loop)

    bands = {node.node: node.band for node in found.nodes}
    fuller, emptier = bands[FULLER], bands[EMPTIER]
    assert fuller is not None
    assert emptier is not None
    assert (3.0, 0.0) == (fuller.requested.cpu, emptier.requested.cpu)
    assert scores_of(found)[EMPTIER] == 10
    assert 0 < scores_of(found)[FULLER] < 10
    assert 0 == scores_of(found)[HOT]
    assert annotations[f"node/{EMPTIER}"][RECLAIMED]["bands"]["batch"]["hours"] == 6
    assert not any(loop.problems().values()), loop.problems()
