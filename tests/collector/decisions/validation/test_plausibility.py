"""Readings that contradict one another are unknown."""

from hypothesis import given
from hypothesis import strategies as st

from equipoise.collector.decisions.validation.nodes import NodeReading
from equipoise.collector.decisions.validation.plausibility import check_plausibility
from equipoise.collector.decisions.validation.usage import UnknownUsage

NO_SAMPLE = UnknownUsage("no sample", "cpu: no sample")


def readings(**cpu: float | None) -> dict[str, NodeReading]:
    return {
        node: NodeReading(mean=mean, sampled_at=9.0, unknown=NO_SAMPLE if mean is None else None)
        for node, mean in cpu.items()
    }


def known(found: dict[str, NodeReading]) -> dict[str, float | None]:
    return {node: reading.mean for node, reading in found.items()}


def test_a_constant_counter_while_memory_is_in_use_is_frozen() -> None:
    """Both resources of that node are unknown, with the sample time. A machine that uses nothing at all is idle."""
    found = check_plausibility({"cpu": readings(a=0.0, b=0.0, c=1.0), "memory": readings(a=5.0, b=0.0, c=5.0)}, set())
    assert known(found["cpu"]) == {"a": None, "b": 0.0, "c": 1.0}
    assert known(found["memory"]) == {"a": None, "b": 0.0, "c": 5.0}
    reasons = [found[resource]["a"].unknown for resource in ("cpu", "memory")]
    assert [unknown and unknown.reason for unknown in reasons] == ["frozen", "frozen"]
    assert found["cpu"]["a"].sampled_at == 9.0


def test_zeros_of_half_of_the_nodes_with_pods_are_unknown() -> None:
    """So is the 0 of an empty node."""
    cpu = readings(a=0.0, b=0.0, c=1.0, d=2.0, empty=0.0)
    found = check_plausibility({"cpu": cpu}, {"a", "b", "c", "d"})["cpu"]
    assert known(found) == {"a": None, "b": None, "c": 1.0, "d": 2.0, "empty": None}
    assert found["a"].unknown == ("zeros", "cpu: 2 of 4 nodes with pods read exactly 0")


def test_a_few_zeros_are_accepted() -> None:
    """And any number of nodes without pods."""
    few = readings(a=0.0, b=0.0, c=1.0, d=2.0, e=3.0)
    assert check_plausibility({"cpu": few}, set("abcde"))["cpu"] == few
    alone = readings(a=0.0)
    assert check_plausibility({"cpu": alone}, {"a"})["cpu"] == alone
    assert check_plausibility({"cpu": few}, {"c", "d", "e"})["cpu"] == few


MEANS = st.none() | st.sampled_from([0.0, 1.0, 2.5])


@given(cpu=st.lists(MEANS, max_size=6), memory=st.lists(MEANS, max_size=6), busy=st.sets(st.integers(0, 6)))
def test_a_reading_stays_or_becomes_unknown(
    cpu: list[float | None], memory: list[float | None], busy: set[int]
) -> None:
    """With a reason."""
    given_ = {
        "cpu": readings(**{f"n{number}": mean for number, mean in enumerate(cpu)}),
        "memory": readings(**{f"n{number}": mean for number, mean in enumerate(memory)}),
    }
    for resource, found in check_plausibility(given_, {f"n{number}" for number in busy}).items():  # type: ignore[arg-type]
        assert found.keys() == given_[resource].keys()
        for node, reading in found.items():
            assert reading == given_[resource][node] or (reading.mean is None and reading.unknown)
