"""The scoring strategies of NodeResourcesFit, beyond the cases of kube-scheduler's own tests."""

from scheduling.pods import a_node, a_pod

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.resources.resource_allocation import ShapePoint, requested_to_capacity_ratio


def test_a_resource_that_scores_0_does_not_count() -> None:
    """RequestedToCapacityRatio: the mean is that of the other resources."""
    shape = [ShapePoint(utilization=0, score=0), ShapePoint(utilization=100, score=10)]
    snapshot = ClusterSnapshot([a_node(cpu="1000", memory="8Gi")])
    plugin = NodeResourcesFit(requested_to_capacity_ratio(shape))

    found = plugin.score(CycleState(), a_pod(requests={"cpu": "1", "memory": "4Gi"}), snapshot, snapshot.rows)

    assert found.tolist() == [50]
