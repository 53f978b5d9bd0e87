"""The placement hints of all workloads, from messages."""

import msgspec
import pytest
from builders import GIB, NOW, a_placement, a_workload, an_intent, nodes_being_emptied
from hypothesis import given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from scorer.clusters import an_outcome
from scorer.decisions.test_laws import EXAMPLES
from scorer.hinted import SETTINGS, WEB, HintedCluster, a_pod_of, avoided, preferred

from equipoise.contracts.configuration.settings import Coverage, LoadSettings
from equipoise.contracts.hints.hints_object import MAX_BYTES, stored_hints, workload_hints
from equipoise.contracts.kubernetes.labels import HOSTNAME
from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm, Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration
from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.messages.placement import MAX_HOSTNAMES, WorkloadHint, hint_key
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.placement_hints.settings import HintSettings
from equipoise.scorer.decisions.policies import ScoringPolicy
from equipoise.scorer.decisions.policies.load_aware import LoadAware

GPU = Taint(key="gpu", effect="NoSchedule")
TOLERATES_GPU = Toleration(key="gpu", operator="Exists")
IN_POOL = NodeSelector(
    node_selector_terms=[
        NodeSelectorTerm(match_expressions=[SelectorRequirement(key="pool", operator="In", values=["gpu"])])
    ]
)


def a_cluster(*cores: float | None, policy: ScoringPolicy | None = None) -> HintedCluster:
    """Nodes that use this many of their 10 cores (None: unknown), with one pod of `web` on the first one."""
    cluster = HintedCluster(policy or LoadAware(window="5m"))
    for number, cpu in enumerate(cores):
        cluster.node(f"node-{number}", cpu, [a_pod_of(WEB, "web-1")] if number == 0 else [])
    cluster.measured()
    return cluster


def test_the_best_nodes_are_preferred_and_the_worst_quarter_is_avoided() -> None:
    """In the order of the scores: here the least loaded nodes first. The best ones have nearly the same weight."""
    hint = a_cluster(8.0, 1.0, 5.0, 3.0).update()[WEB]

    assert ["node-1", "node-3", "node-2"] == preferred(hint)
    assert ["node-0"] == avoided(hint)
    assert {"host-node-1": 48, "host-node-3": 48, "host-node-2": 16, "host-node-0": -8} == hint.weights


def test_a_node_of_unknown_load_is_neither_preferred_nor_avoided() -> None:
    """It is not known to be hot."""
    hint = a_cluster(8.0, None, 5.0, 3.0, 2.0).update()[WEB]

    assert "host-node-1" not in named(hint)


def test_every_hint_avoids_the_nodes_that_are_being_emptied() -> None:
    """Also those of workloads that get no hint otherwise, and of unknown load. After that, they are as all others."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    db, other = a_workload("db"), a_workload("other")
    for workload in (db, other):
        cluster.measured(workload)
    before = cluster.update()
    cluster.node("node-4", None)
    cluster.scoring.emptying.on_message(nodes_being_emptied("node-1", "node-4"), NOW)
    hints = cluster.update()

    assert hints.keys() == before.keys()
    assert {tuple(avoided(hint)[:2]) for hint in hints.values()} == {("node-1", "node-4")}
    assert preferred(hints[WEB])[:2] == ["node-3", "node-2"]

    cluster.scoring.emptying.on_message(nodes_being_emptied(at=NOW + 1), NOW + 1)
    assert cluster.update(NOW + 1) == before


def test_hints_of_alike_nodes_avoid_only_those_that_are_being_emptied() -> None:
    cluster = a_cluster(2.0, 2.0, 2.0, 2.0)
    assert cluster.update() == {}
    cluster.scoring.emptying.on_message(nodes_being_emptied("node-2"), NOW)

    hint = cluster.update()[WEB]
    assert (preferred(hint), avoided(hint)) == ([], ["node-2"])


def test_a_new_node_of_the_name_of_one_that_was_emptied_is_not_avoided() -> None:
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    before = cluster.update()
    cluster.scoring.emptying.on_message(nodes_being_emptied("node-1", uid="the-node-before"), NOW)

    assert cluster.update() == before


def test_replacements_of_evicted_pods_avoid_the_nodes_that_are_being_emptied() -> None:
    """Even if one of them was the intended target before."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    cluster.scoring.replacements.on_intent(an_intent(node="node-0", target="node-1"), NOW)
    assert "node-1" in preferred(cluster.update()[WEB])
    cluster.scoring.emptying.on_message(nodes_being_emptied("node-1"), NOW)

    hint = cluster.update()[WEB]
    assert "node-1" not in preferred(hint)
    assert set(avoided(hint)) == {"node-0", "node-1"}


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},
        {"cordoned": True},
        {"taints": [GPU]},
        {"taints": [Taint(key="DeletionCandidateOfClusterAutoscaler", effect="PreferNoSchedule")]},
        {"labels": {}},
        {"allocatable": Resources(cpu=0.4, memory=64.0 * GIB)},
    ],
    ids=["not ready", "cordoned", "tainted", "to be removed", "without the label", "full by requests"],
)
def test_a_node_that_new_pods_cannot_use_is_not_named(fields: dict[str, object]) -> None:
    """Its place belongs to a node that they can use."""
    cluster = a_cluster(8.0, 4.0, 5.0, 3.0)
    cluster.node("node-x", 0.5, **fields)  # type: ignore[arg-type]

    assert "host-node-x" not in named(cluster.update()[WEB])


