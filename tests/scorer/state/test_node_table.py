"""The node table: rows from messages, candidate nodes, headroom."""

import msgspec
import numpy as np
import pytest
from builders import (
    GIB,
    NOW,
    a_batch_pod,
    a_node_utilization,
    a_placed_pod,
    a_placement,
    a_window,
    a_workload,
    a_workload_utilization,
)

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.kubernetes.objects.node import Taint
from equipoise.contracts.load.demand import WATER_LEVEL
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.headroom import fits, headroom
from equipoise.scorer.decisions.load_correction import sums_of_requests_and_limits
from equipoise.scorer.state.node_table import NodeTable
from equipoise.scorer.state.rows.row_arrays import RowArrays


@pytest.fixture
def table() -> NodeTable:
    return NodeTable(LoadSettings(), WATER_LEVEL)


def cpu_of(table: NodeTable, node: str, now: float = NOW) -> list[float]:
    load: list[float] = table.candidates([node], table.rows([node]), now).load[0, :, 0].tolist()
    return load


# messages


def test_a_node_is_known_when_utilization_and_placement_are_received(table: NodeTable) -> None:
    """Utilization without placement cannot be corrected, placement without utilization has no load."""
    table.on_utilization(a_node_utilization("node-a", 3.0), NOW)
    alone = table.fresh_count(NOW)
    table.on_placement(a_placement("node-a"), NOW)
    table.on_placement(a_placement("node-b"), NOW)

    assert (alone, table.fresh_count(NOW)) == (0, 1)
    assert cpu_of(table, "node-a") == [0.3] * 4
    assert np.isnan(cpu_of(table, "node-b")).all()
    assert table.why_unknown("node-b", NOW) == "no utilization was received for it"


def test_requests_are_a_share_of_the_base_in_the_order_of_the_loads(table: NodeTable) -> None:
    """Of a node whose pods request nothing they are 0, not unknown."""
    pods = [a_placed_pod("web-1", requests=Resources(cpu=4.0, memory=16 * GIB))]
    for node, placed in (("node-a", pods), ("node-b", [])):
        table.on_utilization(a_node_utilization(node, 3.0), NOW)
        table.on_placement(a_placement(node, placed), NOW)
    names, load = table.current_load(NOW)

    assert names == ["node-a", "node-b"]
    assert load[:, 0].tolist() == [0.3, 0.3]
    assert table.requested().tolist() == [[0.4, 0.25], [0.0, 0.0]]


def test_nodes_without_ordinary_pods_are_not_counted(table: NodeTable) -> None:
    """Their load cannot be leveled."""
    taint = Taint(key="node-role.kubernetes.io/control-plane", effect="NoSchedule")
    apart = {"plane": {"taints": [taint]}, "cordoned": {"cordoned": True}, "silent": {"ready": False}, "node-a": {}}
    for node, fields in apart.items():
        table.on_utilization(a_node_utilization(node, 3.0), NOW)
        table.on_placement(a_placement(node, **fields), NOW)

    assert ["node-a"] == table.current_load(NOW)[0]
    assert 1 == len(table.requested())


def test_a_node_without_messages_is_unknown(table: NodeTable) -> None:
    """Also in an empty table."""
    assert np.isnan(cpu_of(table, "nowhere")).all()
    table.on_utilization(a_node_utilization("node-a", 3.0), NOW)
    table.on_placement(a_placement("node-a"), NOW)

    assert np.isnan(cpu_of(table, "nowhere")).all()


def test_outdated_messages_are_dropped(table: NodeTable) -> None:
    """By epoch, then by sequence; the same message again changes nothing."""
    table.on_placement(a_placement("node-a", epoch=2, sequence=5), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0, epoch=2, sequence=5), NOW)

    assert not table.on_utilization(a_node_utilization("node-a", 9.0, epoch=2, sequence=4), NOW)
    assert not table.on_utilization(a_node_utilization("node-a", 9.0, epoch=1, sequence=9), NOW)
    assert table.on_placement(a_placement("node-a", epoch=1, sequence=9), NOW) is None
    assert table.on_utilization(a_node_utilization("node-a", 3.0, epoch=2, sequence=5), NOW)
    assert table.on_utilization(a_node_utilization("node-a", 4.0, epoch=3, sequence=1), NOW)
    assert cpu_of(table, "node-a") == [0.4] * 4


def test_a_lower_epoch_is_accepted_after_the_freshness_period(table: NodeTable) -> None:
    """A node that changes to a collector with a lower epoch must not stay unknown."""
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0, epoch=9), NOW)

    later = NOW + 200
    assert table.on_utilization(a_node_utilization("node-a", 5.0, epoch=2, sampled_at=later, queried_at=later), later)
    assert cpu_of(table, "node-a", later) == [0.5] * 4


