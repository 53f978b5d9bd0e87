"""The lab's stock scheduler and the scheduling library decide alike, until the lab uses the library."""

import random
from typing import Any

import pytest

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.pod_template import MIB, PodTemplate
from equipoise.lab.model.stock.scheduler import StockScheduler, feasible_nodes_to_find
from equipoise.lab.model.trace import TraceNode, TraceTaint
from equipoise.scheduling import ClusterScheduler, PodInfo, read_pod
from equipoise.scheduling import scheduler as library

TAINTS = (TraceTaint(key="gpu"), TraceTaint(key="spot", effect="PreferNoSchedule"))
TOLERATIONS: tuple[tuple[Toleration, ...], ...] = ((), (Toleration(key="gpu", operator="Exists"),))


def a_node(generator: random.Random, name: str) -> TraceNode:
    return TraceNode(
        name=name,
        cpu_milli=generator.choice((2_000, 4_000, 7_900)),
        memory_mib=generator.choice((2_048, 8_192)),
        pods=generator.choice((4, 110)),
        taints=tuple(taint for taint in TAINTS if generator.random() < 0.2),
    )


def manifest(node: TraceNode, *, cordoned: bool) -> dict[str, Any]:
    taints = [{"key": each.key, "value": each.value, "effect": each.effect} for each in node.taints]
    size = {"cpu": f"{node.cpu_milli}m", "memory": f"{node.memory_mib}Mi", "pods": str(node.pods)}
    return {
        "kind": "Node",
        "metadata": {"name": node.name, "labels": {"kubernetes.io/hostname": node.name}},
        "spec": {"taints": taints, "unschedulable": cordoned},
        "status": {"allocatable": size},
    }


def a_pod(template: PodTemplate, number: int) -> PodInfo:
    """Of a ReplicaSet, which is its workload."""
    requests = {}
    if template.cpu_milli is not None:
        requests["cpu"] = f"{template.cpu_milli}m"
    if template.memory is not None:
        requests["memory"] = str(template.memory)
    name = f"workload-{template.workload}"
    owner = {"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": name, "controller": True}
    tolerations = [{"key": each.key, "operator": each.operator} for each in template.tolerations]
    return read_pod(
        {
            "metadata": {
                "name": f"pod-{number}",
                "namespace": "default",
                "labels": {"app": name},
                "ownerReferences": [owner],
            },
            "spec": {"containers": [{"name": "main", "resources": {"requests": requests}}], "tolerations": tolerations},
        }
    )


@pytest.mark.parametrize("seed", range(12))
def test_feasible_nodes_and_their_scores_are_the_same(seed: int) -> None:
    """Of forty pods, one after the other."""
    generator = random.Random(seed)
    nodes = [a_node(generator, f"node-{number}") for number in range(generator.randint(2, 9))]
    placements, cluster = Placements(nodes), ClusterScheduler(generator)
    for index, node in enumerate(nodes):
        placements.cordoned[index] = generator.random() < 0.1
        cluster.put_documents([manifest(node, cordoned=bool(placements.cordoned[index]))])
    templates = [
        PodTemplate(
            workload=workload,
            cpu_milli=generator.choice((None, 0, 300, 1_300)),
            memory=generator.choice((None, 0, 100 * MIB, 1_500 * MIB)),
            tolerations=generator.choice(TOLERATIONS),
        )
        for workload in range(4)
    ]
    for template in templates:
        name = f"workload-{template.workload}"
        selector = {"matchLabels": {"app": name}}
        metadata = {"name": name, "namespace": "default"}
        cluster.put_documents([{"kind": "ReplicaSet", "metadata": metadata, "spec": {"selector": selector}}])
    stock = StockScheduler()
    for number in range(40):
        template = generator.choice(templates)
        pod = a_pod(template, number)
        rows = stock.candidates(placements, template)
        decision = cluster.decide(pod)

        assert [nodes[row].name for row in rows] == list(decision.feasible)
        if decision.scores is not None:
            assert stock.scores(placements, template, rows).tolist() == decision.scores.total.tolist()
        if not len(rows):
            assert decision.diagnosis is not None
            assert placements.refusals(template) == decision.diagnosis.reasons()
            continue
        row = int(generator.choice(rows.tolist()))
        placements.place(template, row)
        cluster.snapshot.add_pod(pod, row)


@pytest.mark.parametrize("nodes", [1, 99, 100, 250, 5_000, 20_000])
@pytest.mark.parametrize("percentage", [0, 1, 60])
def test_as_many_nodes_are_searched(nodes: int, percentage: int) -> None:
    assert feasible_nodes_to_find(nodes, percentage) == library.feasible_nodes_to_find(nodes, percentage)
