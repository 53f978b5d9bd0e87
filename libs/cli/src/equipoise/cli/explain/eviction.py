"""Reads outcomes and decisions back from the bus, and prints the eviction history of a pod."""

from collections.abc import Iterator, Sequence
from contextlib import aclosing

import msgspec
from rich.console import Console
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from equipoise.cli.bus.access import with_bus
from equipoise.cli.bus.cluster import BusCluster, bus_cluster
from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.exit_codes import CommandFailed, InvalidInput
from equipoise.cli.explain.eviction_history import (
    EvictionHistory,
    EvictionRecord,
    NodeEvaluation,
    eviction_history,
    with_recorded,
)
from equipoise.cli.explain.pod_hint import placed_hint_text
from equipoise.cli.explain.recorded_evictions import RecordedEvictions, read_recorded
from equipoise.cli.explain.scores import pod_name
from equipoise.cli.options import BusOptions, ClusterOptions, Output
from equipoise.cli.plan.summary import gain_and_cost
from equipoise.cli.terminal import (
    GIB,
    RESOURCES,
    UNIT,
    amount,
    amounts,
    day_and_time,
    duration,
    labelled,
    percent,
    percentages,
    print_result,
    table,
    time_of_day,
)
from equipoise.contracts.bus import subjects
from equipoise.contracts.messages.descheduling import DescheduleDecision, LoadReduction, ReplacementPlaced
from equipoise.contracts.messages.eviction import EvictionOutcome, Outcome
from equipoise.contracts.messages.values.resources import Resources
from equipoise.runtime.bus import BusError
from equipoise.runtime.configuration import Logging, Nats
from equipoise.runtime.kubernetes.client import KubeError
from equipoise.runtime.kubernetes.connection import connect_kube
from equipoise.runtime.process.clock import SystemClock
from equipoise.runtime.process.logging import configure_logging

RETENTION = 86_400.0
"""Seconds for which outcomes and decisions are retained."""

BEFORE = 1_800.0
"""Seconds before a decision that are searched for the evaluations that led to it."""

AFTER = 1_800.0
"""Seconds after an outcome that are searched for the replacement."""

RECENT = 3_600.0
"""Seconds before now that are searched for reasons why the pod was not moved.

Not a whole day: in a large cluster the decisions of a day have hundreds of MiB.
"""

MAX_OUTCOMES = 10
"""Maximum number of outcomes shown, the newest: a name that is reused every few seconds may have thousands."""

NOT_ON_BUS = (
    "the bus has no message about one in the last 24 hours, and no evaluation of the last hour that considered it"
)

DECISIONS = subjects.decision("descheduler", "*")


class ShownHistory(EvictionHistory, frozen=True, kw_only=True):
    """The history, and the cluster whose bus was read."""

    cluster: BusCluster | None
    """None if the bus was not reached."""

    bus_problem: str = ""
    """Why the bus could not be read; empty if it was read."""


async def run_explain_eviction(name: str, bus: BusOptions, options: ClusterOptions, *, output: Output) -> None:
    """Run the command. Raises InvalidInput.

    Raises CommandFailed if nothing mentions the pod, or if an intent has expired without an outcome.
    """
    namespace, pod = pod_name(name)
    configure_logging(Logging(level="error"), "explain")
    problem, cluster = "", None
    history = EvictionHistory(namespace=namespace, pod=pod, evictions=[], not_moved=[])

    async def read(server: Nats) -> None:
        nonlocal history, cluster
        cluster = bus_cluster(options, server)  # reports invalid options first
        history = await read_history(namespace, pod, server)

    try:
        await with_bus(bus, options, read)
    except InvalidInput:
        raise
    except (BusError, CommandFailed) as error:
        problem = str(error)
    recorded = await read_recorded_of(options, namespace, pod)
    history = with_recorded(history, recorded.evictions)
    if history.empty:
        raise CommandFailed(not_found(name, [problem or NOT_ON_BUS, *recorded.searched]))

    def show_all(shown: ShownHistory, to: Console) -> None:
        if cluster is not None:
            to.print(Text(str(cluster)))
        if problem:
            to.print(Text(f"not from the bus: {problem}", style="yellow"))
        show(shown, to)

    print_result(
        ShownHistory(cluster=cluster, bus_problem=problem, **msgspec.structs.asdict(history)), show_all, output=output
    )
    now = SystemClock().now()
    open_intents = [eviction for eviction in history.evictions if eviction.outcome is None]
    if any(intent.expires_at is not None and intent.expires_at < now for intent in open_intents):
        raise CommandFailed("an intent has expired, and its outcome is unknown")


def not_found(name: str, searched: Sequence[str]) -> str:
    """What was searched without finding the pod, and what to do."""
    namespace, _, _ = name.partition("/")
    return (
        f"no eviction of {name} found: {'; '.join(searched)}. Check the name, `kubectl -n {namespace} get events`, and "
        "that a descheduler leads; `equipoise plan` shows what would move now and what would not"
    )


