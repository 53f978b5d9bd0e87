"""`equipoise explain eviction`: the story of a pod, from the samples to its replacement."""

import io
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload, an_intent
from cli.buses import Bus
from descheduler.test_memory import an_outcome
from rich.console import Console

from equipoise.cli.eviction.run import BEFORE, merged
from equipoise.cli.eviction.story import Story, story
from equipoise.cli.eviction.text import show
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    LoadReduction,
    NodeClassification,
    ProposedMove,
    RefusedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources
from equipoise.runtime.bus.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

HOT = "node is overutilized, cpu usage(80.00%)>threshold(65.00%)"


def a_verdict(
    node: str = "node-a", cpu: float = 0.8, count: int = 0, at: float = NOW, **fields: Any
) -> NodeClassification:
    state, why = ("hot", HOT) if count else ("idle", "")
    defaults: dict[str, Any] = {
        "node": node,
        "state": state,
        "load": Resources(cpu=cpu, memory=0.25),
        "abnormal_evaluations": count,
        "why": why,
        "sampled_at": at - 7,
    }
    return NodeClassification(**(defaults | fields))


def a_decision(at: float, count: int, *intents: EvictionIntent, **fields: Any) -> DescheduleDecision:
    names = ("namespace", "pod", "pod_uid", "workload", "node", "target", "reason", "expected_reduction", "sampled_at")
    moves = [
        ProposedMove(
            intent_id=intent.id, expires_at=intent.expires_at, **{name: getattr(intent, name) for name in names}
        )
        for intent in intents
    ]
    defaults: dict[str, Any] = {
        "strategy": "low_node_load",
        "evaluated_at": at,
        "nodes": [a_verdict(count=count, at=at), a_verdict("node-b", cpu=0.2)],
        "intents": [intent.id for intent in intents],
        "moves": moves,
    }
    return DescheduleDecision(**(defaults | fields))


INTENT = an_intent(decided_at=NOW, sampled_at=NOW - 12, reason=HOT)


def five_evaluations(*, landed_on: str = "node-b", better: bool = True) -> list[DescheduleDecision]:
    """Ten minutes to the decision at NOW, and what was seen after it."""
    landing = ReplacementPlaced(
        intent_id=INTENT.id,
        namespace="shop",
        pod="web-1",
        node="node-a",
        target="node-b",
        replacement="web-9",
        placed_on=landed_on,
    )
    relief = LoadReduction(
        node="node-a",
        intents=[INTENT.id],
        over=["cpu"],
        before=Resources(cpu=8.0),
        after=Resources(cpu=7.05),
        expected=Resources(cpu=1.0, memory=GIB),
        reduced=better,
    )
    before = [a_decision(NOW - 120 * (6 - number), max(0, number - 1)) for number in range(6)]
    after = [
        a_decision(NOW + 120, 0, replacements=[landing]),
        a_decision(NOW + 480, 0, load_reductions=[relief]),
    ]
    return [*before, a_decision(NOW, 5, INTENT), *after]


def evicted(**fields: Any) -> EvictionOutcome:
    return an_outcome(Outcome.EVICTED, INTENT, settled_at=NOW + 2, **fields)


def told(outcomes: Sequence[EvictionOutcome], decisions: Sequence[DescheduleDecision], **console: Any) -> str:
    out = io.StringIO()
    show(story("shop", "web-1", outcomes, decisions), Console(file=out, highlight=False, width=200, **console))
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_the_whole_story_of_an_eviction() -> None:
    """Sample, evaluations with loads, decision, intent, outcome, replacement, and what it did for the node."""
    text = told([evicted()], five_evaluations())

    assert text.splitlines() == [
        "shop/web-1 of Deployment/shop/web on node-a: evicted",
        "sample       2027-01-15 07:59:48 UTC, the oldest that counted; 12 s old at the decision",
        "evaluations  node-a was over its mark 5 times in a row, in 8 min",
        "             at        count  cpu    memory  sample    why",
        *(
            f"             {at}      {count}  80.0%  25.0%   {sample}  {HOT}"
            for at, count, sample in (
                ("07:52:00", 1, "07:51:53"),
                ("07:54:00", 2, "07:53:53"),
                ("07:56:00", 3, "07:55:53"),
                ("07:58:00", 4, "07:57:53"),
                ("08:00:00", 5, "07:59:53"),
            )
        ),
        f"decision     2027-01-15 08:00:00 UTC by low_node_load: {HOT}",
        "intent       takes 1.00 cores, 1.00 GiB off, for node-b, then at cpu 20.0%, memory 25.0%; good until 08:03:00 "
        "(intent-web-1)",
        "outcome      2027-01-15 08:00:02 UTC: evicted",
        "replacement  web-9 on node-b, as intended",
        "relief       cpu fell by 0.95 of 1.00 cores expected: better",
    ]


def test_a_replacement_elsewhere_is_said() -> None:
    """Back where it came from, or on another node than intended; and a node that did not get better."""
    assert "web-9 came back to node-a: the workload is left alone" in told(
        [evicted()], five_evaluations(landed_on="node-a")
    )
    assert "web-9 on node-c, instead of node-b" in told([evicted()], five_evaluations(landed_on="node-c"))
    assert "expected: no better" in told([evicted()], five_evaluations(better=False))


