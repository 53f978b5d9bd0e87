"""The computations of bench.pressure."""

import math

import pytest
from bench.pressure.correlation import rank_correlation, ranks
from bench.pressure.machine import Counters, measured
from bench.pressure.neighbours import drawn_states
from bench.pressure.rules import RULES, SERVER, moved_pods


def test_equal_values_have_their_mean_rank() -> None:
    assert [1.0, 2.5, 2.5, 4.0] == ranks([1.0, 3.0, 3.0, 9.0])


def test_a_rank_correlation_does_not_depend_on_distances() -> None:
    assert rank_correlation([1, 2, 3], [1, 10, 1_000]) == pytest.approx(1.0)
    assert rank_correlation([1, 2, 3], [3, 2, 1]) == pytest.approx(-1.0)
    assert math.isnan(rank_correlation([1, 1, 1], [1, 2, 3]))


def test_the_same_seed_draws_the_same_states() -> None:
    assert drawn_states(22, 2, 1) == drawn_states(22, 2, 1) != drawn_states(22, 2, 2)


def test_the_rules_move_neighbours_and_not_the_server() -> None:
    zero = {"cpu": 0.0, "memory": 0.0, "io": 0.0}
    pods = {SERVER: 0.2, "equal-0": 0.6, "equal-1": 0.6}

    def counters(at: float, waiting: float) -> Counters:
        return Counters(
            at=at,
            busy=1.6 * at,
            waiting=zero | {"cpu": waiting * at},
            cpu={pod: used * at for pod, used in pods.items()},
            pods_waiting=dict.fromkeys(pods, zero),
            periods=dict.fromkeys(pods, (0.0, 0.0)),
            disk=dict.fromkeys(pods, 0.0),
        )

    kinds = {"equal-0": "equal", "equal-1": "equal"}
    calm, waiting = (measured(counters(0.0, share), counters(10.0, share), 2) for share in (0.1, 0.5))
    moved = {rule.name: (moved_pods(rule, calm, kinds, 2), moved_pods(rule, waiting, kinds, 2)) for rule in RULES}  # type: ignore[arg-type]

    assert calm.utilization == pytest.approx(0.8)
    assert (["equal-0"], ["equal-0"]) == moved["load"]
    assert ([], ["equal-0"]) == moved["load with requirePressure, or pressure"]
