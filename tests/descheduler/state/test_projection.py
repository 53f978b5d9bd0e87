"""The cluster once the moves planned so far are done."""

from functools import partial

import numpy as np
from descheduler.cluster_states import WINDOWS, a_cluster, a_node, a_pod, node_fit

from equipoise.descheduler.state.projection import MAX_OUTSCORED, Projection

BOTH = np.array([0, 1])


def test_scores_are_not_computed_after_too_many_pods_without_a_target_until_a_pod_is_moved() -> None:
    """In a large cluster, each pod costs milliseconds."""
    nodes = (a_node("a", [a_pod()]), a_node("b"))
    cluster = a_cluster(*nodes, fit=partial(node_fit, target_points=0))
    projection, pod = Projection(cluster, WINDOWS[0]), cluster.nodes[0].pods[0]

    for _ in range(MAX_OUTSCORED):
        assert projection.outscored(pod, BOTH) is not None
    assert projection.outscored(pod, BOTH) is None
    projection.move(pod, "b")

    assert projection.outscored(pod, BOTH) is not None


def test_pods_with_a_target_do_not_count_for_the_limit() -> None:
    cluster = a_cluster(a_node("a", [a_pod()]), a_node("b"))
    projection, pod = Projection(cluster, WINDOWS[0]), cluster.nodes[0].pods[0]

    found = [projection.outscored(pod, BOTH) for _ in range(MAX_OUTSCORED + 1)]

    assert all(each is not None for each in found)
