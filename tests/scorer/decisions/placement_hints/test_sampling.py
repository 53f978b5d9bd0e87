"""How many nodes kube-scheduler scores, and how many must be named for it."""

import random

import pytest

from equipoise.scheduling.scheduler import feasible_nodes_to_find
from equipoise.scorer.decisions.placement_hints.sampling import most_preferred, scored_nodes, targets_beside


@pytest.mark.parametrize("nodes", [0, 1, 50, 100])
def test_in_a_small_cluster_all_nodes_are_scored(nodes: int) -> None:
    """So the target is named alone."""
    assert (nodes, 0) == (scored_nodes(nodes), targets_beside(nodes))


@pytest.mark.parametrize("nodes", [101, 150, 300, 1_000, 5_000])
def test_one_of_the_named_nodes_is_scored(nodes: int) -> None:
    """Of 1,000 pods, hardly any finds none of the named nodes among those that kube-scheduler scores."""
    generator = random.Random(1)
    assert feasible_nodes_to_find(nodes) == scored_nodes(nodes)
    missed = 0
    for _ in range(1_000):
        first = generator.randrange(nodes)
        named = generator.sample(range(nodes), targets_beside(nodes))
        missed += all((node - first) % nodes >= scored_nodes(nodes) for node in named)

    assert missed <= 15


@pytest.mark.parametrize(
    ("most", "nodes", "expected"), [(30, 100, 30), (30, 5_000, 50), (5, 1_000, 10), (50, 15_000, 50)]
)
def test_as_many_nodes_are_preferred_as_are_needed_so_that_one_is_scored(most: int, nodes: int, expected: int) -> None:
    """No term has more than 50."""
    assert expected == most_preferred(most, nodes)
