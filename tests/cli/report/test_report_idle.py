"""What could have been offered to co-located pods, in `equipoise report`."""

import msgspec
import pytest
from builders import GIB, NOW
from cli.reclaimed_nodes import a_reclaimed_node, a_stale_node, cores
from cli.report.test_report import reported

from equipoise.cli.report import sentences
from equipoise.cli.report.idle import IdleCapacity, IdleFor, idle_capacity
from equipoise.contracts.messages.reclaimed import ReclaimedNode, ReclaimedTerms

NOON = NOW // 86_400 * 86_400 + 12 * 3_600.0


def a_measured_node(name: str, *used: float, **fields: object) -> ReclaimedNode:
    """10 cores and 40 GiB with a margin of 2 and 8. `used`: cores in the hours from 13 o'clock on until now."""
    terms = {
        resource: ReclaimedTerms(capacity=10 * unit, margin=2 * unit, system=unit, reserved=unit, high_priority=0)
        for resource, unit in (("cpu", 1.0), ("memory", 4 * GIB))
    }
    by_hour = [used[(hour - 13) % 24] for hour in range(24)]
    highest = {"cpu": by_hour, "memory": [each * 4 * GIB for each in by_hour]}
    values = {"terms": terms, "highest": highest, "evaluated_at": NOON + 60, "sampled_at": NOON + 50}
    return a_reclaimed_node(name, **(values | fields))


DAY = (3.0,) * 12 + (7.0,) * 12


def idle(*messages: ReclaimedNode) -> IdleCapacity:
    return idle_capacity(messages, NOON + 100, 300.0)


def test_what_was_idle_is_the_lowest_of_each_period_summed_over_the_nodes() -> None:
    """5 cores in 12 hours, 1 in the others: 6 hours in a row 5 cores in 7 of 19 periods."""
    found = idle(a_measured_node("a", *DAY), a_measured_node("b", *DAY))
    assert (found.nodes, found.capacity, found.not_counted) == (2, cores(20.0), {})
    hour, some, day = found.periods
    assert hour == IdleFor(hours=1, mean=cores(6.0), lowest=cores(2.0))
    assert (some.hours, some.lowest) == (6, cores(2.0))
    assert some.mean.cpu == pytest.approx((7 * 10 + 12 * 2) / 19)
    assert day == IdleFor(hours=24, mean=cores(2.0), lowest=cores(2.0))


def test_hours_are_in_the_order_of_time_and_not_of_the_day() -> None:
    """A period does not continue from the present with the hour of 23 hours ago."""
    found = idle(a_measured_node("a", *(3.0,) * 3, *(7.0,) * 18, *(3.0,) * 3))
    assert found.periods[1].mean == cores(1.0)


def test_reserved_and_unused_resources_are_not_idle() -> None:
    terms = a_measured_node("a", *DAY).terms
    reserving = {name: msgspec.structs.replace(each, reserved=2 * each.system) for name, each in terms.items()}
    assert idle(a_measured_node("a", *DAY, terms=reserving)).periods[2].mean == cores(0.0)


def test_nodes_without_a_complete_day_are_not_counted() -> None:
    """An hour that nobody measured is unknown, and not idle."""
    whole = a_measured_node("a", *DAY)
    young = {name: [None, *hours[1:]] for name, hours in whole.highest.items()}
    found = idle(
        whole, a_measured_node("b", *DAY, highest=young), a_stale_node("c", evaluated_at=NOON),
        a_measured_node("d", *DAY, highest={}),
    )  # fmt: skip
    assert found.periods == idle(whole).periods
    assert found.not_counted == {
        "b": "its usage is known for 23 of 24 hours",
        "c": "its newest sample is 500 s old: 67% of the last known amounts are offered",
        "d": "its usage is known for 0 of 24 hours",
    }


def test_the_report_states_what_could_have_been_offered() -> None:
    report = msgspec.structs.replace(reported(), idle=idle(a_measured_node("a", *DAY)))
    assert sentences.idle(report).startswith(
        "Idle capacity, which could have been offered to co-located pods in the last 24 hours: 3.00 cores, 12.00 GiB "
        "for 1 h (at least 1.00 cores, 4.00 GiB); "
    )
    assert "of 1 node with 10.00 cores, 40.00 GiB, below the reclaimer's thresholds." in sentences.idle(report)


def test_the_report_states_why_it_is_unknown() -> None:
    report = msgspec.structs.replace(reported(), idle=idle(a_measured_node("a", *DAY, highest={})))
    assert sentences.idle(report) == "Idle capacity: unknown of 1 node: its usage is known for 0 of 24 hours."


def test_without_a_reclaimer_the_report_does_not_mention_it() -> None:
    assert not sentences.idle(reported())
