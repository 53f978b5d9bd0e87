"""Which nodes could hold a pod, as far as placements tell."""

import numpy as np
import pytest
from builders import GIB, a_placed_pod, a_placement

from equipoise.contracts.messages.placement import NodePlacement, Taint
from equipoise.contracts.messages.resources import Resources
from equipoise.scorer.state.load_correction import requested_and_limited
from equipoise.scorer.state.room import fits, room_of


def fit(placement: NodePlacement, cpu: float = 1.0, memory: float = GIB) -> bool:
    """On a node of 10 cores and 64 GiB, if not said otherwise."""
    room = room_of(placement, requested_and_limited(placement)[0])
    return bool(fits(room[np.newaxis], np.array([cpu, memory]))[0])


def test_a_node_holds_what_its_pods_do_not_ask_for() -> None:
    """Exactly what is left fits, however the sums were rounded; a little more does not."""
    nine = [a_placed_pod(f"web-{number}", requests=Resources(cpu=0.9, memory=GIB)) for number in range(10)]

    assert fit(a_placement(pods=nine), cpu=1.0)
    assert not fit(a_placement(pods=nine), cpu=1.01)
    assert not fit(a_placement(pods=nine), memory=55 * GIB)


@pytest.mark.parametrize(
    "fields",
    [
        {"ready": False},
        {"cordoned": True},
        {"taints": [Taint(key="gpu", effect="NoSchedule")]},
        {"taints": [Taint(key="gpu", effect="NoExecute")]},
        {"pod_capacity": 0},
        {"allocatable": Resources(cpu=10.0)},
    ],
)
def test_a_closed_node_holds_nothing(fields: dict[str, object]) -> None:
    """Not ready, cordoned, tainted, full by number of pods, or of unknown size."""
    assert not fit(a_placement(**fields))


def test_a_pod_that_asks_for_nothing_fits_anywhere_open() -> None:
    """As kube-scheduler has it: even where requests have used a resource up, but not on a closed node."""
    full = a_placement(pods=[a_placed_pod(requests=Resources(cpu=11.0, memory=GIB))])

    assert fit(full, cpu=0.0, memory=0.0)
    assert not fit(full, cpu=0.1, memory=0.0)
    assert not fit(a_placement(cordoned=True), cpu=0.0, memory=0.0)
    assert fit(a_placement(taints=[Taint(key="spot", effect="PreferNoSchedule")]))
