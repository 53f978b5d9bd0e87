"""Why a node is hot, or is not: its load, its thresholds, what is not in the load yet, and its pods by usage. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from equipoise.cli.cluster_now.pods import PodNow, pods_by_usage
from equipoise.cli.cluster_now.waiting import waiting_text
from equipoise.cli.effective.running import RunningConfiguration, not_known
from equipoise.cli.effective.text import setting_at, thresholds_text
from equipoise.cli.terminal import RESOURCES, amounts, count, duration, listed, percent, percentages
from equipoise.contracts.configuration.settings import PressureThresholds
from equipoise.contracts.kubernetes.nodes.consolidation_taint import tainted_text
from equipoise.contracts.load.correction import known, load_of
from equipoise.contracts.load.pressure import CONTENDED_RESOURCES, contention, contention_text
from equipoise.contracts.messages.descheduling import DescheduleDecision, NodeClassification
from equipoise.contracts.messages.placement import NodePlacement
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.pressure import NodePressure
from equipoise.contracts.messages.values.resources import Resources

MAX_PODS = 15
"""Pods in the table; with -o wide there are all."""


class ExplainedLoad(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of the load of one node."""

    node: str
    problem: str = ""
    """Why nothing is measured."""

    window: str = ""
    """The shortest window, to which load, usage and pods refer."""

    load: Resources = Resources()
    loads: dict[str, Resources] = {}
    """Loads by window, 0..1 of the base."""

    base: Resources = Resources()
    usage: Resources = Resources()
    system: Resources = Resources()
    """Usage that belongs to no pod."""

    sampled_at: float | None = None
    unknown_resources: dict[str, str] = {}
    """Why the load of further resources (`load.resources`) is unknown, by name."""

    pressure: NodePressure | None = None
    """The share of time in which its processes wait; None if it is unknown."""

    over: list[str] = []
    """The thresholds that the load is above now."""

    thresholds: str = ""
    """The thresholds of the running descheduler, or a text which states that they are not known."""

    emptied: str = ""
    """Whether consolidation is emptying the node, and since when; empty if it does not."""

    evaluations: list[str] = []
    """What each strategy found last."""

    pods: list[PodNow] = []
    """The pods with the highest usage first: the largest share of cpu or memory of the node."""


def node_load(
    node: str,
    utilization: NodeUtilization | None,
    placement: NodePlacement | None,
    decisions: Sequence[DescheduleDecision],
    deschedulers: Sequence[RunningConfiguration],
    now: float,
) -> ExplainedLoad:
    """The load of one node, explained. `decisions`: those of all strategies, oldest first. `deschedulers`: the
    configurations that run; the first one is used."""
    running = deschedulers[0] if deschedulers else None
    if running is None:
        thresholds = not_known("descheduler")
    else:
        thresholds = f"{thresholds_text(running) or 'not known'} ({running.named}, {running.age_text(now)})"
    explained = ExplainedLoad(
        node=node,
        thresholds=thresholds,
        emptied="" if placement is None else tainted_text(placement.taints),
        evaluations=list(_evaluations(node, decisions, running, now)),
        pods=pods_by_usage(placement, utilization),
    )
    if utilization is None:
        return msgspec.structs.replace(explained, problem="no collector has published its usage in the last 30 minutes")
    loads = {name: load_of(usage.mean, utilization.base) for name, usage in utilization.windows.items()}
    window, shortest = next(iter(utilization.windows.items()), ("", None))
    load = loads.get(window, Resources())
    return msgspec.structs.replace(
        explained,
        problem="" if shortest is not None else "samples cover no window",
        window=window,
        load=load,
        loads=loads,
        base=utilization.base,
        usage=Resources() if shortest is None else shortest.mean,
        system=utilization.system,
        sampled_at=utilization.sampled_at,
        pressure=utilization.pressure,
        unknown_resources={name: status.unknown for name, status in utilization.resources.items() if status.unknown},
        over=[
            *_over(load, {} if running is None else running.settings),
            *_waiting(utilization, {} if running is None else running.settings),
        ],
    )


