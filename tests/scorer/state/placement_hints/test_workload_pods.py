"""The placed pods of each workload."""

from builders import NOW, a_placed_pod, a_placement, a_workload

from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.scorer.state.placement_hints.workload_pods import WorkloadPods

SPAN = 60.0


def test_replicas_are_counted_over_all_nodes() -> None:
    """A pod that terminates or moves is not counted twice, and a removed node has no pods."""
    pods = WorkloadPods(SPAN)
    pods.on_placement(
        a_placement("a", [a_placed_pod("1"), a_placed_pod("2"), a_placed_pod("3", terminating=True)]), [], NOW
    )
    pods.on_placement(a_placement("b", [a_placed_pod("4")]), [], NOW)
    assert {a_workload(): 3} == pods.replicas

    pods.on_placement(a_placement("a", [a_placed_pod("1")]), [], NOW)
    pods.on_placement(a_placement("b", removed=True), [], NOW)

    assert {a_workload(): 1} == pods.replicas


def test_recent_pods_are_those_placed_within_the_span() -> None:
    """Also if they are received later, as after a restart."""
    pods = WorkloadPods(SPAN)
    placed = [a_placed_pod(str(age), placed_at=NOW - age) for age in (1, 30, 61, 9_000)]
    pods.on_placement(a_placement("a", placed), placed, NOW)

    assert {a_workload(): 2} == pods.recent(NOW)
    assert {a_workload(): 1} == pods.recent(NOW + 40)
    assert {} == pods.recent(NOW + 100)


def test_the_latest_pod_is_kept_while_the_workload_is_known() -> None:
    """Its requests are those of the next one, also if the workload was scaled to 0."""
    pods = WorkloadPods(SPAN)
    old, new = a_placed_pod("old", placed_at=NOW - 50), a_placed_pod("new", placed_at=NOW - 5)
    pods.on_placement(a_placement("a", [new, old]), [new, old], NOW)
    pods.on_placement(a_placement("a"), [], NOW)

    pods.retain([a_workload()])
    assert {a_workload(): new} == pods.latest
    pods.retain([])
    assert {} == pods.latest


def test_the_latest_pod_is_kept_as_it_is_now() -> None:
    """A collector of a later version may publish more about the same pod."""
    pods = WorkloadPods(SPAN)
    pod = a_placed_pod("1")
    pods.on_placement(a_placement("a", [pod]), [pod], NOW)
    changed = a_placed_pod("1", tolerations=(Toleration(key="gpu", operator="Exists"),))
    pods.on_placement(a_placement("a", [changed]), [], NOW)

    assert {a_workload(): changed} == pods.latest


def test_pods_of_the_time_of_a_clock_that_was_ahead_are_not_recent() -> None:
    """Otherwise more pods of their workloads would be expected until then."""
    pods = WorkloadPods(SPAN)
    placed = [a_placed_pod("late", placed_at=NOW + 86_400)]
    pods.on_placement(a_placement("a", placed), placed, NOW + 86_400)

    assert {} == pods.recent(NOW)
