"""`make demo` on a small cluster for a short day: it runs to its last line, and its figures are there."""

import io
import json

import pytest
from rich.console import Console

from equipoise.cli.demo.live_view import Screen
from equipoise.cli.demo.run import DemoOptions, run_demo

pytestmark = [pytest.mark.timeout(600), pytest.mark.usefixtures("testbed_binaries")]

NODES = 12
STEPS = 9
"""Steps per day, of 4 s each."""

BURST_PODS = 24


async def test_the_demo_runs_to_its_end() -> None:
    """Pods move within the limits, a burst is placed on several nodes, and the result is printed.

    A day of 36 s is too short to judge the load: the deployed services are judged for that, and weekly the whole demo.
    """
    console = Console(file=io.StringIO(), force_terminal=False, width=200)
    result = await run_demo(DemoOptions(nodes=NODES, steps=STEPS, burst_pods=BURST_PODS), Screen(console))
    output = console.file.getvalue()  # type: ignore[attr-defined]

    assert (result.nodes, result.limit_violations, result.protected_evictions) == (NODES, 0, 0)
    assert result.evictions > 0
    assert result.outcomes["evicted"] > 0
    assert min(result.spread_before, result.spread_after, result.std_before, result.std_after) > 0
    assert result.burst_max_share < 0.5
    assert json.loads(result.encoded())["evictions"] == result.evictions
    for text in ("time is compressed 225 times", "compressed limits", "hottest node", f"{BURST_PODS} pods placed on"):
        assert text in output
