"""PodDisruptionBudgets in replays: what they allow, and what happens where they allow nothing."""

from collections.abc import Sequence

import msgspec
import pytest
from lab.traces import a_trace
from scheduling.pods import a_budget, a_pod

from equipoise.binder.decisions.limits import EvictionsPerCluster, Limits
from equipoise.binder.decisions.result import Finish
from equipoise.contracts.configuration.settings import ResourceThresholds, Thresholds
from equipoise.contracts.messages.eviction import Outcome
from equipoise.lab.model.disruption_budgets import PodCounts, budget_object, budget_status, refused_eviction
from equipoise.lab.model.trace import Trace, TraceBudget, TraceWorkload
from equipoise.lab.replay import Replay
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.results import RunFigures
from equipoise.scorer.decisions.policies.table import SINGLE_POLICIES

BUSY, IDLE = (2_000.0,) * 96, (50.0,) * 96
VIOLATED = "Cannot evict pod as it would violate the pod's disruption budget."


def pods(desired: int, existing: int, healthy: int) -> PodCounts:
    return PodCounts(desired=desired, existing=existing, healthy=healthy)


READY = pods(3, 3, 3)


@pytest.mark.parametrize(
    ("least", "most", "counts", "allowed"),
    [
        (2, None, [READY], 1),
        (2, None, [pods(3, 3, 2)], 0),
        (2, None, [pods(3, 4, 4)], 2),
        (3, None, [READY, READY], 3),
        (0, None, [READY], 3),
        (0, None, [pods(3, 0, 0)], 0),
        ("50%", None, [READY], 1),
        ("50%", None, [pods(4, 5, 5)], 3),
        ("100%", None, [READY], 0),
        (None, 1, [READY], 1),
        (None, 1, [pods(3, 3, 2)], 0),
        (None, 1, [pods(3, 4, 4)], 2),
        (None, 9, [pods(3, 3, 1)], 1),
        (None, "50%", [READY], 2),
        (None, 1, [READY, READY], 1),
        (None, 1, [READY, pods(5, 0, 0)], 1),
    ],
)
def test_a_budget_allows_as_many_disruptions_as_there_are_healthy_pods_above_the_minimum(
    least: int | str | None, most: int | str | None, counts: Sequence[PodCounts], allowed: int
) -> None:
    """Percentages are of the desired replicas of workloads with pods, rounded up. Without pods, nothing is allowed."""
    budget = TraceBudget(name="few", workloads=(0,), min_available=least, max_unavailable=most)

    assert allowed == budget_status(budget, ["Deployment"] * len(counts), counts).disruptions_allowed


@pytest.mark.parametrize("kind", ["Pod", "DaemonSet", "Job"])
def test_only_a_number_of_available_pods_is_known_of_kinds_without_replicas(kind: str) -> None:
    """As for the disruption controller."""
    number = TraceBudget(name="few", workloads=(0,), min_available=1)
    share = TraceBudget(name="few", workloads=(0,), max_unavailable=1)

    assert (2, 0) == (
        budget_status(number, [kind], [READY]).disruptions_allowed,
        budget_status(share, [kind], [READY]).disruptions_allowed,
    )


def test_the_api_server_refuses_an_eviction_by_the_budgets_of_the_pod() -> None:
    """Several budgets always refuse. Budgets of other pods and namespaces do not count."""
    pod = a_pod(labels={"app": "web"})
    allows, refuses = a_budget(1, app="web"), a_budget(0, app="web")
    others = [a_budget(0, app="db"), a_budget(0, namespace="other", app="web")]

    assert refused_eviction(pod, [allows, *others]) is None
    blocked = Finish(outcome=Outcome.BLOCKED_PDB, detail=VIOLATED)
    assert blocked == refused_eviction(pod, [refuses, *others])
    several = refused_eviction(pod, [allows, allows])
    assert several is not None
    assert Outcome.REJECTED_POLICY == several.outcome


def test_a_budget_selects_the_pods_of_its_workloads_only() -> None:
    """Also if others have the same name or kind."""
    workloads = [TraceWorkload(name="web"), TraceWorkload(name="db", kind="StatefulSet")]
    budget = TraceBudget(name="both", workloads=(0, 1), min_available=1)
    found = budget_object(budget, workloads, [READY, READY])

    selected = [
        refused_eviction(a_pod(labels={"workload": label}), [msgspec.structs.replace(found, status=a_budget(0).status)])
        for label in ("Deployment/web", "StatefulSet/db", "StatefulSet/web", "Deployment/db")
    ]
    assert [True, True, False, False] == [each is not None for each in selected]


def with_budget(trace: Trace, **fields: int | str) -> Trace:
    """One budget for all workloads."""
    budget = TraceBudget(name="budget", workloads=tuple(range(len(trace.workloads))), **fields)  # type: ignore[arg-type]  # the name is given
    return msgspec.structs.replace(trace, budgets=(budget,))


def leveled(trace: Trace) -> RunFigures:
    """With the descheduler."""
    settings = Settings(
        thresholds=Thresholds(high=ResourceThresholds(cpu=60, memory=95), low=ResourceThresholds(cpu=45, memory=90)),
        limits=Limits(evictions_per_cluster=EvictionsPerCluster(max=20)),
    )
    plan = ReplayPlan(
        scenario="given", policy="water_level", scoring=SINGLE_POLICIES["water_level"](), descheduler=True,
        missing=0.0, settings=settings,
    )  # fmt: skip
    return Replay(trace, plan).run().figures


def uneven_trace() -> Trace:
    """Two hot nodes, each with three pods of two busy workloads, and two idle nodes."""
    return a_trace(curves=(BUSY, BUSY, IDLE), replicas=(3, 3, 6), placed=(0, 0, 1, 1, 1, 0, 2, 2, 2, 3, 3, 3))


def test_the_descheduler_proposes_no_pod_of_a_budget_that_allows_no_disruption() -> None:
    figures = leveled(with_budget(uneven_trace(), min_available="100%"))

    assert (0, {}) == (figures.moved, figures.refused)


def test_an_eviction_is_refused_while_a_pod_of_the_budget_is_not_ready() -> None:
    """One of two evictions at the same time. The second one follows later."""
    figures = leveled(with_budget(uneven_trace(), max_unavailable=1))

    assert VIOLATED in figures.refused
    assert figures.moved >= 2


@pytest.mark.parametrize("protected", [0, 1])
def test_preemption_prefers_victims_whose_budget_is_not_violated(protected: int) -> None:
    """Either of two pods would make room for one of higher priority: the one without a budget goes."""
    trace = a_trace(nodes=2, curves=(BUSY, IDLE, IDLE), replicas=(1, 1, 1), placed=(0, 1, 1), request_cpu_milli=8_000)
    high = msgspec.structs.replace(trace.workloads[2], priority=10)
    trace = msgspec.structs.replace(
        trace,
        workloads=(*trace.workloads[:2], high),
        pods=(*trace.pods[:2], msgspec.structs.replace(trace.pods[2], node="")),
        budgets=(TraceBudget(name="one", workloads=(protected,), min_available=1),),
    )
    run = Replay(trace, ReplayPlan(scenario="given", policy="stock")).run()

    assert (1, 1) == (run.figures.preempted, run.figures.unplaced)
    # The busy pod uses a quarter of its node: it still runs if it is protected.
    assert (protected == 0) == (run.after.max() > 20)
