"""The points of a pod of a band."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from scorer.clusters import a_batch_demand, a_demand, evenly, node_loads

from equipoise.contracts.numeric import Array
from equipoise.scorer.decisions.arrays import BandRoom, Demands
from equipoise.scorer.decisions.band_points import band_points
from equipoise.scorer.decisions.policies.water_level import WaterLevel
from equipoise.scorer.decisions.ranking import points_of, points_of_pods

amounts = st.one_of(st.just(math.nan), st.floats(-1e9, 1e9), st.sampled_from([0.0, 1e-12]))


def room(*left: tuple[float, float]) -> BandRoom:
    """Of the band batch, on nodes of 10 cores and 100 bytes; of mid, 9 and 90 everywhere."""
    batch = np.array(left)
    mid = np.tile([9.0, 90.0], (len(left), 1))
    return BandRoom(left=np.stack([mid, batch], axis=1), capacity=np.tile([10.0, 100.0], (len(left), 1)))


def test_the_scarcer_resource_counts_as_a_share_of_the_node() -> None:
    """With the pod: of 10 cores 4 are left, of 100 bytes 20; then 4 and 60."""
    assert band_points(room((5.0, 30.0), (5.0, 70.0)), a_batch_demand(1.0, 10.0)).tolist() == [20.0, 40.0]


def test_less_than_nothing_left_is_0_points() -> None:
    """The pod requests one core, and half a core is left."""
    assert band_points(room((0.5, 90.0)), a_batch_demand(1.0, 10.0)).tolist() == [0.0]


@pytest.mark.parametrize("left", [(math.nan, 90.0), (9.0, math.nan)])
def test_an_unknown_amount_is_0_points(left: tuple[float, float]) -> None:
    """Unknown is not empty, but no pod goes there."""
    assert band_points(room(left), a_batch_demand(1.0, 10.0)).tolist() == [0.0]


def test_a_resource_that_is_not_requested_does_not_count() -> None:
    """A pod that requests cores only."""
    assert band_points(room((5.0, math.nan)), a_batch_demand(1.0, math.nan)).tolist() == [40.0]


@given(left=arrays(np.float64, (3, 2, 2), elements=amounts), cpu=st.floats(0, 1e9))
def test_points_lie_between_0_and_100(left: Array, cpu: float) -> None:
    """Whatever is left."""
    points = band_points(BandRoom(left=left, capacity=np.full((3, 2), 10.0)), a_batch_demand(cpu, 1.0))

    assert np.all((points >= 0.0) & (points <= 100.0))


def test_many_pods_have_the_points_of_each_alone() -> None:
    """The scores of kube-scheduler's requests and of hints agree; ordinary pods have those of the policy."""
    nodes = node_loads(evenly([10, 20]), bands=room((5.0, 30.0), (0.5, 70.0)))
    pods = [a_demand(5.0), a_batch_demand(1.0, 10.0), a_demand(50.0)]

    together = points_of_pods(WaterLevel(), nodes, Demands.of(pods))

    assert np.array_equal(together, [points_of(WaterLevel(), nodes, pod)[0] for pod in pods])
    assert together[1].tolist() == [20.0, 0.0]
