"""The answers about batch work, fewer nodes and hindsight as rows of text, for terminals and pages."""

from collections.abc import Sequence

from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.capacity.batch_work import RULES, STILL_THERE_HOURS, BatchCapacity, BatchOutcome
from equipoise.lab.capacity.consolidated_days import ConsolidatedDays
from equipoise.lab.capacity.fewer_nodes import NodesNeeded
from equipoise.lab.capacity.peak_predictors import PREDICTORS, VIOLATIONS
from equipoise.lab.report.hindsight_table import hindsight_notes, hindsight_rows
from equipoise.lab.report.requests_tables import VARIANTS, requests_notes, requests_rows
from equipoise.lab.report.rows import Rows
from equipoise.lab.results import PODS_PER_TOLERATED

LIMITS = {"hours": "hours above 80 %", "requests": "requests", "violations": "anti-affinity", "": "not known"}

CONSOLIDATION = (
    "Consolidation: all nodes that could go at the start of a day, by what was learned from the days before, go then. "
    "Caused: hours of the others above 80 % that the forecast did not show, and in which the node would have been "
    "below 80 % otherwise. The rules of Cluster Autoscaler were read and are replayed, with its defaults: a node goes "
    "if its requests are below 50 % and its pods fit elsewhere; there is no forecast. Pods without a node in the trace "
    "start leveled by the forecast."
)

_NAMES = {"cpu": "CPU", "memory": "memory"}


def capacity_rows(answers: CapacityAnswers) -> list[Rows]:
    """The tables of each answer."""
    batch, needed, requests = answers.batch, answers.nodes_needed, answers.requests
    found = [] if batch is None else [_idle(batch), _work(batch), _peaks(batch)]
    found += [_nodes(needed, "How many nodes would do")] if needed else []
    found += [_consolidation(answers.consolidation)] if answers.consolidation else []
    if requests is not None:
        title = "How many nodes would do with other requests, on the last day"
        found += [*requests_rows(requests), _nodes(requests.nodes_needed, title)]
    if answers.hindsight is not None:
        found.append(hindsight_rows(answers.hindsight))
    return found


def capacity_notes(answers: CapacityAnswers) -> tuple[str, ...]:
    """What a reader of the figures has to know."""
    notes = () if answers.batch is None else answers.batch.notes
    if answers.requests is not None:
        notes = (*notes, *requests_notes(answers.requests))
    if answers.consolidation:
        notes = (*notes, CONSOLIDATION)
    if answers.hindsight is not None:
        notes = (*notes, *hindsight_notes(answers.hindsight))
    if not (answers.nodes_needed or answers.requests):
        return notes
    return (
        *notes,
        "Nodes needed: the smallest cluster with the same mix of nodes that has no more hours above 80 % than the "
        f"present one with the stock scheduler, and at most one pod in {PODS_PER_TOLERATED} more without a node. "
        "Not all sizes were replayed: a smaller one may do as well.",
    )


def _idle(batch: BatchCapacity) -> Rows:
    return Rows(
        title="What is idle now below a threshold, and how much of it is still there",
        heads=("resource", "threshold", "idle · now %", *(f"after · {hours} h %" for hours in STILL_THERE_HOURS)),
        names=1,
        rows=tuple(
            (
                _NAMES[each.resource],
                f"{each.threshold:.0%}",
                f"{100 * each.offered:.1f}",
                *(
                    f"{100 * each.still_there[hours]:.0f}" if hours in each.still_there else "unknown"
                    for hours in STILL_THERE_HOURS
                ),
            )
            for each in batch.idle
        ),
    )


