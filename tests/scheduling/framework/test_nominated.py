"""Pods that wait for the victims of their preemption."""

from scheduling.pods import a_pod

from equipoise.scheduling.framework.nominated import Nominated


def test_a_preempting_pod_takes_the_place_of_less_important_ones() -> None:
    """On this node. Their own preemption has to be decided again."""
    nominated = Nominated()
    low, equal, elsewhere = a_pod("low", priority=1), a_pod("equal", priority=5), a_pod("elsewhere", priority=1)
    for pod, node in ((low, "a"), (equal, "a"), (elsewhere, "b")):
        nominated.add(pod, node)
    pod = a_pod("pod", priority=5)

    assert [low] == nominated.preempt(pod, "a")
    assert ["", "a", "b", "a"] == [nominated.node_of(each) for each in (low, equal, elsewhere, pod)]
