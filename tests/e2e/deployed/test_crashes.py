"""Every service is killed with SIGKILL in the middle of the loop and started again: nothing is broken by it."""

import pytest
from deployment.judging import KILLED, LEVEL, Judged

from equipoise.contracts.bus.subjects import SERVICES

pytestmark = pytest.mark.timeout(600)


async def test_the_loop_ends_as_level_as_without(judged: Judged) -> None:
    """The fleet was far from level, every service was killed while pods moved, and in the end it is level."""
    assert set(KILLED) == set(SERVICES)
    assert judged.spread_before > 50
    assert judged.spread_after <= LEVEL
    assert len(judged.evictions) > max(judged.evictions_at_kill.values())


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
