"""InterPodAffinity."""

from collections.abc import Mapping, Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_pod
from scheduling.topology import (
    HOST,
    NODES,
    RACK,
    a_cluster,
    affinities,
    apart,
    app,
    having,
    in_zone,
    many_pods,
    near,
    nodes,
    pods,
    prepared,
    raw_and_normalized,
    refused,
    running,
    scores,
    term,
)

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.cluster import Namespace
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node
from equipoise.contracts.kubernetes.objects.pod import Affinity
from equipoise.scheduling.framework.status import Code
from equipoise.scheduling.model.pod_info import AffinityTerm, PodInfo
from equipoise.scheduling.model.snapshot import ClusterSnapshot
from equipoise.scheduling.plugins.pods.inter_pod_affinity import InterPodAffinity

WITHOUT = (Code.UNSCHEDULABLE_AND_UNRESOLVABLE, "node(s) didn't match pod affinity rules")
AGAINST = (Code.UNSCHEDULABLE, "node(s) didn't match pod anti-affinity rules")
EXISTING = (Code.UNSCHEDULABLE, "node(s) didn't satisfy existing pods anti-affinity rules")
PLUGIN = InterPodAffinity()
ANY = LabelSelector()


def new(affinity: Affinity | None = None, app: str = "web", **fields: Any) -> PodInfo:
    return a_pod("new", labels=fields.pop("labels", {"app": app}), affinity=affinity, **fields)


def two_zones(*pods: PodInfo) -> ClusterSnapshot:
    """Nodes a1 and a2 in zone a, b1 in zone b, and one without a zone."""
    return a_cluster(in_zone("a1", "a"), in_zone("a2", "a"), in_zone("b1", "b"), in_zone("none", None), pods=pods)


def namespace(name: str, **labels: str) -> Namespace:
    return Namespace(metadata=ObjectMeta(name=name, labels=labels))


# Filter


def test_affinity_leaves_the_domain_of_a_pod_that_the_term_selects() -> None:
    cluster = two_zones(running("1", "a1", "db"))

    assert refused(PLUGIN, new(near(term(app("db")))), cluster) == {"b1": WITHOUT, "none": WITHOUT}


def test_one_pod_must_meet_all_terms_of_affinity() -> None:
    terms = near(term(app("db")), term(having("tier"), HOST))
    apart_from_each_other = two_zones(running("1", "a1", "db"), running("2", "a2", labels={"tier": "x"}))
    both = two_zones(running("1", "a1", labels={"app": "db", "tier": "x"}))

    assert set(refused(PLUGIN, new(terms), apart_from_each_other)) == {"a1", "a2", "b1", "none"}
    assert set(refused(PLUGIN, new(terms), both)) == {"a2", "b1", "none"}


def test_the_first_pod_of_a_group_may_run_on_any_node_with_the_label() -> None:
    pod = new(near(term(app("web"))))

    assert refused(PLUGIN, pod, two_zones()) == {"none": WITHOUT}
    assert set(refused(PLUGIN, pod, two_zones(running("1", "b1")))) == {"a1", "a2", "none"}


def test_a_pod_that_no_domain_contains_does_not_end_the_wait_for_the_first() -> None:
    assert refused(PLUGIN, new(near(term(app("web")))), two_zones(running("1", "none"))) == {"none": WITHOUT}


def test_a_pod_with_affinity_to_others_only_waits_for_them() -> None:
    assert set(refused(PLUGIN, new(near(term(app("db")))), two_zones())) == {"a1", "a2", "b1", "none"}


def test_anti_affinity_refuses_the_domain_of_a_pod_that_any_term_selects() -> None:
    cluster = two_zones(running("1", "a1", "db"), running("2", "none", "db"))

    assert refused(PLUGIN, new(apart(term(app("db")))), cluster) == {"a1": AGAINST, "a2": AGAINST}
    hosts = apart(term(app("other")), term(app("db"), HOST))
    assert refused(PLUGIN, new(hosts), cluster) == {"a1": AGAINST, "none": AGAINST}