def test_a_tainted_node_is_named_for_workloads_whose_pods_tolerate_the_taint() -> None:
    """Also if none of them is on such a node. A pod that is there without tolerating it is older than the taint."""
    cluster = a_cluster(8.0, 4.0, 5.0, 3.0)
    train = msgspec.structs.replace(a_pod_of(a_workload("train"), "train-1"), tolerations=(TOLERATES_GPU,))
    cluster.node("node-4", 6.0, [train])
    cluster.node("gpu-1", 2.0, [a_pod_of(WEB, "web-2")], taints=[GPU])
    cluster.node("gpu-2", 0.5, taints=[GPU])

    hints = cluster.update()

    assert ["gpu-2", "gpu-1", "node-3"] == preferred(hints[a_workload("train")])
    assert ["node-3", "node-1", "node-2"] == preferred(hints[WEB])


def test_only_nodes_with_the_required_labels_are_named() -> None:
    """The best of them are preferred, and the worst of them avoided."""
    cluster = a_cluster(8.0, 4.0, 5.0, 3.0)
    pod = msgspec.structs.replace(a_pod_of(a_workload("train"), "train-1"), node_selector=IN_POOL)
    for number, cpu in enumerate((7.0, 6.0, 1.0, 2.0)):
        labels = {HOSTNAME: f"host-gpu-{number}", "pool": "gpu"}
        cluster.node(f"gpu-{number}", cpu, [pod] if number == 0 else [], labels=labels)
    hint = cluster.update()[a_workload("train")]

    assert ["gpu-2", "gpu-3", "gpu-1"] == preferred(hint)
    assert ["gpu-0"] == avoided(hint)

    cluster.node("gpu-2", 1.0, labels={HOSTNAME: "host-gpu-2", "pool": "web"})

    assert "host-gpu-2" not in named(cluster.update()[a_workload("train")])
    assert "host-gpu-2" in named(cluster.update()[WEB])


def test_values_of_the_label_are_named() -> None:
    """`kubernetes.io/hostname` can differ from the name of the node, and change."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    assert cluster.update()[WEB].prefer[0].hostnames[0] == "host-node-1"

    cluster.node("node-1", 1.0, labels={HOSTNAME: "renamed"})

    assert cluster.update()[WEB].prefer[0].hostnames[0] == "renamed"


def test_without_sufficient_data_there_are_no_hints() -> None:
    """As scores are neutral then. They return when the data does."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    assert cluster.update()

    for _ in cluster.table.update(NOW + 3_600):
        pass

    assert {} == cluster.table.hints(NOW + 3_600)
    assert "no collector has completed a cycle" in cluster.table.problem
    assert cluster.update()


def test_without_nodes_there_are_no_hints() -> None:
    """Also if `load.coverage.score` is 0, by which the data of no node are sufficient."""
    cluster = HintedCluster(load=LoadSettings(coverage=Coverage(score=0)))
    cluster.measured()

    assert {} == cluster.update()


def test_a_level_cluster_gets_no_hints() -> None:
    """The best and the worst node differ by less than `scorer.minSpread`: kube-scheduler decides alone."""
    assert {} == a_cluster(4.0, 4.1, 4.0, 4.1).update()


