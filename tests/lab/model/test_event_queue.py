"""The queue of events in virtual time."""

from equipoise.lab.model.event_queue import EventQueue


def test_actions_run_in_the_order_of_their_times() -> None:
    """At the same time, in the order in which they were added."""
    events, called = EventQueue(), []
    events.at(5.0, lambda now: called.append(("late", now)))
    events.at(1.0, lambda now: called.append(("first", now)))
    events.at(1.0, lambda now: called.append(("second", now)))

    events.run(10.0)

    assert [("first", 1.0), ("second", 1.0), ("late", 5.0)] == called


def test_an_action_in_the_past_runs_now() -> None:
    events, called = EventQueue(), []
    events.at(5.0, lambda now: events.at(1.0, called.append))

    events.run(10.0)

    assert [5.0] == called


def test_a_repeated_action_runs_before_its_end_only() -> None:
    """Excluding the end itself."""
    events, called = EventQueue(), []
    events.every(2.0, called.append, first=1.0, until=7.0)

    events.run(4.0)
    assert [1.0, 3.0] == called

    events.run(100.0)
    assert [1.0, 3.0, 5.0] == called


def test_a_repeated_action_that_starts_after_its_end_never_runs() -> None:
    events, called = EventQueue(), []
    events.every(2.0, called.append, first=7.0, until=7.0)

    events.run(100.0)

    assert [] == called
