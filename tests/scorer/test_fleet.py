"""The last word of every node, and what is known from it."""

import numpy as np
import pytest
from builders import NOW, a_node_utilization, a_placed_pod, a_placement, a_window, a_workload, a_workload_utilization

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.demand import WATER_LEVEL
from equipoise.scorer.state.node_table import Fleet


@pytest.fixture
def fleet() -> Fleet:
    return Fleet(LoadSettings(), WATER_LEVEL)


def cpu_of(fleet: Fleet, node: str, now: float = NOW) -> list[float]:
    load: list[float] = fleet.loads([node], fleet.rows([node]), now).load[0, :, 0].tolist()
    return load


def test_a_node_is_known_once_both_halves_were_heard(fleet: Fleet) -> None:
    """Usage without placement cannot be corrected, placement without usage says nothing: either alone is unknown."""
    fleet.utilization(a_node_utilization("node-a", 3.0), NOW)
    alone = fleet.fresh_count(NOW)
    fleet.placement(a_placement("node-a"), NOW)
    fleet.placement(a_placement("node-b"), NOW)

    assert (alone, fleet.fresh_count(NOW)) == (0, 1)
    assert cpu_of(fleet, "node-a") == [0.3] * 4
    assert np.isnan(cpu_of(fleet, "node-b")).all()
    assert fleet.why_unknown("node-b", NOW) == "no utilization was heard of it"


def test_a_node_never_heard_of_is_unknown(fleet: Fleet) -> None:
    """Asking about it is no error, even before anything was heard at all."""
    assert np.isnan(cpu_of(fleet, "nowhere")).all()
    fleet.utilization(a_node_utilization("node-a", 3.0), NOW)
    fleet.placement(a_placement("node-a"), NOW)

    assert np.isnan(cpu_of(fleet, "nowhere")).all()


def test_older_messages_are_dropped(fleet: Fleet) -> None:
    """By epoch, then sequence; the same once more changes nothing."""
    fleet.placement(a_placement("node-a", epoch=2, sequence=5), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0, epoch=2, sequence=5), NOW)

    assert not fleet.utilization(a_node_utilization("node-a", 9.0, epoch=2, sequence=4), NOW)
    assert not fleet.utilization(a_node_utilization("node-a", 9.0, epoch=1, sequence=9), NOW)
    assert fleet.placement(a_placement("node-a", epoch=1, sequence=9), NOW) is None
    assert fleet.utilization(a_node_utilization("node-a", 3.0, epoch=2, sequence=5), NOW)
    assert fleet.utilization(a_node_utilization("node-a", 4.0, epoch=3, sequence=1), NOW)
    assert cpu_of(fleet, "node-a") == [0.4] * 4


def test_a_collector_that_began_earlier_is_heard_after_a_silence(fleet: Fleet) -> None:
    """A node that goes over to another collector must not stay unknown for ever."""
    fleet.placement(a_placement("node-a"), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0, epoch=9), NOW)

    later = NOW + 200
    assert fleet.utilization(a_node_utilization("node-a", 5.0, epoch=2, sampled_at=later, queried_at=later), later)
    assert cpu_of(fleet, "node-a", later) == [0.5] * 4


def test_a_new_machine_under_an_old_name_starts_afresh(fleet: Fleet) -> None:
    """Its order starts anew, and usage of the old machine is not the new one's."""
    fleet.placement(a_placement("node-a", epoch=9), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0, epoch=9), NOW)
    fleet.placement(a_placement("node-a", uid="second", epoch=1), NOW)

    assert np.isnan(cpu_of(fleet, "node-a")).all()
    assert "another machine" in fleet.why_unknown("node-a", NOW)

    fleet.utilization(a_node_utilization("node-a", 1.0, uid="second", epoch=1), NOW)

    assert cpu_of(fleet, "node-a") == [0.1] * 4


def test_removed_nodes_do_not_fill_the_memory(fleet: Fleet) -> None:
    """They are remembered for as long as a late message could bring them back with a load."""
    late = a_placement("node-a")
    fleet.placement(late, NOW)
    fleet.placement(a_placement("node-a", epoch=2, removed=True), NOW)
    fleet.forget(NOW + 180)
    assert fleet.placement(late, NOW + 180) is None

    fleet.forget(NOW + 181)
    assert fleet.placement(late, NOW + 181) is not None


def test_a_removed_node_is_forgotten_and_stays_so(fleet: Fleet) -> None:
    """Late messages of a removed node do not bring it back, and its row is used for another."""
    for node in ("node-a", "node-b"):
        fleet.placement(a_placement(node, epoch=2), NOW)
        fleet.utilization(a_node_utilization(node, 3.0), NOW)
    fleet.placement(a_placement("node-a", epoch=2, sequence=2, removed=True), NOW)
    fleet.placement(a_placement("node-a", epoch=2, sequence=1), NOW)

    assert not fleet.utilization(a_node_utilization("node-a", 3.0), NOW)
    assert (len(fleet), fleet.fresh_count(NOW)) == (1, 1)
    assert np.isnan(cpu_of(fleet, "node-a")).all()


