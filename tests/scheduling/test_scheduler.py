"""One attempt to schedule a pod."""

from random import Random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_framework, a_node, a_pod

from equipoise.contracts.kubernetes.objects.metadata import SelectorRequirement
from equipoise.contracts.kubernetes.objects.node import NodeSelector, NodeSelectorTerm, Taint
from equipoise.contracts.kubernetes.objects.pod import Affinity, NodeAffinity
from equipoise.scheduling.framework.framework import Framework
from equipoise.scheduling.framework.nominated import Nominated
from equipoise.scheduling.framework.status import Code, PluginStatus
from equipoise.scheduling.model.arrays import Rows
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.default_preemption import DefaultPreemption
from equipoise.scheduling.plugins.node_affinity import NodeAffinityPlugin
from equipoise.scheduling.plugins.node_unschedulable import NodeUnschedulable
from equipoise.scheduling.plugins.resources.balanced_allocation import NodeResourcesBalancedAllocation
from equipoise.scheduling.plugins.resources.node_resources_fit import NodeResourcesFit
from equipoise.scheduling.plugins.taint_toleration import TaintToleration
from equipoise.scheduling.scheduler import (
    Decision,
    Extender,
    ExtenderFailed,
    ExtenderFilter,
    Scheduler,
    feasible_nodes_to_find,
)


def plugins() -> Framework:
    return a_framework(
        NodeUnschedulable(),
        TaintToleration(),
        NodeAffinityPlugin(),
        NodeResourcesFit(),
        NodeResourcesBalancedAllocation(),
        TaintToleration=3,
    )


def decided(snapshot: ClusterSnapshot, pod: PodInfo, **options: object) -> Decision:
    return Scheduler(plugins()).schedule(pod, snapshot, Random(1), **options)  # type: ignore[arg-type]


def test_the_node_with_the_highest_score_is_selected() -> None:
    snapshot = ClusterSnapshot([a_node("full"), a_node("empty")], [a_pod("old", {"cpu": "3"}, node_name="full")])

    decision = decided(snapshot, a_pod("new", {"cpu": "500m"}))

    assert decision.node == "empty"
    assert decision.feasible == ["full", "empty"]


def test_a_single_feasible_node_is_not_scored() -> None:
    decision = decided(ClusterSnapshot([a_node("small", cpu="1"), a_node("large")]), a_pod(requests={"cpu": "2"}))

    assert (decision.node, decision.scores) == ("large", None)


def test_the_message_is_that_of_kube_scheduler() -> None:
    snapshot = ClusterSnapshot(
        [
            a_node("tainted", taints=[Taint(key="a", effect="NoSchedule")]),
            a_node("cordoned", cordoned=True),
            a_node("small", cpu="1"),
            a_node("full", pods=0),
        ]
    )

    assert decided(snapshot, a_pod(requests={"cpu": "2"})).message(4) == (
        "0/4 nodes are available: 1 Insufficient cpu, 1 Too many pods, 1 node(s) had untolerated taint(s), "
        "1 node(s) were unschedulable."
    )


def test_nodes_that_a_pod_excludes_by_name_are_counted() -> None:
    rule = SelectorRequirement(key="metadata.name", operator="In", values=["small"])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
    snapshot = ClusterSnapshot([a_node("small", cpu="1"), a_node("large"), a_node("larger")])
    pod = a_pod(requests={"cpu": "2"}, affinity=Affinity(node_affinity=NodeAffinity(required=required)))

    assert decided(snapshot, pod).message(3) == (
        "0/3 nodes are available: 1 Insufficient cpu, 2 node(s) didn't satisfy plugin(s) [NodeAffinity]."
    )


def test_without_nodes_nothing_is_searched() -> None:
    assert decided(ClusterSnapshot(), a_pod()).message(0) == "no nodes available to schedule pods"


def test_an_error_of_a_plugin_is_the_status_of_the_attempt() -> None:
    class Broken:
        name = "Broken"

        def score_node(self, *arguments: object) -> int:
            raise RuntimeError("no data")

    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])

    decision = Scheduler(a_framework(Broken())).schedule(a_pod(), snapshot, Random(1))

    assert decision.status is not None
    assert (decision.node, decision.status.code, decision.status.plugin) == ("", Code.ERROR, "Broken")
    assert "no data" in decision.status.reasons[0]


@pytest.mark.parametrize(
    ("nodes", "percentage", "expected"),
    [(50, 0, 50), (99, 0, 99), (100, 0, 100), (1_000, 0, 420), (5_000, 0, 500), (6_000, 0, 300), (1_000, 100, 1_000)],
)
def test_how_many_feasible_nodes_are_searched(nodes: int, percentage: int, expected: int) -> None:
    assert feasible_nodes_to_find(nodes, percentage) == expected


