"""The configuration of the demo against the defaults."""

from collections.abc import Iterator
from typing import Any, get_args

import msgspec
import pytest

from equipoise.cli.demo.configuration import (
    COLOCATION,
    REAL_TIME,
    RECLAIM_LIMIT,
    Placement,
    compressed_document,
    differences,
    equipoise_document,
    window_limits,
)
from equipoise.cli.demo.figures import WindowLimit
from equipoise.contracts.bus.subjects import SERVICES
from equipoise.descheduler.decisions.strategies.low_node_load import LowNodeLoad

PORTS = {name: 10_000 + number for number, name in enumerate((*SERVICES, "extender"))}
WITH_RECLAIMER = {**PORTS, "reclaimer": 10_999}
SCENARIO = {
    "nats.url",
    "kubernetes.kubeconfig",
    "namespaces.exclude",
    "collector.prometheus.url",
    "scorer.listen",
    "scorer.neutral",
    "binder.evict",
    *(f"{service}.health" for service in SERVICES),
}
"""Addresses, and what the demo is about: it evicts, and there is a namespace whose pods may not move."""


BY_PLACEMENT: dict[Placement, set[str]] = {
    "extender": set(),
    "hints": {"scorer.hints.interval", "placement.extender", "placement.hints"},
}
"""What differs only with one of them."""


def demo_document(
    factor: float,
    *,
    placement: Placement = "extender",
    sliced: bool = False,
    colocation: bool = False,
    surge: bool = False,
    rebalance: bool = False,
) -> dict[str, Any]:
    document = equipoise_document(
        kubeconfig="k", prometheus_url="http://p:1", nats_url="nats://n:1", neutral=False,
        ports=WITH_RECLAIMER if colocation else PORTS,
        differences=differences(placement, sliced=sliced, colocation=colocation, surge=surge, rebalance=rebalance),
    )  # fmt: skip
    return compressed_document(document, factor)


def leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    if isinstance(value, dict) and value:
        for name, inner in value.items():
            yield from leaves(inner, f"{path}.{name}" if path else name)
    else:
        yield path, value


@pytest.mark.parametrize("placement", get_args(Placement))
def test_the_demo_differs_from_the_defaults_only_by_what_it_prints(placement: Placement) -> None:
    """Compared without compression; the nodes are levelled, profiles are in use, with the default limits."""
    defaults = dict(leaves(compressed_document({}, 1)))
    demo = dict(leaves(demo_document(1, placement=placement)))
    different = {path for path in demo if demo[path] != defaults[path]} - SCENARIO

    assert different == BY_PLACEMENT[placement] | {
        "load.windows", "load.freshness.eviction", "load.freshness.score", "descheduler.intentLifetime",
        "descheduler.strategies",
    }  # fmt: skip
    low_node_load, level_day = demo["descheduler.strategies"]
    assert defaults["descheduler.strategies"] is None
    assert msgspec.convert(low_node_load, LowNodeLoad) == LowNodeLoad()
    assert (level_day["name"], level_day["currentLoadWeight"]) == ("level_day", 1.0)
    assert demo["collector.profile.enabled"] is True


def test_with_batch_pods_only_settings_of_the_reclaimer_differ_in_addition() -> None:
    """Each with a reason, and its hours are those of the trace."""
    without, demo = dict(leaves(demo_document(1))), dict(leaves(demo_document(1, colocation=True)))

    assert {path for path in demo if demo[path] != without[path]} == {
        "reclaimer.enabled", "reclaimer.mode", "reclaimer.health", "reclaimer.interval",
        "reclaimer.strategy.cpuThreshold", "reclaimer.forecast.margin", "reclaimer.degrade.keep",
        "reclaimer.degrade.expire", "reclaimer.offer.refreshPeriod",
    }  # fmt: skip
    compressed = demo_document(225, colocation=True)
    assert compressed["reclaimer"]["forecast"]["day"] == compressed["collector"]["profile"]["day"] == "6m24s"
    assert all(each.settings and each.reason for each in COLOCATION)


def test_with_moves_without_a_gap_protection_is_the_shipped_one() -> None:
    """Also for a slice of a trace, where most workloads have one replica. The start of pods is not compressed."""
    without, demo = dict(leaves(demo_document(1))), dict(leaves(demo_document(1, surge=True)))

    assert {path for path in demo if demo[path] != without[path]} == {
        "surge.mode", "surge.maxMoves", "surge.readyTimeout",
    }  # fmt: skip
    assert demo_document(225, surge=True)["surge"]["readyTimeout"] == "30s"
    assert demo_document(1, sliced=True, surge=True)["protection"] == demo_document(1)["protection"]
    assert demo_document(1, sliced=True)["protection"]["minReplicas"] == 1


@pytest.mark.parametrize("cores", [8.0, 16.0])
def test_the_reclaimer_limits_nodes_to_65_percent_of_their_cores(cores: float) -> None:
    """Half of the capacity of a fake node is reserved: it counts as used."""
    strategy = demo_document(1, colocation=True)["reclaimer"]["strategy"]
    capacity = 2 * cores

    assert capacity * strategy["cpuThreshold"] / 100 - (capacity - cores) == pytest.approx(RECLAIM_LIMIT / 100 * cores)
    assert demo_document(1)["reclaimer"]["strategy"]["cpuThreshold"] == RECLAIM_LIMIT


@pytest.mark.parametrize("placement", get_args(Placement))
def test_at_most_three_differences_are_forced_by_compression(placement: Placement) -> None:
    """One more is what the demo shows. Each has a reason; a slice of a recorded trace has one more."""
    assert len(differences(placement, sliced=False)) <= 4
    assert all(each.settings and each.reason for each in differences(placement, sliced=True))
    assert demo_document(1, sliced=True)["thresholds"]["high"] == {"cpu": 65, "memory": 95, "pods": None}


def test_durations_are_compressed_except_those_of_the_machine() -> None:
    """Clock skew, connections and batching do not depend on the time of the trace."""
    compressed, defaults = dict(leaves(demo_document(225))), dict(leaves(compressed_document({}, 1)))

    assert compressed["binder.limits.migrationTimeout"] == "2.666666667s"
    assert (
        compressed["descheduler.leaderElection.leaseDuration"] == defaults["descheduler.leaderElection.leaseDuration"]
    )
    for path in map(".".join, REAL_TIME):
        assert compressed[path] == defaults[path]


def test_the_audit_log_is_checked_against_the_compressed_limits() -> None:
    """Of workloads, namespaces and the cluster: without them no violation could be counted."""
    assert window_limits(demo_document(100)) == [
        WindowLimit(scope="workload", count=1, seconds=3),
        WindowLimit(scope="namespace", count=5, seconds=6),
        WindowLimit(scope="cluster", count=20, share=0.01, seconds=6),
    ]


def test_all_moves_of_a_demo_with_a_campaign_are_those_of_the_campaign() -> None:
    """Its budget replaces the limit of the cluster, which permits one eviction a day."""
    without, demo = dict(leaves(demo_document(1))), dict(leaves(demo_document(1, rebalance=True)))

    assert {path for path in demo if demo[path] != without[path]} == {
        "binder.limits.evictionsPerCluster.max", "binder.limits.evictionsPerCluster.maxCount",
        "binder.limits.evictionsPerCluster.window", "binder.maxIntentLifetime", "descheduler.intentLifetime",
        "load.freshness.eviction", "load.freshness.score",
    }  # fmt: skip
    assert demo["binder.limits.evictionsPerCluster.max"] == 1
