"""The expected usage of a pod."""

import math
from typing import Literal

import pytest
from builders import GIB, NOW, a_gone_pod, a_placed_pod, a_window, a_workload_utilization
from hypothesis import example, given
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.correction import known
from equipoise.contracts.load.demand import (
    DEFAULT,
    MEASURED_FIRST,
    TARGET_LOAD_PACKING,
    WATER_LEVEL,
    Estimate,
    EstimateSource,
    expected_usage,
    fresh_windows,
    pod_usage,
    requests_and_limits,
)
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WindowUsage
from equipoise.contracts.messages.values.resources import Resources

REQUESTS = Resources(cpu=0.5, memory=GIB)
LIMITS = Resources(cpu=2.0, memory=4 * GIB)


@pytest.mark.parametrize(
    ("chain", "measured", "cpu", "link"),
    [
        (WATER_LEVEL, True, 1.0, "measured"),
        (WATER_LEVEL, False, 2.0, "limit"),
        (MEASURED_FIRST, False, 0.5, "request"),
        (TARGET_LOAD_PACKING, True, 2.0, "limit"),
    ],
)
def test_the_first_known_source_is_used(
    chain: tuple[EstimateSource, ...], measured: bool, cpu: float, link: str
) -> None:
    """Each policy has its own order of estimate sources."""
    workload = a_workload_utilization() if measured else None

    usage, sources = expected_usage(requests=REQUESTS, limits=LIMITS, workload=workload, window="15m", chain=chain)

    assert (usage.cpu, sources["cpu"]) == (cpu, link)


KOORDINATOR = (Estimate(cpu=85.0, memory=70.0),)
OF_BATCH = Resources(cpu=4.0, memory=8 * GIB)
ORDINARY = Resources(cpu=1.0, memory=GIB)


@pytest.mark.parametrize("band", ["batch", "mid"])
@pytest.mark.parametrize(
    ("chain", "fields", "cpu", "memory"),
    [
        (KOORDINATOR, {"reclaimed_requests": OF_BATCH}, 3.4, 6012954214),
        (KOORDINATOR, {"reclaimed_requests": OF_BATCH, "reclaimed_limits": Resources(cpu=8.0)}, 6.8, 6012954214),
        (KOORDINATOR, {"reclaimed_limits": OF_BATCH}, 3.4, 6012954214),
        (KOORDINATOR, {"reclaimed_requests": Resources(cpu=4.0)}, 3.4, 0.7 * GIB),
        (KOORDINATOR, {"reclaimed_requests": OF_BATCH, "limits": Resources(cpu=16.0)}, 3.4, 6012954214),
        (WATER_LEVEL, {"reclaimed_requests": OF_BATCH}, 4.0, 8 * GIB),
        (WATER_LEVEL, {"reclaimed_requests": OF_BATCH, "reclaimed_limits": Resources(cpu=8.0)}, 8.0, 8 * GIB),
        (MEASURED_FIRST, {"reclaimed_requests": OF_BATCH}, 4.0, 8 * GIB),
        (TARGET_LOAD_PACKING, {"reclaimed_requests": OF_BATCH}, 6.0, 12 * GIB),
        (KOORDINATOR, {}, 0.85, 0.7 * GIB),
    ],
)
def test_the_amounts_that_a_pod_requests_of_its_band_are_expected(
    chain: tuple[EstimateSource, ...],
    band: Literal["mid", "batch"],
    fields: dict[str, Resources],
    cpu: float,
    memory: float,
) -> None:
    """In place of cpu and memory, resource by resource; of waiting, placed and departed pods alike."""
    placed = a_placed_pod(workload=None, requests=ORDINARY, priority_class=band, **fields)
    gone = a_gone_pod(workload=None, requests=ORDINARY, **fields)
    waiting = PodDemand(namespace="shop", name="x", uid="x", priority_class=band, **{"requests": ORDINARY, **fields})
    usage_of = pod_usage({}, load=LoadSettings(), now=NOW, chain=chain)
    requests, limits = requests_and_limits(waiting)
    expected, _ = expected_usage(requests=requests, limits=limits, workload=None, window="5m", chain=chain)

    for found in (expected, usage_of(placed, Resources()), usage_of(gone, Resources())):
        assert (found.cpu, found.memory) == (pytest.approx(cpu), pytest.approx(memory, abs=1))


def test_without_a_limit_one_and_a_half_requests_are_expected() -> None:
    """In TargetLoadPacking."""
    usage, sources = expected_usage(
        requests=REQUESTS, limits=Resources(), workload=None, window="15m", chain=TARGET_LOAD_PACKING
    )

    assert (usage.cpu, sources["cpu"]) == (0.75, "request×1.5")


def test_a_limit_of_zero_is_no_limit() -> None:
    """As in Kubernetes: the pod is not expected to use nothing."""
    usage, sources = expected_usage(
        requests=REQUESTS, limits=Resources(cpu=0.0), workload=None, window="15m", chain=WATER_LEVEL
    )

    assert (usage.cpu, sources["cpu"]) == (0.5, "request")