def test_anti_affinity_of_existing_pods_refuses_their_domain() -> None:
    cluster = two_zones(running("1", "a1", "db", affinity=apart(term(app("web")))))

    assert refused(PLUGIN, new(), cluster) == {"a1": EXISTING, "a2": EXISTING}
    assert refused(PLUGIN, new(app="db"), cluster) == {}


def test_affinity_is_the_reason_before_anti_affinity_and_this_before_that_of_existing_pods() -> None:
    cluster = two_zones(running("1", "a1", "web", affinity=apart(term(app("web")))))
    both = Affinity(
        pod_affinity=near(term(app("db"))).pod_affinity, pod_anti_affinity=apart(term(app("web"))).pod_anti_affinity
    )

    assert refused(PLUGIN, new(both), cluster)["a1"] == WITHOUT
    assert refused(PLUGIN, new(apart(term(app("web")))), cluster)["a1"] == AGAINST
    assert refused(PLUGIN, new(), cluster)["a1"] == EXISTING


def test_terminating_pods_still_count() -> None:
    cluster = two_zones(running("1", "a1", "db", terminating=True))

    assert refused(PLUGIN, new(apart(term(app("db"), HOST))), cluster) == {"a1": AGAINST}


def test_a_pod_without_terms_that_no_pod_excludes_is_skipped() -> None:
    cluster = two_zones(
        running("1", "a1", "db", affinity=apart(term(app("db")))),
        running("2", "none", "db", affinity=apart(term(app("web")))),
    )

    assert prepared(PLUGIN, new(), cluster).skipped_filters == {PLUGIN.name}


def test_a_term_is_about_the_namespace_of_its_pod_unless_it_names_others() -> None:
    cluster = two_zones(running("1", "a1", "db", namespace="shop"))

    assert refused(PLUGIN, new(apart(term(app("db"), HOST))), cluster) == {}
    assert refused(PLUGIN, new(apart(term(app("db"), HOST, namespaces=["shop"]))), cluster) == {"a1": AGAINST}
    assert refused(PLUGIN, new(apart(term(app("db"), HOST)), namespace="shop"), cluster) == {"a1": AGAINST}


def test_a_namespace_selector_adds_namespaces_by_their_labels() -> None:
    cluster = two_zones(running("1", "a1", "db", namespace="shop"), running("2", "b1", "db"))
    cluster.put_namespace(namespace("shop", team="blue"))
    blue, not_red = having("team", "In", "blue"), having("team", "NotIn", "red")

    def by(selector: LabelSelector, **fields: Any) -> Mapping[str, object]:
        return refused(PLUGIN, new(apart(term(app("db"), HOST, namespace_selector=selector, **fields))), cluster)

    assert by(blue) == {"a1": AGAINST}
    assert by(blue, namespaces=["default"]) == {"a1": AGAINST, "b1": AGAINST}
    assert by(ANY) == {"a1": AGAINST, "b1": AGAINST}
    # The namespace default is not known: only an empty selector selects it.
    assert by(not_red) == {"a1": AGAINST}


def test_a_selector_of_labels_that_are_missing_selects_only_namespaces_without_them() -> None:
    """In kube-scheduler since 1.37; until then a term of the new pod with such a selector was about all namespaces."""
    unlabelled = having("team", "DoesNotExist")
    cluster = two_zones(running("1", "a1", "db", namespace="shop"))
    cluster.put_namespace(namespace("shop", team="blue"))
    cluster.put_namespace(namespace("default", team="blue"))

    assert refused(PLUGIN, new(apart(term(app("db"), HOST, namespace_selector=unlabelled))), cluster) == {}
    existing = apart(term(app("web"), HOST, namespace_selector=unlabelled))
    cluster = two_zones(running("1", "a1", "db", namespace="shop", affinity=existing))
    cluster.put_namespace(namespace("default", team="blue"))
    assert refused(PLUGIN, new(), cluster) == {}


