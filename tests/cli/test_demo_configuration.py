"""The configuration of the demo against the defaults."""

from collections.abc import Iterator
from typing import Any, get_args

import pytest

from equipoise.cli.demo.configuration import (
    REAL_TIME,
    Placement,
    compressed_document,
    differences,
    equipoise_document,
    window_limits,
)
from equipoise.cli.demo.figures import WindowLimit
from equipoise.contracts.bus.subjects import SERVICES

PORTS = {name: 10_000 + number for number, name in enumerate((*SERVICES, "extender"))}
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
    "hints": {"scorer.hints.interval", "scorer.hints.enabled", "annotator.hints.enabled"},
}
"""What differs only with one of them."""


def demo_document(factor: float, *, placement: Placement = "extender", sliced: bool = False) -> dict[str, Any]:
    document = equipoise_document(
        kubeconfig="k", prometheus_url="http://p:1", nats_url="nats://n:1", ports=PORTS, neutral=False,
        differences=differences(placement, sliced=sliced),
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
    """Compared without compression; both default strategies and profiles are in use, with the default limits."""
    defaults = dict(leaves(compressed_document({}, 1)))
    demo = dict(leaves(demo_document(1, placement=placement)))
    different = {path for path in demo if demo[path] != defaults[path]} - SCENARIO

    assert different == BY_PLACEMENT[placement] | {
        "load.windows", "load.freshness.eviction", "load.freshness.score", "descheduler.intentLifetime"
    }  # fmt: skip
    assert [strategy["name"] for strategy in demo["descheduler.strategies"]] == ["low_node_load", "level_day"]
    assert demo["collector.profile.enabled"] is True


@pytest.mark.parametrize("placement", get_args(Placement))
def test_at_most_three_differences_are_forced_by_compression(placement: Placement) -> None:
    """Each has a reason; a slice of a recorded trace has one more."""
    assert len(differences(placement, sliced=False)) <= 3
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