def test_each_resource_has_its_own_source() -> None:
    """Measured cpu is used even if memory is not measured."""
    workload = a_workload_utilization(memory=None)

    usage, sources = expected_usage(
        requests=REQUESTS, limits=LIMITS, workload=workload, window="15m", chain=WATER_LEVEL
    )

    assert sources == {"cpu": "measured", "memory": "limit"}
    assert usage == Resources(cpu=1.0, memory=4 * GIB)


def test_another_window_is_used_when_the_requested_one_is_unknown() -> None:
    """It is a better estimate than the limit."""
    workload = a_workload_utilization(windows={"5m": a_window(cpu=0.7), "1d": a_window(cpu=None)})

    usage, _ = expected_usage(requests=REQUESTS, limits=LIMITS, workload=workload, window="1d", chain=WATER_LEVEL)

    assert usage.cpu == 0.7


def test_outdated_windows_of_a_workload_are_ignored() -> None:
    """A workload without a usable window is unknown."""
    workload = a_workload_utilization()
    settings = LoadSettings()

    later = fresh_windows(workload, settings, NOW + 400)

    assert later is not None
    assert list(later.windows) == ["1d"]
    assert fresh_windows(workload, settings, NOW + 90_000) is None
    assert fresh_windows(None, settings, NOW) is None


@pytest.mark.parametrize(
    ("requests", "limits", "cpu"),
    [
        (Resources(cpu=2.0), Resources(), 3.0),
        (Resources(cpu=2.0), Resources(cpu=4.0), 4.0),
        (Resources(), Resources(cpu=0.0), 0.25),
        (Resources(cpu=1.5e308), Resources(), 1.5e308),
    ],
)
def test_an_estimate_is_a_percentage_of_limit_or_request(requests: Resources, limits: Resources, cpu: float) -> None:
    """150 % of the request, at most the limit, always finite. Without either it is small."""
    usage, sources = expected_usage(
        requests=requests, limits=limits, workload=None, window="5m", chain=(Estimate(cpu=150.0), "default")
    )

    assert usage.cpu == cpu
    assert str(sources["cpu"]) == "estimate"


@given(
    request=st.one_of(st.none(), st.floats()),
    limit=st.one_of(st.none(), st.floats()),
    measured=st.one_of(st.none(), st.floats()),
    chain=st.sampled_from(
        [WATER_LEVEL, TARGET_LOAD_PACKING, MEASURED_FIRST, ("measured", Estimate(cpu=300.0), "default")]
    ),
)
def test_the_expected_usage_is_always_known(
    request: float | None, limit: float | None, measured: float | None, chain: tuple[EstimateSource, ...]
) -> None:
    """It is finite for any input, and the default as the last resort."""
    usage, _ = expected_usage(
        requests=Resources(cpu=request),
        limits=Resources(cpu=limit),
        workload=a_workload_utilization(cpu=measured),
        window="15m",
        chain=chain,
    )

    assert usage.cpu is not None
    assert usage.cpu >= 0
    assert usage.cpu == DEFAULT.cpu or not math.isnan(usage.cpu)


ages = st.sampled_from([-10.0, 0.0, 100.0, 200.0, 10_000.0, 100_000.0])
usages = st.builds(Resources, cpu=st.none() | st.just(math.nan) | st.floats(0, 9), memory=st.none() | st.floats(0, 9))


@example(
    windows={"5m": (Resources(cpu=1.0, memory=1.0), 0.0)},
    measured=Resources(),
    requests=Resources(cpu=2.0, memory=2.0),
    chain=("request", "measured", "default"),
)
@example(
    windows={"5m": (Resources(cpu=1.0), 0.0), "1d": (Resources(memory=1.0), 0.0)},
    measured=Resources(),
    requests=Resources(),
    chain=MEASURED_FIRST,
)
@given(
    windows=st.dictionaries(st.sampled_from([each.name for each in LoadSettings().windows]), st.tuples(usages, ages)),
    measured=usages,
    requests=usages,
    chain=st.sampled_from([MEASURED_FIRST, WATER_LEVEL, TARGET_LOAD_PACKING, ("request", "measured", "default")]),
)
def test_a_pod_that_was_not_measured_is_expected_to_use_what_its_workload_does(
    windows: dict[str, tuple[Resources, float]],
    measured: Resources,
    requests: Resources,
    chain: tuple[EstimateSource, ...],
) -> None:
    """Per resource, by the first known source, without outdated windows."""
    load = LoadSettings()
    values = {name: WindowUsage(mean=mean, sampled_at=NOW - age) for name, (mean, age) in windows.items()}
    message = a_workload_utilization(windows=values)
    pod = a_placed_pod(workload=message.workload, requests=requests)
    expected, _ = expected_usage(
        requests=pod.requests,
        limits=pod.limits,
        workload=fresh_windows(message, load, NOW),
        window=load.shortest.name,
        chain=chain,
    )

    found = pod_usage({message.workload: message}, load=load, now=NOW, chain=chain)(pod, measured)

    if known(measured.cpu) is not None and known(measured.memory) is not None:
        assert found == measured
    else:
        cpu, memory = known(measured.cpu), known(measured.memory)
        assert found.cpu == (expected.cpu if cpu is None else cpu)
        assert found.memory == (expected.memory if memory is None else memory)
