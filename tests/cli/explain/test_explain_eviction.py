"""`equipoise explain eviction`: the history of a pod, from the samples to its replacement."""

import io
import json
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from builders import GIB, NOW, a_workload, an_intent
from cli.buses import Bus
from cli.http_clusters import HttpCluster
from cli.narrow import assert_never_cut
from descheduler.outcomes import an_outcome
from rich.console import Console

from equipoise.cli.explain.eviction import BEFORE, INCLUDED, merged, result_text, show
from equipoise.cli.explain.eviction_history import eviction_history
from equipoise.cli.terminal import PIPE_WIDTH, rfc3339
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import (
    DescheduleDecision,
    LoadReduction,
    NodeClassification,
    ProposedMove,
    RefusedMove,
    ReplacementPlaced,
)
from equipoise.contracts.messages.eviction import EVICTION_OUTCOME, EvictionIntent, EvictionOutcome, Outcome
from equipoise.contracts.messages.placement import PlacedHint
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus.nats.nats_bus import open_bus
from equipoise.runtime.process.clock import SystemClock

pytestmark = pytest.mark.filterwarnings("ignore:datetime.datetime.utcnow:DeprecationWarning")

HOT = "node is hot: cpu 80.0% is above 65%"


def a_classification(
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
        "nodes": [a_classification(count=count, at=at), a_classification("node-b", cpu=0.2)],
        "intents": [intent.id for intent in intents],
        "moves": moves,
    }
    return DescheduleDecision(**(defaults | fields))


INTENT = an_intent(decided_at=NOW, sampled_at=NOW - 12, reason=HOT)


def five_evaluations(
    *, placed_on: str = "node-b", reduced: bool = True, hint: PlacedHint | None = None
) -> list[DescheduleDecision]:
    """Ten minutes up to the decision at NOW, and the effect of the eviction."""
    replacement = ReplacementPlaced(
        intent_id=INTENT.id,
        namespace="shop",
        pod="web-1",
        node="node-a",
        target="node-b",
        replacement="web-9",
        placed_on=placed_on,
        hint=hint,
    )
    reduction = LoadReduction(
        node="node-a",
        intents=[INTENT.id],
        over=["cpu"],
        before=Resources(cpu=8.0),
        after=Resources(cpu=7.05),
        expected=Resources(cpu=1.0, memory=GIB),
        reduced=reduced,
    )
    before = [a_decision(NOW - 120 * (6 - number), max(0, number - 1)) for number in range(6)]
    after = [
        a_decision(NOW + 120, 0, replacements=[replacement]),
        a_decision(NOW + 480, 0, load_reductions=[reduction]),
    ]
    return [*before, a_decision(NOW, 5, INTENT), *after]


def evicted(**fields: Any) -> EvictionOutcome:
    return an_outcome(Outcome.EVICTED, INTENT, settled_at=NOW + 2, **fields)


def shown(outcomes: Sequence[EvictionOutcome], decisions: Sequence[DescheduleDecision], **console: Any) -> str:
    out = io.StringIO()
    show(
        eviction_history("shop", "web-1", outcomes, decisions), Console(file=out, highlight=False, width=200, **console)
    )
    return "\n".join(line.rstrip() for line in out.getvalue().splitlines())


def test_the_hint_of_a_replacement_is_shown() -> None:
    """Whether it led the replacement to the target."""
    text = shown([evicted()], five_evaluations(hint=PlacedHint(preferred=21, avoided=3, weight=100)))

    assert (
        "replacement     web-9 on node-b, the target; created with a placement hint: 21 nodes preferred, 3 avoided; "
        "its node is preferred with weight 100"
    ) in text.splitlines()


