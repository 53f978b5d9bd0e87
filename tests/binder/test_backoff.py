"""Who said no is left alone, for longer each time."""

from builders import a_workload

from equipoise.binder.state.backoff import Backoff, BudgetBackoff


def test_waits_grow_up_to_a_limit() -> None:
    """Twice as long with every refusal in a row; a consent begins anew."""
    back_off = Backoff(1.0, 10.0, lambda: 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        waits.append(back_off.refused("key", now))
        now += waits[-1]
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    back_off.reset("key")
    assert back_off.refused("key", now) == 1.0


def test_refusals_at_the_same_time_are_one() -> None:
    """Requests that were on their way together do not multiply the wait."""
    back_off = Backoff(1.0, 60.0, lambda: 0.0)
    for _ in range(10):
        back_off.refused("key", 0.0)
    assert back_off.remaining("key", 0.0) == 1.0
    assert back_off.remaining("other", 0.0) == 0.0
    assert back_off.remaining("key", 1.0) == 0.0


def test_what_the_server_asks_for_is_the_least() -> None:
    """And chance only makes it longer, by a fifth at most."""
    assert Backoff(1.0, 60.0, lambda: 0.0).refused("key", 0.0, at_least=90.0) == 90.0
    assert Backoff(1.0, 60.0, lambda: 0.999).refused("key", 0.0, at_least=90.0) < 90.0 * 1.2


def test_memory_is_bounded() -> None:
    """Thousands of keys do not stay."""
    back_off = Backoff(1.0, 60.0, lambda: 0.0)
    for number in range(5_000):
        back_off.refused(f"key-{number}", 0.0)
    assert back_off.remaining("key-0", 0.0) == 0.0
    assert back_off.remaining("key-4999", 0.0) == 1.0


def test_workloads_share_their_budget() -> None:
    """Two workloads that one budget chooses wait together; a third waits for nobody."""
    budgets = BudgetBackoff(lambda: 0.0)
    web, db, cache = a_workload("web"), a_workload("db"), a_workload("cache")
    budgets.refused(db, "shop", "all", 0.0)
    budgets.refused(web, "shop", "all", 10.0)
    assert budgets.remaining(web, 10.0) == budgets.remaining(db, 10.0) == ("shop/all", 20.0)
    assert budgets.remaining(cache, 10.0) == ("", 0.0)
    budgets.accepted(db)
    assert budgets.remaining(web, 10.0)[1] == 0.0


def test_a_budget_without_a_name_is_its_workloads() -> None:
    """What an API server does not tell is not shared."""
    budgets = BudgetBackoff(lambda: 0.0)
    budgets.refused(a_workload("web"), "shop", "", 0.0)
    assert budgets.remaining(a_workload("web"), 0.0)[1] == 10.0
    assert budgets.remaining(a_workload("db"), 0.0)[1] == 0.0