@pytest.mark.parametrize(
    "workload",
    [
        Workload(kind="DaemonSet", group="apps", namespace="shop", name="agent"),
        Workload(kind="Database", group="example.com", namespace="shop", name="db"),
    ],
    ids=str,
)
def test_other_kinds_of_workloads_get_no_hint(workload: Workload) -> None:
    """The pods of a DaemonSet have their node; an unknown controller may compare its pods with what it wrote."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    cluster.node("node-4", 4.0, [a_pod_of(workload, "other-1")])

    assert [WEB] == list(cluster.update())


def test_only_what_changed_is_computed_again() -> None:
    """With the same result as if all were computed: a node whose load changed, and a pod that uses more."""
    policy = CountingPolicy(window="5m")
    cluster = a_cluster(8.0, 1.0, 5.0, 1.2, policy=policy)
    cluster.update()
    SCORED.clear()

    cluster.update()
    assert SCORED == []
    cluster.node("node-1", 1.35)
    hint = cluster.update()[WEB]

    assert [["node-1"]] == SCORED
    assert ["node-3", "node-1", "node-2"] == preferred(hint)


SCORED: list[list[str]] = []
"""The nodes of each call of the CountingPolicy."""


class CountingPolicy(LoadAware, frozen=True, kw_only=True, tag="counting"):
    """Records which nodes it scores."""

    def score_pods(self, nodes, demands):  # type: ignore[no-untyped-def]
        """As `load_aware`."""
        SCORED.append(list(nodes.names))
        return super().score_pods(nodes, demands)


def test_slow_changes_add_up() -> None:
    """A change is measured from the load with which the points were computed, not from the last update."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    cluster.update()

    for step in range(120):
        cluster.node("node-1", 1.0 + 0.05 * step)
        hint = cluster.update()[WEB]

    assert ["node-3", "node-2", "node-1"] == preferred(hint)


def test_a_hint_remains_while_no_other_node_is_better_by_min_change() -> None:
    """So that small changes of the load cause no writes."""
    cluster = HintedCluster(LoadAware(window="5m"), msgspec.structs.replace(SETTINGS, min_change=1.0))
    for number, cpu in enumerate((8.0, 1.0, 5.0, 1.2)):
        cluster.node(f"node-{number}", cpu, [a_pod_of(WEB, "web-1")] if number == 0 else [])
    cluster.measured()
    before = cluster.update()[WEB]

    cluster.node("node-3", 0.9)
    assert before is cluster.update()[WEB]
    cluster.node("node-3", 0.1)

    assert ["node-3", "node-1", "node-2"] == preferred(cluster.update()[WEB])


def test_a_hint_changes_when_a_grade_differs_by_more_than_one() -> None:
    """Also if the order of the nodes remains: the last one is nearly as good as the best one now."""
    settings = msgspec.structs.replace(SETTINGS, terms=4)
    cluster = HintedCluster(LoadAware(window="5m"), settings)
    for number, cpu in enumerate((9.0, 1.0, 7.0, 6.0)):
        cluster.node(f"node-{number}", cpu, [a_pod_of(WEB, "web-1")] if number == 0 else [])
    cluster.measured()
    before = cluster.update()[WEB]

    cluster.node("node-3", 1.5)
    after = cluster.update()[WEB]

    assert [before.weights[f"host-node-{number}"] for number in (1, 3, 2)] == [60, 20, 4]
    assert [after.weights[f"host-node-{number}"] for number in (1, 3, 2)] == [60, 60, 4]


