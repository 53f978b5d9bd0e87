"""Exactly the nodes that are being emptied get the taint, and no other taint is changed."""

from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.taint_change import taint_change
from equipoise.contracts.kubernetes.nodes.consolidation_taint import consolidation_taint, is_consolidation
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta
from equipoise.contracts.kubernetes.objects.node import Node, NodeSpec, Taint
from equipoise.contracts.messages.consolidation import NodeBeingEmptied

OURS = consolidation_taint(NOW)
FOREIGN = Taint(key="dedicated", value="db", effect="NoSchedule")
EMPTIED = {"uid-a": NodeBeingEmptied(node="a", uid="uid-a", since=NOW, why="few pods")}


def a_node(*taints: Taint, uid: str = "uid-a") -> Node:
    return Node(metadata=ObjectMeta(name="a", uid=uid), spec=NodeSpec(taints=list(taints)))


def changed(node: Node, emptied: dict[str, NodeBeingEmptied]) -> tuple[Taint, bool] | None:
    change = taint_change(node, emptied)
    return None if change is None else (change.taint, change.present)


def test_a_node_that_is_being_emptied_gets_the_taint() -> None:
    assert changed(a_node(FOREIGN), EMPTIED) == (OURS, True)
    assert changed(a_node(FOREIGN, OURS), EMPTIED) is None


def test_the_taint_of_another_time_is_replaced() -> None:
    """The message states since when."""
    assert changed(a_node(consolidation_taint(NOW - 60)), EMPTIED) == (OURS, True)


def test_any_other_node_loses_the_taint() -> None:
    assert changed(a_node(OURS), {}) == (OURS, False)
    assert changed(a_node(), {}) is None


def test_a_new_node_of_the_same_name_is_not_the_one_that_is_being_emptied() -> None:
    assert changed(a_node(uid="another"), EMPTIED) is None
    assert changed(a_node(OURS, uid="another"), EMPTIED) == (OURS, False)


TAINTS = st.builds(
    Taint,
    key=st.sampled_from([OURS.key, "dedicated", "DeletionCandidateOfClusterAutoscaler", ""]),
    value=st.sampled_from([OURS.value, "", "x"]),
    effect=st.sampled_from(["PreferNoSchedule", "NoSchedule", "NoExecute", ""]),
)


@given(taints=st.lists(TAINTS), emptied=st.sampled_from([{}, EMPTIED]))
def test_only_the_taint_of_consolidation_is_changed(taints: list[Taint], emptied: dict[str, NodeBeingEmptied]) -> None:
    change = taint_change(a_node(*taints), emptied)

    assert change is None or is_consolidation(change.taint)
    assert change is None or change.present == bool(emptied)
