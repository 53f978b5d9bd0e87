"""The index of pods finds the same pods as a search through all nodes."""

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
def clusters(draw: st.DrawFn) -> list[FitNode]:
    return [
        FitNode(
            name=f"n{place}",
            labels={"zone": f"z{place % 2}", "host": f"n{place}"} if place else {},
            pods=[draw(pods(f"n{place}-{number}")) for number in range(draw(st.integers(0, 3)))],
        )
        for place in range(draw(st.integers(1, 4)))
    ]


def moved(nodes: list[FitNode], pod: FitPod, source: str, target: str) -> list[FitNode]:
    left = {node.name: [other for other in node.pods if other.uid != pod.uid] for node in nodes if node.name == source}
    without = [msgspec.structs.replace(node, pods=left.get(node.name, node.pods)) for node in nodes]
    return [msgspec.structs.replace(node, pods=[*node.pods, pod]) if node.name == target else node for node in without]


def rules_of(rules: InterPodRules) -> object:
    """Without the names of examples: any pod of the domain will do."""
    return set(rules.excluded), rules.attractions, rules.spreads


@given(nodes=clusters(), candidate=pods("candidate"), data=st.data())
def test_the_index_follows_moves(nodes: list[FitNode], candidate: FitPod, data: st.DataObject) -> None:
    """The rules are the same as those of an index that is built after the moves."""
    index = PodIndex(nodes)
    for _ in range(data.draw(st.integers(0, 4))):
        here = [(node.name, pod) for node in nodes for pod in node.pods]
        if here:
            source, pod = data.draw(st.sampled_from(here))
            target = data.draw(st.sampled_from([node.name for node in nodes]))
            nodes = moved(nodes, pod, source, target)
            index.move(pod, source, target)

    assert rules_of(inter_pod_rules(candidate, nodes, index)) == rules_of(inter_pod_rules(candidate, nodes))
    for node in nodes:
        for pod in node.pods:
            assert rules_of(inter_pod_rules(pod, nodes, index)) == rules_of(inter_pod_rules(pod, nodes))