def test_workloads_with_recent_pods_come_first() -> None:
    """A message, or an object in the API server, may not hold the hints of all."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    cluster.node("node-4", 4.0, [a_pod_of(a_workload("large"), f"large-{number}") for number in range(5)])
    rolled_out = a_workload("rolled-out")
    cluster.place(a_placement("node-2", [a_pod_of(rolled_out, "new-1", NOW - 5)], labels={HOSTNAME: "host-node-2"}))

    assert [rolled_out, a_workload("large"), WEB] == list(cluster.update())


def test_a_burst_is_distributed_over_the_workloads() -> None:
    """Many workloads get pods at once: their first choices differ, because each counts what the others will send.

    All are the same without that.
    """
    cluster = HintedCluster(LoadAware(window="5m"))
    workloads = [a_workload(f"web-{number}") for number in range(300)]
    recent = [a_pod_of(workload, workload.name, NOW - 5) for workload in workloads[:30]]
    for number in range(8):
        cluster.node(f"node-{number}", 1.0 + 0.2 * number)
    cluster.node("busy", 9.0, recent)
    for workload in workloads:
        cluster.measured(workload)

    hints = cluster.update()
    first = {hint.prefer[0].hostnames[0] for hint in hints.values()}

    assert len(first) >= 7


def test_one_object_has_space_for_the_hints_of_a_namespace_with_many_workloads() -> None:
    """They share hints. Another namespace with few workloads does not."""
    cluster = HintedCluster(LoadAware(window="5m"))
    for number in range(8):
        cluster.node(f"node-{number}", 1.0 + number)
    for namespace, count in (("shop", 800), ("small", 3)):
        for number in range(count):
            cluster.measured(msgspec.structs.replace(a_workload(f"web-{number}"), namespace=namespace), 0.1)
    hints = cluster.update()
    by_key = {hint_key(workload): hint for workload, hint in hints.items() if workload.namespace == "shop"}

    assert 800 == len(by_key) == len(workload_hints(stored_hints(by_key, MAX_BYTES)))
    assert 2 > len({id(hint) for hint in by_key.values()})
    assert 3 == len({id(hint) for workload, hint in hints.items() if workload.namespace == "small"})


def test_a_hint_names_the_target_of_an_evicted_pod_first() -> None:
    """From the intent on, until the replacement is placed. The node that the pod leaves is avoided."""
    cluster = a_cluster(8.0, 1.0, 5.0, 3.0)
    cluster.update()
    cluster.scoring.replacements.on_intent(an_intent(node="node-1", target="node-2", expires_at=NOW + 100), NOW)

    hint = cluster.table.hints(NOW)[WEB]

    assert ["node-2", "node-3"] == preferred(hint)
    assert {"host-node-2": 100, "host-node-3": 5, "host-node-1": -1, "host-node-0": -1} == hint.weights
    assert ["node-1", "node-0"] == avoided(hint)

    cluster.scoring.replacements.on_outcome(an_outcome(node="node-1", target="node-2"), NOW)
    cluster.place(a_placement("node-2", [a_pod_of(WEB, "web-2", NOW)], labels={HOSTNAME: "host-node-2"}))

    assert ["node-3", "node-2"] == preferred(cluster.table.hints(NOW)[WEB])


def test_where_only_some_nodes_are_scored_others_are_named_beside_the_target() -> None:
    """The best ones for the workload, first those without a pod of it: kube-scheduler spreads its pods."""
    cluster = HintedCluster(LoadAware(window="5m"), HintSettings())
    for number in range(120):
        pods = [a_pod_of(WEB, f"web-{number}")] if number < 2 else []
        cluster.node(f"node-{number}", 0.05 * number, pods)
    cluster.measured()
    cluster.update()
    cluster.scoring.replacements.on_intent(an_intent(node="node-119", target="node-60", expires_at=NOW + 100), NOW)

    hint = cluster.table.hints(NOW)[WEB]

    assert [100, 80] == [term.weight for term in hint.prefer[:2]]
    assert ["node-60", "node-2", "node-3", "node-4"] == preferred(hint)[:4]


cores = st.lists(st.one_of(st.none(), st.floats(0, 12)), min_size=1, max_size=12)


@pytest.mark.parametrize("policy", EXAMPLES.values(), ids=EXAMPLES)
@given(cores=cores, terms=st.integers(1, 6), nodes=st.integers(1, 4))
@hypothesis_settings(max_examples=25)
def test_hints_are_valid_whatever_the_policy(
    policy: ScoringPolicy, cores: list[float | None], terms: int, nodes: int
) -> None:
    """Weights of 1..100, at most 50 known hostnames in a term, none both preferred and avoided; the same each time."""
    settings = HintSettings(terms=terms, preferred_nodes=nodes)
    found = []
    for _ in range(2):
        cluster = HintedCluster(policy, settings)
        for number, cpu in enumerate(cores):
            cluster.node(f"node-{number}", cpu, [a_pod_of(a_workload(f"web-{number % 3}"), f"web-{number}")])
        found.append(cluster.update())

    assert found[0] == found[1]
    known = {f"host-node-{number}" for number, cpu in enumerate(cores) if cpu is not None}
    for hint in found[0].values():
        assert is_valid(hint)
        assert named(hint) <= known


def is_valid(hint: WorkloadHint) -> bool:
    terms = [*hint.prefer, *([hint.avoid] if hint.avoid else [])]
    return (
        bool(terms)
        and all(1 <= term.weight <= 100 and 1 <= len(term.hostnames) <= MAX_HOSTNAMES for term in terms)
        and not any({*term.hostnames} & {*(hint.avoid.hostnames if hint.avoid else ())} for term in hint.prefer)
    )


def named(hint: WorkloadHint) -> set[str]:
    return {*hint.weights}
