"""Objects of the API server become the nodes, workloads and rules of a trace."""

from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from scheduling.pods import a_node, a_pod

from equipoise.contracts.kubernetes.labels import ZONE
from equipoise.contracts.kubernetes.objects.metadata import (
    LabelSelector,
    ObjectMeta,
    ResourceRequirements,
    SelectorRequirement,
)
from equipoise.contracts.kubernetes.objects.pod import (
    Affinity,
    Container,
    Pod,
    PodAffinity,
    PodAffinityTerm,
    SchedulingGroup,
    TopologySpreadConstraint,
)
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget, PodDisruptionBudgetSpec
from equipoise.lab.model.trace import TraceBudget, TraceSpreadConstraint
from equipoise.lab.record.inventory import Inventory, inventory, repels_itself
from equipoise.scheduling.model.pod_info import PodInfo

WEB = {"app": "web"}
HASHED = {**WEB, "pod-template-hash": "abc"}


def recorded(pod: Pod) -> object:
    """Priority and preemption policy of the workload of a pod on a node."""
    (workload,) = inventory([a_node("node-1")], [pod], {"default/web": ("default", "Pod", "web")}).workloads
    return workload.priority, workload.preemption_policy


def test_priorities_are_recorded() -> None:
    """For preemption in replays."""
    plain = a_pod("web", node_name="node-1")
    important = a_pod("web", node_name="node-1", priority=1_000, preemption_policy="Never")

    assert recorded(plain.pod) == (0, "PreemptLowerPriority")
    assert recorded(important.pod) == (1_000, "Never")


def test_gangs_are_recorded() -> None:
    """As the reason of the protection names them, which any text of an annotation must not break."""
    group = SchedulingGroup(pod_group_name="train")
    pods = [
        a_pod("web", node_name="node-1", scheduling_group=group).pod,
        a_pod("web", node_name="node-1", labels={"pod-group-name": "a/b\n"}).pod,
        a_pod("web", node_name="node-1").pod,
    ]
    found = [inventory([a_node("node-1")], [pod], {"default/web": ("default", "Pod", "web")}) for pod in pods]

    assert [each.workloads[0].gang for each in found] == ["PodGroup train", "PodGroup of KAI a b ", ""]


def test_the_names_of_containers_and_what_starts_before_them_are_recorded() -> None:
    """Sidecars run beside the containers; an init container and the overhead are needed to start."""
    container, sidecar, init = (
        Container(
            name=name, resources=ResourceRequirements(requests={"cpu": cpu, "memory": "1Gi"}), restart_policy=policy
        )
        for name, cpu, policy in (("main", "100m", ""), ("proxy", "50m", "Always"), ("migrate", "2", ""))
    )
    pod = a_pod("web", node_name="node-1", overhead={"cpu": "10m", "memory": "1Mi"}).pod
    spec = msgspec.structs.replace(pod.spec, containers=[container], init_containers=[sidecar, init])
    pod = msgspec.structs.replace(pod, spec=spec)
    (workload,) = inventory([a_node("node-1")], [pod], {"default/web": ("default", "Pod", "web")}).workloads

    assert workload.containers == ("main", "proxy")
    assert (workload.start_cpu_milli, workload.start_memory_mib) == (2_060, 2_049)
    assert (workload.request_cpu_milli, workload.request_memory_mib) == (2_060, 2_049)


def test_zones_and_regions_are_recorded() -> None:
    """Also those of old labels; a node may have neither."""
    labels = {"topology.kubernetes.io/zone": "a", "failure-domain.beta.kubernetes.io/region": "east"}
    nodes = [a_node("node-1", labels=labels), a_node("node-2")]

    assert [("a", "east"), ("", "")] == [(node.zone, node.region) for node in inventory(nodes, [], {}).nodes]


def test_extended_resources_are_recorded() -> None:
    """Of device plugins; others of Kubernetes are not."""
    node = a_node("node-1", **{"nvidia.com/gpu": "4", "kubernetes.io/batch-cpu": "1000", "ephemeral-storage": "1Gi"})
    found = inventory(
        [node],
        [a_pod("web", {"nvidia.com/gpu": "2"}, node_name="node-1").pod],
        {"default/web": ("default", "Pod", "web")},
    )

    assert ({"nvidia.com/gpu": 4}, {"nvidia.com/gpu": 2}) == (
        found.nodes[0].extended_resources, found.workloads[0].extended_resources,
    )  # fmt: skip


def recorded_spread(*others: PodInfo, **fields: Any) -> tuple[Sequence[TraceSpreadConstraint], Sequence[str]]:
    """Of the constraints of a pod `web` beside others, with the notes."""
    rule = TopologySpreadConstraint(
        **({"topology_key": ZONE, "label_selector": LabelSelector(match_labels=WEB), "max_skew": 2} | fields)
    )
    web = a_pod("web", labels=HASHED, node_name="node-1", topology_spread_constraints=[rule])
    pods = [each.pod for each in (web, *others)]
    owners = {f"{pod.metadata.namespace}/{pod.metadata.name}": ("default", "Pod", pod.metadata.name) for pod in pods}
    found = inventory([a_node("node-1")], pods, owners)
    return next(each.topology_spread for each in found.workloads if each.name == "web"), found.notes


MERGED = LabelSelector(
    match_labels=WEB, match_expressions=[SelectorRequirement(key="pod-template-hash", operator="In", values=["abc"])]
)


