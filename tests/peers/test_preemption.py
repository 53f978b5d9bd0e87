"""kube-scheduler's default preemption: the scheduling library."""

from collections.abc import Sequence
from typing import Any

from peers.cases import Case, Inputs, peer_cases
from scheduling.pods import a_budget, a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.contracts.kubernetes.objects.pod import Affinity, PodAffinity, PodAffinityTerm, TopologySpreadConstraint
from equipoise.contracts.kubernetes.objects.workload import PodDisruptionBudget
from equipoise.scheduling.framework.cycle_state import CycleState
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.plugin import PostFiltered
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.default_preemption import DefaultPreemption
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.preemption.budgets import split_by_budgets
from equipoise.scheduling.preemption.candidate import PreemptionCandidate, candidates_wanted

FILTERS = {
    "fit": NodeResourcesFit,
    "inter_pod_affinity": InterPodAffinity,
    "topology_spread": lambda: PodTopologySpread(default_selector=lambda pod: None),
}


def exists(label: str) -> LabelSelector:
    return LabelSelector(match_expressions=[SelectorRequirement(key=label, operator="Exists")])


def the_pod(document: Inputs, name: str = "preemptor") -> PodInfo:
    """Starts are seconds here: a datetime has no nanoseconds, and their order alone matters."""
    requests = {"cpu": f"{document['cpu_m']}m", "memory": str(document["memory"])}
    spec: dict[str, Any] = {}
    if terms := document.get("required_anti_affinity"):
        required = [
            PodAffinityTerm(label_selector=exists(each["label_exists"]), topology_key=each["key"]) for each in terms
        ]
        spec["affinity"] = Affinity(pod_anti_affinity=PodAffinity(required=required))
    if constraints := document.get("spread"):
        spec["topology_spread_constraints"] = [
            TopologySpreadConstraint(
                max_skew=each["max_skew"], topology_key=each["key"], label_selector=exists(each["label_exists"])
            )
            for each in constraints
        ]
    return a_pod(
        document.get("name", name),
        requests,
        labels=document.get("labels"),
        priority=document["priority"],
        started=float(document["start_ns"]) if "start_ns" in document else None,
        node_name=document.get("node", ""),
        preemption_policy=document.get("preemption_policy", "PreemptLowerPriority"),
        **spec,
    )


class Cluster:
    """The cluster of a case, with its plugins."""

    def __init__(self, inputs: Inputs) -> None:
        nodes = [
            a_node(
                each["name"],
                labels=each["labels"],
                cpu=f"{each['allocatable']['cpu_m']}m",
                memory=str(each["allocatable"]["memory"]),
                pods=each["allocatable"]["pods"],
            )
            for each in inputs["nodes"]
        ]
        self.pod = the_pod(inputs["preemptor"])
        self.snapshot = ClusterSnapshot(nodes, [the_pod(each) for each in inputs["pods"]])
        allowed = inputs.get("extender_allows")
        self.preemption = DefaultPreemption(
            lambda: self.framework,
            Nominated(),
            lambda: [the_budget(each) for each in inputs["pdbs"]],
            lambda: inputs["offset"] / len(nodes),
            min_candidate_nodes_percentage=inputs["min_candidate_pct"],
            min_candidate_nodes_absolute=inputs["min_candidate_abs"],
            accepted=None if allowed is None else lambda pod, found: [each for each in found if each.node in allowed],
        )
        self.framework = a_framework(*(FILTERS[name]() for name in inputs["filters"]), self.preemption)

    def candidates(self) -> list[PreemptionCandidate]:
        return self.preemption.candidates(self._state(), self.pod, self.snapshot, self.snapshot.rows.tolist())

    def preempt(self) -> PostFiltered:
        """As if every node had refused the pod, and preemption could help."""
        refused = dict.fromkeys(self.snapshot.rows.tolist(), PluginStatus(code=Code.UNSCHEDULABLE))
        return self.preemption.post_filter(self._state(), self.pod, self.snapshot, refused)

    def _state(self) -> CycleState:
        state = CycleState()
        self.framework.pre_filter(state, self.pod, self.snapshot)
        return state


def the_budget(document: Inputs) -> PodDisruptionBudget:
    namespace = document.get("namespace", "default")
    allowed = document["disruptions_allowed"]
    return a_budget(allowed, *document["disrupted_pods"], namespace=namespace, **document["match"])


def names(pods: Sequence[PodInfo]) -> list[str]:
    return sorted(pod.name for pod in pods)


@peer_cases("preemption_dry_run")
def test_candidates(case: Case) -> None:
    """Each node on which the removal of pods helps, with the fewest victims."""
    found = [
        {"node": each.node, "victims": names(each.victims), "pdb_violations": each.violations}
        for each in Cluster(case.inputs).candidates()
    ]

    case.check(candidates=sorted(found, key=lambda each: str(each["node"])))


@peer_cases("preemption_num_candidates")
def test_number_of_candidates(case: Case) -> None:
    """The search ends early in large clusters."""
    inputs = case.inputs

    case.check(
        num_candidates=candidates_wanted(inputs["nodes"], inputs["min_candidate_pct"], inputs["min_candidate_abs"])
    )


@peer_cases("preemption_pick_node")
def test_the_best_candidate(case: Case) -> None:
    """It costs least."""
    found = Cluster(case.inputs).preempt()

    assert found.node in case.expected["node_any_of"]
    case.check(node_any_of=case.expected["node_any_of"])


@peer_cases("preemption_full")
def test_preemption(case: Case) -> None:
    """From no feasible node to the victims."""
    found = Cluster(case.inputs).preempt()

    case.check(node=found.node or None, victims=names(found.victims))


@peer_cases("preemption_pdb_split")
def test_violated_budgets(case: Case) -> None:
    """A group of pods violates a budget if one of them does."""
    groups = {
        group["id"]: [a_pod(each["name"], namespace=each["namespace"], labels=each["labels"]) for each in group["pods"]]
        for group in case.inputs["victims"]
    }
    budgets = [the_budget(each) for each in case.inputs["pdbs"]]
    violating, _ = split_by_budgets([pod for pods in groups.values() for pod in pods], budgets)
    violated = [name for name, pods in groups.items() if any(pod in violating for pod in pods)]

    case.check(violating=violated, non_violating=[name for name in groups if name not in violated])


@peer_cases("preemption_eligible")
def test_eligible(case: Case) -> None:
    """Not while pods of an earlier preemption terminate on the nominated node."""
    inputs = case.inputs
    node = inputs["nominated_node"] or ""
    code = inputs["nominated_node_status"]
    pod = a_pod(
        "new",
        {"cpu": "4"},
        priority=inputs["preemptor_priority"],
        preemption_policy=inputs["policy"],
        status={"nominated_node_name": node},
    )
    others = [
        a_pod(f"old-{number}", {"cpu": "4"}, priority=each["priority"], terminating=each["terminating"], node_name=node)
        for number, each in enumerate(inputs["pods_on_nominated"])
    ]
    assert not any(each["preempted_by_scheduler_condition"] for each in inputs["pods_on_nominated"])
    snapshot = ClusterSnapshot([a_node("node1")], others)
    preemption = DefaultPreemption(lambda: framework, Nominated(), lambda: [], lambda: 0.0)
    framework = a_framework(NodeResourcesFit(), preemption)
    refused = {0: PluginStatus(code=Code.UNSCHEDULABLE if code is None else Code[code])}

    found = preemption.post_filter(CycleState(), pod, snapshot, refused)

    case.check(eligible=not any("not eligible" in reason for reason in found.status.reasons))