def test_a_new_machine_with_the_same_name_starts_anew(table: NodeTable) -> None:
    """Its epochs are independent, and the usage of the old machine does not count for it."""
    table.on_placement(a_placement("node-a", epoch=9), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0, epoch=9), NOW)
    table.on_placement(a_placement("node-a", uid="second", epoch=1), NOW)

    assert np.isnan(cpu_of(table, "node-a")).all()
    assert "earlier machine" in table.why_unknown("node-a", NOW)

    table.on_utilization(a_node_utilization("node-a", 1.0, uid="second", epoch=1), NOW)

    assert cpu_of(table, "node-a") == [0.1] * 4


def test_the_removal_of_a_node_is_forgotten(table: NodeTable) -> None:
    """After the time in which a late message could bring the node back with a load."""
    late = a_placement("node-a")
    table.on_placement(late, NOW)
    table.on_placement(a_placement("node-a", epoch=2, removed=True), NOW)

    assert table.on_placement(late, NOW + 179) is None
    assert table.on_placement(late, NOW + 181) is not None


def test_late_messages_do_not_bring_a_removed_node_back(table: NodeTable) -> None:
    """Its row is reused for another node."""
    for node in ("node-a", "node-b"):
        table.on_placement(a_placement(node, epoch=2), NOW)
        table.on_utilization(a_node_utilization(node, 3.0), NOW)
    table.on_placement(a_placement("node-a", epoch=2, sequence=2, removed=True), NOW)
    table.on_placement(a_placement("node-a", epoch=2, sequence=1), NOW)

    assert not table.on_utilization(a_node_utilization("node-a", 3.0), NOW)
    assert (len(table), table.fresh_count(NOW)) == (1, 1)
    assert np.isnan(cpu_of(table, "node-a")).all()


def test_on_placement_returns_new_pods_once(table: NodeTable) -> None:
    """Only in the first message that contains them."""
    first, second = a_placed_pod("web-1"), a_placed_pod("web-2")
    table.on_placement(a_placement("node-a", [first]), NOW)

    assert table.on_placement(a_placement("node-a", [first, second], sequence=2), NOW) == [second]
    assert table.on_placement(a_placement("node-a", [first, second], sequence=3), NOW) == []


def test_a_placement_corrects_the_load_immediately(table: NodeTable) -> None:
    """A pod counts as soon as its placement is received, before a new sample."""
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0), NOW)
    table.on_placement(a_placement("node-a", [a_placed_pod(placed_at=NOW, running_since=None)], sequence=2), NOW)

    assert cpu_of(table, "node-a") == pytest.approx([0.35] * 4)


def test_rows_are_reused_for_new_nodes(table: NodeTable) -> None:
    """Without mixing nodes up."""
    for number in range(300):
        table.on_placement(a_placement(f"n{number}"), NOW)
        table.on_utilization(a_node_utilization(f"n{number}", number / 100), NOW)
    for number in range(0, 300, 2):
        table.on_placement(a_placement(f"n{number}", sequence=2, removed=True), NOW)
    for number in range(300, 400):
        table.on_placement(a_placement(f"n{number}"), NOW)
        table.on_utilization(a_node_utilization(f"n{number}", number / 100), NOW)

    assert table.fresh_count(NOW) == 250
    assert table.capacity < 600
    assert cpu_of(table, "n399")[0] == pytest.approx(0.399)
    assert cpu_of(table, "n51")[0] == pytest.approx(0.051)


def test_stale_workloads_are_pruned(table: NodeTable) -> None:
    """Memory does not grow with the number of workloads that ever existed."""
    table.on_workload(a_workload_utilization(), NOW)
    table.prune(NOW + 100)
    kept = table.workload_usage(a_workload(), NOW + 100)
    table.prune(NOW + 90_000)

    assert kept is not None
    assert table.workload_usage(a_workload(), NOW) is None


# freshness


@pytest.mark.parametrize("base", [Resources(cpu=0.0, memory=0.0), Resources()])
def test_a_node_without_allocatable_is_unknown_for_this_reason(table: NodeTable, base: Resources) -> None:
    """Its usage is no share of nothing, whatever the age of its samples."""
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(msgspec.structs.replace(a_node_utilization("node-a", 3.0), base=base), NOW)

    assert np.isnan(cpu_of(table, "node-a")).all()
    assert table.why_unknown("node-a", NOW) == "the node offers no cpu and no memory, or it is not known how much"
    assert "s old" in table.why_unknown("node-a", NOW + 200)


