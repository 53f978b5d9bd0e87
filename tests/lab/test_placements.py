"""The cache and the filters of kube-scheduler."""

import random
from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from lab.placed_pods import a_template, rules, some_nodes, templates, violations

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.placements import Placements
from equipoise.lab.model.stock.pod_template import MIB, PodTemplate
from equipoise.lab.model.trace import AntiAffinity, TraceNode, TraceTaint

placed = st.lists(st.tuples(templates, st.integers(0, 5)), max_size=40)


def state(placements: Placements, templates: Sequence[PodTemplate]) -> list[Any]:
    """All results of the public methods."""
    found: list[Any] = [placements.free.tolist(), placements.nonzero_requested.tolist()]
    found.append(placements.anti_affinity.violations())
    for template in templates:
        siblings = placements.siblings(template)
        found.append(None if siblings is None else siblings.tolist())
        found.append(dict(placements.anti_affinity.count(template.workload)))
        found.append((placements.feasible(template).tolist(), placements.refusals(template)))
    return found


@given(before=placed, added=placed, rules=rules)
@settings(max_examples=60, deadline=None)
def test_removing_pods_restores_the_state_before_they_were_placed(
    before: list[tuple[PodTemplate, int]], added: list[tuple[PodTemplate, int]], rules: list[AntiAffinity]
) -> None:
    """In any order, with and without terminating first."""
    placements = Placements(some_nodes(6), rules)
    for template, node in before:
        placements.place(template, node)
    templates = [template for template, _ in (*before, *added)]
    state_before = state(placements, templates)

    for template, node in added:
        placements.place(template, node)
    for number, (template, node) in enumerate(added):
        if terminating := number % 2 == 1:
            placements.terminate(template, node)
        placements.remove(template, node, terminating=terminating)

    assert state_before == state(placements, templates)


def test_removing_a_missing_pod_raises_and_changes_nothing() -> None:
    placements = Placements(some_nodes(2))
    placements.place(a_template(), 0)

    with pytest.raises(KeyError):
        placements.remove(a_template(), 1)

    assert [3_500, 4_000] == placements.free[0].tolist()


@given(arriving=st.lists(templates, max_size=60), rules=rules, seed=st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_pods_on_feasible_nodes_exceed_no_resource_and_violate_no_rule(
    arriving: list[PodTemplate], rules: list[AntiAffinity], seed: int
) -> None:
    """For any choice among the feasible nodes, with pods removed in between."""
    placements = Placements(some_nodes(4, pods=7), rules)
    generator = random.Random(seed)
    running: list[tuple[PodTemplate, int]] = []
    for template in arriving:
        feasible = placements.feasible(template).nonzero()[0]
        if len(feasible):
            running.append((template, generator.choice(feasible.tolist())))
            placements.place(*running[-1])
        if running and generator.random() < 0.2:
            placements.remove(*running.pop(generator.randrange(len(running))))

    pods = [(template.workload, node) for template, node in running]
    assert (placements.free >= 0).all()
    assert 0 == placements.anti_affinity.violations() == violations(pods, rules)


def tainted(name: str, key: str, value: str, effect: str) -> TraceNode:
    return TraceNode(
        name=name, cpu_milli=4_000, memory_mib=8_192, taints=(TraceTaint(key=key, value=value, effect=effect),)
    )


def test_untolerated_taints_and_cordons_exclude_nodes() -> None:
    """PreferNoSchedule does not. Cordoned nodes are open to pods that tolerate the taint of the cordon."""
    effects = ("NoSchedule", "NoExecute", "PreferNoSchedule")
    placements = Placements([*some_nodes(2), *(tainted(effect, "gpu", "v100", effect) for effect in effects)])
    placements.cordoned[1] = True
    gpu = Toleration(key="gpu", operator="Exists")
    cordon = Toleration(key="node.kubernetes.io/unschedulable", operator="Exists", effect="NoSchedule")

    def feasible(*tolerations: Toleration) -> list[bool]:
        flags: list[bool] = placements.feasible(a_template(tolerations=tolerations)).tolist()
        return flags

    assert [True, False, False, False, True] == feasible()
    assert [True, False, True, True, True] == feasible(gpu)
    assert [True, True, False, False, True] == feasible(cordon)


def test_tolerations_that_compare_numbers_apply_to_taints() -> None:
    """Gt and Lt."""
    placements = Placements([tainted(sla, "sla", sla, "NoSchedule") for sla in ("900", "990")])
    template = a_template(tolerations=(Toleration(key="sla", operator="Gt", value="950"),))

    assert [False, True] == placements.feasible(template).tolist()


def test_refusals_contain_the_number_of_nodes_by_reason() -> None:
    """Each insufficient resource of a node counts; otherwise only the first reason does."""
    nodes = [*some_nodes(5), *some_nodes(1, pods=0)]
    nodes.append(TraceNode(name="tainted", cpu_milli=100, memory_mib=100, taints=(TraceTaint(key="gpu"),)))
    placements = Placements(nodes, [AntiAffinity(beside=1, limited=0, most=0)])
    placements.cordoned[[0, 6]] = True
    placements.place(a_template(1, cpu_milli=4_000, memory_mib=8_192), 1)
    placements.place(a_template(1), 2)
    placements.place(a_template(2, cpu_milli=3_800), 3)

    assert {
        "node(s) were unschedulable": 2,
        "Insufficient cpu": 2,
        "Insufficient memory": 1,
        "Too many pods": 1,
        "node(s) didn't match pod anti-affinity rules": 1,
    } == placements.refusals(a_template())
    assert [4] == placements.feasible(a_template()).nonzero()[0].tolist()


def test_a_pod_may_request_all_that_is_free() -> None:
    """But not one byte more."""
    placements = Placements(some_nodes(1, pods=1))

    assert [True] == placements.feasible(a_template(cpu_milli=4_000, memory_mib=8_192)).tolist()
    assert {} == placements.refusals(a_template(cpu_milli=4_000, memory_mib=8_192))
    assert {"Insufficient memory": 1} == placements.refusals(PodTemplate(workload=0, memory=8_192 * MIB + 1))


def test_a_resource_without_a_request_is_never_insufficient() -> None:
    """Even on an overcommitted node."""
    placements = Placements(some_nodes(1))
    placements.place(a_template(cpu_milli=9_000), 0)

    assert [True] == placements.feasible(a_template(cpu_milli=None)).tolist()
    assert [False] == placements.feasible(a_template(cpu_milli=1)).tolist()


def test_siblings_are_pods_of_the_same_revision_that_are_not_terminating() -> None:
    """Terminating pods still occupy resources."""
    placements = Placements(some_nodes(4))
    placements.place(a_template(), 0)
    placements.place(a_template(), 1)
    placements.place(a_template(revision=1), 2)
    placements.place(a_template(1), 3)
    placements.terminate(a_template(), 1)

    siblings = placements.siblings(a_template())

    assert siblings is not None
    assert [1, 0, 0, 0] == siblings.tolist()
    assert [3_500] * 4 == placements.free[0].tolist()
    assert placements.siblings(a_template(2)) is None