def test_a_refused_eviction_names_its_limit() -> None:
    """What it is called in the configuration, why, and until when."""
    outcome = an_outcome(
        Outcome.REJECTED_LIMIT,
        INTENT,
        settled_at=NOW + 2,
        limit="evictionsPerWorkload",
        detail="1 of 1 in 5 min",
        retry_at=NOW + 300,
    )
    text = told([outcome], five_evaluations())

    assert "on node-a: not evicted: a limit has no room\n" in text
    assert (
        "outcome      2027-01-15 08:00:02 UTC: rejected_limit, binder.limits.evictionsPerWorkload, 1 of 1 in 5 min, "
        "room again at 08:05:00"
    ) in text
    assert "replacement" not in text


def test_an_outcome_without_its_decision_is_told_as_far_as_it_goes() -> None:
    """The stream of decisions is full before a day is over in a big cluster."""
    text = told([evicted()], [])

    assert f"decision     2027-01-15 08:00:00 UTC, of which the bus keeps no more than this: {HOT}" in text
    assert "evaluations" not in text
    assert "was not seen, or its sighting is not kept" in text


def test_an_intent_that_nobody_settled_is_told() -> None:
    """With where to look."""
    text = told([], five_evaluations()[:7])

    assert "on node-a: proposed, and not settled\n" in text
    assert "none is known: is a binder running (its /readyz), and has the intent expired by now?" in text


def test_a_pod_that_stays_is_told_why() -> None:
    """The last word of each strategy, when nothing came after it."""
    refused = [RefusedMove(pod="shop/web-1", node="node-a", why="a pod of its workload was moved just now")]
    decisions = [a_decision(NOW + 600, 1, refused=refused), a_decision(NOW + 720, 1)]

    assert told([], decisions).splitlines() == [
        "shop/web-1 was looked at and left where it is",
        "stays        2027-01-15 08:10:00 UTC by low_node_load, on node-a: a pod of its workload was moved just now",
    ]
    assert "left where it is" not in told([an_outcome(Outcome.EVICTED, an_intent(decided_at=NOW + 900))], decisions)


def test_every_outcome_has_its_words() -> None:
    """Also those that come rarely."""
    for outcome in Outcome:
        assert "shop/web-1" in told([an_outcome(outcome, INTENT)], [])


def test_two_evictions_of_one_name_are_two() -> None:
    """As of a StatefulSet's pod that came back: oldest first, each with its own evaluations."""
    second = an_intent(id="second", pod_uid="other", decided_at=NOW + 3_600, reason=HOT)
    decisions = [*five_evaluations(), a_decision(NOW + 3_480, 4), a_decision(NOW + 3_600, 5, second)]
    found = story("shop", "web-1", [evicted(), an_outcome(Outcome.EVICTED, second)], decisions)

    assert [each.intent_id for each in found.evictions] == [INTENT.id, "second"]
    assert [len(each.evaluations) for each in found.evictions] == [5, 2]


def test_evaluations_of_other_strategies_and_nodes_are_not_mixed_in() -> None:
    """Each counts for itself."""
    decisions = five_evaluations()
    others = [a_decision(decision.evaluated_at, 0, strategy="make_room") for decision in decisions]
    found = story("shop", "web-1", [evicted()], sorted([*decisions, *others], key=lambda each: each.evaluated_at))

    assert [each.abnormal_evaluations for each in found.evictions[0].evaluations] == [1, 2, 3, 4, 5]


def test_times_are_read_once() -> None:
    """Of outcomes close to one another the same decisions tell."""
    assert merged([(5, 9), (0, 2), (1, 4), (8, 12)]) == [(0, 4), (5, 12)]


# the whole way


async def test_a_pod_of_which_nothing_is_kept_is_exit_code_1(bus: Bus) -> None:
    """It says what to do; a name without namespace is exit code 2."""
    code, said = await bus.ask("explain", "eviction", "shop/web-1")
    wrong, how = await bus.ask("explain", "eviction", "web-1")

    assert code == 1
    assert said.startswith("Error: nothing is kept of shop/web-1: outcomes are kept for 24 hours")
    assert "`equipoise plan`" in said
    assert (wrong, "NAMESPACE/NAME, as in" in how) == (2, True)


async def test_the_story_is_read_with_the_rights_of_the_tap(bus: Bus) -> None:
    """From the streams of outcomes and decisions, as services have said them; -o json has all of it."""
    clock = SystemClock()
    ago = clock.now() - 600 - NOW
    intent = an_intent("api.v1-1", decided_at=NOW + ago, reason=HOT)
    outcome = an_outcome(Outcome.EVICTED, intent, settled_at=NOW + ago + 2)
    async with (
        open_bus(bus.settings("descheduler"), "descheduler", clock, None) as descheduler,
        open_bus(bus.settings("binder"), "binder", clock, None) as binder,
    ):
        subject = subjects.decision("descheduler", "low_node_load")
        for number in range(5):
            intents = [intent] if number == 4 else []
            await descheduler.publish(subject, a_decision(NOW + ago - 120 * (4 - number), number + 1, *intents))
        await binder.publish(subjects.eviction_outcome("shop", "api.v1-1"), outcome)
    code, text = await bus.ask("explain", "eviction", "shop/api.v1-1")
    _, encoded = await bus.ask("explain", "eviction", "shop/api.v1-1", "-o", "json")
    found = msgspec.json.decode(encoded, type=Story)

    assert code == 0, text
    assert text.startswith("shop/api.v1-1 of Deployment/shop/web on node-a: evicted\n")
    assert "node-a was over its mark 5 times in a row, in 8 min" in text
    assert "\x1b" not in text
    assert found.evictions[0].outcome == outcome
    assert found.evictions[0].workload == a_workload()
    assert BEFORE >= 600
