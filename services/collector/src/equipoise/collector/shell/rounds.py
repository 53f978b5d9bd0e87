"""One round: every question about one window, asked at one shared moment, and what came of them.

Each window has rounds of its own, one after the other: a slow source makes values older, never rounds more.
"""

import asyncio
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.collector.decisions.plausibility import plausible
from equipoise.collector.decisions.query import Ask, Resource, Sample, SourceError, Statistic, Subject, What
from equipoise.collector.decisions.sample_validation import (
    Criteria,
    Intervals,
    Known,
    Reading,
    intervals_from,
    least_samples,
    read_nodes,
    read_pods,
)
from equipoise.collector.shell.batching import aside
from equipoise.collector.sources import MetricSource
from equipoise.collector.state.placement import PodName
from equipoise.contracts.load.correction import RESOURCES
from equipoise.contracts.messages.resources import Resources

LAST_STEPS = 20
"""Into how many steps the past is cut to find the last sample of a series that ended."""

STATISTIC_STEPS = 60
SAMPLES_PER_STEP = 4
"""An inner rate of cpu needs some raw samples, or it shows the scrapes instead of the usage."""

SPACING_FACTORS = (1.0, 4.0)
"""Over how many times the shortest window two raw samples of a series are looked for."""


class NodesRound(msgspec.Struct, frozen=True, kw_only=True):
    """Readings by resource and node. A resource with a failed question is in `failed` only."""

    readings: Mapping[Resource, Mapping[str, Reading]]
    failed: Mapping[Resource, str]
    strangers: str = ""
    """Set when samples came, but none of a known node: the labels of one."""


class PodsRound(msgspec.Struct, frozen=True, kw_only=True):
    """Mean usage by pod. A resource that was not measured is unknown; where a question failed, `failed` says why."""

    usage: Mapping[PodName, Resources]
    failed: Mapping[Resource, str]
    asked: bool = True
    """False: the source never tells of pods."""


async def measure_nodes(
    source: MetricSource,
    known: Mapping[str, Known],
    criteria: Criteria,
    intervals: Intervals,
    statistics: Sequence[Statistic] = (),
) -> NodesRound:
    """Ask for every node's usage in one window. What the source never answers is unknown, and no failure."""
    step = statistic_step(criteria.length, intervals.usual)
    dumb = _unanswered(source, "node", ("mean", "count", "newest"), criteria)
    resources = [resource for resource in RESOURCES if resource not in dumb]
    wanted: list[What] = ["mean", "count", "newest", *(statistics if step is not None else ())]
    answers, failed = await _ask(source, "node", resources, wanted, criteria.length, criteria.at, step or 0.0)
    quiet = [resource for resource, found in answers.items() if known.keys() - {s.node for s in found["newest"]}]
    if quiet:
        ended, lost = await _ask(
            source, "node", quiet, ["last"], criteria.reach, criteria.at, criteria.reach / LAST_STEPS
        )
        failed |= lost
        for resource, found in ended.items():
            answers[resource] |= found
    readings = {
        resource: await aside(len(known), read_nodes, known, resource, found, intervals, criteria)
        for resource, found in answers.items()
        if resource not in failed
    }
    for resource, why in dumb.items():
        readings[resource] = dict.fromkeys(known, Reading(why=f"{resource}: {why}", reason="not measured"))
    readings = plausible(readings, {node for node, each in known.items() if each.busy})
    return NodesRound(readings=readings, failed=failed, strangers=_strangers(known, answers))


async def measure_pods(
    source: MetricSource, known: Mapping[PodName, Known], criteria: Criteria, intervals: Intervals
) -> PodsRound:
    """Ask for every pod's mean usage in one window."""
    dumb = _unanswered(source, "pod", ("mean", "count"), criteria)
    resources = [resource for resource in RESOURCES if resource not in dumb]
    enough = {least_samples(criteria, interval) for interval in intervals.all}
    wanted: list[What] = ["mean"] if len(enough) == 1 else ["mean", "count"]
    answers, failed = await _ask(
        source, "pod", resources, wanted, criteria.length, criteria.at, least=min(enough, default=0.0)
    )
    usage = await aside(len(known), _read_pods, known, answers, intervals, criteria)
    return PodsRound(usage=usage, failed=failed, asked=bool(resources))


