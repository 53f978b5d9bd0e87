"""What a pod is expected to use."""

import math

import pytest
from builders import GIB, NOW, a_window, a_workload_utilization
from hypothesis import given
from hypothesis import strategies as st

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.load.demand import (
    DEFAULT,
    MEASURED_FIRST,
    TARGET_LOAD_PACKING,
    WATER_LEVEL,
    Estimate,
    EstimateSource,
    expected_usage,
    fresh_windows,
)
from equipoise.contracts.messages.resources import Resources

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
def test_the_first_link_that_knows_tells(
    chain: tuple[EstimateSource, ...], measured: bool, cpu: float, link: str
) -> None:
    """Each policy has its own order of sources."""
    workload = a_workload_utilization() if measured else None

    usage, sources = expected_usage(requests=REQUESTS, limits=LIMITS, workload=workload, window="15m", chain=chain)

    assert (usage.cpu, sources["cpu"]) == (cpu, link)


def test_request_and_a_half_when_there_is_no_limit() -> None:
    """TargetLoadPacking takes 1.5 times the request for want of a limit."""
    usage, sources = expected_usage(
        requests=REQUESTS, limits=Resources(), workload=None, window="15m", chain=TARGET_LOAD_PACKING
    )

    assert (usage.cpu, sources["cpu"]) == (0.75, "request×1.5")


def test_a_limit_of_zero_is_none() -> None:
    """Kubernetes reads a limit of 0 as unlimited: the pod is not expected to use nothing."""
    usage, sources = expected_usage(
        requests=REQUESTS, limits=Resources(cpu=0.0), workload=None, window="15m", chain=WATER_LEVEL
    )

    assert (usage.cpu, sources["cpu"]) == (0.5, "request")


def test_each_resource_has_its_own_link() -> None:
    """Memory that nobody measured does not hide the cpu that somebody did."""
    workload = a_workload_utilization(memory=None)

    usage, sources = expected_usage(
        requests=REQUESTS, limits=LIMITS, workload=workload, window="15m", chain=WATER_LEVEL
    )

    assert sources == {"cpu": "measured", "memory": "limit"}
    assert usage == Resources(cpu=1.0, memory=4 * GIB)


def test_another_window_tells_when_the_one_asked_for_does_not() -> None:
    """A workload younger than the window is still better known than its limit."""
    workload = a_workload_utilization(windows={"5m": a_window(cpu=0.7), "1d": a_window(cpu=None)})

    usage, _ = expected_usage(requests=REQUESTS, limits=LIMITS, workload=workload, window="1d", chain=WATER_LEVEL)

    assert usage.cpu == 0.7


def test_stale_windows_of_a_workload_drop_out() -> None:
    """Each window lives as long as a node's does; a workload with none left is unknown."""
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
def test_an_estimate_is_a_share_of_what_a_pod_may_use(requests: Resources, limits: Resources, cpu: float) -> None:
    """150 % of the request, but no more than the limit nor than can be counted; a pod without either uses little."""
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
def test_the_expectation_is_always_known(
    request: float | None, limit: float | None, measured: float | None, chain: tuple[EstimateSource, ...]
) -> None:
    """Whatever is given, the expectation is a finite amount, at the worst the default."""
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
