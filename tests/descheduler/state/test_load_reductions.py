"""The load of a node is compared before and after evictions from it."""

from typing import Any

import msgspec
from builders import GIB, NOW, a_workload, an_intent
from descheduler.cluster_states import a_node
from descheduler.outcomes import a_proposed_move, an_outcome

from equipoise.contracts.configuration.settings import LoadSettings
from equipoise.contracts.messages.eviction import Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.decisions.cluster_node import ClusterNode
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.descheduler.state.moves.tracker import Tracker

WINDOW = LoadSettings().shortest
"""Five minutes."""

BEFORE = Resources(cpu=8.0, memory=20 * GIB)


def measured(cpu: float | None, sampled_at: float, memory: float = 20 * GIB, **fields: Any) -> ClusterNode:
    usage = {"5m": Resources(cpu=cpu, memory=memory)}
    return a_node(usage=usage, sampled_at={"5m": sampled_at}, **fields)


def evicted(*pods: str, at: float = NOW, over: tuple[str, ...] = ("cpu",), before: Resources = BEFORE) -> Tracker:
    """A reduction of node-a by one core is expected of each of these pods."""
    tracker = Tracker(DeschedulerSettings().tracker)
    for number, pod in enumerate(pods):
        intent = an_intent(pod, workload=a_workload(pod))
        tracker.proposed(a_proposed_move(intent, siblings=frozenset(), before=before, over=over))
        tracker.on_outcome(an_outcome(Outcome.EVICTED, intent, settled_at=at + number), at + number)
    return tracker


def test_a_node_is_compared_when_its_window_begins_after_the_eviction() -> None:
    """Not with an earlier sample, not while its load is unknown, and only once."""
    tracker = evicted("web-1")

    assert tracker.load_reductions([measured(7.0, NOW + 299)], WINDOW, NOW + 299) == []
    assert tracker.load_reductions([measured(7.0, NOW + 301, unknown="outdated")], WINDOW, NOW + 301) == []
    (result,) = tracker.load_reductions([measured(7.0, NOW + 301)], WINDOW, NOW + 301)
    assert (result.node, result.intents, result.reduced) == ("node-a", ["intent-web-1"], True)
    assert tracker.load_reductions([measured(7.0, NOW + 400)], WINDOW, NOW + 400) == []


def test_half_of_the_expected_reduction_is_a_reduction() -> None:
    """Of a resource that was above its threshold: less memory does not relieve the CPU."""
    (half,) = evicted("web-1").load_reductions([measured(7.5, NOW + 301)], WINDOW, NOW + 301)
    (less,) = evicted("web-1").load_reductions([measured(7.6, NOW + 301, memory=10 * GIB)], WINDOW, NOW + 301)
    (any_resource,) = evicted("web-1", over=()).load_reductions(
        [measured(7.6, NOW + 301, memory=10 * GIB)], WINDOW, NOW + 301
    )

    assert (half.reduced, less.reduced, any_resource.reduced) == (True, False, True)


def test_a_further_resource_that_was_above_its_threshold_is_compared() -> None:
    """Less CPU does not relieve the network."""

    def sending(amount: float) -> Resources:
        return Resources(cpu=8.0, memory=20 * GIB, further={"network": amount})

    def reduced(network: float) -> bool:
        tracker = Tracker(DeschedulerSettings().tracker)
        expected = Resources(cpu=1.0, memory=GIB, further={"network": 20.0})
        intent = an_intent("web-1", workload=a_workload("web-1"), expected_reduction=expected)
        move = a_proposed_move(intent, siblings=frozenset(), before=sending(90.0), over=("network",))
        tracker.proposed(move)
        tracker.on_outcome(an_outcome(Outcome.EVICTED, intent, settled_at=NOW), NOW)
        after = msgspec.structs.replace(sending(network), cpu=1.0)
        node = a_node(usage={"5m": after}, sampled_at={"5m": NOW + 301})
        (result,) = tracker.load_reductions([node], WINDOW, NOW + 301)
        return result.reduced

    assert (reduced(75.0), reduced(85.0)) == (True, False)


def test_the_number_of_pods_is_not_compared() -> None:
    """It falls with every eviction."""
    assert evicted("web-1", over=("pods",)).load_reductions([measured(8.0, NOW + 301)], WINDOW, NOW + 301) == []


def test_evictions_within_a_window_are_compared_together() -> None:
    """Of two expected cores one is just enough. The last eviction decides when."""
    tracker = evicted("web-1", "web-2")

    assert tracker.load_reductions([measured(7.0, NOW + 300.5)], WINDOW, NOW + 301) == []
    (result,) = tracker.load_reductions([measured(7.0, NOW + 301)], WINDOW, NOW + 301)
    assert (result.expected.cpu, result.reduced) == (2.0, True)
    assert result.intents == ["intent-web-1", "intent-web-2"]


def test_an_outcome_received_twice_is_one_eviction() -> None:
    """The expected reduction does not double."""
    tracker = evicted("web-1")
    tracker.on_outcome(an_outcome(Outcome.EVICTED, an_intent("web-1", workload=a_workload("web-1"))), NOW)

    (result,) = tracker.load_reductions([measured(7.5, NOW + 301)], WINDOW, NOW + 301)
    assert result.expected.cpu == 1.0


def test_a_node_of_unknown_load_is_not_compared() -> None:
    """Neither if the load before is unknown, as after a change of leaders, nor if it is unknown for long after."""
    unknown = evicted("web-1", before=Resources())
    assert unknown.load_reductions([measured(9.0, NOW + 301)], WINDOW, NOW + 301) == []

    silent = evicted("web-1")
    assert silent.load_reductions([], WINDOW, NOW + 901) == []
    assert silent.load_reductions([measured(9.0, NOW + 902)], WINDOW, NOW + 902) == []


def test_nothing_is_expected_of_a_dry_run() -> None:
    """It evicts nothing."""
    tracker = Tracker(DeschedulerSettings().tracker)
    tracker.proposed(a_proposed_move(before=BEFORE, over=("cpu",)))
    tracker.on_outcome(an_outcome(Outcome.DRY_RUN), NOW)

    assert tracker.load_reductions([measured(8.0, NOW + 301)], WINDOW, NOW + 301) == []