def test_the_effect_on_a_further_resource_is_shown_in_its_own_unit() -> None:
    """For an eviction from a node that was hot in its network."""
    *decisions, last = five_evaluations()
    network = msgspec.structs.replace(
        last.load_reductions[0],
        over=["network"],
        before=Resources(further={"network": 9e6}),
        after=Resources(further={"network": 8e6}),
        expected=Resources(further={"network": 3e6}),
        reduced=False,
    )
    text = shown([evicted()], [*decisions, msgspec.structs.replace(last, load_reductions=[network])])

    assert "load reduction  network 1000000.00 of 3000000.00 expected: not reduced" in text.splitlines()


def test_an_eviction_is_explained_from_its_samples_to_its_effect() -> None:
    """Sample, evaluations with loads, decision, intent, outcome, replacement and load reduction."""
    text = shown([evicted()], five_evaluations())

    assert text.splitlines() == [
        "shop/web-1 of Deployment/shop/web on node-a: evicted",
        "oldest sample   2027-01-15 07:59:48 UTC, 12 s before the decision",
        f"evaluations     node-a was above its threshold 5 times in a row within 8 min; {INCLUDED}",
        "                time      count  cpu    memory  sample    reason",
        *(
            f"                {at}      {count}  80.0%  25.0%   {sample}  {HOT}"
            for at, count, sample in (
                ("07:52:00", 1, "07:51:53"),
                ("07:54:00", 2, "07:53:53"),
                ("07:56:00", 3, "07:55:53"),
                ("07:58:00", 4, "07:57:53"),
                ("08:00:00", 5, "07:59:53"),
            )
        ),
        f"decision        2027-01-15 08:00:00 UTC by low_node_load: {HOT}",
        "intent          intent-web-1: target node-b (load cpu 20.0%, memory 25.0%), expected reduction 1.00 cores, "
        "1.00 GiB, expires at 08:03:00",
        "outcome         2027-01-15 08:00:02 UTC: evicted",
        "replacement     web-9 on node-b, the target",
        "load reduction  cpu 0.95 of 1.00 cores expected: reduced",
    ]


def test_a_move_without_a_gap_is_explained_as_such() -> None:
    """As the binder has carried it out, and before that as it is proposed."""
    assert "\nmove            without a gap: " in shown([evicted(without_gap=True)], five_evaluations())
    assert "without a gap" not in shown([evicted()], five_evaluations())
    proposed = [each for each in five_evaluations() if each.moves]
    moves = [msgspec.structs.replace(move, without_gap=True) for move in proposed[0].moves]
    text = shown([], [msgspec.structs.replace(proposed[0], moves=moves)])
    assert "\noutcome         none yet: the move may take minutes" in text


def test_an_eviction_without_effect_is_shown_as_such() -> None:
    """The replacement returned or missed its target, or the load was not reduced."""
    assert "web-9 returned to node-a: the workload is now in a cooldown, which doubles with every return" in shown(
        [evicted()], five_evaluations(placed_on="node-a")
    )
    assert "web-9 on node-c, not the target node-b" in shown([evicted()], five_evaluations(placed_on="node-c"))
    assert "expected: not reduced" in shown([evicted()], five_evaluations(reduced=False))


def test_a_rejected_eviction_names_its_limit() -> None:
    """By its name in the configuration, with usage and the time at which it is possible again."""
    outcome = an_outcome(
        Outcome.REJECTED_LIMIT,
        INTENT,
        settled_at=NOW + 2,
        limit="evictionsPerWorkload",
        detail="1 of 1 in 5 min",
        retry_at=NOW + 300,
    )
    text = shown([outcome], five_evaluations())

    assert "on node-a: not evicted: a limit is reached\n" in text
    assert (
        "outcome         2027-01-15 08:00:02 UTC: rejected_limit, binder.limits.evictionsPerWorkload, 1 of 1 in 5 min, "
        "possible again at 08:05:00"
    ) in text
    assert "replacement" not in text


