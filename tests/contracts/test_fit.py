"""Whether a pod fits on a node."""

from typing import Any

import pytest
from builders import GIB, a_placed_pod, a_placement, refusal

from equipoise.contracts.fit import FitNode, FitPod, HostPort, fit_node, fit_pod, placed_node
from equipoise.contracts.kubernetes import objects
from equipoise.contracts.kubernetes.objects import (
    LabelSelector,
    NodeSelector,
    NodeSelectorTerm,
    PodAffinityTerm,
    SelectorRequirement,
    Taint,
    Toleration,
    TopologySpreadConstraint,
)

UNITS = {"cpu_m": ("cpu", "m"), "ephemeral": ("ephemeral-storage", "")}


def a_fit_pod(name: str = "web-1", **fields: Any) -> FitPod:
    return FitPod(**({"uid": f"uid-{name}", "namespace": "shop", "name": name, "labels": {"app": "web"}} | fields))


def a_fit_node(name: str = "node-a", pods: list[FitPod] | None = None, **fields: Any) -> FitNode:
    labels = {"kubernetes.io/hostname": name} | fields.pop("labels", {})
    allocatable = {"cpu": 4.0, "memory": 8 * GIB, "pods": 10.0} | fields.pop("allocatable", {})
    return FitNode(name=name, labels=labels, allocatable=allocatable, pods=pods or [], **fields)


def quantities(amounts: dict[str, float]) -> dict[str, str]:
    pairs = [(*UNITS.get(name, (name, "")), amount) for name, amount in amounts.items()]
    return {name: f"{amount}{unit}" for name, unit, amount in pairs}


def a_container(amounts: dict[str, float]) -> objects.Container:
    return objects.Container(resources=objects.ResourceRequirements(requests=quantities(amounts)))


def test_pod_requests_with_sidecar_pod_level_and_overhead() -> None:
    """Sidecars run all the time, pod-level values replace the sum, overhead is added."""
    sidecar = objects.Container(
        restart_policy="Always", resources=objects.ResourceRequirements(requests={"cpu": "500m", "memory": "1Gi"})
    )
    spec = objects.PodSpec(
        containers=[a_container({"cpu_m": 1000, "memory": GIB})],
        init_containers=[sidecar, a_container({"cpu_m": 2000, "memory": 0})],
        overhead={"cpu": "100m"},
        resources=objects.ResourceRequirements(requests={"memory": "3Gi"}),
    )

    requests = fit_pod(objects.Pod(spec=spec)).requests

    assert requests == {"cpu": pytest.approx(2.6), "memory": 3 * GIB}


def test_reclaimed_requests_are_compared_with_what_the_node_offers_of_the_band() -> None:
    """As the API server returns it: 8000 milli-cores are `8k`. Cpu and memory of the node do not count."""

    def a_batch_pod(name: str, cpu: str) -> FitPod:
        requests = {"kubernetes.io/batch-cpu": cpu, "kubernetes.io/batch-memory": "1073741824"}
        container = objects.Container(resources=objects.ResourceRequirements(requests=requests))
        return fit_pod(
            objects.Pod(
                metadata=objects.ObjectMeta(name=name, namespace="shop", uid=name),
                spec=objects.PodSpec(containers=[container]),
            )
        )

    def a_node(**offered: str) -> objects.Node:
        allocatable = {"cpu": "0", "memory": "0", "pods": "110"} | {
            f"kubernetes.io/{name.replace('_', '-')}": amount for name, amount in offered.items()
        }
        return objects.Node(
            metadata=objects.ObjectMeta(name="node-a", labels={"kubernetes.io/hostname": "node-a"}),
            status=objects.NodeStatus(allocatable=allocatable),
        )

    offering = a_node(batch_cpu="8k", batch_memory="8G")
    occupied = fit_node(offering, [a_batch_pod("other", "6500")])

    assert not refusal(a_batch_pod("new", "1500"), occupied)
    assert "insufficient kubernetes.io/batch-cpu: 1501 requested" in refusal(a_batch_pod("new", "1501"), occupied)
    assert "insufficient kubernetes.io/batch-cpu" in refusal(a_batch_pod("new", "1"), fit_node(a_node(), []))


