"""kube-scheduler's other score plugins: the scheduling library."""

from typing import Any

import numpy as np
from peers.cases import Case, Inputs, peer_cases
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import ContainerImage, Node, NodeSelectorTerm, NodeStatus, Taint
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    ImageSource,
    NodeAffinity,
    PreferredNodes,
    Toleration,
    Volume,
)
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.image_locality import MIB, ImageLocality
from equipoise.scheduling.plugins.node_affinity import NodeAffinityPlugin
from equipoise.scheduling.plugins.normalization import normalized
from equipoise.scheduling.plugins.taint_toleration import TaintToleration


def scores(plugin: Plugin, pod: PodInfo, nodes: list[Node]) -> list[int]:
    snapshot = ClusterSnapshot(nodes)
    found: list[int] = a_framework(plugin).score(CycleState(), pod, snapshot, snapshot.rows).total.tolist()
    return found


@peer_cases("taint_toleration_score")
def test_taints_that_are_not_tolerated(case: Case) -> None:
    """Nodes with PreferNoSchedule taints that are not tolerated come last."""
    tolerations = [
        Toleration(key=each["key"], operator=each["op"], value=each["value"], effect=each["effect"])
        for each in case.inputs["tolerations"]
    ]
    nodes = [a_node(each["name"], taints=[Taint(**taint) for taint in each["taints"]]) for each in case.inputs["nodes"]]

    case.check(scores=scores(TaintToleration(), a_pod(tolerations=tolerations), nodes))


@peer_cases("default_normalize")
def test_normalized_scores(case: Case) -> None:
    """The highest score becomes 100, or 0 when the order is reversed."""
    assert case.inputs["max"] == 100

    case.check(scores=normalized(np.array(case.inputs["scores"]), reverse=case.inputs["reverse"]).tolist())


@peer_cases("image_locality")
def test_image_locality(case: Case) -> None:
    """The more of a pod's images a node has, by bytes, the better."""
    inputs = case.inputs
    spec: dict[str, Any] = {
        "containers": [Container(image=image) for image in inputs["containers"]],
        "init_containers": [Container(image=image) for image in inputs["init"]],
        "volumes": [Volume(image=ImageSource(reference=image)) for image in inputs["volumes"]],
    }
    nodes = [
        Node(metadata=ObjectMeta(name=f"node-{index}"), status=NodeStatus(images=images(each["images_mib"])))
        for index, each in enumerate(inputs["nodes"])
    ]

    case.check(scores=scores(ImageLocality(), a_pod(**spec), nodes))


def images(sizes: dict[str, int]) -> list[ContainerImage]:
    return [ContainerImage(names=[name], size_bytes=size * MIB) for name, size in sizes.items()]


@peer_cases("node_affinity_score")
def test_preferred_nodes(case: Case) -> None:
    """The weights of the preferred terms that a node matches, up to 100."""
    plugin = NodeAffinityPlugin(NodeAffinity(preferred=terms(case.inputs["added_preferred"])))
    affinity = Affinity(node_affinity=NodeAffinity(preferred=terms(case.inputs["preferred"])))
    nodes = [a_node(f"node-{index}", labels=labels) for index, labels in enumerate(case.inputs["node_labels"])]

    case.check(scores=scores(plugin, a_pod(affinity=affinity), nodes))


def terms(documents: list[Inputs]) -> list[PreferredNodes]:
    return [
        PreferredNodes(
            weight=each["weight"], preference=NodeSelectorTerm(match_expressions=requirements(each["match"]))
        )
        for each in documents
    ]


def requirements(labels: dict[str, str]) -> list[SelectorRequirement]:
    return [SelectorRequirement(key=key, operator="In", values=[value]) for key, value in labels.items()]
