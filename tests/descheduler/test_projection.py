"""The cluster once the moves planned so far are done."""

from descheduler.cluster_states import WINDOWS, a_cluster, a_node, a_pod

from equipoise.descheduler.decisions.planning.projection import MAX_OUTSCORED, Projection


def test_scores_are_not_computed_after_too_many_pods_in_a_row_until_a_pod_is_moved() -> None:
    """In a large cluster, each pod costs milliseconds."""
    cluster = a_cluster(a_node("a", [a_pod()]), a_node("b"))
    projection, pod = Projection(cluster, WINDOWS[0]), cluster.nodes[0].pods[0]

    found = [projection.outscored(pod) for _ in range(MAX_OUTSCORED + 1)]
    projection.move(pod, "b")

    assert [each is None for each in found] == [False] * MAX_OUTSCORED + [True]
    assert projection.outscored(pod) is not None
