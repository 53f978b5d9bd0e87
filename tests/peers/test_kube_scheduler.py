"""kube-scheduler: the lab's stock scheduler."""

from collections.abc import Callable, Sequence

import numpy as np
from peers.cases import Case, Inputs, peer_cases

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.plugins import (
    FitScore,
    Ints,
    avoided_taints,
    balanced_allocation,
    spread_scores,
    taint_scores,
)
from equipoise.lab.model.stock.pod_template import PodTemplate
from equipoise.lab.model.trace import TraceTaint

UNITS = {"cpu_m": ("cpu", "m"), "ephemeral": ("ephemeral-storage", "")}
NAMES = {name: case_name for case_name, (name, _) in UNITS.items()}

# Scores of resources: a trace has CPU and memory, and requests of a pod's only container


def requested(containers: Sequence[Inputs], names: Sequence[str]) -> Ints:
    """What a pod's containers request together, by resource."""
    return np.array([sum(container.get(name, 0) for container in containers) for name in names], dtype=np.int64)


def counted(containers: Sequence[Inputs], names: Sequence[str]) -> Ints:
    """What a pod counts for in the score of NodeResourcesFit: every container as a pod of the lab."""
    total = requested(containers, names)
    for position, name in enumerate(names):
        if name in ("cpu_m", "memory"):
            templates = [
                PodTemplate(workload=0, cpu_milli=one.get("cpu_m"), memory=one.get("memory")) for one in containers
            ]
            total[position] = sum(int(template.nonzero_requests[int(name == "memory")]) for template in templates)
    return total


def names_of(inputs: Inputs) -> list[str]:
    return ["cpu_m" if resource["name"] == "cpu" else resource["name"] for resource in inputs["resources"]]


def by_node(inputs: Inputs, amounts: Callable[[Sequence[Inputs], Sequence[str]], Ints]) -> Ints:
    """resources × nodes: the sums of the pods of each node."""
    names = names_of(inputs)
    columns = [
        sum((amounts(pod["containers"], names) for pod in node["pods"]), 0 * requested([], names))
        for node in inputs["nodes"]
    ]
    return np.array(columns).T


def allocatable(inputs: Inputs) -> Ints:
    return np.array([[node["allocatable"].get(name, 0) for node in inputs["nodes"]] for name in names_of(inputs)])


OTHER_RESOURCES = ("L10-ext-unrequested", "B08-gpu-unrequested")
"""Extended resources that a pod does not request: a trace of the lab has CPU and memory only."""


@peer_cases(
    "fit_least_allocated",
    "fit_most_allocated",
    where=lambda case: "weight_lists" not in case.inputs and case.id not in OTHER_RESOURCES,
)
def test_fit_scores(case: Case) -> None:
    """Least allocated: the more is left of a node with the pod, the better; most allocated: the less."""
    inputs = case.inputs
    weights = tuple(resource["weight"] for resource in inputs["resources"])
    try:
        fit = FitScore(
            strategy="LeastAllocated" if case.feature == "fit_least_allocated" else "MostAllocated", weights=weights
        )
    except ValueError as error:
        case.check(error=str(error), scores=None)
        return
    total = by_node(inputs, counted) + counted(inputs["pod"]["containers"], names_of(inputs))[:, np.newaxis]

    case.check(scores=fit.score(allocatable(inputs), total).tolist())


@peer_cases("fit_most_allocated", where=lambda case: "weight_lists" in case.inputs)
def test_weights_that_kube_scheduler_does_not_start_with(case: Case) -> None:
    """Weights lie within 1..100."""

    def valid(weights: list[int]) -> bool:
        try:
            FitScore(weights=tuple(weights))
        except ValueError:
            return False
        return True

    case.check(valid=[valid(weights) for weights in case.inputs["weight_lists"]])


@peer_cases("balanced_allocation", where=lambda case: case.id not in OTHER_RESOURCES)
def test_balanced_allocation(case: Case) -> None:
    """A node is better when the pod brings its CPU and memory nearer to each other; skipped without requests."""
    inputs = case.inputs
    of_pod = requested(inputs["pod"]["containers"], names_of(inputs))

    scores = balanced_allocation(allocatable(inputs), by_node(inputs, requested), of_pod)

    case.check(prescore="skip" if scores is None else "scored", scores=None if scores is None else scores.tolist())


# Other scores


@peer_cases("taint_toleration_score")
def test_taint_scores(case: Case) -> None:
    """Nodes with PreferNoSchedule taints that are not tolerated come last."""
    tolerations = [
        Toleration(key=each["key"], operator=each["op"], value=each["value"], effect=each["effect"])
        for each in case.inputs["tolerations"]
    ]
    taints = [[TraceTaint(**taint) for taint in node["taints"]] for node in case.inputs["nodes"]]

    case.check(scores=taint_scores(avoided_taints(taints, tolerations)).tolist())


@peer_cases("default_normalize", where=lambda case: case.inputs["reverse"])
def test_reversed_normalized_scores(case: Case) -> None:
    """The scores of TaintToleration are kube-scheduler's reversed DefaultNormalizeScore of its counts."""
    case.check(scores=taint_scores(np.array(case.inputs["scores"])).tolist())


def default_over_hosts(inputs: Inputs) -> bool:
    """The lab has no other constraint, and no node is infeasible for another reason."""
    keys = [(constraint["key"], constraint["max_skew"]) for constraint in inputs["constraints"]]
    return keys == [("kubernetes.io/hostname", 3)]


@peer_cases("topology_spread_score", where=lambda case: default_over_hosts(case.inputs))
def test_spread_scores(case: Case) -> None:
    """The default constraint over hosts: the fewer pods of its kind a node has, the better."""
    counts = [sum("foo" in labels for labels in node["pods"]) for node in case.inputs["nodes"] if node["candidate"]]

    case.check(scores=spread_scores(np.array(counts)).tolist())