@pytest.mark.parametrize(
    ("outcome", "detail"),
    [
        (Outcome.REJECTED_LIMIT, "intent intent-2 is for the same pod"),
        (Outcome.REJECTED_LIMIT, "the ledger has 900001 bytes: too many evictions in its windows"),
        (Outcome.REJECTED_POLICY, "more than one PodDisruptionBudget selects it"),
        (Outcome.REJECTED_STALE, "it runs on node-c"),
        (Outcome.PAUSED, "ConfigMap equipoise-system/equipoise-ledger is missing"),
    ],
)
def test_the_headline_agrees_with_the_reason(outcome: Outcome, detail: str) -> None:
    """An outcome covers several reasons: the title has the one that applies."""
    headline = shown([an_outcome(outcome, INTENT, detail=detail)], []).splitlines()[0]

    assert headline == f"shop/web-1 of Deployment/shop/web on node-a: not evicted: {detail}"


def test_a_failed_eviction_is_not_shown_as_one_that_did_not_happen() -> None:
    """Its response may have been lost."""
    headline = shown([an_outcome(Outcome.FAILED, INTENT, detail="no response: timeout")], []).splitlines()[0]

    assert headline.endswith("on node-a: failed: no response: timeout")


def test_an_outcome_without_its_decision_is_shown() -> None:
    """In a big cluster the stream of decisions holds less than a day."""
    text = shown([evicted()], [])

    assert f"decision        2027-01-15 08:00:00 UTC (its evaluations are no longer retained): {HOT}" in text
    assert "in a row" not in text
    assert "not observed: it may take half a minute, and the message is kept for a day" in text


def test_an_intent_without_outcome_is_shown() -> None:
    """With what to check."""
    text = shown([], five_evaluations()[:7])

    assert "on node-a: proposed, no outcome yet\n" in text
    assert "unknown: check that a binder is running (/readyz) and that the intent has not expired" in text


def test_a_pod_that_is_not_moved_has_the_reason_of_each_strategy() -> None:
    """The latest one, unless an eviction followed."""
    refused = [RefusedMove(pod="shop/web-1", node="node-a", why="a pod of its workload was moved just now")]
    decisions = [a_decision(NOW + 600, 1, refused=refused), a_decision(NOW + 720, 1)]

    assert shown([], decisions).splitlines() == [
        "shop/web-1 was considered and not moved",
        "not moved       2027-01-15 08:10:00 UTC by low_node_load, on node-a: a pod of its workload was moved just now",
    ]
    assert "not moved" not in shown([an_outcome(Outcome.EVICTED, an_intent(decided_at=NOW + 900))], decisions)


def test_every_outcome_has_a_description() -> None:
    """Also the rare ones."""
    for outcome in Outcome:
        assert "shop/web-1" in shown([an_outcome(outcome, INTENT)], [])


def test_two_evictions_of_one_name_are_separate() -> None:
    """As of a StatefulSet's pod: oldest first, each with its own evaluations."""
    second = an_intent(id="second", pod_uid="other", decided_at=NOW + 3_600, reason=HOT)
    decisions = [*five_evaluations(), a_decision(NOW + 3_480, 4), a_decision(NOW + 3_600, 5, second)]
    found = eviction_history("shop", "web-1", [evicted(), an_outcome(Outcome.EVICTED, second)], decisions)

    assert [each.intent_id for each in found.evictions] == [INTENT.id, "second"]
    assert [len(each.evaluations) for each in found.evictions] == [5, 2]


def test_evaluations_of_other_strategies_and_nodes_are_not_mixed_in() -> None:
    """Each has its own count."""
    decisions = five_evaluations()
    others = [a_decision(decision.evaluated_at, 0, strategy="make_room") for decision in decisions]
    found = eviction_history(
        "shop", "web-1", [evicted()], sorted([*decisions, *others], key=lambda each: each.evaluated_at)
    )

    assert [each.abnormal_evaluations for each in found.evictions[0].evaluations] == [1, 2, 3, 4, 5]


