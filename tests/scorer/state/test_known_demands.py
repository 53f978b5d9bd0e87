"""Expected usages that are kept are those that would be computed now."""

from typing import Any

import msgspec
import numpy as np
import pytest
from builders import GIB, NOW, a_workload
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule
from scorer.clusters import a_pod, a_scoring_state

from equipoise.contracts.kubernetes.workload import Workload
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.pod_demand import PodDemand
from equipoise.contracts.messages.utilization import WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.scorer.decisions.arrays import Demand
from equipoise.scorer.decisions.demand import expected_demand
from equipoise.scorer.decisions.policies.profile import ProfilePolicy
from equipoise.scorer.state import known_demands
from equipoise.scorer.state.scoring_state import ScoringState

MEASURED = [a_workload(), msgspec.structs.replace(a_workload(), name="batch")]
WINDOWS = ("5m", "15m", "1h", "1d")
amounts = st.sampled_from([None, 0.5, 2.0])


def computed_now(state: ScoringState, pod: PodDemand, now: float) -> Demand:
    """Without anything that was kept."""
    return expected_demand(
        pod,
        state.nodes.workload_usage(pod.workload, now),
        windows=state.nodes.windows,
        chain=state.policy.demand_chain,
        daily=state.nodes.daily_profile(pod.workload),
    )


def same(left: Demand, right: Demand) -> bool:
    arrays = ("usage", "requests", "limits", "band_requests")
    return all(
        np.array_equal(getattr(left, name), getattr(right, name), equal_nan=True)
        if name in arrays
        else getattr(left, name) is getattr(right, name) or getattr(left, name) == getattr(right, name)
        for name in Demand.__struct_fields__
    )


class AnyHistory(RuleBasedStateMachine):
    """Measurements, profiles, pods of all kinds, and time that passes."""

    def __init__(self) -> None:
        super().__init__()
        self.state = a_scoring_state({"node-a": 2.0, "node-b": 6.0}, policy=ProfilePolicy())
        self.now, self.sequence = NOW, 0

    @rule(
        workload=st.sampled_from(MEASURED),
        windows=st.dictionaries(st.sampled_from(WINDOWS), st.tuples(st.floats(0, 400), amounts)),
        hours=st.integers(0, SLOTS),
    )
    def measure(self, workload: Workload, windows: dict[str, tuple[float, float | None]], hours: int) -> None:
        self.sequence += 1
        values = {
            name: WindowUsage(sampled_at=self.now - age, mean=Resources(cpu=cpu, memory=GIB))
            for name, (age, cpu) in windows.items()
        }
        self.state.nodes.on_workload(
            WorkloadUtilization(
                workload=workload, replicas=3, sampled_at=self.now, queried_at=self.now, epoch=1,
                sequence=self.sequence, windows=values,
                profile={"cpu": [1.0] * hours + [None] * (SLOTS - hours), "memory": [GIB] * SLOTS},
            ),
            self.now,
        )  # fmt: skip

    @rule(seconds=st.sampled_from([0.0, 1.0, 100.0, 400.0, 100_000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        self.state.prune(self.now)

    @rule(
        workload=st.sampled_from([None, *MEASURED]),
        request=amounts,
        limit=amounts,
        production=st.booleans(),
        band=amounts,
        band_limit=amounts,
        priority=st.sampled_from([0, 5_500]),
    )
    def ask(
        self,
        workload: Workload | None,
        request: float | None,
        limit: float | None,
        production: bool,
        band: float | None,
        band_limit: float | None,
        priority: int,
    ) -> None:
        """The expected usage is the one of now."""
        pod = msgspec.structs.replace(
            a_pod(workload=workload),
            requests=Resources(cpu=request),
            limits=Resources(cpu=limit),
            priority_class="prod" if production else "batch",
            priority=priority,
            reclaimed_requests=Resources(cpu=band),
            reclaimed_limits=Resources(cpu=band_limit),
        )

        demand, _, _ = self.state.inputs(pod, ["node-a"], self.now)

        assert same(demand, computed_now(self.state, pod, self.now))


TestAnyHistory = AnyHistory.TestCase
TestAnyHistory.settings = settings(max_examples=50, stateful_step_count=20, deadline=None)


def with_usage(cpu: float, sequence: int) -> WorkloadUtilization:
    """Of the workload of pods, over 5 minutes and a day."""
    value = WindowUsage(sampled_at=NOW, mean=Resources(cpu=cpu, memory=GIB))
    return WorkloadUtilization(
        workload=a_workload(), replicas=3, sampled_at=NOW, queried_at=NOW, epoch=1, sequence=sequence,
        windows={"5m": value, "1d": msgspec.structs.replace(value, mean=Resources(cpu=3 * cpu, memory=GIB))},
    )  # fmt: skip


@pytest.mark.parametrize(
    "change",
    [
        {"requests": Resources(cpu=3.0)},
        {"limits": Resources(memory=2 * GIB)},
        {"reclaimed_requests": Resources(cpu=3.0)},
        {"reclaimed_limits": Resources(cpu=3.0)},
        {"priority_class": "batch"},
        {"seconds": 500.0},
        {"message": with_usage(2.0, 2)},
    ],
    ids=lambda change: next(iter(change)),
)
def test_whatever_changes_the_expected_usage_is_noticed(change: dict[str, Any]) -> None:
    """The pod itself, a new measurement of its workload, and a window that has become outdated."""
    state = a_scoring_state({"node-a": 2.0})
    state.nodes.on_workload(with_usage(1.0, 1), NOW)
    fields, now = dict(change), NOW + change.get("seconds", 0.0)
    fields.pop("seconds", None)
    message = fields.pop("message", None)
    pod = a_pod(workload=a_workload())
    before, _, _ = state.inputs(pod, ["node-a"], NOW)
    if message is not None:
        state.nodes.on_workload(message, NOW)
    changed = msgspec.structs.replace(pod, **fields)

    after, _, _ = state.inputs(changed, ["node-a"], now)

    assert same(after, computed_now(state, changed, now))
    assert not same(after, before)


def test_an_unchanged_workload_is_not_computed_again() -> None:
    """The second pod of a burst gets the very same arrays."""
    state = a_scoring_state({"node-a": 2.0})

    first, second = (state.inputs(a_pod(name, a_workload()), ["node-a"], NOW)[0] for name in ("x", "y"))

    assert second is first


def test_only_a_limited_number_of_workloads_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """The one that was used longest ago is computed again."""
    monkeypatch.setattr(known_demands, "_MAX_KNOWN", 2)
    state = a_scoring_state({"node-a": 2.0})

    def demand(name: str) -> Demand:
        pod = a_pod(workload=msgspec.structs.replace(a_workload(), name=name))
        return state.inputs(pod, ["node-a"], NOW)[0]

    a, b = demand("a"), demand("b")
    assert demand("a") is a
    demand("c")
    assert demand("a") is a
    assert demand("b") is not b