def test_a_full_node_accepts_no_pod() -> None:
    """The number of pods is limited like a resource; an unknown limit is 0."""
    crowded = a_fit_node(pods=[a_fit_pod(f"web-{i}") for i in range(10)])

    assert refusal(a_fit_pod("new"), crowded) == "too many pods: 10 allowed"
    assert refusal(a_fit_pod("new"), FitNode(name="blank")) == "too many pods: 0 allowed"


def test_the_pod_itself_does_not_count_on_its_node() -> None:
    """It is its own replacement."""
    pod = a_fit_pod(requests={"cpu": 3.0})

    assert refusal(pod, a_fit_node(pods=[pod])) == ""
    assert "insufficient cpu: 3 requested, 1 free" in refusal(
        pod, a_fit_node(pods=[a_fit_pod("x", requests={"cpu": 3.0})])
    )


@pytest.mark.parametrize(
    ("toleration", "fits"),
    [
        (None, False),
        (Toleration(key="team", value="a", effect="NoSchedule"), True),
        (Toleration(key="team", value="b", effect="NoSchedule"), False),
        (Toleration(key="team", operator="Exists"), True),
        (Toleration(operator="Exists"), True),
        (Toleration(key="team", value="a", effect="NoExecute"), False),
        (Toleration(key="team", operator="Gt", value="1"), False),
    ],
)
def test_taints(toleration: Toleration | None, fits: bool) -> None:
    """A NoSchedule taint must be tolerated; a PreferNoSchedule one need not."""
    taints = [Taint(key="team", value="a", effect="NoSchedule"), Taint(key="soft", effect="PreferNoSchedule")]
    pod = a_fit_pod(tolerations=[toleration] if toleration else [])

    why = refusal(pod, a_fit_node(taints=taints))

    assert why == ("" if fits else "untolerated taint team=a:NoSchedule")


def test_a_taint_may_be_tolerated_by_comparison() -> None:
    """A pod that tolerates every value above 900 fits on a node of 950, and not on one of 800."""
    pod = a_fit_pod(tolerations=[Toleration(key="sla", operator="Gt", value="900")])

    assert refusal(pod, a_fit_node(taints=[Taint(key="sla", value="950", effect="NoSchedule")])) == ""
    assert refusal(pod, a_fit_node(taints=[Taint(key="sla", value="800", effect="NoSchedule")])) != ""


def test_a_cordoned_node_is_refused() -> None:
    """Unless the pod tolerates the taint of cordoned nodes."""
    through = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists")

    assert refusal(a_fit_pod(), a_fit_node(cordoned=True)) == "node is cordoned"
    assert refusal(a_fit_pod(tolerations=[through]), a_fit_node(cordoned=True)) == ""


@pytest.mark.parametrize(
    ("operator", "values", "fits"),
    [
        ("In", ["ssd", "nvme"], True),
        ("NotIn", ["ssd"], False),
        ("Exists", [], True),
        ("DoesNotExist", [], False),
        ("Gt", ["1"], False),
        ("Invented", [], False),
    ],
)
def test_node_affinity_operators(operator: str, values: list[str], fits: bool) -> None:
    """Every operator of a node selector matches as in Kubernetes; an unknown one matches nothing."""
    expression = SelectorRequirement(key="disk", operator=operator, values=values)
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])

    assert (refusal(a_fit_pod(node_affinity=selector), a_fit_node(labels={"disk": "ssd"})) == "") is fits


@pytest.mark.parametrize(("operator", "value", "fits"), [("Gt", "4", True), ("Lt", "4", False), ("Gt", "x", False)])
def test_node_affinity_compares_numbers(operator: str, value: str, fits: bool) -> None:
    """Gt and Lt compare integers; other values never match."""
    expression = SelectorRequirement(key="cores", operator=operator, values=[value])
    selector = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[expression])])

    assert (refusal(a_fit_pod(node_affinity=selector), a_fit_node(labels={"cores": "8"})) == "") is fits


