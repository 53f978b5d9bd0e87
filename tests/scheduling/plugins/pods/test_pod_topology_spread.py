"""PodTopologySpread."""

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scheduling.pods import a_node, a_pod
from scheduling.topology import (
    HOST,
    NODES,
    RACK,
    ZONE,
    a_cluster,
    app,
    in_zone,
    keys,
    many_pods,
    nodes,
    pods,
    prepared,
    raw_and_normalized,
    refused,
    running,
    scores,
    selectors,
)

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector
from equipoise.contracts.kubernetes.objects.node import Node, Taint
from equipoise.contracts.kubernetes.objects.pod import Toleration, TopologySpreadConstraint
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.pods.pod_topology_spread import PodTopologySpread

SKEWED = (Code.UNSCHEDULABLE, "node(s) didn't match pod topology spread constraints")
UNLABELLED = (
    Code.UNSCHEDULABLE_AND_UNRESOLVABLE,
    "node(s) didn't match pod topology spread constraints (missing required label)",
)
PLUGIN = PodTopologySpread(default_selector=lambda pod: None)
WEB = {"app": "web"}


def hard(key: str = ZONE, selector: LabelSelector | None = app("web"), **fields: Any) -> TopologySpreadConstraint:  # noqa: B008  immutable
    return TopologySpreadConstraint(topology_key=key, label_selector=selector, **fields)


def soft(key: str = ZONE, selector: LabelSelector | None = app("web"), **fields: Any) -> TopologySpreadConstraint:  # noqa: B008  immutable
    return hard(key, selector, when_unsatisfiable="ScheduleAnyway", **fields)


def spread(*constraints: TopologySpreadConstraint, **fields: Any) -> PodInfo:
    return a_pod("new", **({"labels": WEB, "topology_spread_constraints": list(constraints)} | fields))


