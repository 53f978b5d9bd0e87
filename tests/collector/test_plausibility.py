"""Readings that cannot be true beside each other."""

from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.plausibility import plausible
from equipoise.collector.decisions.sample_validation import Reading


def readings(**cpu: float | None) -> dict[str, Reading]:
    return {
        node: Reading(mean=mean, sampled_at=9.0, why="" if mean is not None else "cpu: no sample")
        for node, mean in cpu.items()
    }


def known(found: dict[str, Reading]) -> dict[str, float | None]:
    return {node: reading.mean for node, reading in found.items()}


def test_a_counter_that_stands_still_while_memory_is_in_use_is_frozen() -> None:
    """Both of that node are unknown, with the time of the sample; a machine that uses nothing at all is idle."""
    found = plausible({"cpu": readings(a=0.0, b=0.0, c=1.0), "memory": readings(a=5.0, b=0.0, c=5.0)}, set())
    assert known(found["cpu"]) == {"a": None, "b": 0.0, "c": 1.0}
    assert known(found["memory"]) == {"a": None, "b": 0.0, "c": 5.0}
    assert [found[resource]["a"].reason for resource in ("cpu", "memory")] == ["frozen", "frozen"]
    assert found["cpu"]["a"].sampled_at == 9.0


def test_half_of_the_busy_nodes_at_zero_are_not_believed() -> None:
    """Nor is the 0 of an empty node that came through the same pipe."""
    cpu = readings(a=0.0, b=0.0, c=1.0, d=2.0, empty=0.0)
    found = plausible({"cpu": cpu}, {"a", "b", "c", "d"})["cpu"]
    assert known(found) == {"a": None, "b": None, "c": 1.0, "d": 2.0, "empty": None}
    assert found["a"].reason == "zeros"
    assert found["a"].why == "cpu: 2 of 4 nodes with pods read exactly 0"


def test_fewer_than_half_and_a_single_one_are_believed() -> None:
    """So are nodes without pods, however many."""
    few = readings(a=0.0, b=0.0, c=1.0, d=2.0, e=3.0)
    assert plausible({"cpu": few}, set("abcde"))["cpu"] == few
    alone = readings(a=0.0)
    assert plausible({"cpu": alone}, {"a"})["cpu"] == alone
    assert plausible({"cpu": few}, {"c", "d", "e"})["cpu"] == few


MEANS = st.none() | st.sampled_from([0.0, 1.0, 2.5])


@given(cpu=st.lists(MEANS, max_size=6), memory=st.lists(MEANS, max_size=6), busy=st.sets(st.integers(0, 6)))
def test_nothing_is_made_up(cpu: list[float | None], memory: list[float | None], busy: set[int]) -> None:
    """A reading stays as it is or becomes unknown with a reason."""
    given_ = {
        "cpu": readings(**{f"n{number}": mean for number, mean in enumerate(cpu)}),
        "memory": readings(**{f"n{number}": mean for number, mean in enumerate(memory)}),
    }
    for resource, found in plausible(given_, {f"n{number}" for number in busy}).items():  # type: ignore[arg-type]
        assert found.keys() == given_[resource].keys()
        for node, reading in found.items():
            assert reading == given_[resource][node] or (reading.mean is None and reading.reason and reading.why)
