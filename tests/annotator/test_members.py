"""Seats: Leases that tell who is alive."""

from datetime import UTC, datetime, timedelta

import msgspec
from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.annotator.decisions.replicas import LABELS, live, released, seat_for
from equipoise.contracts.kubernetes.objects import Lease, LeaseSpec, ObjectMeta

MOMENT = datetime.fromtimestamp(NOW, UTC)


def a_seat(number: int, holder: str, age: float | None = 0.0) -> Lease:
    return Lease(
        metadata=ObjectMeta(name=f"equipoise-annotator-{number}", namespace="ours", resource_version=str(number + 1)),
        spec=LeaseSpec(
            holder_identity=holder,
            lease_duration_seconds=30,
            renew_time=None if age is None else MOMENT - timedelta(seconds=age),
        ),
    )


SEATS = st.lists(st.tuples(st.sampled_from(["", "a", "b", "c"]), st.none() | st.floats(-60, 600)), max_size=5).map(
    lambda rows: [a_seat(number, holder, age) for number, (holder, age) in enumerate(rows)]
)


def test_who_renewed_within_the_duration_is_alive() -> None:
    """Run out, free and never renewed seats count for nobody."""
    seats = [a_seat(0, "a", 30), a_seat(1, "b", 30.5), a_seat(2, ""), a_seat(3, "c", None)]
    assert live(seats, MOMENT) == {"a"}


def test_the_first_replica_makes_the_first_seat() -> None:
    """With the label by which the others find it."""
    seat = seat_for("a", [], "ours", MOMENT, 30)
    assert (seat.metadata.name, seat.metadata.namespace) == ("equipoise-annotator-0", "ours")
    assert seat.metadata.labels == LABELS
    assert not seat.metadata.resource_version


@given(SEATS)
def test_whoever_takes_a_seat_is_alive_and_drives_nobody_out(seats: list[Lease]) -> None:
    """Its own again, else a free one, else a new name: never one that another replica lives on."""
    taken = seat_for("a", seats, "ours", MOMENT, 30)
    before = {seat.metadata.name: seat for seat in seats}
    others = live(seats, MOMENT) - {"a"}
    assert live([taken], MOMENT) == {"a"}
    assert live([*({**before, taken.metadata.name: taken}).values()], MOMENT) == others | {"a"}
    assert bool(taken.metadata.resource_version) == (taken.metadata.name in before)


@given(SEATS)
def test_no_seat_is_made_while_one_is_free(seats: list[Lease]) -> None:
    """So Leases never outnumber the replicas there once were."""
    free = any(seat.spec.holder_identity not in live(seats, MOMENT) for seat in seats)
    taken = seat_for("new", seats, "ours", MOMENT, 30)
    if free:
        assert taken.metadata.name in {seat.metadata.name for seat in seats}


def test_a_seat_that_changes_hands_counts_it() -> None:
    """A renewal keeps the time it was taken, a change of hands does not."""
    mine = seat_for("a", [a_seat(0, "")], "ours", MOMENT, 30)
    assert (mine.spec.lease_transitions, mine.spec.acquire_time) == (1, MOMENT)
    later = MOMENT + timedelta(seconds=8)
    renewed = seat_for("a", [mine], "ours", later, 30)
    assert renewed.spec == msgspec.structs.replace(mine.spec, renew_time=later)


def test_a_released_seat_is_free_at_once() -> None:
    """Nobody has to wait for its end."""
    assert live([released(a_seat(0, "a"))], MOMENT) == frozenset()
