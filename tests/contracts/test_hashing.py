"""Which replica writes an object, and when it is refreshed."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.hashing import owner, phase, request_interval

MEMBERS = st.sets(st.text(min_size=1, max_size=12), min_size=1, max_size=8)
KEYS = st.lists(st.text(max_size=20), min_size=1, max_size=50)


@given(st.text(), MEMBERS)
def test_every_object_has_exactly_one_owner(key: str, members: set[str]) -> None:
    """Every replica computes the same owner, in whatever order it knows the members."""
    chosen = owner(key, members)
    assert chosen in members
    assert owner(key, sorted(members, reverse=True)) == chosen


def test_without_members_an_object_has_no_owner() -> None:
    """A replica whose Lease may have expired owns nothing."""
    assert owner("node/a", frozenset()) is None


@given(KEYS, MEMBERS, st.text(min_size=1, max_size=12))
def test_a_new_member_only_takes_objects_over(keys: list[str], members: set[str], new: str) -> None:
    """No object moves between the other members."""
    for key in keys:
        assert owner(key, members | {new}) in (owner(key, members), new)


@given(KEYS, MEMBERS)
def test_a_lost_member_only_moves_its_own_objects(keys: list[str], members: set[str]) -> None:
    """The others keep their objects."""
    gone = min(members)
    for key in keys:
        if owner(key, members) != gone:
            assert owner(key, members - {gone}) == owner(key, members)


def test_shares_are_about_equal() -> None:
    """Three replicas get a third each, to a few percent."""
    members = {"annotator-1", "annotator-2", "annotator-3"}
    counts = Counter(owner(f"node/node-{number}", members) for number in range(6_000))
    assert all(1_850 < count < 2_150 for count in counts.values())


@given(st.text())
def test_a_phase_is_a_share_of_the_period(key: str) -> None:
    """It is always the same for an object."""
    assert 0 <= phase(key) < 1
    assert phase(key) == phase(key)


@given(st.floats(0.1, 1_000), st.integers(0, 20))
def test_all_replicas_together_keep_the_rate(rate: float, members: int) -> None:
    """The rates of all replicas add up to the configured one."""
    assert max(1, members) / request_interval(rate, members) <= rate * 1.000001
