"""Further resources: their settings, and the amounts that travel beside cpu and memory."""

import msgspec
import pytest
from builders import GIB, NOW

from equipoise.contracts.configuration.conflicts import configuration_conflicts
from equipoise.contracts.configuration.further_resources import range_selectors
from equipoise.contracts.configuration.settings import FurtherResource, FurtherThresholds, LoadSettings, Thresholds
from equipoise.contracts.load.correction import PodLifetime, corrected, load_of, plus, total_of
from equipoise.contracts.load.further_load import with_fresh_resources
from equipoise.contracts.messages.utilization import NodeUtilization, ResourceStatus
from equipoise.contracts.messages.values.resources import Resources

SENT = "sum by (node) (rate(sent_bytes_total[$window]))"


@pytest.mark.parametrize(
    ("promql", "selectors"),
    [
        (SENT, ("sent_bytes_total",)),
        ('rate(sent{device!~"lo|veth.*", job="a}b[c"}[$window])', ('sent{device!~"lo|veth.*", job="a}b[c"}',)),
        ("rate(sent[$window]) + rate(received[$window])", ("sent", "received")),
        ("rate(sent[$window]) + rate(sent[$window])", ("sent",)),
        ('avg_over_time({__name__="used"}[$window])', ('{__name__="used"}',)),
        ("avg_over_time((used / size)[$window:1m])", ()),
        ('label_replace(used, "a", "[$window]", "b", "used[$window]")', ()),
        ("used", ()),
        ('rate(sent {device="eth0"} [$window])', ('sent{device="eth0"}',)),
        ('rate(sent{device="eth0[$window])', ()),
    ],
)
def test_the_series_to_which_the_window_is_applied_are_found(promql: str, selectors: tuple[str, ...]) -> None:
    """Their raw samples have an age. Text in quotes is no PromQL."""
    assert selectors == range_selectors(promql)


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"node": "used"}, r"node must apply \$window to a series"),
        ({"pod": "used"}, r"pod must apply \$window to a series"),
        ({"capacity": 0}, "capacity must be above 0"),
        ({"capacity": float("nan")}, "capacity must be above 0"),
        ({"capacity": "max_over_time(size[$window])"}, "capacity must be a number or PromQL without"),
        ({"capacity": " "}, "capacity must be a number or PromQL"),
        ({"capacity": "100"}, "capacity must be a number without quotes, or PromQL: '100'"),
        ({"capacity": "1.25e+8 "}, "capacity must be a number without quotes"),
        ({"capacity": "10Gi"}, "capacity must be a number without quotes"),
        ({"capacity": "80%"}, "capacity must be a number without quotes"),
        ({"capacity": ".nan"}, "capacity must be a number without quotes"),
        ({"node": "rate(sent[$window] offset 1h)"}, "node must be about now, without offset and @"),
        ({"pod": 'rate(sent{a="]"}[$window]@ 1700000000)'}, "pod must be about now, without offset and @"),
        ({"node_label": "a-b"}, "nodeLabel 'a-b' is no name of a label"),
    ],
)
def test_a_resource_that_cannot_be_measured_is_refused(fields: dict[str, object], text: str) -> None:
    """The message states the setting and an example."""
    with pytest.raises(ValueError, match=text):
        msgspec.structs.replace(FurtherResource(node=SENT, capacity=1e9), **fields).__post_init__()


@pytest.mark.parametrize("promql", ["max by (node) (size)", "size offset 1h", "2 * n", "inf_total", "e9"])
def test_a_capacity_in_promql_is_no_number(promql: str) -> None:
    """Names may begin like numbers do, and a size that changes rarely may be an old one."""
    assert promql == FurtherResource(node='rate(sent{a="[$window] offset 1h"}[$window])', capacity=promql).capacity


