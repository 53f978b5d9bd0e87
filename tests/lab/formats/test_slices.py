"""Slices of a trace."""

import random
from collections import Counter

import pytest

from equipoise.lab.formats import TraceError
from equipoise.lab.formats.draft import natural_order, sampled_nodes
from equipoise.lab.model.trace import (
    TraceNode,
)


def nodes_of(count: int, *, cpu_milli: int = 1_000) -> list[TraceNode]:
    return [TraceNode(name=f"node-{cpu_milli}-{index}", cpu_milli=cpu_milli, memory_mib=1) for index in range(count)]


def test_a_slice_is_sampled_from_the_occupied_nodes() -> None:
    """Half of them small, half large, with one random.Random(seed), so that others can reproduce it."""
    small, large = nodes_of(30), nodes_of(30, cpu_milli=2_000)
    occupied = [*small[:25], *large[5:]]
    nodes = small + large
    random.Random(9).shuffle(nodes)

    generator = random.Random(3)
    expected = {*generator.sample([node.name for node in small[:25]], 6)}
    expected |= {*generator.sample([node.name for node in large[5:]], 6)}
    actual = sampled_nodes(nodes, {node.name for node in occupied}, count=12, seed=3)

    assert expected == {node.name for node in actual}
    assert [node for node in nodes if node.name in expected] == [*actual]


def test_digits_in_names_are_ordered_as_numbers() -> None:
    """9 comes before 10."""
    names = ["machine_10", "machine_9", "machine_9b", "b-2", "b-02", "7"]

    assert ["7", "b-02", "b-2", "machine_9", "machine_9b", "machine_10"] == sorted(names, key=natural_order)


def test_a_slice_contains_more_nodes_of_one_size_if_the_other_has_too_few() -> None:
    nodes = nodes_of(3) + nodes_of(20, cpu_milli=2_000)

    chosen = sampled_nodes(nodes, {node.name for node in nodes}, count=10, seed=1)

    assert {1_000: 3, 2_000: 7} == Counter(node.cpu_milli for node in chosen)


@pytest.mark.parametrize("count", [None, 0, 5, 9])
def test_without_a_count_or_with_a_large_one_all_nodes_are_used(count: int | None) -> None:
    """Including nodes without pods."""
    nodes = nodes_of(5)

    assert tuple(nodes) == sampled_nodes(nodes, set(), count=count, seed=1)


@pytest.mark.parametrize("count", [-1, 4])
def test_the_error_for_an_impossible_slice_contains_the_maximum(count: int) -> None:
    """Nodes without pods are not sampled."""
    nodes = nodes_of(5)

    with pytest.raises(TraceError, match="only 3 of the 5 have pods; request at most 3"):
        sampled_nodes(nodes, {node.name for node in nodes[:3]}, count=count, seed=1)
