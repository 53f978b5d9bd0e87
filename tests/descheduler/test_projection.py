"""The cluster once the moves planned so far are done."""

from descheduler.cluster_states import WINDOWS, a_cluster, a_node, a_pod

from equipoise.descheduler.decisions.planning.projection import MAX_OUTSCORED, Projection


def test_scores_are_not_computed_after_too_many_pods_without_a_target_until_a_pod_is_moved() -> None:
    """In a large cluster, each pod costs milliseconds."""
    cluster = a_cluster(a_node("a", [a_pod()]), a_node("b"))
    projection, pod = Projection(cluster, WINDOWS[0]), cluster.nodes[0].pods[0]

    for _ in range(MAX_OUTSCORED):
        assert projection.outscored(pod) is not None
        projection.add_outscored()
    assert projection.outscored(pod) is None
    projection.move(pod, "b")

    assert projection.outscored(pod) is not None
