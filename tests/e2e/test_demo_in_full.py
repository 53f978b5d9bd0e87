"""The targets of the demo, and that the demo misses them without the descheduler or without scores (`make chaos`).

`make test` checks the same targets on a smaller cluster (`tests/e2e/deployed`), and the negative controls in virtual
time (`tests/lab/test_negative_controls.py`).
"""

import asyncio
import sys
from typing import get_args

import pytest
from rich.console import Console

from equipoise.cli.demo.configuration import Placement
from equipoise.cli.demo.figures import DemoResult
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.options import DemoOptions
from equipoise.cli.demo.run import run_demo
from equipoise.contracts.bus.subjects import SERVICES

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900), pytest.mark.usefixtures("testbed_binaries")]


async def run_with(steps: int, **options: object) -> DemoResult:
    """The demo with a day of `steps` steps of 4 s: the same measurements, and less time for evictions."""
    console = Console(file=sys.stdout, force_terminal=False)
    return await run_demo(DemoOptions(steps=steps, **options), Screen(console))  # type: ignore[arg-type]


@pytest.mark.parametrize("placement", get_args(Placement))
async def test_the_loop_levels_a_real_cluster(placement: Placement) -> None:
    """The targets of the demo are met, by the API server's audit log and Prometheus: the same ones with hints.

    The spread may be larger than the 20 points of the demo: after a quarter of its time, one of forty nodes is often
    still being filled (13 to 24 points measured, 12 to 17 after all 96 steps). One return is always allowed, because
    with fifty evictions or fewer the target of 2 % is less than two.
    """
    result = await run_with(24, placement=placement)

    assert result.spread_before >= 50
    assert result.spread_after <= 30
    assert result.std_after <= result.std_before / 3
    assert result.pods_moved_share <= 0.20
    assert result.burst_max_share <= 0.06
    assert result.same_node_returns <= max(1, 0.02 * result.evictions)
    assert result.limit_violations == 0
    assert result.protected_evictions == 0


@pytest.mark.timeout(1_800)
async def test_batch_pods_use_what_others_leave() -> None:
    """The whole day: at least 5 % of all cores work, and no batch pod is evicted.

    A reclaimer that has just started knows no typical day: 7.6 % were suppressed in a run that delivered 13.9 %.
    """
    result = await run_with(96, colocation=True)

    batch = result.colocation
    assert batch is not None
    assert batch.share_of_cores >= 0.05
    assert batch.suppressed_share is not None
    assert batch.suppressed_share <= 0.15
    assert batch.pods_finished > 0
    assert batch.evictions == 0
    assert (result.limit_violations, result.protected_evictions) == (0, 0)


@pytest.fixture(scope="module")
async def controls() -> tuple[DemoResult, DemoResult]:
    """Without the descheduler, and with neutral scores; in parallel, on two clusters."""
    without_descheduler = tuple(service for service in SERVICES if service != "descheduler")
    return await asyncio.gather(run_with(9, services=without_descheduler), run_with(12, neutral=True))


async def test_placement_alone_does_not_level_running_pods(controls: tuple[DemoResult, DemoResult]) -> None:
    """Negative control: without the descheduler no pod moves and the spread remains."""
    result, _ = controls

    assert result.evictions == 0
    assert result.spread_after > 20
    assert result.std_after > result.std_before / 3


async def test_evictions_alone_do_not_level_either(controls: tuple[DemoResult, DemoResult]) -> None:
    """Negative control: with neutral scores the stock scheduler places replacements, often on the evicted node."""
    _, result = controls

    assert result.evictions > 0
    assert result.spread_after > 20
    assert result.same_node_returns > 0.02 * result.evictions