def test_node_selector_terms() -> None:
    """Terms are alternatives, an empty one matches nothing, matchFields applies to the name, nodeSelector to labels."""
    by_name = NodeSelectorTerm(
        match_fields=[SelectorRequirement(key="metadata.name", operator="In", values=["node-a"])]
    )
    either = NodeSelector(node_selector_terms=[NodeSelectorTerm(), by_name])

    assert refusal(a_fit_pod(node_affinity=either), a_fit_node("node-a")) == ""
    assert refusal(a_fit_pod(node_affinity=either), a_fit_node("node-b")) != ""
    assert refusal(a_fit_pod(node_selector={"pool": "web"}), a_fit_node()) != ""
    assert refusal(a_fit_pod(node_selector={"pool": "web"}), a_fit_node(labels={"pool": "web"})) == ""


def test_host_ports() -> None:
    """A port is used once per protocol and address; 0.0.0.0 is every address."""
    taken = a_fit_node(pods=[a_fit_pod("x", host_ports=[HostPort(port=80, address="10.0.0.1")])])

    assert refusal(a_fit_pod(host_ports=[HostPort(port=80)]), taken) == "host port 80 is taken"
    assert refusal(a_fit_pod(host_ports=[HostPort(port=80, protocol="UDP")]), taken) == ""
    assert refusal(a_fit_pod(host_ports=[HostPort(port=80, address="10.0.0.2")]), taken) == ""


def test_volumes_keep_a_pod_in_their_zone() -> None:
    """Every volume must be reachable from the node."""
    zone = SelectorRequirement(key="zone", operator="In", values=["a"])
    volume = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_expressions=[zone])])
    pod = a_fit_pod(volume_nodes=[volume])

    assert refusal(pod, a_fit_node(labels={"zone": "a"})) == ""
    assert refusal(pod, a_fit_node(labels={"zone": "b"})) == "a volume of the pod is not reachable from the node"


ZONE_TERM = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "web"}), topology_key="zone")


def test_own_anti_affinity_applies_to_the_whole_domain() -> None:
    """A matching pod anywhere in the zone excludes it; the pod itself does not."""
    pod = a_fit_pod(pod_anti_affinity=[ZONE_TERM])
    target = a_fit_node("node-a", labels={"zone": "a"})
    sibling = a_fit_node("node-b", [a_fit_pod("web-2")], labels={"zone": "a"})
    itself = a_fit_node("node-b", [pod], labels={"zone": "a"})

    assert refusal(pod, target, [target, sibling]) == "its anti-affinity to shop/web-2 in zone=a"
    assert refusal(pod, target, [target, itself]) == ""


def test_anti_affinity_of_other_pods_applies() -> None:
    """As in kube-scheduler."""
    guard = a_fit_pod("guard", labels={}, pod_anti_affinity=[ZONE_TERM])
    target = a_fit_node("node-a", labels={"zone": "a"})
    beside = a_fit_node("node-b", [guard], labels={"zone": "a"})

    assert refusal(a_fit_pod(), target, [target, beside]) == "anti-affinity of shop/guard in zone=a"
    assert refusal(a_fit_pod(labels={"app": "other"}), target, [target, beside]) == ""
    assert refusal(a_fit_pod(namespace="elsewhere"), target, [target, beside]) == ""


def test_affinity_requires_a_matching_pod_in_the_domain() -> None:
    """Unless there is none anywhere and the pod matches its own term."""
    backend = PodAffinityTerm(label_selector=LabelSelector(match_labels={"app": "db"}), topology_key="zone")
    pod = a_fit_pod(pod_affinity=[backend])
    near, far = a_fit_node("node-a", labels={"zone": "a"}), a_fit_node("node-b", labels={"zone": "b"})
    with_database = a_fit_node("node-c", [a_fit_pod("db-1", labels={"app": "db"})], labels={"zone": "a"})

    assert refusal(pod, near, [near, far, with_database]) == ""
    assert refusal(pod, far, [near, far, with_database]) != ""
    assert refusal(pod, near, [near, far]) != ""
    assert refusal(a_fit_pod(pod_affinity=[ZONE_TERM]), near, [near, far]) == ""