def two_zones(*pods: PodInfo) -> ClusterSnapshot:
    """Nodes a1 and a2 in zone a, b1 in zone b."""
    return a_cluster(in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b"), pods=pods)


# Filter


def test_a_zone_with_more_pods_than_max_skew_above_the_fewest_is_refused() -> None:
    cluster = two_zones(running("1", "a1"))

    assert refused(PLUGIN, spread(hard()), cluster) == {"a1": SKEWED, "a2": SKEWED}
    assert refused(PLUGIN, spread(hard(max_skew=2)), cluster) == {}


def test_a_pod_that_its_selector_does_not_select_does_not_count_itself() -> None:
    cluster = two_zones(running("1", "a1"))

    assert refused(PLUGIN, spread(hard(), labels={"app": "db"}), cluster) == {}


def test_a_node_without_the_label_is_refused_for_good_and_its_pods_do_not_count() -> None:
    cluster = a_cluster(in_zone("a", "a"), in_zone("b", "b"), in_zone("none", None), pods=[running("1", "none")])

    assert refused(PLUGIN, spread(hard()), cluster) == {"none": UNLABELLED}


def test_a_node_counts_only_with_the_labels_of_all_constraints() -> None:
    cluster = a_cluster(
        in_zone("a", "a", rack="1"), in_zone("b", "b", rack="2"), in_zone("c", "c"), pods=[running("1", "a")]
    )

    # Zone c, without pods, has no rack: the fewest pods are those of zone b.
    found = refused(PLUGIN, spread(hard(), hard(RACK)), cluster)

    assert found == {"a": SKEWED, "c": UNLABELLED}


def test_the_first_constraint_that_is_not_met_is_the_reason() -> None:
    cluster = a_cluster(in_zone("a", "a", rack="1"), in_zone("b", "b", rack="2"), in_zone("a2", "a"))
    cluster.add_pod(running("1", "a"), 0)

    assert refused(PLUGIN, spread(hard(), hard(RACK)), cluster)["a2"] == SKEWED
    assert refused(PLUGIN, spread(hard(RACK), hard()), cluster)["a2"] == UNLABELLED


@pytest.mark.parametrize(
    ("other", "counts"),
    [
        ({}, True),
        ({"namespace": "shop"}, False),
        ({"terminating": True}, False),
        ({"labels": {"app": "db"}}, False),
    ],
)
def test_only_pods_of_the_namespace_that_are_not_terminating_count(other: dict[str, Any], counts: bool) -> None:
    found = refused(PLUGIN, spread(hard()), two_zones(running("1", "b1", **other)))

    assert found == ({"b1": SKEWED} if counts else {})


def test_an_empty_selector_counts_the_pod_itself_only_and_none_counts_nothing() -> None:
    """As kube-scheduler: countPodsMatchSelector."""
    cluster = two_zones(running("1", "a1"), running("2", "a1"))

    assert refused(PLUGIN, spread(hard(selector=LabelSelector())), cluster) == {}
    assert refused(PLUGIN, spread(hard(selector=None)), cluster) == {}


def test_with_fewer_domains_than_min_domains_the_fewest_pods_are_0() -> None:
    cluster = two_zones(running("1", "a1"), running("2", "b1"))

    assert refused(PLUGIN, spread(hard(min_domains=2)), cluster) == {}
    assert refused(PLUGIN, spread(hard(min_domains=3)), cluster) == {"a1": SKEWED, "a2": SKEWED, "b1": SKEWED}


def test_nodes_that_the_pod_does_not_select_count_only_if_the_policy_ignores_affinity() -> None:
    cluster = two_zones(running("1", "a1"))
    selecting = {"node_selector": {ZONE: "a"}}

    assert refused(PLUGIN, spread(hard(), **selecting), cluster) == {}
    ignored = spread(hard(node_affinity_policy="Ignore"), **selecting)
    assert refused(PLUGIN, ignored, cluster) == {"a1": SKEWED, "a2": SKEWED}


def test_nodes_with_taints_count_unless_the_policy_honors_them() -> None:
    taint = Taint(key="gpu", effect="NoSchedule")
    cluster = a_cluster(in_zone("a", "a"), a_node("b", labels={ZONE: "b"}, taints=[taint]), pods=[running("1", "a")])
    honoring = hard(node_taints_policy="Honor")
    tolerations = [Toleration(key="gpu", operator="Exists")]

    assert refused(PLUGIN, spread(hard()), cluster) == {"a": SKEWED}
    assert refused(PLUGIN, spread(honoring), cluster) == {}
    assert refused(PLUGIN, spread(honoring, tolerations=tolerations), cluster) == {"a": SKEWED}


def test_match_label_keys_leave_pods_with_the_same_values() -> None:
    cluster = two_zones(running("1", "a1", labels=WEB | {"version": "1"}))
    keyed = hard(match_label_keys=["version", "unknown"])

    assert refused(PLUGIN, spread(keyed, labels=WEB | {"version": "2"}), cluster) == {}
    assert refused(PLUGIN, spread(keyed, labels=WEB | {"version": "1"}), cluster) == {"a1": SKEWED, "a2": SKEWED}


def test_a_pod_without_constraints_is_skipped() -> None:
    for pod in (spread(), spread(soft())):
        assert prepared(PLUGIN, pod, two_zones()).skipped_filters == {PLUGIN.name}


def test_default_constraints_apply_to_pods_without_any_that_a_selector_selects() -> None:
    plugin = PodTopologySpread(lambda pod: app("web"), [hard(selector=None)])
    cluster = two_zones(running("1", "a1"))

    assert refused(plugin, spread(), cluster) == {"a1": SKEWED, "a2": SKEWED}
    assert refused(plugin, spread(soft()), cluster) == {}
    for selector in (None, LabelSelector()):
        without = PodTopologySpread(lambda pod, selector=selector: selector, [hard(selector=None)])  # type: ignore[misc]  # a default binds it
        assert refused(without, spread(), cluster) == {}


def changed(
    pod: PodInfo, cluster: ClusterSnapshot, *, add: PodInfo | None = None, remove: PodInfo | None = None
) -> object:
    """Refusals after a change of a clone, whose original is the same as before."""
    state = prepared(PLUGIN, pod, cluster)
    before = refused(PLUGIN, pod, cluster, state)
    clone = state.clone()
    if add is not None:
        PLUGIN.add_pod(clone, pod, add, row_of(cluster, add.pod.spec.node_name), cluster)
    if remove is not None:
        PLUGIN.remove_pod(clone, pod, remove, row_of(cluster, remove.pod.spec.node_name), cluster)
    found = refused(PLUGIN, pod, cluster, clone)
    assert refused(PLUGIN, pod, cluster, state) == before
    return found


def test_pods_that_preemption_removes_or_adds_change_the_counts_of_a_clone() -> None:
    first, second = running("1", "a1"), running("2", "b1")
    cluster = two_zones(first)

    assert changed(spread(hard()), cluster, remove=first) == {}
    assert changed(spread(hard()), cluster, add=second) == {}
    assert changed(spread(hard()), cluster, add=second, remove=first) == {"b1": SKEWED}
    assert changed(spread(hard(max_skew=2)), cluster, add=running("3", "a2")) == {"a1": SKEWED, "a2": SKEWED}


def test_added_pods_count_only_where_and_as_existing_ones_do() -> None:
    def added(pod: PodInfo, **other: Any) -> object:
        return changed(pod, two_zones(), add=running("1", "b1", **other))

    assert added(spread(hard())) == {"b1": SKEWED}
    for other in ({"namespace": "shop"}, {"app": "db"}):
        assert added(spread(hard()), **other) == {}
    # Node b1 is not eligible: its pods count neither for its zone nor for its host.
    assert added(spread(hard(), node_selector={ZONE: "a"})) == {}


def test_preemption_changes_counts_by_pods_that_were_not_counted_as_kube_scheduler_does() -> None:
    """updateWithPod checks neither whether a pod is terminating nor whether the selector is empty."""
    ending = running("1", "b1", terminating=True)
    cluster = two_zones(ending)

    assert changed(spread(hard()), cluster, remove=ending) == {"a1": SKEWED, "a2": SKEWED}
    assert changed(spread(hard()), two_zones(), add=ending) == {"b1": SKEWED}
    assert changed(spread(hard(selector=LabelSelector())), two_zones(), add=running("1", "b1")) == {"b1": SKEWED}


# Score


def test_the_zone_with_fewer_pods_scores_higher() -> None:
    """round(2 · ln(2 + 2) + 0) = 3; 100 · (3 + 0 − 3) // 3 = 0."""
    found = raw_and_normalized(PLUGIN, spread(soft()), two_zones(running("1", "a1"), running("2", "a2")))

    assert found == ({"a1": 3, "a2": 3, "b1": 0}, {"a1": 0, "a2": 0, "b1": 100})


def test_max_skew_makes_differences_smaller() -> None:
    """round(1 · ln 4 + 4) = 5 and 4: 100 · (5 + 4 − 5) // 5 = 80."""
    found = raw_and_normalized(PLUGIN, spread(soft(max_skew=5)), two_zones(running("1", "a1")))

    assert found == ({"a1": 5, "a2": 5, "b1": 4}, {"a1": 80, "a2": 80, "b1": 100})


def test_without_any_pods_all_nodes_score_100() -> None:
    assert scores(PLUGIN, spread(soft()), two_zones()) == {"a1": 100, "a2": 100, "b1": 100}


def test_by_default_nodes_without_a_zone_belong_to_the_zone_with_an_empty_name() -> None:
    """round(1 · ln(3 + 2) + 2 + 2 · ln(2 + 2) + 4) = 10: both pods count for the zone with the empty name; 2 zones."""
    plugin = PodTopologySpread(lambda pod: app("web"))
    pods = [running("1", "none"), running("2", "empty")]
    cluster = a_cluster(in_zone("a", "a"), in_zone("empty", ""), in_zone("none", None), pods=pods)

    found = raw_and_normalized(plugin, spread(), cluster)
    assert found is not None
    raw, _ = found

    assert raw == {"a": 2 + 4, "empty": 10, "none": round(math.log(3 + 2) + 2)}


def test_nodes_without_a_key_score_0_and_do_not_count() -> None:
    cluster = a_cluster(in_zone("a", "a"), in_zone("b", "b"), in_zone("none", None), pods=[running("1", "none")])

    assert scores(PLUGIN, spread(soft()), cluster) == {"a": 100, "b": 100, "none": 0}
    assert scores(PLUGIN, spread(soft()), cluster, "none") == {"none": 0}


def test_pods_on_nodes_that_are_not_feasible_count_for_their_zone_and_not_for_the_number_of_zones() -> None:
    """One zone remains: round(3 · ln(1 + 2)) = 3, not round(3 · ln 4) = 4."""
    cluster = two_zones(running("1", "a2"), running("2", "a2"), running("3", "a2"), running("4", "b1"))

    assert raw_and_normalized(PLUGIN, spread(soft()), cluster, "a1") == ({"a1": 3}, {"a1": 100})


def test_each_node_is_a_domain_of_the_host_name_whatever_the_policies() -> None:
    """round(2 · ln(3 + 2)) = 3: node a1 counts, although the pod does not select it."""
    cluster = two_zones(running("1", "a1"), running("2", "a1"))
    pod = spread(soft(HOST), node_selector={ZONE: "b"})

    found = raw_and_normalized(PLUGIN, pod, cluster)

    assert found == ({"a1": 3, "a2": 0, "b1": 0}, {"a1": 0, "a2": 100, "b1": 100})


def test_pods_on_nodes_that_the_pod_does_not_select_do_not_count_for_a_zone() -> None:
    cluster = two_zones(running("1", "a1"))

    assert scores(PLUGIN, spread(soft(), node_selector={HOST: "a2"}), cluster) == dict.fromkeys(("a1", "a2", "b1"), 100)


def test_scores_of_several_constraints_are_added() -> None:
    """Zone: 2 · ln 4; host: 2 · ln 5 for a1. round(2.77 + 3.22) = 6, round(2.77) = 3, 0."""
    cluster = two_zones(running("1", "a1"), running("2", "a1"))

    found = raw_and_normalized(PLUGIN, spread(soft(), soft(HOST)), cluster)

    assert found == ({"a1": 6, "a2": 3, "b1": 0}, {"a1": 0, "a2": 50, "b1": 100})


def test_system_constraints_spread_over_hosts_and_zones_and_need_no_zone() -> None:
    """maxSkew 3 of hosts, 5 of zones; nodes without a zone are one more zone for the number of zones only.

    a: round(1 · ln 5 + 2 + 1 · ln 5 + 4) = 9; b: round(2 + 4) = 6; none: round(1 · ln 5 + 2) = 4.
    """
    plugin = PodTopologySpread(lambda pod: app("web"))
    cluster = a_cluster(
        in_zone("a", "a"), in_zone("b", "b"), in_zone("none", None), pods=[running("1", "a"), running("2", "none")]
    )

    found = raw_and_normalized(plugin, spread(), cluster)

    assert found == ({"a": 9, "b": 6, "none": 4}, {"a": 44, "b": 77, "none": 100})


@given(st.lists(st.sampled_from([0, 1, 2, 3, 7, 40, 100, 101, 130]), min_size=1, max_size=4), st.integers(1, 9))
def test_numbers_of_pods_score_alone_as_with_another_constraint(pods: list[int], max_skew: int) -> None:
    """The other constraint adds 0, so that scores are computed in other steps."""
    hosts = [in_zone(f"host-{number}", "a") for number in range(len(pods))]
    cluster = a_cluster(*hosts)
    for row, count in enumerate(pods):
        for number in range(count):
            cluster.add_pod(running(f"{row}-{number}", f"host-{row}"), row)
    host, other = soft(HOST, max_skew=max_skew), soft(selector=app("none"), max_skew=1)

    alone = raw_and_normalized(PLUGIN, spread(host), cluster)

    assert alone == raw_and_normalized(PLUGIN, spread(host, other), cluster)
    assert alone is not None
    factor = math.log(len(pods) + 2)
    assert list(alone[0].values()) == [math.floor(count * factor + max_skew - 1 + 0.5) for count in pods]


def test_system_constraints_need_a_selector() -> None:
    for selector in (None, LabelSelector()):
        plugin = PodTopologySpread(lambda pod, selector=selector: selector)  # type: ignore[misc]  # a default binds it
        assert scores(plugin, spread(), two_zones()) is None


def test_pods_with_constraints_of_their_own_have_no_default_ones() -> None:
    plugin = PodTopologySpread(lambda pod: app("web"))

    assert scores(plugin, spread(hard()), two_zones()) is None


def test_configured_default_constraints_need_all_keys() -> None:
    plugin = PodTopologySpread(lambda pod: app("web"), [soft(HOST, None), soft(ZONE, None)])
    cluster = a_cluster(in_zone("a", "a"), in_zone("none", None))

    assert scores(plugin, spread(), cluster) == {"a": 100, "none": 0}
    assert scores(PodTopologySpread(lambda pod: app("web"), []), spread(), cluster) is None


# Laws

constraints = st.builds(
    TopologySpreadConstraint,
    max_skew=st.integers(1, 2),
    topology_key=keys,
    label_selector=selectors,
    min_domains=st.none() | st.integers(1, 4),
    when_unsatisfiable=st.sampled_from(["DoNotSchedule", "ScheduleAnyway"]),
    match_label_keys=st.sampled_from([[], ["tier"]]),
    node_affinity_policy=st.sampled_from(["Honor", "Ignore"]),
)
new_pods = pods(
    affinity=st.none(),
    topology_spread_constraints=st.lists(constraints, min_size=1, max_size=3),
    node_selector=st.sampled_from([{}, {}, {ZONE: "a"}]),
)


def expected(pod: PodInfo, cluster: ClusterSnapshot) -> dict[str, tuple[Code, str]]:
    """Counts pod by pod."""
    rules = [each for each in pod.pod.spec.topology_spread_constraints if each.when_unsatisfiable == "DoNotSchedule"]
    found = {}
    for name in NODES:
        for rule in rules:
            value = labels(cluster, name).get(rule.topology_key)
            if value is None:
                found[name] = UNLABELLED
                break
            counts: dict[str, int] = {}
            for other in NODES:
                if counted_node(pod, rule, rules, labels(cluster, other)):
                    domain = labels(cluster, other)[rule.topology_key]
                    counts[domain] = counts.get(domain, 0) + sum(
                        counted_pod(pod, rule, each) for each in cluster.pods_on(row_of(cluster, other))
                    )
            enough = len(counts) >= (rule.min_domains or 1)
            itself = selects(rule.label_selector, pod.labels)
            if counts.get(value, 0) + itself - (min(counts.values()) if enough else 0) > rule.max_skew:
                found[name] = SKEWED
                break
    return found


def row_of(cluster: ClusterSnapshot, name: str) -> int:
    row = cluster.row(name)
    assert row is not None
    return row


def labels(cluster: ClusterSnapshot, name: str) -> dict[str, str]:
    return cluster.node(row_of(cluster, name)).metadata.labels


def counted_node(
    pod: PodInfo,
    rule: TopologySpreadConstraint,
    rules: Sequence[TopologySpreadConstraint],
    node: dict[str, str],
) -> bool:
    chosen = rule.node_affinity_policy == "Ignore" or pod.pod.spec.node_selector.items() <= node.items()
    return chosen and all(each.topology_key in node for each in rules)


def counted_pod(pod: PodInfo, rule: TopologySpreadConstraint, other: PodInfo) -> bool:
    selector = rule.label_selector
    same = {key: pod.labels[key] for key in rule.match_label_keys if key in pod.labels}
    if selector is None or not (selector.match_labels or selector.match_expressions or same):
        return False
    return (
        other.namespace == pod.namespace
        and not other.terminating
        and selects(selector, other.labels)
        and same.items() <= other.labels.items()
    )


@given(nodes, many_pods(), new_pods)
def test_the_filter_is_as_if_pods_were_counted_one_by_one(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo
) -> None:
    cluster = a_cluster(*nodes, pods=others)

    assert refused(PLUGIN, pod, cluster) == expected(pod, cluster)


def _not_terminating(pod: PodInfo) -> PodInfo:
    metadata = msgspec.structs.replace(pod.pod.metadata, deletion_timestamp=None)
    return PodInfo(msgspec.structs.replace(pod.pod, metadata=metadata))


@given(nodes, many_pods(), new_pods, pods("other", "node-2"))
def test_a_pod_that_is_added_or_removed_counts_as_in_a_new_snapshot(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo, other: PodInfo
) -> None:
    # kube-scheduler counts these here, and not in a new snapshot: see the test above.
    others, other = [_not_terminating(each) for each in others], _not_terminating(other)
    assume(not any(each.label_selector == LabelSelector() for each in pod.pod.spec.topology_spread_constraints))
    cluster = a_cluster(*nodes, pods=others)
    state = prepared(PLUGIN, pod, cluster)
    if PLUGIN.name in state.skipped_filters:
        return
    before = refused(PLUGIN, pod, cluster, state)
    changed, changed_state, row = cluster.clone(), state.clone(), row_of(cluster, "node-2")

    changed.add_pod(other, row)
    PLUGIN.add_pod(changed_state, pod, other, row, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == refused(
        PLUGIN, pod, a_cluster(*nodes, pods=[*others, other])
    )

    changed.remove_pod(other, row)
    PLUGIN.remove_pod(changed_state, pod, other, row, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == before
    assert refused(PLUGIN, pod, cluster, state) == before

    for each in others:
        place = row_of(cluster, each.pod.spec.node_name)
        changed.remove_pod(each, place)
        PLUGIN.remove_pod(changed_state, pod, each, place, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == refused(PLUGIN, pod, a_cluster(*nodes))


@given(nodes, many_pods(), new_pods, st.permutations(range(len(NODES))))
def test_results_do_not_depend_on_the_order_of_nodes(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo, order: Sequence[int]
) -> None:
    cluster = a_cluster(*nodes, pods=others)
    reordered = a_cluster(*(nodes[place] for place in order), pods=others)

    assert refused(PLUGIN, pod, cluster) == refused(PLUGIN, pod, reordered)
    assert scores(PLUGIN, pod, cluster, *NODES) == scores(PLUGIN, pod, reordered, *NODES)


@given(nodes, many_pods(), new_pods)
def test_scores_are_within_0_and_100(nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo) -> None:
    found = scores(PLUGIN, pod, a_cluster(*nodes, pods=others))

    assert found is None or all(0 <= score <= 100 for score in found.values())
