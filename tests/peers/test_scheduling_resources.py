"""kube-scheduler's plugins about resources: the scheduling library."""

from collections.abc import Mapping, Sequence

import numpy as np
import pytest
from peers.cases import Case, Inputs, peer_cases
from scheduling.pods import a_framework, a_pod

from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta, ResourceRequirements
from equipoise.contracts.kubernetes.objects.node import Node, NodeStatus
from equipoise.contracts.kubernetes.objects.pod import Container
from equipoise.scheduling.configuration import KIND, read_configuration
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.plugin import Plugin
from equipoise.scheduling.framework.scoring import NodeScores
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.resources.resource_allocation import (
    ResourceWeight,
    ShapePoint,
    broken_linear,
    least_allocated,
    most_allocated,
    requested_to_capacity_ratio,
)
from equipoise.scheduling.settings.document import InvalidConfiguration
from equipoise.scheduling.settings.plugin_arguments import API_VERSION

UNITS = {"cpu_m": ("cpu", "m"), "ephemeral": ("ephemeral-storage", "")}
NAMES = {name: case_name for case_name, (name, _) in UNITS.items()}
CODES = {
    Code.SUCCESS: "success",
    Code.UNSCHEDULABLE: "unschedulable",
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE: "unresolvable",
}


def quantities(amounts: Mapping[str, int]) -> dict[str, str]:
    pairs = [(*UNITS.get(name, (name, "")), amount) for name, amount in amounts.items()]
    return {name: f"{amount}{unit}" for name, unit, amount in pairs}


def containers(documents: Sequence[Mapping[str, int]]) -> list[Container]:
    return [Container(resources=ResourceRequirements(requests=quantities(each))) for each in documents]


def the_pod(document: Inputs, name: str = "new") -> PodInfo:
    init = containers(document.get("init_containers", []))
    return a_pod(name, containers=containers(document["containers"]), init_containers=init)


def the_node(document: Inputs, name: str = "node") -> Node:
    amounts = {"pods": "110", **quantities(document["allocatable"])}
    return Node(metadata=ObjectMeta(name=name), status=NodeStatus(allocatable=amounts))


def the_cluster(inputs: Inputs) -> ClusterSnapshot:
    snapshot = ClusterSnapshot()
    for document in inputs["nodes"]:
        row = snapshot.put_node(the_node(document, document["name"]))
        for index, pod in enumerate(document["pods"]):
            snapshot.add_pod(the_pod(pod, f"{document['name']}-{index}"), row)
    return snapshot


def scores(plugin: Plugin, pod: PodInfo, snapshot: ClusterSnapshot) -> NodeScores:
    return a_framework(plugin).score(CycleState(), pod, snapshot, snapshot.rows)


def resources(inputs: Inputs) -> list[ResourceWeight]:
    return [ResourceWeight(name=each["name"], weight=each["weight"]) for each in inputs["resources"]]


def shape(inputs: Inputs) -> list[ShapePoint]:
    return [ShapePoint(utilization=utilization, score=score) for utilization, score in inputs["shape"]]


def amount(snapshot: ClusterSnapshot, resource: str) -> int:
    """What the only node has of it."""
    found = snapshot.resource(snapshot.allocatable, resource)
    return found if isinstance(found, int) else int(found[0])


@peer_cases("fit_filter")
def test_requests_fit(case: Case) -> None:
    """Every resource that is short is a reason; the code shows whether preemption may help."""
    inputs = case.inputs
    pod, running = the_pod(inputs["pod"]), the_pod({"containers": [inputs["used"]]}, "running")
    snapshot = ClusterSnapshot([the_node(inputs)])
    snapshot.add_pod(running, 0)
    fit = NodeResourcesFit(ignored_resources=inputs.get("ignored", ()))

    found = a_framework(fit).filter(CycleState(), pod, snapshot, snapshot.rows)

    names = [reason.removeprefix("Insufficient ") for reason in found.reasons()]
    short = [
        [NAMES.get(name, name), pod.request(name), running.request(name), amount(snapshot, name)] for name in names
    ]
    case.check(insufficient=short, code=CODES[Code(int(found.codes[0]))])


@peer_cases("fit_most_allocated", where=lambda case: case.inputs.get("resources") == [])
def test_nothing_is_scored_without_resources(case: Case) -> None:
    with pytest.raises(ValueError, match="no resources") as error:
        NodeResourcesFit(most_allocated, resources(case.inputs))

    case.check(error=str(error.value), scores=None)


@peer_cases("fit_most_allocated", where=lambda case: "weight_lists" in case.inputs)
def test_weights_that_kube_scheduler_does_not_start_with(case: Case) -> None:
    """In a configuration."""

    def valid(weights: list[int]) -> bool:
        scored = [{"name": name, "weight": weight} for name, weight in zip(("cpu", "memory"), weights, strict=True)]
        arguments = {"scoringStrategy": {"type": "MostAllocated", "resources": scored}}
        fit = {"name": "NodeResourcesFit", "args": arguments}
        try:
            read_configuration({"apiVersion": API_VERSION, "kind": KIND, "profiles": [{"pluginConfig": [fit]}]})
        except InvalidConfiguration:
            return False
        return True

    case.check(valid=[valid(weights) for weights in case.inputs["weight_lists"]])


@peer_cases("fit_least_allocated", "fit_most_allocated", where=lambda case: case.inputs.get("resources", []) != [])
def test_fit_scores(case: Case) -> None:
    """Least allocated: the more is left of a node with the pod, the better; most allocated: the less."""
    strategy = least_allocated if case.feature == "fit_least_allocated" else most_allocated

    found = scores(
        NodeResourcesFit(strategy, resources(case.inputs)), the_pod(case.inputs["pod"]), the_cluster(case.inputs)
    )

    case.check(scores=found.total.tolist())


@peer_cases("fit_requested_to_capacity_ratio")
def test_requested_to_capacity_ratio(case: Case) -> None:
    """A function of what is used of a resource, by points."""
    strategy = requested_to_capacity_ratio(shape(case.inputs))

    found = scores(
        NodeResourcesFit(strategy, resources(case.inputs)), the_pod(case.inputs["pod"]), the_cluster(case.inputs)
    )

    case.check(scores=found.total.tolist())


@peer_cases("broken_linear")
def test_a_broken_linear_function(case: Case) -> None:
    """Between two points as a line, constant outside. Scores are multiplied by 10 before they are rounded."""
    found = broken_linear(shape(case.inputs), np.array(case.inputs["x"], dtype=np.int64))

    case.check(rounding="down", y=(found / 10).tolist())


@peer_cases("balanced_allocation")
def test_balanced_allocation(case: Case) -> None:
    """A node is better when the pod brings its resources nearer to each other; skipped without requests."""
    plugin = NodeResourcesBalancedAllocation(resources(case.inputs))

    found = scores(plugin, the_pod(case.inputs["pod"]), the_cluster(case.inputs))

    skipped = plugin.name not in found.raw
    case.check(prescore="skip" if skipped else "scored", scores=None if skipped else found.total.tolist())
