"""PodTopologySpread with the system's defaults: pods of one ReplicaSet or StatefulSet had better not share a node."""

import math

import numpy as np

from equipoise.lab.model.stock.resources import Ints

_MAX_SKEW = 3
"""Of the default constraint over host names."""


def spread_scores(counts: Ints) -> Ints:
    """0..100 per candidate, from how many of the pod's siblings each has."""
    weight = math.log(len(counts) + 2)
    most, least = int(counts.max()), int(counts.min())
    # by number of siblings: there are far fewer numbers than nodes
    crowd = [math.floor(count * weight + (_MAX_SKEW - 1) + 0.5) for count in range(most + 1)]
    points = [100 * (crowd[most] + crowd[least] - each) // crowd[most] for each in crowd]
    score: Ints = np.array(points).take(counts)
    return score