def test_terms_of_existing_pods_select_a_namespace_that_is_not_known_as_one_without_labels() -> None:
    """As kube-scheduler: GetNamespaceLabelsSnapshot."""
    excluding = apart(term(app("web"), HOST, namespace_selector=having("team", "NotIn", "red")))
    cluster = two_zones(running("1", "a1", "db", namespace="shop", affinity=excluding))

    assert refused(PLUGIN, new(), cluster) == {"a1": EXISTING}
    cluster.put_namespace(namespace("default", team="red"))
    assert refused(PLUGIN, new(), cluster) == {}


def test_no_selector_selects_nothing_and_an_empty_one_every_pod() -> None:
    cluster = two_zones(running("1", "a1", "db"))

    assert refused(PLUGIN, new(apart(term(None, HOST))), cluster) == {}
    assert refused(PLUGIN, new(apart(term(ANY, HOST))), cluster) == {"a1": AGAINST}


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
    first = running("1", "a1", "db")
    cluster = two_zones(first)

    to_db, from_db = new(near(term(app("db"), HOST))), new(apart(term(app("db"), HOST)))
    assert changed(to_db, cluster, add=running("2", "b1", "db")) == {"a2": WITHOUT, "none": WITHOUT}
    assert changed(to_db, cluster, remove=first) == dict.fromkeys(("a1", "a2", "b1", "none"), WITHOUT)
    assert changed(from_db, cluster, add=running("2", "b1", "db")) == {"a1": AGAINST, "b1": AGAINST}
    assert changed(from_db, cluster, remove=first) == {}
    assert changed(from_db, cluster, add=running("2", "b1", "cache")) == {"a1": AGAINST}


def test_anti_affinity_of_added_pods_refuses_their_domain() -> None:
    first = running("1", "a1", "db", affinity=apart(term(app("web"), HOST)))
    cluster = two_zones(first)

    assert changed(new(), cluster, remove=first) == {}
    by_zone = running("2", "b1", "db", affinity=apart(term(app("web"))))
    assert changed(new(), cluster, add=by_zone) == {"a1": EXISTING, "b1": EXISTING}


def test_the_first_pod_of_a_group_is_no_longer_the_first_after_another_is_added() -> None:
    pod = new(near(term(app("web"))))

    assert changed(pod, two_zones(), add=running("1", "b1")) == {"a1": WITHOUT, "a2": WITHOUT, "none": WITHOUT}


# Score


def test_preferred_terms_add_their_weight_per_pod_in_the_domain() -> None:
    cluster = two_zones(running("1", "a1", "db"), running("2", "a2", "db"), running("3", "b1", "db"))

    found = raw_and_normalized(PLUGIN, new(near(preferred={5: term(app("db"))})), cluster)

    assert found == ({"a1": 10, "a2": 10, "b1": 5, "none": 0}, {"a1": 100, "a2": 100, "b1": 50, "none": 0})


def test_preferred_anti_affinity_subtracts_its_weight() -> None:
    cluster = two_zones(running("1", "a1", "db"))

    found = raw_and_normalized(PLUGIN, new(apart(preferred={5: term(app("db"), HOST)})), cluster)

    assert found == ({"a1": -5, "a2": 0, "b1": 0, "none": 0}, {"a1": 0, "a2": 100, "b1": 100, "none": 100})


def test_existing_pods_add_their_preferences_and_a_weight_for_their_required_affinity() -> None:
    cluster = two_zones(
        running("1", "a1", "db", affinity=near(preferred={7: term(app("web"), HOST)})),
        running("2", "a2", "db", affinity=apart(preferred={3: term(app("web"), HOST)})),
        running("3", "b1", "db", affinity=near(term(app("web"), HOST))),
        running("4", "none", "db", affinity=apart(term(app("web"), HOST))),
    )

    def raw(plugin: InterPodAffinity) -> dict[str, int]:
        found = raw_and_normalized(plugin, new(), cluster)
        assert found is not None
        return found[0]

    assert raw(PLUGIN) == {"a1": 7, "a2": -3, "b1": 1, "none": 0}
    assert raw(InterPodAffinity(50))["b1"] == 50
    assert raw(InterPodAffinity(0))["b1"] == 0


