"""The census of a fleet's pods answers as the fleet itself does, whatever was moved since it was taken."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.fit import FitNode, FitPod, InterPodRules, PodIndex, inter_pod_rules
from equipoise.contracts.kubernetes.objects import LabelSelector, PodAffinityTerm, TopologySpreadConstraint

LABELS = [{"app": "web"}, {"app": "db"}, {"app": "web", "tier": "front"}, {}]
TERMS = [
    [PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels={"app": app}))]
    for key in ("zone", "host")
    for app in ("web", "db")
]
SPREAD = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "web"}))


@st.composite
def pods(draw: st.DrawFn, name: str) -> FitPod:
    return FitPod(
        uid=name,
        namespace=draw(st.sampled_from(["shop", "bank"])),
        name=name,
        labels=draw(st.sampled_from(LABELS)),
        pod_anti_affinity=draw(st.sampled_from([[], *TERMS])),
        pod_affinity=draw(st.sampled_from([[], *TERMS])),
        spread=draw(st.sampled_from([[], [SPREAD]])),
        terminating=draw(st.booleans()),
    )


@st.composite
def fleets(draw: st.DrawFn) -> list[FitNode]:
    return [
        FitNode(
            name=f"n{place}",
            labels={"zone": f"z{place % 2}", "host": f"n{place}"} if place else {},
            pods=[draw(pods(f"n{place}-{number}")) for number in range(draw(st.integers(0, 3)))],
        )
        for place in range(draw(st.integers(1, 4)))
    ]


def moved(fleet: list[FitNode], pod: FitPod, source: str, target: str) -> list[FitNode]:
    left = {node.name: [other for other in node.pods if other.uid != pod.uid] for node in fleet if node.name == source}
    without = [msgspec.structs.replace(node, pods=left.get(node.name, node.pods)) for node in fleet]
    return [msgspec.structs.replace(node, pods=[*node.pods, pod]) if node.name == target else node for node in without]


def told(around: InterPodRules) -> object:
    """Without the names of examples: any pod of the domain will do."""
    return set(around.excluded), around.attractions, around.spreads


@given(fleet=fleets(), asked=pods("asked"), data=st.data())
def test_a_census_follows_moves(fleet: list[FitNode], asked: FitPod, data: st.DataObject) -> None:
    """Groups are only a faster way to the same answer."""
    census = PodIndex(fleet)
    for _ in range(data.draw(st.integers(0, 4))):
        here = [(node.name, pod) for node in fleet for pod in node.pods]
        if here:
            source, pod = data.draw(st.sampled_from(here))
            target = data.draw(st.sampled_from([node.name for node in fleet]))
            fleet = moved(fleet, pod, source, target)
            census.move(pod, source, target)

    assert told(inter_pod_rules(asked, fleet, census)) == told(inter_pod_rules(asked, fleet))
    for node in fleet:
        for pod in node.pods:
            assert told(inter_pod_rules(pod, fleet, census)) == told(inter_pod_rules(pod, fleet))
