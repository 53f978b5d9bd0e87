"""Answers the questions of `equipoise lab compare` and `whatif` that go beyond the comparison."""

import time
from collections.abc import Sequence
from pathlib import Path

import msgspec
import yaml

from equipoise.cli.exit_codes import InvalidInput
from equipoise.cli.progress import progress
from equipoise.contracts.kubernetes.quantity import parse_quantity
from equipoise.lab.capacity.answers import CapacityAnswers
from equipoise.lab.capacity.batch_work import BatchCapacity, BatchRequest, BatchSimulation
from equipoise.lab.capacity.consolidated_days import (
    FIRST_DAY,
    ConsolidatedDay,
    ConsolidatedDays,
    by_margin,
    consolidated_days,
    judged_days,
    margins,
)
from equipoise.lab.capacity.fewer_nodes import NodesNeeded, cases, nodes_needed, replays_at_most
from equipoise.lab.compare import ComparisonRequest
from equipoise.lab.hindsight.hindsight_answer import HindsightAnswer, HindsightRequest, HindsightSearch
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import ReplayPlan, Settings
from equipoise.lab.resource_requests.measured_days import learned_and_judged
from equipoise.lab.resource_requests.proposals import proposals
from equipoise.lab.resource_requests.requests_answer import RequestsAnswer, requests_answer, requests_variants
from equipoise.lab.resource_requests.requests_manifests import UpdateMode, patches, vertical_pod_autoscalers
from equipoise.lab.results import RunFigures
from equipoise.lab.runners import on_processes


class Questions(msgspec.Struct, frozen=True, kw_only=True):
    """Questions that are answered in addition to the comparison."""

    batch: BatchRequest | None = None
    fewer_nodes: bool = False
    minutes: float = 30.0
    """Minutes after which `fewer_nodes` and `requests` replay no further cluster size."""

    requests: bool = False
    scaling_target: int = 80
    """The target of HorizontalPodAutoscalers, in percent of the CPU request."""

    update_mode: UpdateMode = "Off"
    """The mode of the VerticalPodAutoscalers that are written."""

    consolidation: bool = False
    hindsight: HindsightRequest | None = None
    hindsight_minutes: float = 30.0
    """Minutes after which `hindsight` ends."""

    @property
    def any(self) -> bool:
        asked = self.fewer_nodes, self.requests, self.consolidation, self.batch is not None, self.hindsight is not None
        return any(asked)


def question_problem(trace: Trace, questions: Questions) -> str:
    """Why a question has no answer for this trace; empty if all have one."""
    if questions.consolidation and not judged_days(trace):
        few = f"{trace.name} has fewer than {FIRST_DAY + 1} whole days"
        return f"--consolidation judges days by those before: {few}"
    return ""


def batch_request(pod: str, hours: int, thresholds: Sequence[int]) -> BatchRequest:
    """`pod`: "CPU,MEMORY"; `thresholds`: percent. Raises InvalidInput for amounts that are not positive quantities."""
    try:
        cores, memory = map(parse_quantity, pod.split(","))
    except ValueError:
        cores = memory = 0.0
    if cores <= 0.0 or memory <= 0.0:
        raise InvalidInput(f"--batch-pod: {pod!r} is not CPU,MEMORY, two positive quantities (example: 500m,1Gi)")
    return BatchRequest(
        thresholds=tuple(percent / 100.0 for percent in thresholds),
        frontier=(65 if 65 in thresholds else thresholds[0]) / 100.0,
        hours=hours,
        pod_cores=cores,
        pod_memory_mib=memory / 2.0**20,
    )


def answered(
    trace: Trace, request: ComparisonRequest, settings: Settings, questions: Questions, processes: int
) -> CapacityAnswers:
    """The answers to all questions that were asked."""
    return CapacityAnswers(
        batch=_batch(trace, questions.batch) if questions.batch is not None else None,
        nodes_needed=_nodes_needed(trace, cases(request, settings), questions, processes)
        if questions.fewer_nodes
        else (),
        requests=_requests(trace, request, settings, questions, processes) if questions.requests else None,
        consolidation=_consolidation(trace, settings) if questions.consolidation else (),
        hindsight=_hindsight(trace, questions) if questions.hindsight is not None else None,
    )


def _batch(trace: Trace, request: BatchRequest) -> BatchCapacity:
    run = BatchSimulation(trace, request)
    with progress(run.hours, "simulating batch work", "hours") as report:
        for hour in run.advance():
            report(f"hour {hour} of batch work")
    return run.result()


def _consolidation(trace: Trace, settings: Settings) -> tuple[ConsolidatedDays, ...]:
    days, judged = judged_days(trace), list[ConsolidatedDay]()
    with progress(len(days) * (len(margins(settings)) + 1), "judging consolidation", "plans") as report:
        for day in consolidated_days(trace, settings):
            judged.append(day)
            report(f"day {day.day + 1}")
    return by_margin(trace, settings, judged)


def _hindsight(trace: Trace, questions: Questions) -> HindsightAnswer:
    assert questions.hindsight is not None
    end = time.monotonic() + 60.0 * questions.hindsight_minutes
    search = HindsightSearch(trace, questions.hindsight, lambda: time.monotonic() < end)
    with progress(search.rounds_at_most, "searching placements", "rounds") as report:
        for state in search.advance():
            report(state)
    return search.result()


def _nodes_needed(
    trace: Trace, compared: Sequence[Sequence[ReplayPlan]], questions: Questions, processes: int
) -> tuple[NodesNeeded, ...]:
    end = time.monotonic() + 60.0 * questions.minutes
    with progress(replays_at_most(trace, compared, processes)) as report:
        return tuple(
            nodes_needed(
                trace,
                compared,
                on_processes(processes),
                time_left=lambda: time.monotonic() < end,
                on_replay=lambda figures: report(f"{figures.nodes:,} nodes, {title(figures)}"),
                parallel=processes,
            )
        )


def _requests(
    trace: Trace, request: ComparisonRequest, settings: Settings, questions: Questions, processes: int
) -> RequestsAnswer:
    """Replays the last day after every workload was rolled out, which a change of its requests does."""
    days = learned_and_judged(trace)
    proposed = proposals(days.learned)
    variants = requests_variants(days, proposed)
    compared = cases(msgspec.structs.replace(request, scenarios=("churn",)), settings, variants)
    needed = _nodes_needed(days.judged, compared, questions, processes)
    return requests_answer(days, variants, proposed, needed, scaling_target=questions.scaling_target)


VERTICAL_POD_AUTOSCALERS, PATCHES = "vertical-pod-autoscalers.yaml", "requests-patches.yaml"


def write_manifests(answer: RequestsAnswer, mode: UpdateMode, folder: Path) -> None:
    """Writes the proposed requests as VerticalPodAutoscalers and as patches. Raises OSError."""
    proposed = [each.proposal for each in answer.workloads]
    for name, documents in (
        (VERTICAL_POD_AUTOSCALERS, vertical_pod_autoscalers(proposed, mode)),
        (PATCHES, patches(proposed)),
    ):
        (folder / name).write_text(yaml.safe_dump_all(documents, sort_keys=False), encoding="utf-8")


def title(figures: RunFigures) -> str:
    """The title of a run: its scenario, its policy, and whether the descheduler runs."""
    return f"{figures.scenario}, {figures.policy}{' + descheduler' if figures.descheduler else ''}"
