"""Virtual time: order, repetition, and an end."""

from equipoise.lab.model.event_queue import EventQueue


def test_actions_happen_in_the_order_of_their_times() -> None:
    """Whatever was entered first, the earlier time comes first; of equal times the one entered first."""
    agenda, seen = EventQueue(), []
    agenda.at(5.0, lambda now: seen.append(("late", now)))
    agenda.at(1.0, lambda now: seen.append(("first", now)))
    agenda.at(1.0, lambda now: seen.append(("second", now)))

    agenda.run(10.0)

    assert [("first", 1.0), ("second", 1.0), ("late", 5.0)] == seen


def test_what_is_entered_for_the_past_happens_now() -> None:
    """Time never runs backwards."""
    agenda, seen = EventQueue(), []
    agenda.at(5.0, lambda now: agenda.at(1.0, seen.append))

    agenda.run(10.0)

    assert [5.0] == seen


def test_a_repeated_action_ends_before_its_end() -> None:
    """The end itself does not belong to it, and what lies behind the run waits."""
    agenda, seen = EventQueue(), []
    agenda.every(2.0, seen.append, first=1.0, until=7.0)

    agenda.run(4.0)
    assert [1.0, 3.0] == seen

    agenda.run(100.0)
    assert [1.0, 3.0, 5.0] == seen


def test_nothing_is_repeated_that_begins_after_its_end() -> None:
    """A first time behind the end enters nothing."""
    agenda, seen = EventQueue(), []
    agenda.every(2.0, seen.append, first=7.0, until=7.0)

    agenda.run(100.0)

    assert [] == seen