def _read_pods(
    known: Mapping[PodName, Known],
    answers: dict[Resource, dict[What, list[Sample]]],
    intervals: Intervals,
    criteria: Criteria,
) -> dict[PodName, Resources]:
    # Each answer is let go as soon as it is read: together they are the most that this process ever holds.
    cpu, memory = (
        read_pods(known, resource, answers.pop(resource), intervals, criteria) if resource in answers else {}
        for resource in RESOURCES
    )
    usage = {name: Resources(cpu=used, memory=memory.get(name)) for name, used in cpu.items()}
    for name, used in memory.items():
        if name not in cpu:
            usage[name] = Resources(memory=used)
    return usage


async def find_intervals(source: MetricSource, shortest: float, at: float, subject: Subject = "node") -> Intervals:
    """How far apart raw samples of the nodes lie, or of the pods on each node; raises SourceError."""
    found = Intervals()
    for factor in SPACING_FACTORS:
        question = Ask(subject=subject, resource="cpu", what="spacing", length=shortest * factor, at=at)
        if source.cannot(question):
            question = msgspec.structs.replace(question, resource="memory")
        if source.cannot(question):
            break
        found = intervals_from(await source.ask(question))
        if found.usual is not None:
            break
    return found


def statistic_step(length: float, interval: float | None) -> float | None:
    """Seconds between inner evaluations of a statistic; None where the window is too short for any."""
    if interval is None:
        return None
    step = max(length / STATISTIC_STEPS, SAMPLES_PER_STEP * interval)
    return step if step <= length / SAMPLES_PER_STEP else None


def _unanswered(
    source: MetricSource, subject: Subject, needed: Sequence[What], criteria: Criteria
) -> dict[Resource, str]:
    """Resources that are not measured, as the source never answers one of the needed questions; and why."""
    found: dict[Resource, str] = {}
    for resource in RESOURCES:
        questions = (
            Ask(subject=subject, resource=resource, what=what, length=criteria.length, at=criteria.at)
            for what in needed
        )
        why = next((why for question in questions if (why := source.cannot(question))), "")
        if why:
            found[resource] = why
    return found


async def _ask(
    source: MetricSource,
    subject: Subject,
    resources: Sequence[Resource],
    wanted: Sequence[What],
    length: float,
    at: float,
    step: float = 0.0,
    least: float = 0.0,
) -> tuple[dict[Resource, dict[What, list[Sample]]], dict[Resource, str]]:
    """Answers by resource, and why there are none of the others."""
    answers: dict[Resource, dict[What, list[Sample]]] = {resource: {} for resource in resources}
    failed: dict[Resource, str] = {}

    async def ask(question: Ask) -> None:
        try:
            answers[question.resource][question.what] = await source.ask(question)
        except SourceError as error:
            failed.setdefault(question.resource, str(error))

    async with asyncio.TaskGroup() as tasks:
        for resource in resources:
            for what in wanted:
                question = Ask(
                    subject=subject, resource=resource, what=what, length=length, at=at, step=step,
                    least=least if what == "mean" else 0.0,
                )  # fmt: skip
                if not source.cannot(question):
                    tasks.create_task(ask(question))
    return {resource: found for resource, found in answers.items() if resource not in failed}, failed


def _strangers(known: Mapping[str, Known], answers: Mapping[Resource, Mapping[What, list[Sample]]]) -> str:
    samples = [sample for found in answers.values() for sample in found["newest"]]
    if not samples or not known or any(sample.node in known for sample in samples):
        return ""
    return samples[0].series
