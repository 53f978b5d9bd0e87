"""The pressure of nodes and pods from samples. A value that cannot be true is unknown, with the reason."""

import math
from collections.abc import Mapping, Sequence

import msgspec

from equipoise.collector.decisions.pressure.pressure_query import (
    POD_MEASURES,
    PRESSURE_RESOURCES,
    Measure,
    PressureResource,
)
from equipoise.collector.decisions.query import Sample
from equipoise.collector.decisions.scrape_choice import choose_scrapes
from equipoise.collector.decisions.validation.window import MeasurementTarget, WindowCriteria
from equipoise.collector.state.placement import PodName
from equipoise.contracts.bounds import MAX_BYTES
from equipoise.contracts.load.correction import FUTURE_TOLERANCE
from equipoise.contracts.messages.values.pressure import MeasuredPodPressure, Pressure

MAX_SHARE = 1.05
"""A share of time up to this one is capped at 1, because a rate is not exact. Above it, the counter has another
unit."""

MAX_NAMES = 3
"""The maximum number of nodes that a warning names."""

NEVER_WAITED = "its counter is 0: no process has ever waited for CPU, so pressure is switched off in the kernel (psi=0)"
DUPLICATE = "{} series claim to be this node"


class PressureReading(msgspec.Struct, frozen=True, kw_only=True):
    """The pressure of one node over one window."""

    sampled_at: float
    waiting: Pressure = Pressure()
    unknown: Mapping[str, str] = {}
    """Why a value cannot be true, by resource."""

    wrong_unit: str = ""
    """The value that shows that the counters have another unit than seconds; empty if none does."""


Samples = Mapping[Measure, Sequence[Sample]]
"""The samples of one window, by what was queried."""


def pressure_of_nodes(
    samples: Samples, targets: Mapping[str, MeasurementTarget], criteria: WindowCriteria
) -> dict[str, PressureReading]:
    """The pressure of the nodes with samples, by node. Samples of earlier nodes and old ones count as none."""
    names, at, newest = criteria.names, criteria.at, samples["newest"]
    scrapes = choose_scrapes(newest, names, {})
    of_nodes: dict[str, list[Sample]] = {}
    for sample in newest:
        node = names.of(sample.node)
        if node in targets and scrapes.get(node, sample.scrape) == sample.scrape:
            of_nodes.setdefault(node, []).append(sample)
    values: dict[str, dict[PressureResource, float]] = {}
    for resource in PRESSURE_RESOURCES:
        for sample in samples[resource]:
            values.setdefault(sample.series, {})[resource] = sample.value
    counters = {sample.series: sample.value for sample in samples["total"]}
    readings: dict[str, PressureReading] = {}
    for node, series in of_nodes.items():
        sampled_at = max(sample.value for sample in series)
        if not max(at - criteria.max_age, targets[node].since) <= sampled_at <= at + FUTURE_TOLERANCE:
            continue
        name = series[0].series
        if len(series) > 1:
            readings[node] = _unknown(sampled_at, DUPLICATE.format(len(series)))
        elif counters.get(name) == 0.0:
            readings[node] = _unknown(sampled_at, NEVER_WAITED)
        else:
            readings[node] = _reading(values.get(name, {}), sampled_at)
    return readings


def _reading(values: Mapping[PressureResource, float], sampled_at: float) -> PressureReading:
    """The counters of one exporter have one unit: if one of them has another than seconds, none is known. A value that
    is no share of time in any unit shows nothing about the others."""
    wrong = {name: value for name, value in values.items() if MAX_SHARE < value < math.inf}
    if wrong:
        return without_unit(
            sampled_at, "; ".join(f"{name} waits {value:g} s per second" for name, value in wrong.items())
        )
    known: dict[str, float] = {name: min(value, 1.0) for name, value in values.items() if 0.0 <= value < math.inf}
    unknown = {str(name): f"its {name} value is {value:g}" for name, value in values.items() if name not in known}
    return PressureReading(sampled_at=sampled_at, waiting=Pressure(**known), unknown=unknown)