@pytest.mark.parametrize(
    ("fields", "recorded"),
    [
        ({}, {}),
        ({"match_label_keys": ["pod-template-hash"]}, {"match_label_keys": ["pod-template-hash"]}),
        (
            {"match_label_keys": ["pod-template-hash"], "label_selector": MERGED},
            {"match_label_keys": ["pod-template-hash"]},
        ),
        ({"when_unsatisfiable": "ScheduleAnyway"}, {"when_unsatisfiable": "ScheduleAnyway"}),
    ],
)
def test_constraints_that_spread_the_pods_of_a_workload_are_recorded(
    fields: dict[str, Any], recorded: dict[str, Any]
) -> None:
    """Without the selector: the pods of a trace have other labels."""
    assert recorded_spread(**fields) == ((TraceSpreadConstraint(topology_key=ZONE, max_skew=2, **recorded),), ())


@pytest.mark.parametrize(
    ("other", "fields"),
    [
        ("web-2", {}),
        ("", {"topology_key": "rack"}),
        ("", {"label_selector": None}),
        ("", {"label_selector": LabelSelector(match_labels={"app": "other"})}),
        ("", {"match_label_keys": ["version"]}),
    ],
)
def test_other_topology_spread_is_counted_in_a_note(other: str, fields: dict[str, Any]) -> None:
    others = [a_pod(other, labels=WEB, node_name="node-1")] if other else []
    spread, notes = recorded_spread(*others, **fields)

    assert spread == ()
    assert [
        note
        for note in notes
        if "topology spread constraints with other topology keys, or that count pods of other workloads or by" in note
    ]


def with_budgets(*budgets: PodDisruptionBudget) -> Inventory:
    """Two pods of web, only one of which has the label `new`, and one of db."""
    pods = [
        a_pod(name, labels={"app": name[:-2], "part": "shop"} | ({"new": "yes"} if name == "web-2" else {})).pod
        for name in ("web-1", "web-2", "db-1")
    ]
    pods = [msgspec.structs.replace(pod, spec=msgspec.structs.replace(pod.spec, node_name="node-1")) for pod in pods]
    owners = {f"default/{pod.metadata.name}": ("default", "Pod", pod.metadata.labels["app"]) for pod in pods}
    return inventory([a_node("node-1")], pods, owners, budgets)


def selecting(labels: dict[str, str], namespace: str = "default", **amounts: int | str) -> PodDisruptionBudget:
    return PodDisruptionBudget(
        metadata=ObjectMeta(name="budget", namespace=namespace),
        spec=PodDisruptionBudgetSpec(selector=LabelSelector(match_labels=labels), **amounts),  # type: ignore[arg-type]  # not the selector
    )


@pytest.mark.parametrize(
    ("budget", "recorded"),
    [
        (selecting({"app": "web"}, min_available=1), {"workloads": (1,), "min_available": 1}),
        (selecting({"part": "shop"}, max_unavailable="25%"), {"workloads": (0, 1), "max_unavailable": "25%"}),
        (selecting({"app": "db"}), {"workloads": (0,), "max_unavailable": 0}),
    ],
)
def test_budgets_that_select_whole_workloads_are_recorded(
    budget: PodDisruptionBudget, recorded: dict[str, Any]
) -> None:
    """One without an amount allows no disruption."""
    found = with_budgets(budget)

    assert ((TraceBudget(name="budget", **recorded),), ()) == (found.budgets, found.notes)


@pytest.mark.parametrize(
    ("budget", "notes"),
    [
        (
            selecting({"new": "yes"}, min_available=1),
            ("omitted PodDisruptionBudgets that select only some pods of a workload: default/budget",),
        ),
        (selecting({"app": "other"}, min_available=1), ()),
        (selecting({"app": "web"}, "other", min_available=1), ()),
    ],
    ids=["some pods of a workload", "no pod", "another namespace"],
)
def test_other_budgets_are_not_recorded(budget: PodDisruptionBudget, notes: Sequence[str]) -> None:
    """A note lists those that have an effect."""
    found = with_budgets(budget)

    assert ((), notes) == (found.budgets, found.notes)


def test_a_note_says_that_budgets_could_not_be_listed() -> None:
    assert ("PodDisruptionBudgets could not be listed; the trace contains none",) == inventory(
        [a_node("node-1")], [], {}, None
    ).notes


@pytest.mark.parametrize(
    ("key", "selected", "repels"),
    [
        ("kubernetes.io/hostname", WEB, True),
        ("kubernetes.io/hostname", {"app": "other"}, False),
        ("topology.kubernetes.io/zone", WEB, False),
    ],
)
def test_pods_that_exclude_their_own_kind_from_a_node(key: str, selected: dict[str, str], repels: bool) -> None:
    """A trace has no rules about zones."""
    term = PodAffinityTerm(topology_key=key, label_selector=LabelSelector(match_labels=selected))
    pod = a_pod(labels=WEB, affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term]))).pod

    assert repels_itself(pod) is repels


@pytest.mark.parametrize(("names", "repels"), [([], True), (["other"], True), (["default"], True)])
def test_a_selector_of_namespaces_is_taken_to_select_the_own_one(names: list[str], repels: bool) -> None:
    """Its labels are not recorded."""
    selector = LabelSelector(match_labels={"team": "a"})
    term = PodAffinityTerm(
        topology_key="kubernetes.io/hostname",
        label_selector=LabelSelector(match_labels=WEB),
        namespaces=names,
        namespace_selector=selector,
    )
    pod = a_pod(labels=WEB, affinity=Affinity(pod_anti_affinity=PodAffinity(required=[term]))).pod

    assert repels_itself(pod) is repels
