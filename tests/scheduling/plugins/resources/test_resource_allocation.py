"""The scoring strategies of NodeResourcesFit, beyond the cases of kube-scheduler's own tests."""

from hypothesis import example, given
from hypothesis import strategies as st
from scheduling.pods import a_node, a_pod

from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.resources.resource_allocation import (
    ResourceWeight,
    ShapePoint,
    requested_to_capacity_ratio,
)


def test_a_resource_that_scores_0_does_not_count() -> None:
    """RequestedToCapacityRatio: the mean is that of the other resources."""
    shape = [ShapePoint(utilization=0, score=0), ShapePoint(utilization=100, score=10)]
    snapshot = ClusterSnapshot([a_node(cpu="1000", memory="8Gi")])
    plugin = NodeResourcesFit(requested_to_capacity_ratio(shape))

    found = plugin.score(CycleState(), a_pod(requests={"cpu": "1", "memory": "4Gi"}), snapshot, snapshot.rows)

    assert found.tolist() == [50]


def test_hugepages_are_scored_if_the_pod_requests_some_and_the_number_of_pods_never() -> None:
    """25 % of 4 pages of hugepages are free with the pod; half of the memory."""
    snapshot = ClusterSnapshot([a_node(memory="8Gi", **{"hugepages-2Mi": "8Mi"})])
    names = ("hugepages-2Mi", "pods", "memory")
    plugin = NodeResourcesFit(resources=[ResourceWeight(name=name) for name in names])
    requests = {"memory": "4Gi"}

    def scored(pod: PodInfo) -> list[int]:
        found: list[int] = plugin.score(CycleState(), pod, snapshot, snapshot.rows).tolist()
        return found

    assert scored(a_pod(requests=requests)) == [50]
    assert scored(a_pod(requests=requests | {"hugepages-2Mi": "6Mi"})) == [(25 + 50) // 2]


def test_a_pod_without_requests_is_not_scored_by_balance_even_by_the_number_of_pods() -> None:
    plugin = NodeResourcesBalancedAllocation([ResourceWeight(name="cpu"), ResourceWeight(name="pods")])
    snapshot = ClusterSnapshot([a_node()])

    assert plugin.pre_score(CycleState(), a_pod(), snapshot, snapshot.rows).code == Code.SKIP


def test_only_extended_resources_can_be_ignored() -> None:
    snapshot = ClusterSnapshot([a_node()])
    plugin = NodeResourcesFit(ignored_resources=["hugepages-2Mi", "example.com/gpu"], ignored_groups=["kubernetes.io"])
    requests = {"hugepages-2Mi": "2Mi", "example.com/gpu": "1", "kubernetes.io/native": "1"}

    found = plugin.filter(CycleState(), a_pod(requests=requests), snapshot, snapshot.rows)

    short = {each.reason for each in found if each.nodes.any()}
    assert short == {"Insufficient hugepages-2Mi", "Insufficient kubernetes.io/native"}


def test_two_of_three_resources_are_balanced_by_the_formula_for_two() -> None:
    """72 % and 4 %: int((1 - 0.34) · 100) = 66, which the general formula makes 65: 50 + (50 + 66 - 100) // 2 = 58."""
    snapshot = ClusterSnapshot([a_node(cpu="100", memory="100Gi")])
    names = ("cpu", "memory", "ephemeral-storage")
    plugin = NodeResourcesBalancedAllocation([ResourceWeight(name=name) for name in names])
    pod = a_pod(requests={"cpu": "72", "memory": "4Gi"})

    assert plugin.score(CycleState(), pod, snapshot, snapshot.rows).tolist() == [58]


def test_a_node_with_as_many_pods_as_it_may_have_is_full_although_the_requests_fit() -> None:
    snapshot = ClusterSnapshot([a_node(pods=1)])
    snapshot.add_pod(a_pod("running"), 0)

    for requests in ({}, {"cpu": "1"}):
        found = NodeResourcesFit().filter(CycleState(), a_pod(requests=requests), snapshot, snapshot.rows)
        assert [(each.reason, each.nodes.tolist()) for each in found] == [("Too many pods", [True])]


amounts = st.integers(0, 10**11) | st.integers(0, 2**63 - 1) | st.sampled_from([0, 1, 2**53, 2**53 + 1, 2**62])
requests = st.fixed_dictionaries(
    {}, optional={"cpu": amounts.map(lambda milli: f"{milli}m"), "memory": amounts.map(str)}
)
sizes = st.tuples(st.integers(1, 10**6), st.integers(1, 10**12) | st.integers(1, 2**63 - 1))


@example([((1, 1_000_000), [{"memory": str(2**57)}])], {}, (1, 1))
@example([((1, 2**58), [])], {"cpu": "1m"}, (1, 1))
@given(
    st.lists(st.tuples(sizes, st.lists(requests, max_size=2)), min_size=1, max_size=5),
    requests,
    st.tuples(st.integers(1, 100), st.integers(1, 100)),
)
def test_a_node_without_memory_changes_no_score_of_the_others(
    nodes: list[tuple[tuple[int, int], list[dict[str, str]]]], wanted: dict[str, str], weights: tuple[int, int]
) -> None:
    """Usual sizes are computed in fewer steps: with the same results, also for sums of more than 64 bits."""
    snapshot = ClusterSnapshot()
    for number, ((cpu, memory), pods) in enumerate(nodes):
        row = snapshot.put_node(a_node(str(number), cpu=f"{cpu}m", memory=str(memory)))
        for place, each in enumerate(pods):
            snapshot.add_pod(a_pod(f"{number}-{place}", each), row)
    rows, pod = snapshot.rows, a_pod(requests=wanted)
    resources = [
        ResourceWeight(name=name, weight=weight) for name, weight in zip(("cpu", "memory"), weights, strict=True)
    ]
    plugins = (NodeResourcesFit(resources=resources), NodeResourcesBalancedAllocation())

    alone = [plugin.score(CycleState(), pod, snapshot, rows).tolist() for plugin in plugins]
    snapshot.put_node(a_node("other", memory="0"))

    assert not snapshot.usual_sizes
    assert alone == [plugin.score(CycleState(), pod, snapshot, rows).tolist() for plugin in plugins]