def without_unit(sampled_at: float, wrong_unit: str) -> PressureReading:
    """The reading of a node whose counters have another unit than seconds. `wrong_unit`: what shows it."""
    why = f"{wrong_unit}, which no share of time is: its counters are not in seconds"
    return _unknown(sampled_at, why, wrong_unit)


def _unknown(sampled_at: float, why: str, wrong_unit: str = "") -> PressureReading:
    reasons = {str(resource): why for resource in PRESSURE_RESOURCES}
    return PressureReading(sampled_at=sampled_at, unknown=reasons, wrong_unit=wrong_unit)


def unknown_pressure(readings: Mapping[str, PressureReading]) -> str:
    """The nodes whose pressure cannot be true, and why for the first of them; empty if there are none.

    `readings`: the name of a node, and its reading.
    """
    unknown = {node: next(iter(reading.unknown.values())) for node, reading in readings.items() if reading.unknown}
    if not unknown:
        return ""
    names = sorted(unknown)
    more = ", …" if len(names) > MAX_NAMES else ""
    nodes = f"{len(names)} of {len(readings)} nodes ({', '.join(names[:MAX_NAMES])}{more})"
    return f"the pressure of {nodes} is unknown: {unknown[names[0]]}"


def pressure_of_pods(
    samples: Samples, targets: Mapping[PodName, MeasurementTarget], criteria: WindowCriteria
) -> dict[PodName, MeasuredPodPressure]:
    """The pressure of these pods, by name, without the values near 0, which the source leaves out.

    Pods that have run in too little of the window are left out, because samples may be those of an earlier pod. The
    cgroups of a node have one unit: if one value is no share of time, none of its pods is known to wait. Small values
    in the wrong unit look possible, and beside the missing large ones they would show that other pods hardly wait.
    """
    names, begin = criteria.names, criteria.at - criteria.coverage * criteria.length
    values: dict[PodName, dict[Measure, float]] = {}
    for measure in POD_MEASURES:
        scrapes = choose_scrapes(samples[measure], names, {})
        for sample in samples[measure]:
            name = (sample.namespace, sample.pod)
            target = targets.get(name)
            if target is None or target.since > begin:
                continue
            named = names.of(sample.node)
            of_node = named == target.node or not names.has(named)
            if of_node and scrapes.get(target.node, sample.scrape) == sample.scrape:
                of_pod = values.setdefault(name, {})
                # Two series of one pod: it is not known which is right.
                of_pod[measure] = math.nan if measure in of_pod else sample.value
    wrong_units = {targets[name].node for name, of_pod in values.items() if _is_wrong_unit(of_pod)}
    known = {
        name: _known_values(of_pod, wrong_unit=targets[name].node in wrong_units) for name, of_pod in values.items()
    }
    return {name: MeasuredPodPressure(**of_pod) for name, of_pod in known.items() if of_pod}


def _is_wrong_unit(values: Mapping[Measure, float]) -> bool:
    """Whether a value of a pod shows that its counters of waiting have another unit than seconds."""
    return any(MAX_SHARE < value < math.inf for measure, value in values.items() if measure in PRESSURE_RESOURCES)


def _known_values(values: Mapping[Measure, float], *, wrong_unit: bool) -> dict[str, float]:
    """The values of one pod that can be true, with three digits; without pressure if its node has a wrong unit."""
    known: dict[str, float] = {}
    for measure, value in values.items():
        if measure == "disk" and 0.0 <= value <= MAX_BYTES:
            known[measure] = float(round(value))
        elif measure != "disk" and 0.0 <= value <= MAX_SHARE and not (wrong_unit and measure in PRESSURE_RESOURCES):
            known[measure] = round(min(value, 1.0), 3)
    return known