async def read_recorded_of(options: ClusterOptions, namespace: str, pod: str) -> RecordedEvictions:
    """The evictions of the pod that the API server has recorded; none without a kubeconfig. Raises InvalidInput."""
    clock = SystemClock()
    connection = options.optional_connection()
    if isinstance(connection, str):
        return RecordedEvictions(searched=[f"the ledger was not read: {connection}"])
    try:
        async with connect_kube(connection, options.command, clock) as kube:
            now = kube.server_time(clock.now())
            return await read_recorded(kube, connection.namespace, namespace, pod, now)
    except KubeError as error:
        return RecordedEvictions(searched=[f"the ledger cannot be read: {error}"])


async def read_history(namespace: str, pod: str, server: Nats) -> EvictionHistory:
    """The evictions of the pod that are on the bus, and why it was not moved since. Raises BusError."""
    clock = SystemClock()
    now = clock.now()
    subject = subjects.eviction_outcome(namespace, pod)
    retained = retained_messages(server, subject, since=now - RETENTION, clock=clock)
    outcomes = [message async for _, message in retained if isinstance(message, EvictionOutcome)][-MAX_OUTCOMES:]
    spans = [(outcome.decided_at - BEFORE, outcome.settled_at + AFTER) for outcome in outcomes]
    decisions: list[DescheduleDecision] = []
    for begin, end in merged([*spans, (now - RECENT, now + 1.0)]):
        async with aclosing(retained_messages(server, DECISIONS, since=begin, clock=clock)) as messages:
            async for _, decision in messages:
                if not isinstance(decision, DescheduleDecision):
                    continue
                if decision.evaluated_at > end:
                    break
                decisions.append(decision)
    return eviction_history(namespace, pod, outcomes, decisions)