def test_a_node_is_unknown_when_its_newest_sample_is_too_old(table: NodeTable) -> None:
    """After 180 s no window counts, not even the day's, whose own lifetime is longer."""
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0), NOW)

    assert table.fresh_count(NOW + 180) == 1
    assert np.isnan(cpu_of(table, "node-a", NOW + 181)).all()
    assert "181.0 s old" in table.why_unknown("node-a", NOW + 181)


def test_each_window_has_its_own_age(table: NodeTable) -> None:
    """A short window that is not refreshed becomes unknown while the others are still known."""
    windows = {"5m": a_window(1.0, sampled_at=NOW - 170), "1d": a_window(2.0, sampled_at=NOW - 4_000)}
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(a_node_utilization("node-a", windows=windows), NOW)

    assert cpu_of(table, "node-a", NOW + 10)[0] == pytest.approx(0.1)
    assert np.isnan(cpu_of(table, "node-a", NOW + 11)[0])
    assert cpu_of(table, "node-a", NOW + 11)[3] == pytest.approx(0.2)


def test_samples_from_the_future_are_unknown(table: NodeTable) -> None:
    """A sample more than a few seconds ahead comes from another clock."""
    table.on_placement(a_placement("node-a"), NOW)
    table.on_utilization(a_node_utilization("node-a", 3.0, sampled_at=NOW + 60), NOW)

    assert np.isnan(cpu_of(table, "node-a")).all()


def test_the_load_of_a_large_cluster_is_cached(table: NodeTable) -> None:
    """It is computed again after a second, or when more than a fiftieth of the nodes have changed."""
    names = [f"node-{number}" for number in range(100)]
    for name in names:
        table.on_placement(a_placement(name), NOW)
        table.on_utilization(a_node_utilization(name, 2.0), NOW)

    def mean(now: float) -> float:
        return round(float(table.cluster_load(now).mean[0, 0]), 3)

    def double_load(count: int, sequence: int) -> None:
        for name in names[:count]:
            table.on_utilization(a_node_utilization(name, 4.0, sequence=sequence), NOW)

    at_first = mean(NOW)
    double_load(2, 2)
    few = mean(NOW + 0.9)
    later = mean(NOW + 1.0)
    double_load(3, 3)
    many = mean(NOW + 1.1)

    assert (at_first, few, later, many) == (0.2, 0.2, 0.204, 0.206)


# a negative reservation


def test_a_negative_reservation_changes_only_the_request_that_uses_it() -> None:
    """The node, its requests, its recent placements and the cluster's level lose the pod; the table keeps it."""
    table = NodeTable(LoadSettings(), WATER_LEVEL, placement_spans=(300.0,))
    pod = a_placed_pod(placed_at=NOW - 100, running_since=NOW - 100, requests=Resources(cpu=0.5, memory=GIB))
    for node, pods in (("node-a", [pod]), ("node-b", [])):
        table.on_placement(a_placement(node, pods), NOW)
        usage = {each.uid: Resources(cpu=1.0, memory=GIB) for each in pods}
        table.on_utilization(a_node_utilization(node, 3.0, pods=usage), NOW)
    names = ["node-b", "node-a", "nowhere"]
    rows = table.rows(names)

    before = table.candidates(names, rows, NOW, spans=(300.0,))
    without = table.without("node-a", pod, NOW)
    changed = table.candidates(names, rows, NOW, spans=(300.0,), without=without)
    after = table.candidates(names, rows, NOW, spans=(300.0,))

    # A third of the 5-minute mean and a ninth of the 15-minute mean is the pod; the rest was added, and is not now.
    assert changed.load[1, :2, 0] == pytest.approx([0.3 - 0.1 / 3, 0.3 - 0.1 / 9])
    assert changed.requests[1].tolist() == [0.0, 0.0]
    assert changed.recent_placements.tolist() == [[0.0], [0.0], [0.0]]
    assert changed.cluster.minimum[0, 0] == pytest.approx(0.3 - 0.1 / 3)
    assert changed.load[0].tolist() == before.load[0].tolist()
    assert after.load[:2].tolist() == before.load[:2].tolist()
    assert before.requests[1].tolist() == after.requests[1].tolist() == [0.5, GIB]
    assert before.cluster.minimum[0, 0] == after.cluster.minimum[0, 0] == pytest.approx(0.3)


def test_a_pod_on_a_node_of_unknown_load_has_no_negative_reservation(table: NodeTable) -> None:
    """There is no load to subtract it from."""
    pod = a_placed_pod()
    table.on_placement(a_placement("node-a", [pod]), NOW)

    assert table.without("node-a", pod, NOW) is None


# the rows


