"""What `bench.scheduling.scheduling_cost` computes, and the objects that it creates."""

import json
import re

import jsonschema
import msgspec
import pytest
from bench.scheduling.scheduling_cost import LOADS, RATIOS
from bench.scheduling.scheduling_figures import (
    CpuSample,
    Histogram,
    Run,
    Window,
    cpu_per_pod,
    middle,
    read_histogram,
    round_ratios,
)
from bench.scheduling.scheduling_participants import (
    PARTICIPANTS,
    TRIMARAN,
    WORKLOADS,
    hints_of_all,
    owned_pod,
    watcher_metrics,
)

from equipoise.contracts.hints.definition import definition
from equipoise.contracts.hints.hints_object import HintsObject, workload_hints
from equipoise.contracts.kubernetes.objects.pod import Pod
from equipoise.contracts.kubernetes.owners import workload_from_pod
from equipoise.contracts.messages.placement import hint_key
from equipoise.testbed.binaries.build import MODULES

PAGE = """\
# TYPE scheduler_scheduling_algorithm_duration_seconds histogram
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.001"} 10
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.002"} 60
scheduler_scheduling_algorithm_duration_seconds_bucket{le="0.004"} 99
scheduler_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} 100
scheduler_scheduling_algorithm_duration_seconds_sum 0.25
scheduler_scheduling_algorithm_duration_seconds_count 100
scheduler_podgroup_scheduling_algorithm_duration_seconds_bucket{le="+Inf"} 7
"""
NODES = [f"node-{number:04}" for number in range(1_000)]


def test_figures_of_the_histogram_of_kube_scheduler() -> None:
    """Quantiles are interpolated in their bucket; the mean is exact."""
    histogram = read_histogram(PAGE)

    assert Histogram(bounds=(0.001, 0.002, 0.004, float("inf")), counts=(10, 60, 99, 100), total=0.25) == histogram
    assert histogram.quantile(0.05) == pytest.approx(0.0005)
    assert histogram.quantile(0.5) == pytest.approx(0.0018)
    assert histogram.quantile(0.99) == pytest.approx(0.004)
    assert histogram.quantile(0.999) == pytest.approx(0.004)
    assert histogram.mean() == pytest.approx(0.0025)


def test_a_page_without_the_histogram_is_an_error() -> None:
    """Instead of zero."""
    with pytest.raises(ValueError, match="it scheduled no pod"):
        read_histogram("go_goroutines 12\n")


def test_the_first_and_the_last_tenth_do_not_count() -> None:
    """Whatever the order of the bindings is."""
    window = middle([float(time) for time in reversed(range(20))])

    assert Window(start=2.0, end=17.0, pods=15) == window
    assert window.pods_per_second == pytest.approx(1.0)


def test_cpu_time_is_that_between_two_bindings() -> None:
    """Interpolated, of each process."""
    samples = [
        CpuSample(at=0.0, seconds={"kube-scheduler": 1.0, "extender": 0.0}),
        CpuSample(at=10.0, seconds={"kube-scheduler": 2.0, "extender": 0.0}),
        CpuSample(at=20.0, seconds={"kube-scheduler": 2.0, "extender": 4.0}),
    ]
    cpu = cpu_per_pod(samples, Window(start=5.0, end=15.0, pods=100))

    assert {"kube-scheduler": pytest.approx(5.0), "extender": pytest.approx(20.0)} == cpu


def test_ratios_are_of_the_same_round() -> None:
    """The ratio of the medians would be 1."""

    def run(p50: float) -> Run:
        return Run(p50=p50, p99=p50, mean=p50, pods_per_second=1.0, cpu={})

    pairs = ((1.0, 2.0), (20.0, 10.0), (30.0, 40.0))
    rounds = [{"hints": {"steady": run(one)}, "stock": {"steady": run(other)}} for one, other in pairs]

    assert [0.5, 2.0, 0.75] == round_ratios(rounds, "hints", "stock", "steady", "p50")


def test_every_ratio_is_of_participants_and_loads() -> None:
    """A ratio of an unknown participant would never be reported."""
    for ratio in RATIOS:
        assert {ratio.name, ratio.other} <= PARTICIPANTS.keys()
        assert ratio.load in LOADS
        assert ratio.figure in Run.__struct_fields__


def test_the_hints_are_valid_and_of_the_default_size() -> None:
    """30 preferred nodes of 7 grades, in three terms, and 25 to avoid."""
    document = json.loads(json.dumps(hints_of_all(NODES)))
    [version] = definition()["spec"]["versions"]
    jsonschema.validate(document, version["schema"]["openAPIV3Schema"])
    hints = workload_hints(msgspec.convert(document, HintsObject))

    assert len(hints) == WORKLOADS
    for hint in hints.values():
        assert [32, 16, 8] == [term.weight for term in hint.prefer]
        assert len({name for term in hint.prefer for name in term.hostnames}) == 30
        assert hint.avoid is not None
        assert set(NODES[-25:]) == set(hint.avoid.hostnames)


def test_every_pod_has_a_hint() -> None:
    """By the workload that Equipoise finds for it."""
    hints = hints_of_all(NODES)["workloads"]
    for number in range(max(count for count, _ in LOADS.values())):
        workload = workload_from_pod(msgspec.convert(owned_pod(number), Pod))

        assert workload is not None
        assert hint_key(workload) in hints


def test_load_watcher_serves_percent() -> None:
    """Of the last 15 minutes; TargetLoadPacking reads the metric of the type CPU and the operator AVG."""
    metrics = watcher_metrics({"node-0000": 0.25}, 1_000_000)

    assert (999_100, 1_000_000) == (metrics["window"]["start"], metrics["window"]["end"])
    [metric] = metrics["data"]["NodeMetricsMap"]["node-0000"]["metrics"]
    assert ("CPU", "AVG", 25.0) == (metric["type"], metric["operator"], metric["value"])


def test_the_version_of_trimaran_is_pinned() -> None:
    """With a checksum; no cluster needs it, so no other command builds it."""
    module = (TRIMARAN.source / "go.mod").read_text()
    pinned = re.search(r"^\s*sigs\.k8s\.io/scheduler-plugins v0\.(\d+\.\d+)$", module, re.MULTILINE)

    assert pinned is not None
    assert f"gitVersion=v1.{pinned[1]}" in TRIMARAN.link
    sums = (TRIMARAN.source / "go.sum").read_text()
    assert f"sigs.k8s.io/scheduler-plugins v0.{pinned[1]} h1:" in sums
    assert TRIMARAN not in MODULES