def _work(batch: BatchCapacity) -> Rows:
    usual = [each for each in batch.work if each.usual]
    cases = {(each.threshold, each.rule): each for each in usual if each.resources == ("cpu",)}
    both = {(each.threshold, each.rule): each for each in usual if len(each.resources) > 1}
    columns = ("running %", "suppressed %", "core-hours a day", "suppressed a day")
    return Rows(
        title=f"Batch work that would run, in pods of {batch.request.hours} h",
        heads=(
            "threshold",
            "nodes offer",
            *(f"{of} · {column}" for of in ("CPU alone", "CPU, memory") for column in columns),
        ),
        names=2,
        rows=tuple((f"{case[0]:.0%}", RULES[case[1]], *_cells(cases[case]), *_cells(both[case])) for case in cases),
        ours=frozenset(number for number, (_, rule) in enumerate(cases) if rule == "lasting"),
    )


def _peaks(batch: BatchCapacity) -> Rows:
    return Rows(
        title=f"Predicted peaks of CPU in the next {batch.request.hours} h, below {batch.request.frontier:.0%}",
        heads=(
            "predictor",
            "usable %",
            "violated %",
            *(f"usable % · {share:.0%} violated" for share in VIOLATIONS),
            *(f"of oracle % · {share:.0%} violated" for share in VIOLATIONS),
        ),
        names=1,
        rows=tuple(
            (
                PREDICTORS[each.predictor],
                f"{100 * each.usable:.1f}",
                f"{100 * each.violated:.1f}",
                *(f"{100 * share:.1f}" for share in each.usable_at),
                *(
                    f"{100 * share / batch.peaks[0].usable:.0f}" if batch.peaks[0].usable else ""
                    for share in each.usable_at
                ),
            )
            for each in batch.peaks
        ),
        ours=frozenset(number for number, each in enumerate(batch.peaks) if each.predictor == "lasting"),
    )


def _cells(work: BatchOutcome) -> tuple[str, ...]:
    shares = (f"{100 * work.running:.1f}", f"{100 * work.suppressed:.1f}")
    return (*shares, f"{work.core_hours:,.0f}", f"{work.suppressed_core_hours:,.0f}")


def nodes_text(case: NodesNeeded) -> str:
    """The number of nodes that are needed, and what is known about it."""
    if case.needed is None:
        return "more" if any(size.nodes == case.nodes for size in case.tried) else "not known"
    return f"{case.needed:,}" if case.exact else f"at most {case.needed:,}"


def _consolidation(margins: Sequence[ConsolidatedDays]) -> Rows:
    return Rows(
        title=f"Nodes that could go by the forecast of each of {len(margins[0].days)} days, and what followed",
        heads=(
            "forecast and · margin", "nodes · now", "could go · mean", "hours of · the others",
            "above 80 % · caused, %", "above 80 % · %", "above 80 % · with all, %",
        ),
        names=1,
        rows=tuple(
            (
                "Cluster Autoscaler's rules" if each.margin is None else f"{each.margin:g} points",
                f"{each.nodes:,}",
                f"{each.removed:.1f}",
                f"{each.node_hours:,}",
                f"{100 * each.caused:.2f}",
                f"{100 * each.above:.2f}",
                f"{100 * each.before:.2f}",
            )
            for each in margins
        ),
        ours=frozenset(number for number, each in enumerate(margins) if each.configured),
    )  # fmt: skip


def _nodes(needed: Sequence[NodesNeeded], title: str) -> Rows:
    rows = []
    for each in needed:
        size = next((size for size in each.tried if size.nodes == each.needed), None)
        rows.append(
            (
                each.scenario,
                each.policy + (" (hints)" if each.placement == "hints" else ""),
                "yes" if each.descheduler else "no",
                VARIANTS[each.requests],
                f"{each.nodes:,}",
                nodes_text(each),
                "" if each.needed is None else f"{each.nodes - each.needed:,}",
                f"{each.allowed_hours_above_80:,.0f}",
                "" if size is None else f"{size.hours_above_80:,.0f}",
                LIMITS[each.limited_by],
            )
        )
    return Rows(
        title=title,
        heads=(
            "scenario", "policy", "de- · scheduler", "requests", "nodes · now", "nodes · needed", "fewer",
            "hours >80 % · allowed", "hours >80 % · needed", "limited by",
        ),
        names=4,
        rows=tuple(rows),
    )  # fmt: skip