def test_a_node_is_unknown_when_its_newest_sample_is_too_old(fleet: Fleet) -> None:
    """After 180 s nothing of it counts, not even the day's window that would live longer."""
    fleet.placement(a_placement("node-a"), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0), NOW)

    assert fleet.fresh_count(NOW + 180) == 1
    assert np.isnan(cpu_of(fleet, "node-a", NOW + 181)).all()
    assert "181.0 s old" in fleet.why_unknown("node-a", NOW + 181)


def test_each_window_has_its_own_age(fleet: Fleet) -> None:
    """A short window that is not refreshed drops out while the node lives on."""
    windows = {"5m": a_window(1.0, sampled_at=NOW - 170), "1d": a_window(2.0, sampled_at=NOW - 4_000)}
    fleet.placement(a_placement("node-a"), NOW)
    fleet.utilization(a_node_utilization("node-a", windows=windows), NOW)

    assert cpu_of(fleet, "node-a", NOW + 10)[0] == pytest.approx(0.1)
    assert np.isnan(cpu_of(fleet, "node-a", NOW + 11)[0])
    assert cpu_of(fleet, "node-a", NOW + 11)[3] == pytest.approx(0.2)


def test_samples_from_the_future_are_unknown(fleet: Fleet) -> None:
    """A sample more than a few seconds ahead of us is of another clock."""
    fleet.placement(a_placement("node-a"), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0, sampled_at=NOW + 60), NOW)

    assert np.isnan(cpu_of(fleet, "node-a")).all()


def test_pods_are_new_once(fleet: Fleet) -> None:
    """A placement tells which pods it newly holds."""
    first, second = a_placed_pod("web-1"), a_placed_pod("web-2")
    fleet.placement(a_placement("node-a", [first]), NOW)

    assert fleet.placement(a_placement("node-a", [first, second], sequence=2), NOW) == [second]
    assert fleet.placement(a_placement("node-a", [first, second], sequence=3), NOW) == []


def test_a_placement_corrects_the_load_at_once(fleet: Fleet) -> None:
    """A pod counts from the moment its placement is heard, before any new sample."""
    fleet.placement(a_placement("node-a"), NOW)
    fleet.utilization(a_node_utilization("node-a", 3.0), NOW)
    fleet.placement(a_placement("node-a", [a_placed_pod(placed_at=NOW, running_since=None)], sequence=2), NOW)

    assert cpu_of(fleet, "node-a") == pytest.approx([0.35] * 4)


def test_many_nodes_come_and_go(fleet: Fleet) -> None:
    """Rows grow and are used again without mixing nodes up."""
    for number in range(300):
        fleet.placement(a_placement(f"n{number}"), NOW)
        fleet.utilization(a_node_utilization(f"n{number}", number / 100), NOW)
    for number in range(0, 300, 2):
        fleet.placement(a_placement(f"n{number}", sequence=2, removed=True), NOW)
    for number in range(300, 400):
        fleet.placement(a_placement(f"n{number}"), NOW)
        fleet.utilization(a_node_utilization(f"n{number}", number / 100), NOW)

    assert fleet.fresh_count(NOW) == 250
    assert fleet.capacity < 600
    assert cpu_of(fleet, "n399")[0] == pytest.approx(0.399)
    assert cpu_of(fleet, "n51")[0] == pytest.approx(0.051)


def test_stale_workloads_are_forgotten(fleet: Fleet) -> None:
    """Memory does not grow with every workload that ever was."""
    fleet.workload(a_workload_utilization())
    fleet.forget(NOW + 100)
    kept = fleet.usage_of(a_workload(), NOW + 100)
    fleet.forget(NOW + 90_000)

    assert kept is not None
    assert fleet.usage_of(a_workload(), NOW) is None


def test_the_level_of_a_large_fleet_is_a_moment_old(fleet: Fleet) -> None:
    """It is worked out anew when more than a fiftieth of the nodes have changed, or after a second."""
    names = [f"node-{number}" for number in range(100)]
    for name in names:
        fleet.placement(a_placement(name), NOW)
        fleet.utilization(a_node_utilization(name, 2.0), NOW)

    def mean(now: float) -> float:
        return round(float(fleet.snapshot(now).mean[0, 0]), 3)

    def heat(count: int, sequence: int) -> None:
        for name in names[:count]:
            fleet.utilization(a_node_utilization(name, 4.0, sequence=sequence), NOW)

    at_first = mean(NOW)
    heat(2, 2)
    few = mean(NOW + 0.9)
    later = mean(NOW + 1.0)
    heat(3, 3)
    many = mean(NOW + 1.1)

    assert (at_first, few, later, many) == (0.2, 0.2, 0.204, 0.206)