@pytest.mark.parametrize("name", ["cpu", "memory", "pods", "a b", "1gpu", "", "x" * 33])
def test_a_name_that_is_taken_or_no_name_is_refused(name: str) -> None:
    """The names become keys of thresholds and columns of tables."""
    with pytest.raises(ValueError, match="resources"):
        LoadSettings(resources={name: FurtherResource(node=SENT, capacity=1e9)})


def test_more_resources_than_are_allowed_are_refused() -> None:
    """Each costs queries in every window."""
    with pytest.raises(ValueError, match="at most 16 further resources, not 17"):
        LoadSettings(resources={f"r{number}": FurtherResource(node=SENT, capacity=1) for number in range(17)})


def test_a_load_is_known_of_the_resources_whose_usage_and_capacity_are_known() -> None:
    """Unknown is absent, and never 0."""
    base = Resources(cpu=10, memory=64 * GIB, further={"network": 1e9, "gpu": 0.0})
    usage = Resources(cpu=5, further={"network": 5e8, "gpu": 1.0, "disk": 1.0})
    assert {"network": 0.5} == load_of(usage, base).further
    assert None is load_of(Resources(cpu=5), base).further


def test_further_resources_are_added_and_subtracted_like_cpu_and_memory() -> None:
    """Sums are never below 0; what is unknown on the left remains unknown."""
    left, right = Resources(cpu=1, further={"network": 3.0}), Resources(cpu=1, further={"network": 5.0, "gpu": 1.0})
    assert {"network": 8.0} == plus(left, right).further
    assert {"network": 0.0} == plus(left, right, -1.0).further
    assert None is plus(Resources(cpu=1), right).further
    assert {"network": 8.0, "gpu": 1.0} == total_of([left, right]).further


def test_a_window_is_corrected_for_pods_that_arrived_and_left() -> None:
    """A pod that ran in half of the window adds half of its usage; one that left in the middle subtracts half."""
    arrived = PodLifetime(placed_at=NOW - 150, running_since=NOW - 150, usage=Resources(further={"network": 10.0}))
    left = PodLifetime(
        placed_at=0.0, running_since=0.0, gone_at=NOW - 150, usage=Resources(cpu=1, further={"network": 4.0})
    )
    usage = corrected(
        Resources(cpu=3, further={"network": 20.0, "disk": 7.0}),
        [arrived, left],
        sampled_at=NOW,
        length=300.0,
        load=LoadSettings(),
    )
    assert {"network": 23.0, "disk": 7.0} == usage.further
    assert 2.5 == usage.cpu


def test_a_resource_has_an_age_of_its_own() -> None:
    """An exporter of GPUs may have ended while the node is still measured."""
    statuses = {"network": ResourceStatus(sampled_at=NOW - 10), "gpu": ResourceStatus(sampled_at=NOW - 300)}
    utilization = NodeUtilization(
        node="a", uid="a", base=Resources(), sampled_at=NOW, queried_at=NOW, windows={}, resources=statuses, epoch=1,
        sequence=1,
    )  # fmt: skip
    usage = Resources(cpu=1, further={"network": 1.0, "gpu": 1.0, "disk": 1.0})
    assert {"network": 1.0} == with_fresh_resources(usage, utilization, NOW, 120.0).further


def test_thresholds_of_a_resource_are_apart() -> None:
    """What one move fills, the next one must not empty."""
    assert (50.0, 10.0) == (FurtherThresholds(high=70).idle, FurtherThresholds(high=70, low=10).idle)
    with pytest.raises(ValueError, match=r"low \(66\) must be at least 5 points below high \(70\)"):
        FurtherThresholds(high=70, low=66)


def test_a_threshold_of_a_resource_that_is_not_measured_is_a_conflict() -> None:
    """It would never be reached, and every node would be no target."""
    thresholds = Thresholds(resources={"netwrok": FurtherThresholds(high=70)})
    document = {"load": {"resources": {"network": {"node": SENT, "capacity": 1}}}}
    assert configuration_conflicts(document, thresholds) == [
        "thresholds.resources.netwrok: load.resources measures no netwrok (but network): add it there, or remove the "
        "threshold"
    ]