def test_unknown_namespace_labels_are_decided_in_the_safe_direction() -> None:
    """They apply to anti-affinity and do not satisfy affinity."""
    unknown = LabelSelector(match_labels={"team": "a"})
    term = PodAffinityTerm(
        label_selector=LabelSelector(match_labels={"app": "web"}), topology_key="zone", namespace_selector=unknown
    )
    target = a_fit_node("node-a", labels={"zone": "a"})
    other = a_fit_node("node-b", [a_fit_pod("web-2", namespace="elsewhere")], labels={"zone": "a"})

    assert refusal(a_fit_pod(pod_anti_affinity=[term]), target, [target, other]) != ""
    assert refusal(a_fit_pod(labels={}, pod_affinity=[term]), target, [target, other]) != ""


def a_zone(name: str, pods: int) -> FitNode:
    return a_fit_node(f"node-{name}", [a_fit_pod(f"{name}-{i}") for i in range(pods)], labels={"zone": name})


def test_topology_spread() -> None:
    """No domain may exceed the emptiest one by more than maxSkew."""
    rule = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "web"}))
    pod = a_fit_pod(spread=[rule])
    a, b, unlabelled = a_zone("a", 2), a_zone("b", 1), a_fit_node("node-x")
    nodes = [a, b, unlabelled]

    assert refusal(pod, b, nodes) == ""
    assert refusal(pod, a, nodes) == "spread over zone would be uneven by 2, 1 allowed"
    assert refusal(pod, unlabelled, nodes) == "node has no label zone, by which the pod is spread"


def test_topology_spread_counts_the_source_without_the_pod() -> None:
    """Without the pod its zone is the emptiest one, so it may not move to a fuller one."""
    rule = TopologySpreadConstraint(topology_key="zone", label_selector=LabelSelector(match_labels={"app": "web"}))
    pod = a_fit_pod(spread=[rule])
    source = a_fit_node("node-a", [pod], labels={"zone": "a"})

    assert refusal(pod, a_zone("b", 1), [source, a_zone("b", 1)]) != ""
    assert refusal(pod, source, [source, a_zone("b", 1)]) == ""


def test_topology_spread_ignores_ineligible_nodes_and_terminating_pods() -> None:
    """Ineligible domains set no minimum, terminating pods do not count, and too few domains count as empty."""
    selector = LabelSelector(match_labels={"app": "web"})
    rule = TopologySpreadConstraint(topology_key="zone", label_selector=selector)
    a, b = a_zone("a", 1), a_zone("b", 1)
    off_limits = a_fit_node("node-c", labels={"zone": "c"}, taints=[Taint(key="x", effect="NoSchedule")])
    honour = TopologySpreadConstraint(topology_key="zone", label_selector=selector, node_taints_policy="Honor")
    leaving = a_fit_node("node-d", [a_fit_pod("d", terminating=True), a_fit_pod("d2")], labels={"zone": "d"})
    many = TopologySpreadConstraint(topology_key="zone", label_selector=selector, min_domains=3)

    assert refusal(a_fit_pod(spread=[rule]), a, [a, b, off_limits]) != ""
    assert refusal(a_fit_pod(spread=[honour]), a, [a, b, off_limits]) == ""
    assert refusal(a_fit_pod(spread=[rule]), leaving, [a, leaving]) == ""
    assert refusal(a_fit_pod(spread=[many]), a, [a, b]) != ""


def test_a_node_from_its_placement_message() -> None:
    """It has resources, taints and labels."""
    node = placed_node(a_placement(pods=[a_placed_pod()], pod_capacity=5))

    assert refusal(a_fit_pod("new", requests={"cpu": 9.5}), node) == ""
    assert "insufficient cpu" in refusal(a_fit_pod("new", requests={"cpu": 9.6}), node)