def test_the_next_search_begins_where_the_last_one_ended() -> None:
    snapshot = ClusterSnapshot([a_node(f"node-{number}") for number in range(300)])
    scheduler = Scheduler(plugins(), percentage_of_nodes_to_score=50)

    first = scheduler.schedule(a_pod(), snapshot, Random(1)).feasible
    second = scheduler.schedule(a_pod(), snapshot, Random(1)).feasible
    third = scheduler.schedule(a_pod(), snapshot, Random(1)).feasible

    assert (first[0], first[-1], len(first)) == ("node-0", "node-149", 150)
    assert (second[0], second[-1]) == ("node-150", "node-299")
    assert third == first


def test_a_pod_for_one_node_does_not_move_the_search_of_others_back() -> None:
    """As each pod of a DaemonSet: one node more has been examined, of 300."""
    rule = SelectorRequirement(key="metadata.name", operator="In", values=["node-7"])
    required = NodeSelector(node_selector_terms=[NodeSelectorTerm(match_fields=[rule])])
    snapshot = ClusterSnapshot([a_node(f"node-{number}") for number in range(300)])
    scheduler = Scheduler(plugins(), percentage_of_nodes_to_score=50)
    scheduler.schedule(a_pod(), snapshot, Random(1))

    pod = a_pod(affinity=Affinity(node_affinity=NodeAffinity(required=required)))

    assert scheduler.schedule(pod, snapshot, Random(1)).node == "node-7"
    assert scheduler.schedule(a_pod(), snapshot, Random(1)).feasible[0] == "node-151"


def test_without_scores_the_first_feasible_node_is_taken_and_the_next_search_begins_behind_it() -> None:
    snapshot = ClusterSnapshot([a_node("a"), a_node("small", cpu="1"), a_node("b")])
    scheduler = Scheduler(Framework({"filter": [NodeResourcesFit()]}, {}))

    found = [scheduler.schedule(a_pod(requests={"cpu": "2"}), snapshot, Random(1)) for _ in range(3)]

    assert [(each.node, len(each.feasible)) for each in found] == [("a", 1), ("b", 1), ("a", 1)]


def test_the_nominated_node_is_tried_first() -> None:
    snapshot = ClusterSnapshot(
        [a_node("empty"), a_node("nominated")], [a_pod("old", {"cpu": "3"}, node_name="nominated")]
    )
    pod = a_pod("new", {"cpu": "1"})
    nominated = Nominated()
    nominated.add(pod, "nominated")

    assert decided(snapshot, pod, nominated=nominated).node == "nominated"
    snapshot.add_pod(a_pod("more", {"cpu": "1"}), 1)
    assert decided(snapshot, pod, nominated=nominated).node == "empty"


def test_an_extender_adds_its_scores_and_may_fail() -> None:
    snapshot = ClusterSnapshot([a_node("full"), a_node("empty")], [a_pod("old", {"cpu": "3"}, node_name="full")])
    prefers = Extender(scores=lambda rows: np.array([10, 0]), weight=5)
    fails = Extender(scores=lambda rows: None, weight=5)

    assert decided(snapshot, a_pod("new"), extenders=[prefers]).node == "full"
    assert decided(snapshot, a_pod("new"), extenders=[fails]).node == "empty"


def test_an_extender_refuses_nodes() -> None:
    """Of four nodes that fit it passes the last one; two are refused with a reason, one without."""
    names = ("small", "a", "b", "c", "d")
    snapshot = ClusterSnapshot([a_node(name, cpu="1" if name == "small" else "4") for name in names])
    asked: list[list[str]] = []

    def only_last(rows: Rows) -> ExtenderFilter:
        asked.append(snapshot.names(rows))
        return ExtenderFilter(passed=rows[-1:], failed={1: "broken", 2: "broken"}, unresolvable={2: "wrong device"})

    def none_left(rows: Rows) -> ExtenderFilter:
        asked.append(snapshot.names(rows))
        return ExtenderFilter(passed=rows[:0], failed={4: "busy"})

    one, two = Extender(filter=only_last), Extender(filter=none_left)
    pod = a_pod("new", {"cpu": "2"})
    assert ["d"] == list(decided(snapshot, pod, extenders=[one]).feasible)
    decision = decided(snapshot, pod, extenders=[one, two, Extender(filter=only_last)])
    assert [["a", "b", "c", "d"], ["a", "b", "c", "d"], ["d"]] == asked, "the third one is not asked: no node is left"
    assert decision.message(5).startswith(
        "0/5 nodes are available: 1 Insufficient cpu, 1 broken, 1 busy, 1 wrong device."
    )
    assert decision.diagnosis is not None
    assert {"NodeResourcesFit", "Extender"} == decision.diagnosis.plugins
    codes = {snapshot.name(row): status.code for row, status in decision.diagnosis.by_node().items()}
    assert Code.UNSCHEDULABLE_AND_UNRESOLVABLE == codes["b"]
    assert Code.UNSCHEDULABLE == codes["a"] == codes["d"]
    assert "c" not in codes, "preemption does not try it"


