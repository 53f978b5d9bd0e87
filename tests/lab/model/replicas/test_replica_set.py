"""Which pods a ReplicaSet deletes."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from equipoise.lab.model.replicas.replica_set import RankedPod, pods_to_delete

NOW = 1_800_000_000.0
DAY = 86_400.0


def a_pod(uid: str, **fields: Any) -> RankedPod:
    """A pod that is alone on its node and has been ready for a day."""
    defaults: dict[str, Any] = {"node": ord(uid[0]), "ready_since": NOW - DAY, "created_at": NOW - DAY}
    return RankedPod(uid=uid, **(defaults | fields))


def order(*pods: RankedPod) -> str:
    """The UIDs in the order in which the pods are deleted."""
    return "".join(pods_to_delete(pods, len(pods), NOW))


PENDING: dict[str, Any] = {"ready_since": None}

FIRST: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "without a node": (PENDING | {"node": -1}, PENDING),
    "not ready": (PENDING, {}),
    "a lower cost": ({"deletion_cost": -1}, {}),
    "ready later, by orders of magnitude": ({"ready_since": NOW - 60}, {}),
    "more restarts": ({"restarts": 1}, {}),
    "created later": ({"created_at": NOW - 60}, {}),
    "a cost, also of a pod that has been ready for longer": ({"deletion_cost": -1}, {"ready_since": NOW - 60}),
    "not ready, whatever the cost": (PENDING, {"deletion_cost": -9_999}),
}


@pytest.mark.parametrize("case", FIRST)
def test_a_pod_is_deleted_first_that_is(case: str) -> None:
    """Whatever the order in which they are given, and their UIDs."""
    first, other = FIRST[case]

    assert "ba" == order(a_pod("a", **other), a_pod("b", **first))
    assert "ab" == order(a_pod("b", **other), a_pod("a", **first))


def test_pods_on_nodes_with_more_pods_of_the_workload_are_deleted_first() -> None:
    """Before the time counts. The numbers are those before the first deletion, so that both may go."""
    pods = [a_pod("a", ready_since=NOW - 60), a_pod("b", node=1), a_pod("c", node=1)]

    assert {"b", "c"} == set(pods_to_delete(pods, 2, NOW))


def test_of_pods_that_are_about_equally_old_the_uid_decides() -> None:
    """Ages between two powers of two, in nanoseconds, are equal."""
    assert "ab" == order(a_pod("b", ready_since=NOW - 1.0 * DAY), a_pod("a", ready_since=NOW - 1.1 * DAY))


def test_none_is_deleted_if_there_are_not_too_many() -> None:
    assert [] == pods_to_delete([a_pod("a")], -1, NOW)


@given(st.permutations("abcdef"), st.integers(0, 6))
def test_the_order_of_the_pods_does_not_matter(uids: list[str], count: int) -> None:
    """Each has another cost."""
    pods = [a_pod(uid, deletion_cost=ord(uid)) for uid in uids]

    assert list("abcdef"[:count]) == pods_to_delete(pods, count, NOW)
