"""The gains in the table against their definition."""

import numpy as np
from builders import a_workload
from descheduler.cluster_states import a_pod, pod_info
from hypothesis import given, settings
from hypothesis import strategies as st

from equipoise.contracts.numeric import Array
from equipoise.descheduler.decisions.cluster_node import MovablePod
from equipoise.descheduler.state.day_gain_table import DayGainTable

SLOTS = np.array([0.4, 0.35, 0.25])
RESOURCES = np.array([1.0, 0.3])
NODES = 4


def a_row(number: int, memory: float = 0.0) -> MovablePod:
    info = pod_info(f"{number}", {"cpu": 0.0, "memory": memory})
    return a_pod(f"{number}", workload=a_workload(name=f"app-{number}"), info=info)


def unevenness(used: Array, base: Array) -> float:
    """The sum of squared distances, as defined."""
    mean = used.sum(axis=0) / base.sum(axis=0)[:, np.newaxis]
    distance = used / base[:, :, np.newaxis] - mean
    total: float = np.einsum("nrs,s,r->", distance**2, SLOTS, RESOURCES)
    return total


def a_table(
    used: Array, base: Array, days: Array, locations: list[int], room: float = np.inf, **requests: float
) -> DayGainTable:
    table = DayGainTable(used, used, base, np.full((len(base), 3), room), slots=SLOTS, resources=RESOURCES)
    pods = [a_row(number, requests.get(f"pod{number}", 0.0)) for number in range(len(days))]
    table.add(pods, locations, days, days, np.ones(len(base), dtype=np.bool_))
    return table


@st.composite
def clusters(draw: st.DrawFn) -> tuple[Array, Array, Array, list[int]]:
    """Usage, bases, usage of the pods and their nodes."""
    amounts = st.floats(0.0, 4.0)
    base = np.array([[draw(st.floats(8, 32)), draw(st.floats(8, 32))] for _ in range(NODES)])
    days = np.array([[[draw(amounts) for _ in SLOTS] for _ in RESOURCES] for _ in range(6)])
    locations = [draw(st.integers(0, NODES - 1)) for _ in days]
    used = np.array([[[draw(amounts) for _ in SLOTS] for _ in RESOURCES] for _ in range(NODES)])
    for location, day in zip(locations, days, strict=True):
        used[location] += day
    return used, base, days, locations


@settings(max_examples=40, deadline=None)
@given(cluster=clusters())
def test_a_gain_is_the_reduction_of_the_sum(cluster: tuple[Array, Array, Array, list[int]]) -> None:
    """Of the best single move and the best pairs, also after other moves."""
    used, base, days, locations = cluster
    table = a_table(used, base, days, locations)
    for _ in range(3):
        rows = np.arange(len(days))
        single = table.best_single(rows)
        for chain in table.best_pairs(rows, most=10, min_gain=1e-9):
            before, after = table.used.copy(), table.used.copy()
            for pod, target in ((chain.first, chain.elsewhere), (chain.second, chain.target)):
                after[table.location[pod]] -= days[pod]
                after[target] += days[pod]
            assert np.isclose(unevenness(before, base) - unevenness(after, base), chain.gain)
        if single is None:
            return
        before = table.used.copy()
        table.move(single.pod, single.target)
        assert np.isclose(unevenness(before, base) - unevenness(table.used, base), single.gain)


def test_a_pod_that_fits_nowhere_is_no_single_move() -> None:
    """It moves only as the second of a pair, whose first makes room."""
    day = np.ones((2, 3))
    used = np.stack([6 * day, 1 * day, 0.5 * day])
    base = np.full((3, 2), 10.0)
    days = np.stack([5 * day, 1 * day])
    table = DayGainTable(
        used,
        used,
        base,
        np.array([[9.0, 0.0, 9.0], [9.0, 3.0, 9.0], [9.0, 2.0, 9.0]]),
        slots=SLOTS,
        resources=RESOURCES,
    )
    table.add([a_row(0, memory=5.0), a_row(1, memory=2.0)], [0, 1], days, days, np.ones(3, dtype=np.bool_))

    assert table.best_single(np.array([0])) is None
    (chain,) = table.best_pairs(np.array([0]), most=10, min_gain=0.0)
    assert (chain.first, chain.elsewhere, chain.second, chain.target) == (1, 2, 0, 1)


def test_a_node_without_a_forecast_is_no_target_and_does_not_change_the_mean() -> None:
    """Unknown is not idle."""
    day = np.ones((2, 3))
    used = np.stack([6 * day, np.full((2, 3), np.nan), 2 * day])
    table = a_table(used, np.full((3, 2), 10.0), np.stack([1 * day]), [0])
    single = table.best_single(np.array([0]))

    assert single is not None
    assert single.target == 2
    assert np.allclose(table.mean, 0.4)
