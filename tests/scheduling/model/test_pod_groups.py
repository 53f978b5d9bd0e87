"""Groups of pods, and the index by which selectors find them."""

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scheduling.pods import a_pod
from scheduling.topology import apart, app, near, pods, selectors, term

from equipoise.contracts.kubernetes.labels import selects
from equipoise.contracts.kubernetes.objects.metadata import LabelSelector, SelectorRequirement
from equipoise.scheduling.model.pod_groups import SimilarPodsIndex, count_by_node
from equipoise.scheduling.model.pod_info import PodInfo

ROWS = 3


def counts(groups: SimilarPodsIndex, namespace: str, selector: LabelSelector | None) -> list[int]:
    return [int(count) for count in count_by_node(groups.selected(namespace, selector), ROWS)]


def expected(placed: Sequence[tuple[PodInfo, int]], namespace: str, selector: LabelSelector | None) -> list[int]:
    return [
        sum(place == row and pod.namespace == namespace and selects(selector, pod.labels) for pod, place in placed)
        for row in range(ROWS)
    ]


placements = st.lists(st.tuples(pods(), st.integers(0, ROWS - 1)), max_size=8)


@given(placements, placements, st.sampled_from(["default", "shop"]), selectors)
def test_a_selector_finds_the_pods_that_are_there_in_a_clone_too(
    first: list[tuple[PodInfo, int]], second: list[tuple[PodInfo, int]], namespace: str, selector: LabelSelector | None
) -> None:
    groups = SimilarPodsIndex()
    for pod, row in first:
        groups.add(pod, row)
    assert counts(groups, namespace, selector) == expected(first, namespace, selector)
    unchanged, clone = groups.clone(), groups.clone()
    for pod, row in second:
        clone.add(pod, row)
    for pod, row in first:
        clone.remove(pod, row)

    for pod, row in first:
        groups.add(pod, row)

    assert counts(groups, namespace, selector) == expected([*first, *first], namespace, selector)
    assert counts(unchanged, namespace, selector) == expected(first, namespace, selector)
    assert counts(clone, namespace, selector) == expected(second, namespace, selector)


@given(placements, pods())
def test_no_group_with_a_term_that_selects_the_pod_is_missed(placed: list[tuple[PodInfo, int]], pod: PodInfo) -> None:
    groups = SimilarPodsIndex()
    for other, row in placed:
        groups.add(other, row)

    found = {group.pod.group_key for group in groups.selecting(pod)}

    for other, _ in placed:
        if any(term.selects(pod.namespace, {}, pod.labels) for term in other.terms):
            assert other.group_key in found


def test_pods_that_are_added_after_others_were_counted_count() -> None:
    groups, web = SimilarPodsIndex(), a_pod(labels={"app": "web"})
    groups.add(web, 0)
    assert counts(groups, "default", app("web")) == [1, 0, 0]

    groups.add(web, 0)
    groups.add(web, 2)

    assert counts(groups, "default", app("web")) == [2, 0, 1]


def test_terms_are_found_by_the_label_that_distinguishes_them() -> None:
    """Of 50 workloads whose terms select their own pods by two labels, a pod meets one."""
    groups = SimilarPodsIndex()
    for number in range(50):
        labels = {"tier": "front", "app": f"app-{number}"}
        own = apart(term(LabelSelector(match_labels=labels)))
        groups.add(a_pod(f"pod-{number}", labels=labels, affinity=own), 0)

    found = groups.selecting(a_pod(labels={"tier": "front", "app": "app-7"}))

    # The first term was added when no label was more frequent.
    assert {group.pod.name for group in found} == {"pod-0", "pod-7"}


def test_terms_of_another_namespace_are_not_looked_at() -> None:
    groups = SimilarPodsIndex()
    groups.add(a_pod("1", namespace="shop", affinity=near(term(app("web")))), 0)

    assert groups.selecting(a_pod(labels={"app": "web"})) == []
    assert len(groups.selecting(a_pod(labels={"app": "web"}, namespace="shop"))) == 1


def test_groups_that_are_gone_are_forgotten() -> None:
    groups = SimilarPodsIndex()
    for number in range(1000):
        pod = a_pod(labels={"pod": str(number)})
        groups.add(pod, 0)
        groups.remove(pod, 0)

    assert len(groups._index) <= 101


def test_removing_a_pod_that_is_not_there_is_an_error() -> None:
    with pytest.raises(KeyError):
        SimilarPodsIndex().remove(a_pod(), 0)


@pytest.mark.parametrize(
    "selector",
    [
        LabelSelector(match_labels={"app": "web"}),
        LabelSelector(match_expressions=[SelectorRequirement(key="app", operator="In", values=["db", "web"])]),
        LabelSelector(match_expressions=[SelectorRequirement(key="app", operator="Exists")]),
        LabelSelector(),
    ],
)
def test_groups_that_are_added_later_are_selected_too(selector: LabelSelector) -> None:
    index = SimilarPodsIndex()
    assert not index.selected("default", selector)

    index.add(a_pod("one", labels={"app": "web"}), 0)
    clone = index.clone()
    assert len(index.selected("default", selector)) == 1
    clone.add(a_pod("two", labels={"app": "web", "tier": "x"}), 0)
    clone.add(a_pod("other", labels={"app": "web"}, namespace="shop"), 0)

    assert len(clone.selected("default", selector)) == 2
    assert len(index.selected("default", selector)) == 1
    index.remove(a_pod("one", labels={"app": "web"}), 0)
    assert not index.selected("default", selector)