def test_overlapping_spans_are_read_once() -> None:
    """Outcomes close to one another share decisions."""
    assert merged([(5, 9), (0, 2), (1, 4), (8, 12)]) == [(0, 4), (5, 12)]


# the command


async def test_an_unknown_pod_is_exit_code_1(bus: Bus) -> None:
    """The error states what to check; a name without namespace is exit code 2."""
    code, output = await bus.run("explain", "eviction", "shop/web-1")
    wrong, error = await bus.run("explain", "eviction", "web-1")

    assert code == 1
    assert output.startswith(
        "Error: no eviction of shop/web-1 found: the bus has no message about one in the last 24 hours"
    )
    assert "`equipoise plan`" in output
    assert (wrong, "use NAMESPACE/NAME" in error) == (2, True)


async def test_the_user_tap_may_read_the_history(bus: Bus) -> None:
    """From the streams of outcomes and decisions; -o json has all of it."""
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
    code, text = await bus.run("explain", "eviction", "shop/api.v1-1")
    _, encoded = await bus.run("explain", "eviction", "shop/api.v1-1", "-o", "json")
    (found,) = json.loads(encoded)["evictions"]

    assert code == 0, text
    assert text.startswith(
        f"messages of {bus.url}, not compared with a cluster (no kubeconfig at /nowhere: use --kubeconfig)\n"
        "shop/api.v1-1 of Deployment/shop/web on node-a: evicted\n"
    )
    assert "node-a was above its threshold 5 times in a row within 8 min" in text
    assert "\x1b" not in text
    assert found["outcome"]["outcome"] == "evicted"
    assert found["outcome"]["settled_at"] == rfc3339(outcome.settled_at)
    assert found["workload"]["name"] == a_workload().name
    assert BEFORE >= 600


async def test_an_expired_intent_without_an_outcome_is_unknown(bus: Bus, cluster: HttpCluster) -> None:
    """Exit code 1. The cluster of the kubeconfig is named, and not claimed to be that of the messages."""
    clock = SystemClock()
    ago = clock.now() - NOW - 600
    intent = an_intent(pod="api.v1-2", id="unsettled", decided_at=NOW + ago, expires_at=NOW + ago + 180, reason=HOT)
    async with open_bus(bus.settings("descheduler"), "descheduler", clock, None) as descheduler:
        subject = subjects.decision("descheduler", "low_node_load")
        await descheduler.publish(subject, a_decision(NOW + ago, 5, intent))
    code, text = await bus.run("explain", "eviction", "shop/api.v1-2", KUBECONFIG=str(cluster.file))

    assert code == 1
    assert text.splitlines()[0] == (
        f"messages of {bus.url}, not compared with the kubeconfig's cluster castle {cluster.url} (context home)"
    )
    assert "outcome         unknown: check that a binder is running" in text
    assert text.splitlines()[-1] == "Error: an intent has expired, and its outcome is unknown"


def test_without_a_terminal_no_line_is_filled_with_spaces() -> None:
    """There a line has a million columns."""
    out = io.StringIO()
    history = eviction_history("shop", "web-1", [evicted()], five_evaluations())
    show(history, Console(file=out, width=PIPE_WIDTH))
    assert max(map(len, out.getvalue().splitlines())) < 200


def test_no_terminal_is_too_narrow_for_a_history() -> None:
    """The evaluations are a table."""
    history = eviction_history("shop", "web-1", [evicted()], five_evaluations())
    assert_never_cut(show, history)


def test_a_dry_run_that_the_api_server_was_not_asked_about_is_named_so() -> None:
    """A binder without the permission to evict does not ask it."""
    accepted = msgspec.structs.replace(EVICTION_OUTCOME, outcome=Outcome.DRY_RUN, detail="")
    not_asked = msgspec.structs.replace(accepted, detail="the permission is missing")

    assert result_text(accepted) == "dry run: the API server accepted the eviction without executing it"
    assert result_text(not_asked) == "dry run: the permission is missing"
