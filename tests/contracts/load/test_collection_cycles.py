"""The latest cycle of each shard counts, for as long as the bus would deliver it again."""

from typing import Any

import pytest
from builders import NOW

from equipoise.contracts.bus.streams import UTILIZATION_MAX_AGE
from equipoise.contracts.load.collection_cycles import CollectionCycles
from equipoise.contracts.messages.utilization import UtilizationCycle


def a_cycle(shard: str, **fields: Any) -> UtilizationCycle:
    return UtilizationCycle(**{"shard": shard, "cycle": 1, "expected": 1, "fresh": 1, "queried_at": NOW} | fields)


def test_an_older_cycle_of_a_shard_is_dropped() -> None:
    cycles = CollectionCycles()
    latest = a_cycle("0", epoch=2, sequence=1)

    assert cycles.on_cycle(latest, NOW)
    assert not cycles.on_cycle(a_cycle("0", epoch=1, sequence=9), NOW)
    assert cycles.current(NOW) == [latest]


@pytest.mark.parametrize("queried_at", [NOW, NOW - 86_400.0])
def test_a_removed_shard_is_forgotten_by_the_time_its_last_cycle_arrived(queried_at: float) -> None:
    """Not by the time of the cycle, which is wrong if the skew is large. Other shards continue to count."""
    cycles = CollectionCycles()
    cycles.on_cycle(a_cycle("removed", skew=-60.0, queried_at=queried_at), NOW)
    cycles.on_cycle(a_cycle("0", skew=2.0), NOW + 60)
    before, after = NOW + UTILIZATION_MAX_AGE - 1, NOW + UTILIZATION_MAX_AGE

    assert [cycles.skew(before), cycles.skew(after), cycles.skew(after + 60)] == [-60.0, 2.0, 0.0]


def test_a_forgotten_shard_takes_no_memory_and_counts_again_with_its_next_cycle() -> None:
    """Whatever its epoch: nothing is known of a collector that was silent for so long."""
    cycles, later = CollectionCycles(), NOW + UTILIZATION_MAX_AGE
    cycles.on_cycle(a_cycle("0", epoch=9), NOW)
    cycles.on_cycle(a_cycle("1"), later)

    assert cycles.on_cycle(a_cycle("0", epoch=1), later)
    assert {cycle.shard: cycle.epoch for cycle in cycles.current(later)} == {"0": 1, "1": 0}


def test_a_clock_that_is_set_back_by_hours_does_not_keep_a_removed_shard() -> None:
    cycles = CollectionCycles()
    cycles.on_cycle(a_cycle("removed"), NOW)

    assert cycles.current(NOW - 7_200) == []