def row_arrays() -> RowArrays:
    """Two windows, one statistic; row 0 has a node."""
    table = RowArrays(windows=2, statistics=1)
    table.grow()
    table.load[0] = np.arange(8.0).reshape(2, 2, 2)
    table.base[0], table.since[0], table.until[0] = [4.0, 64.0], [10.0, 20.0], [30.0, 40.0]
    table.requests[0] = [1.0, 2.0]
    return table


def test_taken_rows_have_nodes_as_the_last_axis() -> None:
    """Each part in its own shape, in the order of the rows."""
    taken = row_arrays().take(np.array([1, 0]))

    assert taken["load"].shape == (2, 2, 2, 2)
    assert taken["load"][..., 1].tolist() == np.arange(8.0).reshape(2, 2, 2).tolist()
    assert taken["base"][:, 1].tolist() == [4.0, 64.0]
    assert row_arrays().take_times(np.array([1, 0]))["until"][:, 1].tolist() == [30.0, 40.0]


def test_row_minus_1_is_an_unknown_node_without_requests() -> None:
    """In a table with rows and in one without."""
    for table in (row_arrays(), RowArrays(windows=2, statistics=1)):
        taken = table.take(np.array([-1]))
        assert np.isnan(taken["load"]).all()
        assert np.isnan(taken["base"]).all()
        assert table.take_times(np.array([-1]))["since"].tolist() == [[np.inf], [np.inf]]
        assert taken["requests"].tolist() == [[0.0], [0.0]]


def test_taken_rows_are_a_copy() -> None:
    """A request may change them."""
    table = row_arrays()
    table.take(np.array([0]))["load"][:] = 9.0

    assert table.load[0, 0, 0, 1] == 1.0


def test_rows_are_kept_when_the_table_grows() -> None:
    """The new rows are empty."""
    table = row_arrays()
    added = table.grow()

    assert len(table) == 2 * len(added) == 128
    assert table.base[0].tolist() == [4.0, 64.0]
    assert np.isnan(table.base[added[0]]).all()


def test_a_cleared_row_is_empty() -> None:
    """Another node will use it."""
    table = row_arrays()
    table.clear(0)

    assert np.isnan(table.load[0]).all()
    assert table.until[0].tolist() == [-np.inf, -np.inf]


# headroom


def fit(placement: NodePlacement, cpu: float = 1.0, memory: float = GIB) -> bool:
    """On a node of 10 cores and 64 GiB by default."""
    left = headroom(placement, sums_of_requests_and_limits(placement)[0])
    return bool(fits(left[np.newaxis], np.array([[cpu, memory]]))[0, 0])


def test_a_pod_fits_if_its_requests_are_free() -> None:
    """Exactly the free amount fits, even if sums are rounded; slightly more does not."""
    ten = [a_placed_pod(f"web-{number}", requests=Resources(cpu=0.9, memory=GIB)) for number in range(10)]

    assert fit(a_placement(pods=ten), cpu=1.0)
    assert not fit(a_placement(pods=ten), cpu=1.01)
    assert not fit(a_placement(pods=ten), memory=55 * GIB)


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
def test_no_pod_fits_on_an_unschedulable_node(fields: dict[str, object]) -> None:
    """Not ready, cordoned, tainted, at its maximum number of pods, or of unknown size."""
    assert not fit(a_placement(**fields))


def test_a_pod_without_requests_fits_on_every_schedulable_node() -> None:
    """As in kube-scheduler: even if the requests of a resource exceed the allocatable."""
    full = a_placement(pods=[a_placed_pod(requests=Resources(cpu=11.0, memory=GIB))])

    assert fit(full, cpu=0.0, memory=0.0)
    assert not fit(full, cpu=0.1, memory=0.0)
    assert not fit(a_placement(cordoned=True), cpu=0.0, memory=0.0)
    assert fit(a_placement(taints=[Taint(key="spot", effect="PreferNoSchedule")]))


def test_the_load_of_the_cluster_includes_all_usage_of_batch_work(table: NodeTable) -> None:
    """Reports and thresholds are about the whole load; candidates have what counts for other pods."""
    job = a_batch_pod("job-1")
    table.on_placement(a_placement(pods=[job]), NOW)
    used = {job.uid: Resources(cpu=5.0, memory=GIB)}
    table.on_utilization(a_node_utilization(cpu=6.0, pods=used), NOW)

    assert 0.6 == pytest.approx(table.current_load(NOW)[1][0, 0])
    assert 0.2 == pytest.approx(table.candidates(["node-a"], table.rows(["node-a"]), NOW).load[0, 0, 0])
    table.on_placement(a_placement(pods=[], sequence=2), NOW)
    assert 0.6 == pytest.approx(table.current_load(NOW)[1][0, 0])