def test_an_extender_whose_failure_counts_ends_the_attempt() -> None:
    snapshot = ClusterSnapshot([a_node("a"), a_node("b")])

    def fails(rows: Rows) -> ExtenderFilter | None:
        raise ExtenderFailed("the extender at http://extender is gone")

    ignored = Extender(filter=lambda rows: None)
    assert decided(snapshot, a_pod(), extenders=[ignored]).node
    status = decided(snapshot, a_pod(), extenders=[ignored, Extender(filter=fails)]).status
    assert (
        PluginStatus(code=Code.ERROR, reasons=("the extender at http://extender is gone",), plugin="Extender") == status
    )


def test_an_extender_may_refuse_the_nominated_node() -> None:
    snapshot = ClusterSnapshot([a_node("empty"), a_node("nominated")])
    pod, nominated = a_pod("new"), Nominated()
    nominated.add(pod, "nominated")
    refuses = Extender(filter=lambda rows: ExtenderFilter(passed=rows[rows != 1]))

    assert "empty" == decided(snapshot, pod, nominated=nominated, extenders=[refuses]).node


sizes = st.lists(st.tuples(st.integers(1, 8), st.integers(1, 8)), min_size=1, max_size=8)


@given(sizes=sizes, used=st.lists(st.integers(0, 4), min_size=8, max_size=8), request=st.integers(1, 4), data=st.data())
def test_the_order_of_the_nodes_decides_between_equal_ones_only(
    sizes: list[tuple[int, int]], used: list[int], request: int, data: st.DataObject
) -> None:
    nodes = [a_node(f"node-{i}", cpu=str(cpu), memory=f"{memory}Gi") for i, (cpu, memory) in enumerate(sizes)]
    old = [a_pod(f"old-{i}", {"cpu": str(used[i])}, node_name=f"node-{i}") for i in range(len(sizes)) if used[i]]
    pod = a_pod("new", {"cpu": str(request), "memory": "1Gi"})
    shuffled = data.draw(st.permutations(nodes))

    first, second = decided(ClusterSnapshot(nodes, old), pod), decided(ClusterSnapshot(shuffled, old), pod)

    assert set(first.feasible) == set(second.feasible)
    assert first.message(len(nodes)) == second.message(len(nodes))
    if first.scores is not None and second.scores is not None:
        totals = [
            dict(zip(each.feasible, each.scores.total.tolist(), strict=True)) for each in (first, second) if each.scores
        ]
        assert totals[0] == totals[1]
        assert totals[0][first.node] == totals[0][second.node] == max(totals[0].values())


@given(
    nodes=st.lists(st.lists(st.tuples(st.integers(0, 3), st.integers(1, 3)), max_size=5), min_size=1, max_size=4),
    request=st.integers(1, 4),
)
def test_no_victim_could_have_stayed(nodes: list[list[tuple[int, int]]], request: int) -> None:
    """Pods by node: priority and cores of each. The pod has the priority 2; nodes have 4 cores."""
    pods = [
        a_pod(f"pod-{i}-{j}", {"cpu": str(cores)}, priority=priority, started=float(j), node_name=f"node-{i}")
        for i, each in enumerate(nodes)
        for j, (priority, cores) in enumerate(each)
    ]
    snapshot = ClusterSnapshot([a_node(f"node-{i}", cpu="4") for i in range(len(nodes))], pods)
    preemption = DefaultPreemption(lambda: framework, Nominated(), lambda: [], lambda: 0.0)
    framework = a_framework(NodeResourcesFit(), preemption)
    before = snapshot.requested.tolist()

    decision = Scheduler(framework).schedule(a_pod("new", {"cpu": str(request)}, priority=2), snapshot, Random(1))

    assert snapshot.requested.tolist() == before
    if decision.preemption is None or not decision.preemption.node:
        return
    row = snapshot.row(decision.preemption.node)
    assert row is not None
    victims = decision.preemption.victims
    assert victims
    assert all(victim.priority < 2 for victim in victims)
    free = 4_000 - snapshot.requested[0, row]
    released = sum(victim.requests["cpu"] for victim in victims)
    assert request * 1_000 <= free + released
    for victim in victims:
        assert request * 1_000 > free + released - victim.requests["cpu"]
