"""Anti-affinity rules of a trace, compared with counting pods one by one."""

from collections import Counter
from collections.abc import Sequence

from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.lab.model.anti_affinity import AntiAffinityIndex
from equipoise.lab.model.trace import AntiAffinity

rules = st.lists(
    st.builds(AntiAffinity, beside=st.integers(0, 3), limited=st.integers(0, 3), most=st.integers(0, 2)), max_size=8
)


def violations(pods: Sequence[tuple[int, int]], rules: Sequence[AntiAffinity]) -> int:
    """Number of pods above the limits of rules, counted one by one; pods are (workload, node)."""
    count = Counter(pods)
    return sum(
        max(0, count[rule.limited, node] - rule.most)
        for rule in rules
        for node in {node for _, node in pods}
        if count[rule.beside, node]
    )


@given(pods=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 8)), max_size=40), rules=rules)
@settings(max_examples=100, deadline=None)
def test_a_node_is_excluded_if_another_pod_would_violate_a_rule(
    pods: list[tuple[int, int]], rules: list[AntiAffinity]
) -> None:
    """Even if pods violate rules already. All violations are counted."""
    index = AntiAffinityIndex(rules, 9)
    for workload, node in pods:
        index.place(workload, node)

    def violates(rule: AntiAffinity, workload: int, node: int) -> bool:
        count = Counter(pods)
        limited = count[rule.limited, node] + (workload == rule.limited)
        return workload in (rule.beside, rule.limited) and (
            limited > rule.most and (workload == rule.beside or count[rule.beside, node] > 0)
        )

    for workload in range(4):
        excluded = index.excluded(workload)
        expected = [any(violates(rule, workload, node) for rule in rules) for node in range(9)]
        assert expected == ([False] * 9 if excluded is None else excluded.tolist())
    assert violations(pods, rules) == index.violations()


def test_a_rule_excludes_nodes_for_both_workloads() -> None:
    """At most one pod of workload 1 on a node with a pod of workload 0."""
    index = AntiAffinityIndex([AntiAffinity(beside=0, limited=1, most=1)], 3)
    for workload, node in ((0, 0), (1, 0), (1, 1), (1, 1), (1, 2)):
        index.place(workload, node)

    excluded = {workload: index.excluded(workload) for workload in (0, 1)}

    assert excluded[0] is not None
    assert excluded[1] is not None
    assert [False, True, False] == excluded[0].tolist()
    assert [True, False, False] == excluded[1].tolist()
