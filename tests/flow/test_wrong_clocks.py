"""The services together while clocks are wrong, and after they are right again."""

import itertools
from dataclasses import replace

import pytest
from descheduler.cluster import moment
from flow.loop import HOT, IDLE, INTERVAL, Loop
from msgspec import structs

from equipoise.contracts.messages.utilization import NodeUtilization, UtilizationCycle
from equipoise.runtime.kubernetes.client import PODS

YEAR = 31_536_000.0
WRONG = 300.0
"""Seconds for which the clocks are wrong."""

AGAIN = 1_200.0 + 10 * INTERVAL
"""Seconds within which the next pod must be evicted: the windows of the halved limits, and the first evaluations."""


class Evictions:
    """When pods were evicted, in seconds that have passed."""

    def __init__(self, loop: Loop) -> None:
        self._loop = loop
        self.times: list[float] = []

    def count(self) -> int:
        evicted = len(self._loop.evicted())
        self.times += [self._loop.clock.monotonic()] * (evicted - len(self.times))
        return evicted


def set_clocks(loop: Loop, which: str, seconds: float) -> None:
    """`all`: of every machine; `services`: not that of the API server; `API server`: only that one."""
    if which != "API server":
        loop.clock.step(seconds)
    if which != "all":
        loop.kube.skew += seconds if which == "API server" else -seconds


@pytest.mark.parametrize("seconds", [YEAR, -7_200.0])
@pytest.mark.parametrize("which", ["all", "services", "API server"])
async def test_after_clocks_were_wrong_pods_are_evicted_as_before(which: str, seconds: float) -> None:
    """A pod that is placed meanwhile included. The limits hold by the time that passes, whatever clocks show."""
    loop = Loop()
    async with loop.running(colocation=True):
        evictions = Evictions(loop)
        await loop.until(lambda: evictions.count() == 1, limit=10 * INTERVAL)
        set_clocks(loop, which, seconds)
        loop.place("web", "web-late", HOT)
        for _ in range(round(WRONG / 10)):
            await loop.pass_time(10)
            evictions.count()
        set_clocks(loop, which, -seconds)
        known = evictions.count()
        await loop.until(lambda: evictions.count() > known, limit=AGAIN)
        await loop.pass_time(2 * INTERVAL)

    assert all(later - earlier >= 590 for earlier, later in itertools.pairwise(evictions.times))
    assert not any(loop.problems().values())


class KubeletsApart(Loop):
    """The kubelets of the idle nodes date their samples, and all kubelets the starts of their pods, with
    another clock."""

    def __init__(self, seconds: float) -> None:
        super().__init__()
        self.seconds = seconds
        for pod in self.kube.stored(PODS):
            started = moment(self.clock.now() + seconds)
            self.kube.put(PODS, structs.replace(pod, status=structs.replace(pod.status, start_time=started)))

    def _measure(self) -> None:
        super()._measure()
        for name in IDLE:
            self.source.nodes[name] = replace(self.source.nodes[name], age=1.0 - self.seconds)


@pytest.mark.parametrize("seconds", [2.0, -2.0])
@pytest.mark.parametrize("which", ["kubelets", "Prometheus", "services", "API server", "all but the services"])
async def test_clocks_that_are_two_seconds_apart_change_nothing(which: str, seconds: float) -> None:
    """Every node is known, pods are evicted as soon as with right clocks, and no age or usage is negative."""
    loop = KubeletsApart(seconds if which in ("kubelets", "all but the services") else 0.0)
    if which in ("Prometheus", "all but the services"):
        loop.source.skew = seconds
    if which in ("services", "API server", "all but the services"):
        set_clocks(loop, "services" if which == "services" else "API server", seconds)
    async with loop.running(colocation=True):
        await loop.until(lambda: len(loop.evicted()) == 1, limit=5 * INTERVAL)
        explanation = await loop.explanation("web")

    usages = [
        amount
        for message in loop.bus.published(NodeUtilization)
        for usage in (*(window.mean for window in message.windows.values()), *message.pods.values())
        for amount in (usage.cpu, usage.memory)
    ]
    assert min(amount for amount in usages if amount is not None) > 0
    assert {(cycle.expected, cycle.fresh) for cycle in loop.bus.published(UtilizationCycle)} == {(3, 3)}
    assert max(node.extender_score for node in explanation.nodes) > min(
        node.extender_score for node in explanation.nodes
    )
    assert not any(loop.problems().values())
    negative = [
        sample.name
        for registry in loop.registries.values()
        for family in registry.collect()
        for sample in family.samples
        if sample.value < 0
    ]
    assert set(negative) <= {"equipoise_collector_source_skew_seconds"}
