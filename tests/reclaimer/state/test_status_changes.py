"""Which changes of a node's status are those of another program."""

from equipoise.reclaimer.state.status_changes import MAX_FOREIGN_CHANGES, QUIET_PERIOD, StatusChanges


def after_a_write(amount: int = 1) -> StatusChanges:
    changes = StatusChanges()
    changes.on_requested({"a": amount})
    return changes


def change(changes: StatusChanges, *, times: int, every: float = 60.0) -> float:
    """Returns the time of the last one."""
    for number in range(times):
        changes.on_status({"a": 1}, {"a": 2 + number}, number * every)
    return (times - 1) * every


def test_changes_by_another_program_contest_a_node_until_a_quiet_period_has_passed() -> None:
    changes = after_a_write()
    last = change(changes, times=MAX_FOREIGN_CHANGES)
    assert changes.is_contested(last)
    assert changes.is_contested(last + QUIET_PERIOD - 1)
    assert not changes.is_contested(last + QUIET_PERIOD)


def test_fewer_or_rare_changes_contest_nothing() -> None:
    few, rare = after_a_write(), after_a_write()
    assert not few.is_contested(change(few, times=MAX_FOREIGN_CHANGES - 1))
    assert not rare.is_contested(change(rare, times=MAX_FOREIGN_CHANGES, every=QUIET_PERIOD))


def test_own_writes_that_arrive_late_are_not_those_of_others() -> None:
    changes = StatusChanges()
    for amount in range(1, 6):
        changes.on_requested({"a": amount})
    for amount in range(1, 6):
        changes.on_status({"a": amount - 1}, {"a": amount}, 0.0)
    assert not changes.foreign


def test_before_the_first_write_nothing_is_known_of_others() -> None:
    changes = StatusChanges()
    change(changes, times=5)
    assert not changes.foreign


def test_amounts_that_vanish_are_lost_until_they_are_written() -> None:
    changes = after_a_write()
    changes.on_status({"a": 1, "b": 7}, {"a": 1, "b": 0}, 0.0)
    changes.on_status({"a": 1, "b": 0}, {"b": 0}, 0.0)
    assert changes.lost == {"a": 1, "b": 7}
    assert not changes.foreign
    changes.on_written()
    assert not changes.lost


def test_an_amount_that_was_written_as_zero_is_not_lost() -> None:
    changes = after_a_write(0)
    changes.on_status({"a": 1}, {"a": 0}, 0.0)
    assert not changes.lost


def test_changes_of_the_time_of_a_clock_that_was_ahead_contest_nothing() -> None:
    """Otherwise the node would not be written until then, perhaps for years."""
    changes = after_a_write()
    last = change(changes, times=MAX_FOREIGN_CHANGES)
    assert not changes.is_contested(last - 31_536_000)
