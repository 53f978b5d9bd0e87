"""A node that does not get better by evictions is found out, and left alone."""

from typing import Any

from builders import GIB, NOW, a_workload, an_intent
from descheduler.clusters import a_node
from descheduler.test_tracker import an_outcome

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.fit import FitPod
from equipoise.contracts.messages.descheduling import LoadReduction
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.cluster import ClusterNode
from equipoise.descheduler.state.cool_downs import (
    CooldownSettings,
    Cooldowns,
    after_relief,
    pruned,
    resting_node,
    resting_nodes,
)
from equipoise.descheduler.state.tracker import Tracker

WINDOW = LoadSettings().shortest
"""Five minutes."""

COOL_DOWN = CooldownSettings()
BEFORE = Resources(cpu=8.0, memory=20 * GIB)


def a_relief(node: str = "node-a", *, better: bool = False) -> LoadReduction:
    expected = Resources(cpu=1.0, memory=GIB)
    return LoadReduction(
        node=node, intents=["one"], over=["cpu"], before=BEFORE, after=BEFORE, expected=expected, reduced=better
    )


def measured(cpu: float | None, sampled_at: float, memory: float = 20 * GIB, **fields: Any) -> ClusterNode:
    usage = {"5m": Resources(cpu=cpu, memory=memory)}
    return a_node(usage=usage, sampled_at={"5m": sampled_at}, **fields)


def evicted(*pods: str, at: float = NOW, over: tuple[str, ...] = ("cpu",), before: Resources = BEFORE) -> Tracker:
    """One core was to leave node-a with each of these pods."""
    memory = Tracker(DeschedulerSettings().tracker)
    for number, pod in enumerate(pods):
        intent = an_intent(pod, workload=a_workload(pod))
        fit = FitPod(uid=f"uid-{pod}", namespace="shop", name=pod)
        memory.proposed(intent, known=[], fit=fit, before=before, over=over)
        memory.settled(an_outcome(Outcome.EVICTED, intent, settled_at=at + number), at + number)
    return memory


def test_a_node_is_judged_once_its_window_shows_nothing_of_the_pod() -> None:
    """Not on a sample before, not while its load is unknown, and once only."""
    memory = evicted("web-1")

    assert memory.judged([measured(7.0, NOW + 299)], WINDOW, NOW + 299) == []
    assert memory.judged([measured(7.0, NOW + 301, unknown="silent")], WINDOW, NOW + 301) == []
    (relief,) = memory.judged([measured(7.0, NOW + 301)], WINDOW, NOW + 301)
    assert (relief.node, relief.intents, relief.reduced) == ("node-a", ["intent-web-1"], True)
    assert memory.judged([measured(7.0, NOW + 400)], WINDOW, NOW + 400) == []


def test_half_of_what_was_expected_is_better() -> None:
    """Of the resource that was over its mark: that memory fell does not cool a processor."""
    (half,) = evicted("web-1").judged([measured(7.5, NOW + 301)], WINDOW, NOW + 301)
    (less,) = evicted("web-1").judged([measured(7.6, NOW + 301, memory=10 * GIB)], WINDOW, NOW + 301)
    (unsaid,) = evicted("web-1", over=()).judged([measured(7.6, NOW + 301, memory=10 * GIB)], WINDOW, NOW + 301)

    assert (half.reduced, less.reduced, unsaid.reduced) == (True, False, True)


def test_the_number_of_pods_is_not_judged() -> None:
    """It falls with every eviction; nothing is known to have failed."""
    assert evicted("web-1", over=("pods",)).judged([measured(8.0, NOW + 301)], WINDOW, NOW + 301) == []


def test_evictions_within_a_window_are_judged_together() -> None:
    """Two cores were to leave: one that did is just enough, and the last eviction decides when."""
    memory = evicted("web-1", "web-2")

    assert memory.judged([measured(7.0, NOW + 300.5)], WINDOW, NOW + 301) == []
    (relief,) = memory.judged([measured(7.0, NOW + 301)], WINDOW, NOW + 301)
    assert (relief.expected.cpu, relief.reduced) == (2.0, True)
    assert relief.intents == ["intent-web-1", "intent-web-2"]


def test_an_outcome_told_twice_is_one_eviction() -> None:
    """What is expected does not double."""
    memory = evicted("web-1")
    memory.settled(an_outcome(Outcome.EVICTED, an_intent("web-1", workload=a_workload("web-1"))), NOW)

    (relief,) = memory.judged([measured(7.5, NOW + 301)], WINDOW, NOW + 301)
    assert relief.expected.cpu == 1.0


def test_what_was_never_known_is_not_judged() -> None:
    """Neither a node whose load before is unknown, as after a change of leaders, nor one that fell silent for long."""
    unknown = evicted("web-1", before=Resources())
    assert unknown.judged([measured(9.0, NOW + 301)], WINDOW, NOW + 301) == []

    silent = evicted("web-1")
    assert silent.judged([], WINDOW, NOW + 901) == []
    assert silent.judged([measured(9.0, NOW + 902)], WINDOW, NOW + 902) == []


def test_only_what_was_evicted_is_tried() -> None:
    """A dry run takes nothing away, and nothing is expected of it."""
    memory = Tracker(DeschedulerSettings().tracker)
    intent = an_intent()
    memory.proposed(intent, known=[], fit=FitPod(uid="u", namespace="shop", name="web-1"), before=BEFORE, over=["cpu"])
    memory.settled(an_outcome(Outcome.DRY_RUN, intent), NOW)

    assert memory.judged([measured(8.0, NOW + 301)], WINDOW, NOW + 301) == []


def fruitless(times: int) -> Cooldowns:
    cool_downs: Cooldowns = {}
    for _ in range(times):
        cool_downs = after_relief(cool_downs, a_relief(), COOL_DOWN, NOW)
    return cool_downs


def test_a_node_that_gets_no_better_rests_longer_and_longer() -> None:
    """Once may be chance; from the second time on it is left alone, twice as long each time, a day at most."""
    assert not resting_node(fruitless(1), "node-a", NOW)
    assert resting_node(fruitless(2), "node-a", NOW + 1_799)
    assert not resting_node(fruitless(2), "node-a", NOW + 1_800)
    assert resting_node(fruitless(3), "node-a", NOW + 3_599)
    assert not resting_node(fruitless(60), "node-a", NOW + 86_400)
    assert not resting_node(fruitless(2), "node-b", NOW)


def test_a_node_that_got_better_begins_anew() -> None:
    """What was in vain before is forgotten; so it is a day after the rest."""
    better = after_relief(fruitless(3), a_relief(better=True), COOL_DOWN, NOW)
    assert not resting_node(better, "node-a", NOW)
    assert not resting_node(after_relief(better, a_relief(), COOL_DOWN, NOW), "node-a", NOW)

    assert pruned(fruitless(2), COOL_DOWN, NOW + 88_199)
    assert not pruned(fruitless(2), COOL_DOWN, NOW + 88_201)


def test_why_a_node_rests_is_said_in_numbers() -> None:
    """How often, what was expected, and what came of it."""
    (told,) = resting_nodes(fruitless(2), NOW)

    assert (told.node, told.until) == ("node-a", NOW + 1_800)
    assert told.why == (
        "it did not get better, 2 times in a row: cpu should have fallen by 1.00 cores, and fell by 0.00"
    )
    assert resting_nodes(fruitless(2), NOW + 1_800) == []
