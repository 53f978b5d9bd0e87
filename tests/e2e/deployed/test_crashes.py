"""Every service is killed with SIGKILL in the middle of the loop and started again: nothing is broken by it."""

import pytest
from deployment.judging import BURST_PODS, KILLED, LEVEL, Judged
from deployment.worlds import NODES

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)


async def test_the_load_is_level_in_the_end(judged: Judged) -> None:
    """The loads were far apart, every service was killed while pods moved, and in the end they are close."""
    assert set(KILLED) == set(SERVICES)
    assert judged.spread_before > 50
    assert judged.spread_after <= LEVEL
    assert judged.std_after <= judged.std_before / 3
    assert len(judged.evictions) > max(judged.evictions_at_kill.values())


async def test_few_pods_move(judged: Judged) -> None:
    """A fifth of all pods at most is evicted, and one in fifty returns to its node: one at least is allowed."""
    assert judged.moved_share <= 0.20
    assert judged.same_node_returns <= max(1, 0.02 * len(judged.evictions))


async def test_a_burst_of_new_pods_is_spread(judged: Judged) -> None:
    """No node is given more than two and a half times its share of a workload that was never measured."""
    assert judged.burst.total() == BURST_PODS
    assert max(judged.burst.values()) <= 2.5 * BURST_PODS / NODES


async def test_no_limit_is_broken(judged: Judged) -> None:
    """By the audit log: never more evictions in a window than the ledger allows, and none of a protected pod."""
    assert judged.limit_violations == 0
    assert judged.protected_evictions == 0
    assert len({eviction.uid for eviction in judged.evictions}) == len(judged.evictions)


async def test_an_intent_has_one_outcome(judged: Judged) -> None:
    """No intent has two outcomes; only what the dead binder had in hand, and expired meanwhile, may have none."""
    assert judged.outcomes.total() > 10
    assert {intent: count for intent, count in judged.outcomes.items() if count > 1} == {}
    assert len(judged.intents & judged.outcomes.keys()) > 5
    without = set(judged.intents) - set(judged.outcomes)
    assert len(without) <= judged.under_way, without
