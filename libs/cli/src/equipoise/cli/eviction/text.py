"""A pod's story on a terminal."""

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from equipoise.cli.eviction.story import Evaluation, Eviction, Refusal, Story
from equipoise.cli.telling import (
    GIB,
    RESOURCES,
    UNIT,
    amount,
    amounts,
    day_and_time,
    length,
    percent,
    table,
    time_of_day,
)
from equipoise.contracts.messages.descheduling import LoadReduction, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.resources import Resources

_HAPPENED = {
    Outcome.EVICTED: "evicted",
    Outcome.DRY_RUN: "dry run: the API server would have evicted it, and nothing was",
    Outcome.ALREADY_GONE: "not evicted: it had left before",
    Outcome.UID_CHANGED: "not evicted: another pod has its name by now",
    Outcome.BLOCKED_PDB: "not evicted: its PodDisruptionBudget allows none",
    Outcome.REJECTED_POLICY: "not evicted: it is protected",
    Outcome.REJECTED_LIMIT: "not evicted: a limit has no room",
    Outcome.REJECTED_FIT: "not evicted: its replacement would fit nowhere",
    Outcome.REJECTED_STALE: "not evicted: what it was decided on holds no longer",
    Outcome.PAUSED: "not evicted: evictions are paused",
    Outcome.EXPIRED: "not evicted: the intent came too late",
    Outcome.FAILED: "not evicted: it failed",
}


def show(story: Story, to: Console) -> None:
    """For people: every eviction from its samples to its replacement, the last one in the end."""
    for number, eviction in enumerate(story.evictions):
        if number:
            to.print()
        to.print(_title(eviction))
        for word, what in _chapters(eviction):
            to.print(_chapter(word, what))
            if word == "evaluations":
                to.print(_evaluations(eviction.evaluations))
    latest = story.evictions[-1].decided_at if story.evictions else 0.0
    refusals = [each for each in story.refusals if each.evaluated_at >= latest]
    if refusals:
        if story.evictions:
            to.print()
        to.print(Text(f"{story.namespace}/{story.pod} was looked at and left where it is", style="bold"))
        for each in refusals:
            to.print(_chapter("stays", _refusal(each)))


def _title(eviction: Eviction) -> Text:
    of = "" if eviction.workload is None else f" of {eviction.workload}"
    ending = "proposed, and not settled" if eviction.outcome is None else _HAPPENED[eviction.outcome.outcome]
    style = "bold red" if eviction.outcome is not None and eviction.outcome.outcome is Outcome.EVICTED else "bold"
    return Text.assemble(
        (f"{eviction.namespace}/{eviction.pod}", "bold"), f"{of} on {eviction.node}: ", (ending, style)
    )


def _chapters(eviction: Eviction) -> Iterator[tuple[str, str]]:
    if eviction.sampled_at is not None:
        old = length(eviction.decided_at - eviction.sampled_at)
        yield "sample", f"{day_and_time(eviction.sampled_at)}, the oldest that counted; {old} old at the decision"
    if eviction.evaluations:
        first, last = eviction.evaluations[0], eviction.evaluations[-1]
        span = length(last.evaluated_at - first.evaluated_at)
        yield "evaluations", f"{eviction.node} was over its mark {last.abnormal_evaluations} times in a row, in {span}"
    by = f" by {eviction.strategy}" if eviction.strategy else ", of which the bus keeps no more than this"
    yield "decision", f"{day_and_time(eviction.decided_at)}{by}: {eviction.reason}"
    target = f", then at {_loads(eviction.target_load)}" if eviction.target_load != Resources() else ""
    valid = f"; good until {time_of_day(eviction.expires_at)}" if eviction.expires_at is not None else ""
    yield "intent", f"takes {amounts(eviction.relief)} off, for {eviction.target}{target}{valid} ({eviction.intent_id})"
    yield "outcome", _outcome(eviction.outcome)
    if eviction.outcome is not None and eviction.outcome.outcome is Outcome.EVICTED:
        yield "replacement", _landing(eviction.landing)
        yield "relief", _relief(eviction.relieved)


def _outcome(outcome: EvictionOutcome | None) -> str:
    if outcome is None:
        return "none is known: is a binder running (its /readyz), and has the intent expired by now?"
    parts = [f"{day_and_time(outcome.settled_at)}: {outcome.outcome.value}"]
    if outcome.limit:
        parts.append(f"binder.limits.{outcome.limit}")
    if outcome.detail:
        parts.append(outcome.detail)
    if outcome.retry_at is not None:
        parts.append(f"room again at {time_of_day(outcome.retry_at)}")
    return ", ".join(parts)


def _landing(landing: ReplacementPlaced | None) -> str:
    if landing is None:
        return "was not seen, or its sighting is not kept: kubectl knows where the workload's pods are"
    name = landing.replacement or "it"
    if landing.placed_on == landing.node:
        return f"{name} came back to {landing.node}: the workload is left alone for a growing time"
    where = "as intended" if landing.placed_on == landing.target else f"instead of {landing.target}"
    return f"{name} on {landing.placed_on}, {where}"


def _relief(relief: LoadReduction | None) -> str:
    if relief is None:
        return "is not known (yet): it is judged one window after the eviction"
    parts = []
    for name in relief.over:
        before, after = getattr(relief.before, name), getattr(relief.after, name)
        fell = "?" if before is None or after is None else f"{(before - after) / (1.0 if name == 'cpu' else GIB):.2f}"
        parts.append(f"{name} fell by {fell} of {amount(relief.expected, name)} {UNIT[name]} expected")
    together = f", by {len(relief.intents)} evictions together" if len(relief.intents) > 1 else ""
    return f"{'; '.join(parts)}{together}: {'better' if relief.reduced else 'no better'}"


def _evaluations(evaluations: Sequence[Evaluation]) -> Table:
    made = table("             at", "count>", "cpu", "memory", "sample", "why")
    for each in evaluations:
        made.add_row(
            f"             {time_of_day(each.evaluated_at)}",
            str(each.abnormal_evaluations),
            *(percent(getattr(each.load, name)) for name in RESOURCES),
            time_of_day(each.sampled_at) if each.sampled_at else "?",
            each.why,
        )
    return made


def _refusal(refusal: Refusal) -> str:
    return f"{day_and_time(refusal.evaluated_at)} by {refusal.strategy}, on {refusal.node}: {refusal.why}"


def _chapter(word: str, what: str) -> Text:
    return Text.assemble((f"{word:<13}", "dim"), what)


def _loads(load: Resources) -> str:
    return ", ".join(f"{name} {percent(getattr(load, name))}" for name in RESOURCES)