def test_scores_are_truncated() -> None:
    """100 · 1 / 3 = 33.3."""
    cluster = two_zones(
        *(running(f"{node}-{n}", node, "db") for node, count in (("a1", 3), ("a2", 1)) for n in range(count))
    )

    found = scores(PLUGIN, new(near(preferred={1: term(app("db"), HOST)})), cluster)

    assert found == {"a1": 100, "a2": 33, "b1": 0, "none": 0}


def test_equal_scores_are_0() -> None:
    cluster = two_zones(running("1", "a1", "db"))

    assert scores(PLUGIN, new(near(preferred={1: term(app("db"))})), cluster, "a1", "a2") == {"a1": 0, "a2": 0}


def test_a_pod_that_no_term_is_about_is_skipped() -> None:
    cluster = two_zones(
        running("1", "none", "db"), running("2", "a1", "db", affinity=near(preferred={1: term(app("db"))}))
    )

    assert scores(PLUGIN, new(), cluster) is None
    assert scores(PLUGIN, new(near(preferred={1: term(app("none"))})), cluster) is None


def test_a_term_whose_pods_are_on_nodes_without_the_label_is_no_term() -> None:
    cluster = two_zones(running("1", "none", "db"))

    assert scores(PLUGIN, new(near(preferred={1: term(app("db"))})), cluster) is None


def test_preferences_of_existing_pods_can_be_ignored_for_pods_without_any() -> None:
    plugin = InterPodAffinity(ignore_preferred_terms_of_existing_pods=True)
    cluster = two_zones(running("1", "a1", "db", affinity=near(preferred={7: term(app("web"), HOST)})))

    assert scores(plugin, new(), cluster) is None
    assert scores(plugin, new(near(term(app("web")))), cluster) is None
    own = near(preferred={1: term(app("db"), RACK)})
    assert scores(plugin, new(own), cluster) == {"a1": 100, "a2": 0, "b1": 0, "none": 0}


# Laws

LABELS = {"default": {"team": "blue"}}
"""Of namespaces; shop is not known."""


def the_cluster(nodes: Sequence[Node], others: Sequence[PodInfo] = ()) -> ClusterSnapshot:
    cluster = a_cluster(*nodes, pods=others)
    cluster.put_namespace(namespace("default", **LABELS["default"]))
    return cluster


def about(term: AffinityTerm, name: str, *, own: bool) -> bool:
    """Whether a term is about a namespace; `own`: of the new pod."""
    if name in term.namespaces:
        return True
    if own and term.namespace_selector is not None and selects(term.namespace_selector, {}):
        return True
    if own and name not in LABELS:
        return False
    return term.namespace_selector is not None and selects(term.namespace_selector, LABELS.get(name, {}))


def matches(term: AffinityTerm, pod: PodInfo, *, own: bool) -> bool:
    return about(term, pod.namespace, own=own) and selects(term.selector, pod.labels)


def near_each_other(term: AffinityTerm, one: Node, other: Node) -> bool:
    value = one.metadata.labels.get(term.topology_key)
    return value is not None and value == other.metadata.labels.get(term.topology_key)


def expected(pod: PodInfo, nodes: Sequence[Node], others: Sequence[PodInfo]) -> dict[str, tuple[Code, str]]:
    """Compares every node with the node of every pod."""
    by_name = {node.metadata.name: node for node in nodes}
    placed = [(other, by_name[other.pod.spec.node_name]) for other in others]
    wanted = [
        (other, place)
        for other, place in placed
        if all(matches(each, other, own=True) for each in pod.required_affinity)
    ]
    in_domains = [
        other
        for other, place in wanted
        if any(each.topology_key in place.metadata.labels for each in pod.required_affinity)
    ]
    first = not in_domains and all(matches(each, pod, own=True) for each in pod.required_affinity)
    found = {}
    for node in nodes:
        if not all(
            (first and each.topology_key in node.metadata.labels)
            or any(near_each_other(each, node, place) for _, place in wanted)
            for each in pod.required_affinity
        ):
            found[node.metadata.name] = WITHOUT
        elif any(
            matches(each, other, own=True) and near_each_other(each, node, place)
            for each in pod.required_anti_affinity
            for other, place in placed
        ):
            found[node.metadata.name] = AGAINST
        elif any(
            matches(each, pod, own=False) and near_each_other(each, node, place)
            for other, place in placed
            for each in other.required_anti_affinity
        ):
            found[node.metadata.name] = EXISTING
    return found