def merged(spans: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """The union of these time spans, in order."""
    union: list[tuple[float, float]] = []
    for begin, end in sorted(spans):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return union


INCLUDED = "the loads include what new pods are expected to use, the reasons do not"

LABEL_WIDTH = 16
"""Width of a label, in characters."""

_RESULTS = {
    Outcome.EVICTED: "evicted",
    Outcome.DRY_RUN: "dry run: the API server accepted the eviction without executing it",
    Outcome.ALREADY_GONE: "not evicted: the pod no longer existed",
    Outcome.UID_CHANGED: "not evicted: another pod has this name now",
    Outcome.BLOCKED_PDB: "not evicted: its PodDisruptionBudget allows no disruption",
    Outcome.REJECTED_POLICY: "not evicted: the pod is protected",
    Outcome.REJECTED_LIMIT: "not evicted: a limit is reached",
    Outcome.REJECTED_FIT: "not evicted: its replacement fits on no node",
    Outcome.REJECTED_STALE: "not evicted: the data of the decision is out of date",
    Outcome.PAUSED: "not evicted: evictions are paused",
    Outcome.EXPIRED: "not evicted: the intent had expired",
    Outcome.FAILED: "failed",
}

_SEVERAL_REASONS = {
    Outcome.DRY_RUN,
    Outcome.REJECTED_POLICY,
    Outcome.REJECTED_LIMIT,
    Outcome.REJECTED_STALE,
    Outcome.PAUSED,
    Outcome.FAILED,
}
"""Outcomes with several possible reasons. The detail of the outcome is shown instead of the text above. A failed one is
not shown as `not evicted`: the eviction may have been executed, and its response lost."""

_BEGINNINGS = {Outcome.DRY_RUN: "dry run", Outcome.FAILED: "failed"}
"""The words before the detail; `not evicted` before that of the others."""


def show(history: EvictionHistory, to: Console) -> None:
    """Print every eviction, oldest first, and then why strategies have not moved the pod since."""
    for number, eviction in enumerate(history.evictions):
        if number:
            to.print()
        to.print(_title(eviction))
        for label, text in _lines(eviction):
            to.print(_line(label, text))
            if label == "evaluations":
                to.print(_evaluations(eviction.evaluations))
    latest = history.evictions[-1].decided_at if history.evictions else 0.0
    not_moved = [reason for reason in history.not_moved if reason.evaluated_at >= latest]
    if not_moved:
        if history.evictions:
            to.print()
        to.print(Text(f"{history.namespace}/{history.pod} was considered and not moved", style="bold"))
        for reason in not_moved:
            text = f"{day_and_time(reason.evaluated_at)} by {reason.strategy}, on {reason.node}: {reason.why}"
            to.print(_line("not moved", text))


def _title(eviction: EvictionRecord) -> Text:
    workload = "" if eviction.workload is None else f" of {eviction.workload}"
    node = f" on {eviction.node}" if eviction.node else ""
    result = "proposed, no outcome yet" if eviction.outcome is None else result_text(eviction.outcome)
    style = "bold red" if eviction.outcome is not None and eviction.outcome.outcome is Outcome.EVICTED else "bold"
    return Text.assemble(
        (eviction.pod_name, "bold"),
        f"{workload}{node}: ",
        (result, style),
    )


def result_text(outcome: EvictionOutcome) -> str:
    """The outcome in words, and its reason if the outcome alone does not state it."""
    if outcome.outcome in _SEVERAL_REASONS and outcome.detail and not outcome.limit:
        return f"{_BEGINNINGS.get(outcome.outcome, 'not evicted')}: {outcome.detail}"
    return _RESULTS[outcome.outcome]


def _lines(eviction: EvictionRecord) -> Iterator[tuple[str, str]]:
    if eviction.sampled_at is not None:
        age = duration(eviction.decided_at - eviction.sampled_at)
        yield "oldest sample", f"{day_and_time(eviction.sampled_at)}, {age} before the decision"
    if eviction.evaluations:
        first, last = eviction.evaluations[0], eviction.evaluations[-1]
        count, period = last.abnormal_evaluations, duration(last.evaluated_at - first.evaluated_at)
        yield (
            "evaluations",
            f"{eviction.node} was above its threshold {count} times in a row within {period}; {INCLUDED}",
        )
    strategy = f" by {eviction.strategy}" if eviction.strategy else ""
    if not strategy and not eviction.source:
        strategy = " (its evaluations are no longer retained)"
    yield "decision", f"{day_and_time(eviction.decided_at)}{strategy}: {eviction.reason}"
    load = f" (load {percentages(eviction.target_load)})" if eviction.target_load != Resources() else ""
    expiry = f", expires at {time_of_day(eviction.expires_at)}" if eviction.expires_at is not None else ""
    is_known = eviction.expected_reduction != Resources()
    reduction = f", expected reduction {amounts(eviction.expected_reduction)}" if is_known else ""
    if eviction.intent_id:
        yield "intent", f"{eviction.intent_id}: target {eviction.target or 'any'}{load}{reduction}{expiry}"
    if worth := gain_and_cost(eviction):
        yield "gain and cost", worth
    if eviction.without_gap:
        yield "move", "without a gap: the pod is evicted when its replacement is ready"
    if eviction.outcome is not None and eviction.outcome.campaign:
        yield "campaign", eviction.outcome.campaign
    yield "outcome", _outcome(eviction)
    if eviction.source:
        yield "source", f"{eviction.source}; the bus has no message of it, so no evaluation and no replacement"
        return
    if eviction.outcome is not None and eviction.outcome.outcome is Outcome.EVICTED:
        yield "replacement", _replacement(eviction.replacement)
        yield "load reduction", _load_reduction(eviction.load_reduction)


def _outcome(eviction: EvictionRecord) -> str:
    outcome = eviction.outcome
    if outcome is None and eviction.without_gap:
        return "none yet: the move may take minutes. `equipoise doctor detached` names a move that does not end"
    if outcome is None:
        return "unknown: check that a binder is running (/readyz) and that the intent has not expired"
    parts = [f"{day_and_time(outcome.settled_at)}: {outcome.outcome.value}"]
    if outcome.limit:
        parts.append(f"binder.limits.{outcome.limit}")
    if outcome.detail:
        parts.append(outcome.detail)
    if outcome.retry_at is not None:
        parts.append(f"possible again at {time_of_day(outcome.retry_at)}")
    return ", ".join(parts)


def _replacement(placed: ReplacementPlaced | None) -> str:
    if placed is None:
        return (
            "not observed: it may take half a minute, and the message is kept for a day; `kubectl get pods -o wide` "
            "shows the workload's pods"
        )
    name = placed.replacement or "the replacement"
    if placed.placed_on == placed.node:
        return f"{name} returned to {placed.node}: the workload is now in a cooldown, which doubles with every return"
    where = "the target" if placed.placed_on == placed.target else f"not the target {placed.target}"
    text = f"{name} on {placed.placed_on}, {where}"
    hint = placed_hint_text(placed.hint)
    return f"{text}; {hint}" if hint else text


def _load_reduction(reduction: LoadReduction | None) -> str:
    if reduction is None:
        return "unknown: it is measured one window after the eviction"
    parts = []
    for name in reduction.over:
        before, after = reduction.before.amount(name), reduction.after.amount(name)
        scale = GIB if name == "memory" else 1.0
        measured = "?" if before is None or after is None else f"{(before - after) / scale:.2f}"
        unit = f" {UNIT[name]}" if name in UNIT else ""  # a further resource has a unit of its own
        parts.append(f"{name} {measured} of {amount(reduction.expected, name)}{unit} expected")
    count = len(reduction.intents)
    evictions = f" after {count} evictions" if count > 1 else ""
    return f"{'; '.join(parts)}{evictions}: {'reduced' if reduction.reduced else 'not reduced'}"


def _evaluations(evaluations: Sequence[NodeEvaluation]) -> Padding:
    lines = table("time", "count>", "cpu", "memory", "sample", "reason")
    for evaluation in evaluations:
        lines.add_row(
            time_of_day(evaluation.evaluated_at),
            str(evaluation.abnormal_evaluations),
            *(percent(getattr(evaluation.load, name)) for name in RESOURCES),
            time_of_day(evaluation.sampled_at) if evaluation.sampled_at else "?",
            evaluation.why,
        )
    return Padding.indent(lines, LABEL_WIDTH)


def _line(label: str, text: str) -> Table:
    return labelled(Text(label, "dim"), Text(text), LABEL_WIDTH)
