"""Counts over the placements of all nodes."""

from collections import Counter

from builders import NOW, a_gone_pod, a_placed_pod, a_placement, a_workload
from hypothesis import given
from hypothesis import strategies as st

from equipoise.binder.state.placement_counts import PlacementCounts
from equipoise.contracts.kubernetes.nodes.platforms import platform_of
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import NodePlacement

WORKLOADS = [a_workload("web"), a_workload("api"), None]


@st.composite
def placements(draw: st.DrawFn) -> NodePlacement:
    def pods() -> list[Workload | None]:
        return draw(st.lists(st.sampled_from(WORKLOADS), max_size=3))

    return a_placement(
        draw(st.sampled_from(["node-a", "node-b", "node-c"])),
        [a_placed_pod(f"pod-{number}", workload=workload) for number, workload in enumerate(pods())],
        gone=[a_gone_pod(f"gone-{number}", NOW, workload=workload) for number, workload in enumerate(pods())],
        ready=draw(st.booleans()),
        labels={"kubernetes.io/arch": draw(st.sampled_from(["amd64", "arm64"]))},
        removed=draw(st.booleans()),
    )


@given(st.lists(placements(), max_size=8))
def test_the_counts_are_those_of_all_present_placements(messages: list[NodePlacement]) -> None:
    counts, present = PlacementCounts(), dict[str, NodePlacement]()
    for message in messages:
        if (earlier := present.pop(message.node, None)) is not None:
            counts.remove(earlier)
        if not message.removed:
            counts.add(message)
            present[message.node] = message

        assert counts.ready == sum(placement.ready for placement in present.values())
        assert counts.pods == sum(len(placement.pods) for placement in present.values())
        assert counts.platforms == Counter(platform_of(placement.labels) for placement in present.values())
        for workload in WORKLOADS:
            assert set(counts.nodes_of(workload)) == {
                name
                for name, placement in present.items()
                if any(pod.workload == workload for pod in (*placement.pods, *placement.gone))
            }