def expected_scores(pod: PodInfo, nodes: Sequence[Node], others: Sequence[PodInfo]) -> dict[str, int]:
    by_name = {node.metadata.name: node for node in nodes}
    total = dict.fromkeys(by_name, 0)
    for other in others:
        terms = [(each, each.weight) for each in pod.preferred if matches(each, other, own=True)]
        terms += [(each, each.weight) for each in other.preferred if matches(each, pod, own=False)]
        terms += [(each, 1) for each in other.required_affinity if matches(each, pod, own=False)]
        for each, weight in terms:
            for node in nodes:
                if near_each_other(each, node, by_name[other.pod.spec.node_name]):
                    total[node.metadata.name] += weight
    return total


@given(nodes, many_pods(), pods())
def test_the_filter_is_as_if_pods_were_compared_one_by_one(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo
) -> None:
    assert refused(PLUGIN, pod, the_cluster(nodes, others)) == expected(pod, nodes, others)


@given(nodes, many_pods(), pods())
def test_scores_are_as_if_pods_were_compared_one_by_one(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo
) -> None:
    found = raw_and_normalized(PLUGIN, pod, the_cluster(nodes, others))

    assert (dict.fromkeys(NODES, 0) if found is None else found[0]) == expected_scores(pod, nodes, others)


@given(nodes, many_pods(), pods(), pods("other", "node-2"))
def test_a_pod_that_is_added_or_removed_counts_as_in_a_new_snapshot(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo, other: PodInfo
) -> None:
    cluster = the_cluster(nodes, others)
    state = prepared(PLUGIN, pod, cluster)
    if PLUGIN.name in state.skipped_filters:
        return
    before = refused(PLUGIN, pod, cluster, state)
    changed, changed_state, row = cluster.clone(), state.clone(), row_of(cluster, "node-2")

    changed.add_pod(other, row)
    PLUGIN.add_pod(changed_state, pod, other, row, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == refused(PLUGIN, pod, the_cluster(nodes, [*others, other]))

    changed.remove_pod(other, row)
    PLUGIN.remove_pod(changed_state, pod, other, row, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == before
    assert refused(PLUGIN, pod, cluster, state) == before

    for each in others:
        place = row_of(cluster, each.pod.spec.node_name)
        changed.remove_pod(each, place)
        PLUGIN.remove_pod(changed_state, pod, each, place, changed)
    assert refused(PLUGIN, pod, changed, changed_state) == refused(PLUGIN, pod, the_cluster(nodes))


def row_of(cluster: ClusterSnapshot, name: str) -> int:
    row = cluster.row(name)
    assert row is not None
    return row


@given(nodes, many_pods(), pods(), st.permutations(range(len(NODES))))
def test_results_do_not_depend_on_the_order_of_nodes(
    nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo, order: Sequence[int]
) -> None:
    cluster = the_cluster(nodes, others)
    reordered = the_cluster([nodes[place] for place in order], others)

    assert refused(PLUGIN, pod, cluster) == refused(PLUGIN, pod, reordered)
    assert scores(PLUGIN, pod, cluster, *NODES) == scores(PLUGIN, pod, reordered, *NODES)


@given(nodes, many_pods(), pods(affinity=affinities))
def test_scores_are_within_0_and_100(nodes: Sequence[Node], others: list[PodInfo], pod: PodInfo) -> None:
    found = scores(PLUGIN, pod, the_cluster(nodes, others))

    assert found is None or all(0 <= score <= 100 for score in found.values())
