"""The targets of the demo, and that they are missed without the descheduler or without scores; by `make chaos`.

`make test` holds a smaller cluster to the same targets (`tests/e2e/deployed`) and shows the negative controls in
virtual time (`tests/lab/test_negative_controls.py`).
"""

import asyncio
import sys

import pytest
from rich.console import Console

from equipoise.cli.demo.figures import DemoResult
from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.run import DemoOptions, run_demo
from equipoise.contracts.bus.subjects import SERVICES

pytestmark = [pytest.mark.weekly, pytest.mark.timeout(900), pytest.mark.usefixtures("testbed_binaries")]


async def a_run(steps: int, **options: object) -> DemoResult:
    """The demo with a day of so many steps of 4 s; what is judged is the same, the levelling has less time."""
    console = Console(file=sys.stdout, force_terminal=False)
    return await run_demo(DemoOptions(steps=steps, **options), Screen(console))  # type: ignore[arg-type]


async def test_the_loop_levels_a_real_cluster() -> None:
    """The targets of the demo are met, by the API server's audit log and Prometheus.

    Only the spread is given more room than the demo's 20 points: one node of forty is often still being filled when a
    quarter of the time is over (13 to 24 points measured, 12 to 17 after all 96 steps). And of fifty evictions one may
    return: it is the least that can be counted.
    """
    result = await a_run(24)

    assert result.spread_before >= 50
    assert result.spread_after <= 30
    assert result.std_after <= result.std_before / 3
    assert result.pods_moved_share <= 0.20
    assert result.burst_max_share <= 0.06
    assert result.same_node_returns <= max(1, 0.02 * result.evictions)
    assert result.limit_violations == 0
    assert result.protected_evictions == 0


@pytest.fixture(scope="module")
async def controls() -> tuple[DemoResult, DemoResult]:
    """Without the descheduler, and with neutral scores; at once, on a cluster each."""
    without_descheduler = tuple(service for service in SERVICES if service != "descheduler")
    return await asyncio.gather(a_run(9, services=without_descheduler), a_run(12, neutral=True))


async def test_placement_alone_does_not_level_what_already_runs(controls: tuple[DemoResult, DemoResult]) -> None:
    """Negative control: with the descheduler off nothing moves and the spread stays."""
    result, _ = controls

    assert result.evictions == 0
    assert result.spread_after > 20
    assert result.std_after > result.std_before / 3


async def test_evictions_alone_do_not_level_either(controls: tuple[DemoResult, DemoResult]) -> None:
    """Negative control: with neutral scores replacements land where the stock scheduler likes, often at home."""
    _, result = controls

    assert result.evictions > 0
    assert result.spread_after > 20
    assert result.same_node_returns > 0.02 * result.evictions