def _over(load: Resources, settings: Mapping[str, Any]) -> Iterator[str]:
    for name in RESOURCES:
        value, limit = known(getattr(load, name)), setting_at(settings, "thresholds", "high", name)
        if value is not None and isinstance(limit, int | float) and value * 100 > limit:
            yield f"{name} {percent(value)} is above {limit:g}%"
    for name, value in sorted((load.further or {}).items()):
        limit = setting_at(settings, "thresholds", "resources", name, "high")
        if isinstance(limit, int | float) and value * 100 > limit:
            yield f"{name} {percent(value)} is above {limit:g}%"


def _waiting(utilization: NodeUtilization, settings: Mapping[str, Any]) -> Iterator[str]:
    limits = {name: setting_at(settings, "thresholds", "pressure", name) for name in CONTENDED_RESOURCES}
    numbers = {name: float(limit) for name, limit in limits.items() if isinstance(limit, int | float)}
    thresholds = PressureThresholds(**numbers)
    if text := contention_text(contention(utilization.pressure, thresholds), thresholds):
        yield text


def _evaluations(
    node: str, decisions: Sequence[DescheduleDecision], running: RunningConfiguration | None, now: float
) -> Iterator[str]:
    """The last one of each strategy."""
    needed = None if running is None else setting_at(running.settings, "descheduler", "consecutiveAbnormalities")
    for decision in {each.strategy: each for each in decisions}.values():
        classification = next((each for each in decision.nodes if each.node == node), None)
        if classification is not None:
            ago = duration(now - decision.evaluated_at)
            yield f"{decision.strategy}, {ago} ago: {_evaluation(classification, needed)}"


def _evaluation(found: NodeClassification, needed: object) -> str:
    text = f"{found.state}, {percentages(found.load)}"
    if found.abnormal:
        text += f", {found.abnormal_evaluations} in a row" + (f" of {needed} needed" if needed is not None else "")
    return f"{text}: {found.why}" if found.why else text


def _pressure_text(pressure: NodePressure, now: float) -> str:
    """How long processes wait, or why that is unknown."""
    waiting, unknown = waiting_text(pressure), next(iter(pressure.unknown.values()), "")
    if not waiting:
        return f"unknown: {unknown}"
    why = f"; {unknown}" if unknown else ""
    return f"{waiting} of the time{why} (newest sample {duration(now - pressure.sampled_at)} old)"


def headline(found: ExplainedLoad) -> str:
    """Whether it is hot, and why."""
    if found.problem:
        return f"load unknown: {found.problem}"
    if found.over:
        return f"hot: {'; '.join(found.over)}"
    return f"load {percentages(found.load)} of {amounts(found.base)}"


def lines(found: ExplainedLoad, now: float) -> Iterator[tuple[str, str]]:
    """Label and text."""
    if found.emptied:
        yield "node", found.emptied
    yield "thresholds", found.thresholds
    for each in found.evaluations or ["none of the last 10 minutes has this node"]:
        yield "evaluation", each
    if found.sampled_at is not None:
        windows = (
            "; ".join(f"{name} {percentages(load)}" for name, load in found.loads.items()) or "no window is covered"
        )
        yield "load", f"{windows} (newest sample {duration(now - found.sampled_at)} old)"
        if found.pressure is not None:
            yield "waits for", _pressure_text(found.pressure, now)
        for name, why in sorted(found.unknown_resources.items()):
            yield "load", f"{name} unknown: {why}"
        yield "usage", f"{amounts(found.usage)} of {amounts(found.base)} over {found.window or 'no window'}"
        yield "system", f"{amounts(found.system)} outside of pods"
    for state, label, meaning in (
        ("terminating", "terminating", "still in the load"),
        ("not measured yet", "unmeasured", "not in the load yet"),
    ):
        names = [pod.pod for pod in found.pods if pod.state == state]
        if names:
            yield label, f"{count(len(names), 'pod')} {meaning}: {listed(names, 3)}"
