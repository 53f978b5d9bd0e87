"""Scores of kube-scheduler's plugins; cases of kube-scheduler itself are in tests/peers."""

import numpy as np

from equipoise.contracts.kubernetes.objects import Toleration
from equipoise.lab.model.stock.plugins import (
    FitScore,
    affinity_scores,
    avoided_taints,
    balanced_allocation,
    spread_scores,
)
from equipoise.lab.model.trace import TraceTaint


def test_resources_that_a_node_does_not_have_are_ignored() -> None:
    """The first node has no memory. The second has less CPU than is requested."""
    allocatable, requested = np.array([[4_000, 4_000], [0, 8_000]]), np.array([[1_000, 9_000], [500, 4_000]])
    requests = np.array([1_000, 2_000])

    balanced = balanced_allocation(allocatable, requested, requests)

    assert balanced is not None
    assert [75, 50 + (50 + 87 - 75) // 2] == balanced.tolist()
    assert [75, 25] == FitScore().score(allocatable, requested).tolist()


def test_nodes_with_fewer_siblings_have_higher_spread_scores() -> None:
    """By hand: 3 candidates with 0, 1 and 4 siblings have raw scores 2, round(ln 5 + 2) = 4, round(4 ln 5 + 2) = 8."""
    assert [100, 75, 25] == spread_scores(np.array([0, 1, 4])).tolist()


def test_tolerations_that_compare_numbers_apply_to_avoided_taints() -> None:
    taints = [[TraceTaint(key="sla", value=sla, effect="PreferNoSchedule")] for sla in ("900", "990")]
    tolerations = [Toleration(key="sla", operator="Gt", value="950")]

    assert [1, 0] == avoided_taints(taints, tolerations).tolist()


def test_the_weights_of_matched_affinity_terms_are_scaled_to_100() -> None:
    """By the highest sum of any candidate, rounded down; without a match every candidate has 0."""
    assert [100, 50, 33, 0] == affinity_scores(np.array([150, 75, 50, 0])).tolist()
    assert [0, 0] == affinity_scores(np.array([0, 0])).tolist()
