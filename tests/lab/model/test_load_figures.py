"""Figures computed from hourly usage."""

import numpy as np
import pytest
from lab.traces import a_trace

from equipoise.lab.model.load_figures import cpu_loads, hourly_load, load_figures, placement_figures, spread

BASE = np.array([(8.0, 32.0), (16.0, 32.0)])


def test_hourly_load_is_the_usage_of_the_hour_divided_by_the_base() -> None:
    """Four of eight cores are 50 %, four of sixteen 25 %."""
    used = np.array([hour * np.array([(4.0, 8.0), (4.0, 16.0)]) * 3_600.0 for hour in range(3)])

    load = hourly_load(used, BASE)

    assert (2, 2, 2) == load.shape
    assert [[50.0, 50.0], [25.0, 25.0]] == load[:, :, 0].tolist()
    assert [[25.0, 25.0], [50.0, 50.0]] == load[:, :, 1].tolist()


def test_the_peak_is_the_hour_with_the_highest_usage_of_the_cluster() -> None:
    """In cores, not in percent: larger nodes count more."""
    cpu = np.array([[90.0, 40.0], [10.0, 50.0]])
    load = np.stack([cpu, np.zeros_like(cpu)], axis=2)

    figures = load_figures(load, BASE)

    assert 10.0 == figures["peak_spread"]
    assert 80.0 == figures["worst_spread"]
    assert 45.0 == figures["median_spread"]
    assert 5.0 == figures["peak_std"]
    assert (1.0, 0.0) == (figures["hours_above_80"], figures["hours_above_90"])


def test_cpu_loads_are_the_cpu_part_in_percent() -> None:
    load = np.stack([np.full((2, 3), 70.0), np.full((2, 3), 20.0)], axis=2)

    assert np.full((2, 3), 70.0).tolist() == cpu_loads(load).tolist()
    assert [0.0] * 3 == spread(load[:, :, 0]).tolist()


def test_the_given_placement_has_levels() -> None:
    """Two of eight cores are used on one node, none on the other; each pod requests one of 64 GiB."""
    trace = a_trace(nodes=2, replicas=(2,), placed=(0, 0))

    levels = placement_figures(trace)

    assert levels is not None
    assert pytest.approx(25.0) == levels["peak_spread"] == levels["median_spread"]
    assert pytest.approx(100 * 2 / 64, abs=0.1) == levels["memory_share"]


def test_a_trace_without_placements_has_no_levels() -> None:
    assert placement_figures(a_trace()) is None
