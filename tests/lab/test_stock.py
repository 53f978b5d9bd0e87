"""kube-scheduler as the lab has it: its own cases, and what must hold whatever is placed."""

import random
from collections import Counter
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock import (
    Extender,
    FitScore,
    Neighbours,
    Placements,
    PodKind,
    StockScheduler,
    balanced_allocation,
    disliked,
    nodes_to_find,
    pod_kind,
    spread_scores,
)
from equipoise.lab.model.trace import AntiAffinity, TraceNode, TraceTaint, TraceWorkload

MIB = 2**20


def test_what_a_node_does_not_have_is_not_held_against_it() -> None:
    """It is judged by what it has, and is in balance; on a node that has more asked of it than it has, that is all."""
    allocatable, requested = np.array([[4_000, 4_000], [0, 8_000]]), np.array([[1_000, 9_000], [500, 4_000]])
    asked = np.array([1_000, 2_000])

    balanced = balanced_allocation(allocatable, requested, asked)

    assert balanced is not None
    assert [75, 50 + (50 + 87 - 75) // 2] == balanced.tolist()
    assert [75, 25] == FitScore().score(allocatable, requested).tolist()


def some_nodes(count: int, *, cpu_milli: int = 4_000, pods: int = 110) -> list[TraceNode]:
    return [
        TraceNode(name=f"node-{number}", cpu_milli=cpu_milli, memory_mib=8_192, pods=pods) for number in range(count)
    ]


def a_kind(workload: int = 0, cpu_milli: int | None = 500, memory_mib: int = 512, **fields: Any) -> PodKind:
    return PodKind(workload=workload, cpu_milli=cpu_milli, memory=memory_mib * MIB, **fields)


def test_a_request_that_was_not_made_and_one_of_0() -> None:
    """Neither takes room; only the first counts for something when nodes are scored by what is left of them."""
    silent, nothing = PodKind(workload=0), PodKind(workload=0, cpu_milli=0, memory=0)

    assert [0, 0, 1] == silent.asked.tolist() == nothing.asked.tolist()
    assert [100, 200 * MIB] == silent.counted.tolist()
    assert [0, 0] == nothing.counted.tolist()


def test_what_a_trace_does_not_say_was_not_asked_for() -> None:
    """A trace writes 0 for a request that was not made."""
    kind = pod_kind(TraceWorkload(name="web", request_memory_mib=64), 3, revision=2)

    assert PodKind(workload=3, memory=64 * MIB, revision=2) == kind


@pytest.mark.parametrize(
    ("kind", "spread", "revision"), [("Deployment", True, 2), ("StatefulSet", True, 0), ("DaemonSet", False, 0)]
)
def test_who_is_spread(kind: str, spread: bool, revision: int) -> None:
    """Pods of ReplicaSets and StatefulSets, and only a Deployment's get new siblings at a roll-out."""
    found = pod_kind(TraceWorkload(name="web", kind=kind), 0, revision=2)

    assert (spread, revision) == (found.spread, found.revision)


tolerations = st.sampled_from([(), (Toleration(key="gpu", operator="Exists"),), (Toleration(operator="Exists"),)])
kinds = st.builds(
    PodKind,
    workload=st.integers(0, 3),
    cpu_milli=st.sampled_from([None, 0, 300, 1_700]),
    memory=st.sampled_from([None, 0, 100 * MIB, 3_000 * MIB]),
    tolerations=tolerations,
    revision=st.integers(0, 1),
)
rules = st.lists(
    st.builds(AntiAffinity, beside=st.integers(0, 3), limited=st.integers(0, 3), most=st.integers(0, 2)), max_size=8
)
forced = st.lists(st.tuples(kinds, st.integers(0, 5)), max_size=40)


def seen(placements: Placements, asking: Sequence[PodKind]) -> list[Any]:
    """All that can be known of placements."""
    found: list[Any] = [placements.free.tolist(), placements.counted.tolist(), placements.violations()]
    for kind in asking:
        siblings = placements.siblings(kind)
        found.append(None if siblings is None else siblings.tolist())
        found.append(dict(placements.neighbours.count(kind.workload)))
        found.append((placements.feasible(kind).tolist(), placements.refusals(kind)))
    return found


@given(before=forced, added=forced, rules=rules)
@settings(max_examples=60, deadline=None)
def test_removing_what_was_placed_restores_the_state(
    before: list[tuple[PodKind, int]], added: list[tuple[PodKind, int]], rules: list[AntiAffinity]
) -> None:
    """Whatever was placed in between, in whatever order it goes, terminating first or not."""
    placements = Placements(some_nodes(6), rules)
    for kind, node in before:
        placements.place(kind, node)
    asking = [kind for kind, _ in (*before, *added)]
    then = seen(placements, asking)

    for kind, node in added:
        placements.place(kind, node)
    for number, (kind, node) in enumerate(added):
        if terminating := number % 2 == 1:
            placements.terminate(kind, node)
        placements.remove(kind, node, terminating=terminating)

    assert then == seen(placements, asking)


def test_a_pod_that_is_not_there_cannot_be_removed() -> None:
    """Nor does the attempt change anything."""
    placements = Placements(some_nodes(2))
    placements.place(a_kind(), 0)

    with pytest.raises(KeyError):
        placements.remove(a_kind(), 1)

    assert [3_500, 4_000] == placements.free[0].tolist()


@given(arriving=st.lists(kinds, max_size=60), rules=rules, seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_no_node_is_given_more_than_it_has_and_no_rule_is_broken(
    arriving: list[PodKind], rules: list[AntiAffinity], seed: int
) -> None:
    """Whoever chooses among the nodes that the filters leave, and whatever leaves in between."""
    placements = Placements(some_nodes(4, pods=7), rules)
    chance = random.Random(seed)
    running: list[tuple[PodKind, int]] = []
    for kind in arriving:
        open_nodes = placements.feasible(kind).nonzero()[0]
        if len(open_nodes):
            running.append((kind, chance.choice(open_nodes.tolist())))
            placements.place(*running[-1])
        if running and chance.random() < 0.2:
            placements.remove(*running.pop(chance.randrange(len(running))))

    assert (placements.free >= 0).all()
    assert 0 == placements.violations() == broken([(kind.workload, node) for kind, node in running], rules)


def broken(pods: Sequence[tuple[int, int]], rules: Sequence[AntiAffinity]) -> int:
    """Pods beyond what rules allow, counted one by one; pods are (workload, node)."""
    count = Counter(pods)
    return sum(
        max(0, count[rule.limited, node] - rule.most)
        for rule in rules
        for node in {node for _, node in pods}
        if count[rule.beside, node]
    )


@given(pods=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=40), rules=rules)
@settings(max_examples=100, deadline=None)
def test_a_node_is_closed_exactly_where_a_pod_more_would_stand_against_a_rule(
    pods: list[tuple[int, int]], rules: list[AntiAffinity]
) -> None:
    """Also where a trace's placement breaks rules already; and all that are broken are counted."""
    neighbours = Neighbours(rules, 9)
    for workload, node in pods:
        neighbours.place(workload, node)

    def against(rule: AntiAffinity, workload: int, node: int) -> bool:
        count = Counter(pods)
        here = count[rule.limited, node] + (workload == rule.limited)
        return workload in (rule.beside, rule.limited) and (
            here > rule.most and (workload == rule.beside or count[rule.beside, node] > 0)
        )

    for workload in range(4):
        closed = neighbours.closed(workload)
        expected = [any(against(rule, workload, node) for rule in rules) for node in range(9)]
        assert expected == ([False] * 9 if closed is None else closed.tolist())
    assert broken(pods, rules) == neighbours.violations()


def test_a_rule_closes_a_node_in_both_directions() -> None:
    """To a second web pod beside the database, and to the database beside two web pods."""
    neighbours = Neighbours([AntiAffinity(beside=0, limited=1, most=1)], 3)
    for workload, node in ((0, 0), (1, 0), (1, 1), (1, 1), (1, 2)):
        neighbours.place(workload, node)

    closed = {workload: neighbours.closed(workload) for workload in (0, 1)}

    assert closed[0] is not None
    assert closed[1] is not None
    assert [False, True, False] == closed[0].tolist()
    assert [True, False, False] == closed[1].tolist()


def test_taints_and_cordons_keep_pods_off_unless_tolerated() -> None:
    """NoSchedule and NoExecute refuse, PreferNoSchedule does not; who tolerates the cordon's taint may pass it."""
    taints = [("gpu", "NoSchedule"), ("gpu", "NoExecute"), ("gpu", "PreferNoSchedule")]
    nodes = [
        *some_nodes(2),
        *(
            TraceNode(
                name=effect,
                cpu_milli=4_000,
                memory_mib=8_192,
                taints=(TraceTaint(key=key, value="v100", effect=effect),),
            )
            for key, effect in taints
        ),
    ]
    placements = Placements(nodes)
    placements.cordoned[1] = True
    gpu = Toleration(key="gpu", operator="Exists")
    cordon = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")

    def open_to(*tolerations: Toleration) -> list[bool]:
        feasible: list[bool] = placements.feasible(a_kind(tolerations=tolerations)).tolist()
        return feasible

    assert [True, False, False, False, True] == open_to()
    assert [True, False, True, True, True] == open_to(gpu)
    assert [True, True, False, False, True] == open_to(cordon)


def test_tolerations_may_compare_numbers() -> None:
    """Gt and Lt count for what keeps pods off and for what is only avoided."""
    nodes = [
        TraceNode(
            name=f"{effect}-{sla}",
            cpu_milli=4_000,
            memory_mib=8_192,
            taints=(TraceTaint(key="sla", value=sla, effect=effect),),
        )
        for effect in ("NoSchedule", "PreferNoSchedule")
        for sla in ("900", "990")
    ]
    kind = a_kind(tolerations=(Toleration(key="sla", operator="Gt", value="950"),))
    placements = Placements(nodes)

    assert [False, True, True, True] == placements.feasible(kind).tolist()
    assert [0, 0, 1, 0] == disliked([node.taints for node in nodes], kind.tolerations).tolist()


def test_refusals_say_how_many_nodes_and_why() -> None:
    """A node that is short of several things counts for each; every other has the reason that is looked at first."""
    nodes = [*some_nodes(5), *some_nodes(1, pods=0)]
    nodes.append(TraceNode(name="tainted", cpu_milli=100, memory_mib=100, taints=(TraceTaint(key="gpu"),)))
    placements = Placements(nodes, [AntiAffinity(beside=1, limited=0, most=0)])
    placements.cordoned[[0, 6]] = True
    placements.place(a_kind(1, cpu_milli=4_000, memory_mib=8_192), 1)
    placements.place(a_kind(1), 2)
    placements.place(a_kind(2, cpu_milli=3_800), 3)

    assert {
        "node(s) were unschedulable": 2,
        "Insufficient cpu": 2,
        "Insufficient memory": 1,
        "Too many pods": 1,
        "node(s) didn't match pod anti-affinity rules": 1,
    } == placements.refusals(a_kind())
    assert [4] == placements.feasible(a_kind()).nonzero()[0].tolist()


def test_a_pod_may_fill_a_node_to_the_last_byte() -> None:
    """Nothing is short then, and nothing but one byte more."""
    placements = Placements(some_nodes(1, pods=1))

    assert [True] == placements.feasible(a_kind(cpu_milli=4_000, memory_mib=8_192)).tolist()
    assert {} == placements.refusals(a_kind(cpu_milli=4_000, memory_mib=8_192))
    assert {"Insufficient memory": 1} == placements.refusals(PodKind(workload=0, memory=8_192 * MIB + 1))


def test_what_is_not_asked_for_cannot_be_short() -> None:
    """A node on which a trace has placed more than there is still takes a pod that asks for nothing."""
    placements = Placements(some_nodes(1))
    placements.place(a_kind(cpu_milli=9_000), 0)

    assert [True] == placements.feasible(a_kind(cpu_milli=None)).tolist()
    assert [False] == placements.feasible(a_kind(cpu_milli=1)).tolist()


@pytest.mark.parametrize(
    ("nodes", "found"), [(99, 99), (100, 100), (240, 117), (1_000, 420), (2_000, 680), (5_000, 500), (15_000, 750)]
)
def test_how_many_nodes_are_looked_for(nodes: int, found: int) -> None:
    """The more nodes, the smaller the share that is looked at."""
    assert found == nodes_to_find(nodes)


def test_every_search_goes_on_where_the_last_one_ended() -> None:
    """Feasible nodes in turn, wrapping; the next search begins with the first feasible node that was one too many."""
    placements = Placements(some_nodes(300))
    placements.cordoned[50:150] = True
    scheduler = StockScheduler()
    count = nodes_to_find(300)
    open_nodes = [*range(50), *range(150, 300)]

    first, second = (scheduler.candidates(placements, a_kind()).tolist() for _ in range(2))

    assert 144 == count
    assert open_nodes[:count] == first
    assert (open_nodes * 2)[count : 2 * count] == second
    assert (open_nodes * 2)[2 * count % 200] == scheduler.start


def test_nodes_that_were_refused_have_been_looked_at_too() -> None:
    """The search goes past them to see whether there is one more."""
    placements = Placements(some_nodes(300))
    placements.cordoned[144:151] = True
    scheduler = StockScheduler()

    scheduler.candidates(placements, a_kind())

    assert 151 == scheduler.start


def test_too_few_feasible_nodes_leave_the_start_where_it_was() -> None:
    """All nodes were looked at, once round."""
    placements = Placements(some_nodes(300))
    scheduler = StockScheduler()
    scheduler.candidates(placements, a_kind())
    placements.cordoned[20:280] = True
    start = scheduler.start

    found = scheduler.candidates(placements, a_kind())

    assert [*range(280, 300), *range(20)] == found.tolist()
    assert start == scheduler.start


def test_spreading() -> None:
    """By hand: 3 candidates with 0, 1 and 4 siblings have raw scores 2, round(ln 5 + 2) = 4, round(4 ln 5 + 2) = 8."""
    assert [100, 75, 25] == spread_scores(np.array([0, 1, 4])).tolist()


def test_who_counts_as_a_sibling() -> None:
    """Pods of the same revision that are not terminating; all of them hold their room."""
    placements = Placements(some_nodes(4))
    placements.place(a_kind(), 0)
    placements.place(a_kind(), 1)
    placements.place(a_kind(revision=1), 2)
    placements.place(a_kind(1), 3)
    placements.terminate(a_kind(), 1)

    siblings = placements.siblings(a_kind())

    assert siblings is not None
    assert [1, 0, 0, 0] == siblings.tolist()
    assert [3_500] * 4 == placements.free[0].tolist()
    assert placements.siblings(a_kind(2)) is None


def test_the_total_by_hand() -> None:
    """LeastAllocated + BalancedAllocation + 3 × TaintToleration + 2 × PodTopologySpread.

    With the pod (1 core, 2 GiB of 4 cores, 8 GiB): node 0 has 75 % left and is as balanced as before; node 1, with a
    sibling and another pod of 1 core, has 25 % and 50 % left, and its CPU and memory are as far apart as before (1/8).
    Raw spreading: 2 and round(ln 4 + 2) = 3. Node 1 alone is tainted.
    """
    nodes = some_nodes(2)
    tainted = TraceNode(
        name="t", cpu_milli=4_000, memory_mib=8_192, taints=(TraceTaint(key="a", effect="PreferNoSchedule"),)
    )
    placements = Placements([nodes[0], tainted])
    kind = a_kind(cpu_milli=1_000, memory_mib=2_048)
    placements.place(kind, 1)
    placements.place(a_kind(1, cpu_milli=1_000, memory_mib=0), 1)

    total = StockScheduler().scores(placements, kind, np.array([1, 0]))

    assert [37 + 75 + 3 * 0 + 2 * 66, 75 + 75 + 3 * 100 + 2 * 100] == total.tolist()


def test_pods_that_are_not_spread_and_ask_for_nothing_have_fewer_scores() -> None:
    """Plugins that skip a pod add nothing."""
    placements = Placements(some_nodes(2))
    kind = PodKind(workload=0, cpu_milli=0, memory=0, spread=False)

    assert [100 + 300] * 2 == StockScheduler().scores(placements, kind, np.array([0, 1])).tolist()


def test_most_allocated_packs() -> None:
    """With the other strategy the fuller node is taken."""
    placements = Placements(some_nodes(2))
    placements.place(a_kind(1, cpu_milli=1_000, memory_mib=2_048), 1)

    least, most = (
        StockScheduler(FitScore(strategy=strategy)).schedule(placements, a_kind(), random.Random(0))
        for strategy in ("LeastAllocated", "MostAllocated")
    )

    assert (0, 1) == (least, most)


def asking(answer: Any, *, weight: int = 1, resolution: int = 10) -> tuple[Extender, list[list[int]]]:
    """An extender that gives such an answer, and the questions it was asked."""
    questions: list[list[int]] = []

    def ask(rows: Any) -> Any:
        questions.append(rows.tolist())
        return answer

    return Extender(scores=ask, weight=weight, resolution=resolution), questions


def test_a_pod_that_fits_nowhere_has_no_node() -> None:
    """Nobody is asked."""
    extender, questions = asking([])

    found = StockScheduler().schedule(Placements(some_nodes(2)), a_kind(cpu_milli=5_000), random.Random(0), extender)

    assert found is None
    assert not questions


def test_a_sole_candidate_is_taken_without_a_question() -> None:
    """kube-scheduler calls no prioritizer for a single node."""
    placements = Placements(some_nodes(3))
    placements.cordoned[[0, 2]] = True
    extender, questions = asking([0])

    assert 1 == StockScheduler().schedule(placements, a_kind(), random.Random(0), extender)
    assert not questions


def test_equals_are_taken_in_turn_without_an_extender() -> None:
    """The first that was looked at; nothing is drawn."""
    chance = random.Random(0)
    before = chance.getstate()

    assert 0 == StockScheduler().schedule(Placements(some_nodes(9)), a_kind(), chance)
    assert before == chance.getstate()


@pytest.mark.parametrize("chance", [random.Random(1), np.random.default_rng(1)], ids=["python", "numpy"])
def test_equals_are_drawn_from_if_an_extender_scored_them(chance: Any) -> None:
    """Evenly, and only from the best."""
    extender, questions = asking([5, 5, 0, 5])
    placements = Placements(some_nodes(4))

    found = Counter(StockScheduler().schedule(placements, a_kind(), chance, extender) for _ in range(600))

    assert {0, 1, 3} == found.keys()
    assert all(140 < count < 260 for count in found.values())
    assert [[0, 1, 2, 3]] * 600 == questions


def test_an_extender_that_does_not_answer_is_ignored() -> None:
    """The pod is placed as if there were none."""
    extender, _ = asking(None)
    placements = Placements(some_nodes(9))

    assert {0} == {StockScheduler().schedule(placements, a_kind(), random.Random(n), extender) for n in range(9)}


@pytest.mark.parametrize(
    ("answer", "weight", "resolution", "node"),
    [(3, 1, 10, 0), (4, 1, 10, 1), (1, 3, 10, 0), (1, 4, 10, 1), (36, 1, 100, 0), (38, 1, 100, 1)],
)
def test_what_an_answer_weighs(answer: int, weight: int, resolution: int, node: int) -> None:
    """One of ten levels of an extender of weight 1 is worth 10 points: here node 1 is 37 points behind."""
    placements = Placements(some_nodes(2))
    placements.place(a_kind(1, cpu_milli=3_000, memory_mib=0), 1)
    kind = a_kind(cpu_milli=400, memory_mib=819)
    extender, _ = asking([0, answer], weight=weight, resolution=resolution)

    ahead, behind = StockScheduler().scores(placements, kind, np.array([0, 1]))

    assert 37 == ahead - behind
    assert node == StockScheduler().schedule(placements, kind, random.Random(0), extender)
