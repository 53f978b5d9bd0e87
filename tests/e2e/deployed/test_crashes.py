"""Every service is killed with SIGKILL during evictions and started again: all targets and limits still hold."""

import pytest
from deployment.installation import NODES
from deployment.restarts import BURST_PODS, KILLED, LEVEL, RunResult

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)


async def test_the_load_is_level_at_the_end(result: RunResult) -> None:
    """The spread was large, every service was killed while pods moved, and at the end the spread is small."""
    assert set(KILLED) == set(SERVICES)
    assert result.spread_before > 50
    assert result.spread_after <= LEVEL
    assert result.std_after <= result.std_before / 3
    # The load may be level when the last two are killed, at the same time: then no pod moves any more.
    *others, _, _ = sorted(result.evictions_at_kill.values())
    assert len(result.evictions) > max(others)


async def test_few_pods_move(result: RunResult) -> None:
    """At most a fifth of all pods is evicted, and at most one or 2 % of them return to their node."""
    assert result.moved_share <= 0.20
    assert result.same_node_returns <= max(1, 0.02 * len(result.evictions))


async def test_a_burst_of_new_pods_is_spread(result: RunResult) -> None:
    """No node gets more than two and a half times its share of a workload that was never measured."""
    assert result.burst.total() == BURST_PODS
    assert max(result.burst.values()) <= 2.5 * BURST_PODS / NODES


async def test_no_limit_is_violated(result: RunResult) -> None:
    """By the audit log: never more evictions in a window than the ledger allows, and none of a protected pod."""
    assert result.limit_violations == 0
    assert result.protected_evictions == 0
    assert len({eviction.uid for eviction in result.evictions}) == len(result.evictions)


async def test_an_intent_has_one_outcome(result: RunResult) -> None:
    """No intent has two outcomes. Only those that the killed binder was processing, and that expired, may have none."""
    assert result.outcomes.total() > 10
    assert {intent: count for intent, count in result.outcomes.items() if count > 1} == {}
    assert len(result.intents & result.outcomes.keys()) > 5
    without = set(result.intents) - set(result.outcomes)
    assert len(without) <= result.in_progress, without
