"""Membership Leases of the replicas."""

from datetime import UTC, datetime, timedelta

import msgspec
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.replicas import LABELS, lease_for, live_members, released
from equipoise.contracts.kubernetes.objects.cluster import Lease, LeaseSpec
from equipoise.contracts.kubernetes.objects.metadata import ObjectMeta

NOW_TIME = datetime.fromtimestamp(NOW, UTC)


def a_lease(number: int, holder: str, age: float | None = 0.0) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=f"equipoise-annotator-{number}", namespace="ours", resource_version=str(number + 1)),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=30,
            renew_time=None if age is None else NOW_TIME - timedelta(seconds=age),
        ),
    )


LEASES = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.none() | st.floats(-60, 600)), max_size=5).map(
    lambda rows: [a_lease(number, holder, age) for number, (holder, age) in enumerate(rows)]
)


def test_a_replica_that_renewed_within_the_lease_duration_is_alive() -> None:
    """Leases that expired, are free, or were never renewed count for no replica."""
    leases = [a_lease(0, "a", 30), a_lease(1, "b", 30.5), a_lease(2, ""), a_lease(3, "c", None)]
    assert live_members(leases, NOW_TIME) == {"a"}


def test_the_first_replica_creates_the_first_lease() -> None:
    """With the labels that the other replicas select."""
    lease = lease_for("a", [], "ours", NOW_TIME, 30)
    assert (lease.metadata.name, lease.metadata.namespace) == ("equipoise-annotator-0", "ours")
    assert lease.metadata.labels == LABELS
    assert not lease.metadata.resource_version


@given(LEASES)
def test_a_replica_that_takes_a_lease_is_alive_and_takes_none_from_a_live_replica(leases: list[Lease]) -> None:
    """Its own again, else a free one, else one with a new name."""
    taken = lease_for("a", leases, "ours", NOW_TIME, 30)
    before = {lease.metadata.name: lease for lease in leases}
    others = live_members(leases, NOW_TIME) - {"a"}
    assert live_members([taken], NOW_TIME) == {"a"}
    assert live_members([*({**before, taken.metadata.name: taken}).values()], NOW_TIME) == others | {"a"}
    assert bool(taken.metadata.resource_version) == (taken.metadata.name in before)


@given(LEASES)
def test_no_lease_is_created_while_one_is_free(leases: list[Lease]) -> None:
    """There are never more Leases than there were replicas at the same time."""
    free = any(lease.spec.holder_identity not in live_members(leases, NOW_TIME) for lease in leases)
    taken = lease_for("new", leases, "ours", NOW_TIME, 30)
    if free:
        assert taken.metadata.name in {lease.metadata.name for lease in leases}


def test_a_new_holder_increases_the_lease_transitions() -> None:
    """A renewal keeps the acquire time, a new holder sets it."""
    first = lease_for("a", [a_lease(0, "")], "ours", NOW_TIME, 30)
    assert (first.spec.lease_transitions, first.spec.acquire_time) == (1, NOW_TIME)
    later = NOW_TIME + timedelta(seconds=8)
    renewed = lease_for("a", [first], "ours", later, 30)
    assert renewed.spec == msgspec.structs.replace(first.spec, renew_time=later)


def test_a_released_lease_is_free_at_once() -> None:
    """No replica has to wait until it expires."""
    assert live_members([released(a_lease(0, "a"))], NOW_TIME) == frozenset()


def test_a_lease_of_the_time_of_a_clock_that_was_ahead_is_free() -> None:
    """Its replica would renew it if it still ran; otherwise its objects would not be written until then."""
    lease = a_lease(0, "a", -31_536_000)
    assert live_members([lease], NOW_TIME) == frozenset()
    assert lease_for("b", [lease], "ours", NOW_TIME, 30).metadata.name == lease.metadata.name
