"""After a refusal the next request waits, longer each time."""

from builders import a_workload

from equipoise.binder.state.backoff import Backoff, BudgetBackoff


def test_waits_double_up_to_a_maximum() -> None:
    """A reset starts again with the first."""
    back_off = Backoff(1.0, 10.0, lambda: 0.0)
    now, waits = 0.0, []
    for _ in range(6):
        waits.append(back_off.refused("key", now))
        now += waits[-1]
    assert waits == [1.0, 2.0, 4.0, 8.0, 10.0, 10.0]
    back_off.reset("key")
    assert back_off.refused("key", now) == 1.0


def test_concurrent_refusals_count_once() -> None:
    back_off = Backoff(1.0, 60.0, lambda: 0.0)
    for _ in range(10):
        back_off.refused("key", 0.0)
    assert back_off.remaining("key", 0.0) == 1.0
    assert back_off.remaining("other", 0.0) == 0.0
    assert back_off.remaining("key", 1.0) == 0.0


def test_the_requested_time_is_the_minimum() -> None:
    """Jitter only adds to it, a fifth at most."""
    assert Backoff(1.0, 60.0, lambda: 0.0).refused("key", 0.0, at_least=90.0) == 90.0
    assert Backoff(1.0, 60.0, lambda: 0.999).refused("key", 0.0, at_least=90.0) < 90.0 * 1.2


def test_the_number_of_keys_is_bounded() -> None:
    back_off = Backoff(1.0, 60.0, lambda: 0.0)
    for number in range(5_000):
        back_off.refused(f"key-{number}", 0.0)
    assert back_off.remaining("key-0", 0.0) == 0.0
    assert back_off.remaining("key-4999", 0.0) == 1.0


def test_workloads_of_one_budget_wait_together() -> None:
    """Others do not wait."""
    budgets = BudgetBackoff(lambda: 0.0)
    web, db, cache = a_workload("web"), a_workload("db"), a_workload("cache")
    budgets.refused(db, "shop", "all", 0.0)
    budgets.refused(web, "shop", "all", 10.0)
    assert budgets.remaining(web, 10.0) == budgets.remaining(db, 10.0) == ("shop/all", 20.0)
    assert budgets.remaining(cache, 10.0) == ("", 0.0)
    budgets.accepted(db)
    assert budgets.remaining(web, 10.0)[1] == 0.0


def test_a_budget_without_a_name_belongs_to_one_workload() -> None:
    budgets = BudgetBackoff(lambda: 0.0)
    budgets.refused(a_workload("web"), "shop", "", 0.0)
    assert budgets.remaining(a_workload("web"), 0.0)[1] == 10.0
    assert budgets.remaining(a_workload("db"), 0.0)[1] == 0.0
