"""Whether the load of enough nodes is known: for scores (70 %), and for evictions (80 %, each shard, no problem)."""

from typing import Any

import pytest
from builders import NOW

from equipoise.contracts.configuration.settings import Coverage, LoadSettings
from equipoise.contracts.load.node_coverage import SHARD_LIFETIME, Use, coverage_problem
from equipoise.contracts.messages.utilization import UtilizationCycle

USES: tuple[Use, ...] = ("score", "eviction")


def a_cycle(expected: int, fresh: int | None = None, **fields: Any) -> UtilizationCycle:
    defaults: dict[str, Any] = {"shard": "0", "cycle": 1, "queried_at": NOW}
    return UtilizationCycle(**(defaults | fields), expected=expected, fresh=expected if fresh is None else fresh)


def problem(
    *cycles: UtilizationCycle, use: Use = "score", known: int = 1_000, now: float = NOW, **coverage: float
) -> str:
    return coverage_problem(cycles, known=known, load=LoadSettings(coverage=Coverage(**coverage)), use=use, now=now)


@pytest.mark.parametrize(("use", "enough"), [("score", 70), ("eviction", 80)])
def test_coverage_at_the_limit_is_enough(use: Use, enough: int) -> None:
    """`load.coverage.score` and `load.coverage.eviction`: exactly that share suffices, one node less does not."""
    assert problem(a_cycle(100, enough), use=use) == ""
    assert f"{enough - 1} of 100 nodes" in problem(a_cycle(100, enough - 1), use=use)


@pytest.mark.parametrize("use", USES)
@pytest.mark.parametrize(
    ("cycles", "known", "why"),
    [
        ([], 1_000, "no collector has completed a cycle yet"),
        ([a_cycle(100)], 69, "69 of 100 nodes"),
        ([a_cycle(100, 69, missing={"node-7": "no sample"})], 1_000, "is known, 00% needed (node-7: no sample)"),
        ([a_cycle(0)], 0, "no node is expected"),
        ([a_cycle(0, problem="Prometheus is down")], 0, "(Prometheus is down)"),
        ([a_cycle(100, skew=-11.0)], 1_000, "clock differs by -11.0 s"),
        ([a_cycle(100, skew=3.0), a_cycle(100, shard="1", skew=-11.0)], 1_000, "clock differs by -11.0 s"),
        ([a_cycle(100, queried_at=NOW - 181)], 1_000, "no collector has completed a cycle within"),
        ([a_cycle(100, queried_at=NOW + 60)], 1_000, "no collector has completed a cycle within"),
        ([a_cycle(50), a_cycle(50, shard="1", queried_at=NOW - 181)], 1_000, "of 50 nodes"),
    ],
)
def test_too_low_coverage_has_a_reason(use: Use, cycles: list[UtilizationCycle], known: int, why: str) -> None:
    """No cycle, too few known loads, no expected node, another clock, a cycle that is old or from the future."""
    why = why.replace("of 50 nodes", "50 of 100 nodes" if use == "score" else "0 of 50 nodes")
    assert why.replace("00%", "70%" if use == "score" else "80%") in problem(*cycles, known=known, use=use)


@pytest.mark.parametrize("use", USES)
def test_a_load_that_the_caller_does_not_know_is_not_covered(use: Use) -> None:
    """The bus may have lost it: what the collector reports is an upper bound, and so is what the caller knows."""
    assert "the load of 60 of 100 nodes" in problem(a_cycle(100, 100), known=60, use=use)
    assert "the load of 60 of 100 nodes" in problem(a_cycle(100, 60), known=100, use=use)


@pytest.mark.parametrize("use", USES)
def test_a_removed_shard_is_forgotten_when_the_bus_drops_its_last_cycle(use: Use) -> None:
    """Half an hour by default, for every reader: before that its nodes are expected, and after that they are not."""
    silence = SHARD_LIFETIME * LoadSettings().freshness.score
    removed = a_cycle(500, shard="1", queried_at=NOW - silence)

    assert silence == 1_800
    assert "nodes is known" in problem(a_cycle(50), removed, use=use)
    assert problem(a_cycle(50), removed, now=NOW + 1, use=use) == ""


def test_one_shard_below_the_limit_stops_evictions_but_no_scores() -> None:
    """Two shards, of which one measures all and one half of its nodes, cover three quarters of the cluster."""
    cycles = a_cycle(50), a_cycle(50, 25, shard="1")

    assert problem(*cycles, use="score") == ""
    assert problem(*cycles, use="eviction", eviction=0.7).startswith("shard 1: the load of 25 of 50 nodes is known")


def test_a_collector_with_a_problem_stops_evictions_but_no_scores() -> None:
    """Its samples may be fresh for two more minutes: for a score that is enough."""
    assert problem(a_cycle(100, problem="Prometheus is down"), use="score") == ""
    assert "0 of 100 nodes is known, 80% needed (Prometheus is down)" in problem(
        a_cycle(100, problem="Prometheus is down"), use="eviction"
    )


def test_a_cycle_is_fresh_for_as_long_as_its_use_allows() -> None:
    """`load.freshness`: 180 s for a score, 120 s for an eviction."""
    cycle = a_cycle(100, queried_at=NOW - 150)

    assert problem(cycle, use="score") == ""
    assert "within 120 s" in problem(cycle, use="eviction")
