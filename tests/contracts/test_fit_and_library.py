"""The fit check of the services and the scheduling library find the same nodes feasible, until they are one."""

import random
from typing import Any

import msgspec
import pytest
from bench.parity.common_objects import NAMESPACES
from bench.parity.generator import ClusterGenerator
from builders import refusal

from equipoise.contracts.fit import FitNode, fit_node, fit_pod
from equipoise.contracts.kubernetes.objects import Node, Pod
from equipoise.scheduling import ClusterScheduler, PodInfo

SEEDS = range(30)
PODS = 12
REQUIRED = "requiredDuringSchedulingIgnoredDuringExecution"


def the_pod(document: dict[str, Any]) -> Pod:
    """The API server adds matchLabelKeys of affinity terms to their selectors, which the fit check relies on."""
    for kind in ("podAffinity", "podAntiAffinity"):
        for term in document["spec"].get("affinity", {}).get(kind, {}).get(REQUIRED, ()):
            term.pop("matchLabelKeys", None)
    metadata = document["metadata"] | {"uid": document["metadata"]["name"]}
    return msgspec.convert(document | {"metadata": metadata}, Pod, strict=False)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_same_nodes_are_feasible(seed: int) -> None:
    generator = ClusterGenerator(seed)
    nodes = [msgspec.convert(each, Node, strict=False) for each in generator.nodes()]
    pods = [the_pod(each) for each in generator.existing_pods()]
    cluster = ClusterScheduler(random.Random(seed))
    for name, labels in NAMESPACES.items():
        cluster.put_documents([{"kind": "Namespace", "metadata": {"name": name, "labels": labels}}])
    for each in (*nodes, *pods):
        cluster.put(each)
    on_node: dict[str, list[Pod]] = {node.metadata.name: [] for node in nodes}
    for pod in pods:
        on_node[pod.spec.node_name].append(pod)
    for document in generator.new_pods(PODS):
        pod = the_pod(document)
        fleet: list[FitNode] = [
            fit_node(node, [fit_pod(each) for each in on_node[node.metadata.name]]) for node in nodes
        ]
        fitting = {node.name for node in fleet if not refusal(fit_pod(pod), node, fleet)}
        decision = cluster.decide(PodInfo(pod))
        feasible = set(decision.feasible)

        assert fitting <= feasible, document
        # The fit check does not know the labels of namespaces, and refuses where they decide.
        if not any(_needs_labels(each) for each in (pod, *pods)):
            assert fitting == feasible, document


def _needs_labels(pod: Pod) -> bool:
    return b'"namespaceSelector":{"matchLabels"' in msgspec.json.encode(pod)
