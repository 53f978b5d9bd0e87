"""Nodes that could go by the forecast of the days before, and what followed on the next day."""

import msgspec
import numpy as np
import pytest
from lab.traces import a_trace

from equipoise.contracts.configuration.protection import Protection
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.descheduler.decisions.consolidation.consolidation_settings import Consolidation
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.lab.capacity.consolidated_days import (
    FIRST_DAY,
    ConsolidatedDays,
    by_margin,
    consolidated_days,
    judged_days,
    margins,
)
from equipoise.lab.model.trace import AntiAffinity, Trace
from equipoise.lab.replay_plan import Settings

DAYS = FIRST_DAY + 2
PER_DAY = 96
SETTINGS = Settings(
    protection=Protection(min_replicas=1), thresholds=Thresholds(high=ResourceThresholds(cpu=80.0, memory=90.0))
)


def days_of(*loads: float, pods: int = 4) -> Trace:
    """Nodes of 8 cores, each with one pod; `loads`: the share of a node that each pod uses on each day."""
    curve = tuple(8_000.0 * load for load in loads for _ in range(PER_DAY))
    return a_trace(nodes=pods, curves=(curve,) * pods, replicas=(1,) * pods, placed=range(pods))


def answer(trace: Trace, settings: Settings = SETTINGS) -> dict[float | None, ConsolidatedDays]:
    judged = list(consolidated_days(trace, settings))
    return {each.margin: each for each in by_margin(trace, settings, judged)}


def test_days_like_those_before_have_no_hour_above_80_percent() -> None:
    """Three pods of a fifth of a node fit beside a fourth, or two and two: two or three nodes go."""
    found = answer(days_of(*[0.2] * DAYS))

    assert {len(each.days) for each in found.values()} == {DAYS - FIRST_DAY}
    assert found[5.0].removed == 2 or found[5.0].removed == 3
    assert found[5.0].configured
    assert (found[5.0].caused, found[5.0].above, found[5.0].before) == (0.0, 0.0, 0.0)


def test_a_hotter_day_that_no_day_before_announced_is_caused_by_consolidation() -> None:
    """Alone on its node, each pod would use 45 %."""
    found = answer(days_of(*[0.2] * FIRST_DAY, 0.45, 0.2))[5.0]
    hot, normal = found.days

    assert hot.hours_above == hot.hours_not_forecast == hot.hours_caused == 24 * hot.remaining
    assert hot.hours_before == 0
    assert found.caused == pytest.approx(hot.hours_caused / found.node_hours, abs=1e-6)
    assert normal.removed < hot.removed  # the error is known then


def test_an_hour_that_would_be_hot_without_consolidation_is_not_caused_by_it() -> None:
    found = answer(days_of(*[0.2] * FIRST_DAY, 0.95, 0.2))[5.0].days[0]

    assert found.hours_above == found.hours_not_forecast == 24 * found.remaining
    assert found.hours_caused == 0
    assert found.hours_before == 24 * 4


def test_more_margin_removes_no_more_nodes() -> None:
    trace = days_of(*[0.2] * DAYS)
    noise = np.random.default_rng(1).uniform(0.5, 1.5, trace.cpu_milli.shape)
    found = answer(msgspec.structs.replace(trace, cpu_milli=trace.cpu_milli * noise))
    removed = [found[margin].removed for margin in margins(SETTINGS)]

    assert removed == sorted(removed, reverse=True)


def test_the_configured_margin_is_compared_too() -> None:
    own = msgspec.structs.replace(SETTINGS, descheduler=DeschedulerSettings(consolidation=Consolidation(margin=7.5)))
    assert 7.5 in margins(own)
    assert [margin for margin, each in answer(days_of(*[0.2] * DAYS), own).items() if each.configured] == [7.5]


def test_the_rules_of_cluster_autoscaler_judge_by_requests_and_not_by_usage() -> None:
    """Each pod uses 45 % of its node and requests 6 %: one node has the requests of all four, and not their usage."""
    found = answer(days_of(*[0.45] * DAYS))

    assert found[None].removed == 3
    assert found[None].days[0].moves == 3
    assert found[None].days[0].hours_caused == found[None].days[0].hours_above == 24
    assert found[5.0].removed == 0
    assert not found[None].configured


def test_the_rules_of_cluster_autoscaler_keep_nodes_with_high_requests_and_pods_that_fit_nowhere() -> None:
    """With 55 % of a node requested, no node is a candidate. With 45 %, two pods fit on a node."""
    removed = []
    for cores in (4_400, 3_600):
        workloads = tuple(
            msgspec.structs.replace(each, request_cpu_milli=cores) for each in days_of(*[0.1] * DAYS).workloads
        )
        removed.append(answer(msgspec.structs.replace(days_of(*[0.1] * DAYS), workloads=workloads))[None].removed)

    assert removed == [0, 2]


def test_pods_without_a_node_start_where_their_hottest_hour_is_the_lowest() -> None:
    """Two busy pods and two idle ones on two nodes: one of each on a node, so that no node can go."""
    busy, idle = (tuple(8_000.0 * load for _ in range(DAYS * PER_DAY)) for load in (0.55, 0.1))
    trace = a_trace(nodes=2, curves=(busy, busy, idle, idle), replicas=(1, 1, 1, 1))
    found = answer(trace)[0.0]

    assert (found.removed, found.above, found.before) == (0, 0.0, 0.0)


def test_a_rule_of_the_trace_keeps_pods_apart() -> None:
    """No node may have pods of both workloads, so no node can go."""
    trace = days_of(*[0.1] * DAYS, pods=2)
    apart = AntiAffinity(beside=0, limited=1, most=0)
    found = [answer(msgspec.structs.replace(trace, rules=rules))[5.0].removed for rules in ((), (apart,))]

    assert found == [1, 0]


def test_a_short_trace_has_no_day_to_judge() -> None:
    trace = days_of(*[0.2] * FIRST_DAY)
    assert not judged_days(trace)
    assert by_margin(trace, SETTINGS, list(consolidated_days(trace, SETTINGS))) == ()
