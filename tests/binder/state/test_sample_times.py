"""How many nodes have a fresh sample."""

from builders import NOW
from hypothesis import given
from hypothesis import strategies as st

from equipoise.binder.state.sample_times import SampleTimes
from equipoise.contracts.load.correction import is_fresh

TIMES = st.one_of(st.none(), st.integers(-130, 15).map(lambda age: NOW + age), st.floats(NOW - 200, NOW + 100))


@given(st.lists(st.tuples(st.sampled_from(["node-a", "node-b", "node-c", "node-d"]), TIMES), max_size=12))
def test_the_fresh_samples_are_those_that_are_fresh_one_by_one(samples: list[tuple[str, float | None]]) -> None:
    times, latest = SampleTimes(), dict[str, float | None]()
    for node, sampled_at in samples:
        times.put(node, sampled_at)
        latest[node] = sampled_at

        for now in (NOW, NOW + 5.0):
            assert times.fresh(now, 120.0) == sum(at is not None and is_fresh(at, now, 120.0) for at in latest.values())
