"""The annotations on nodes and workloads, written and read in one place.

People, other programs, and a collector without a profile of a workload read them. Scores do not depend on them, because
any kubelet can change the annotations of its node.
"""

import math
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from typing import Annotated, Literal, TypeVar

import msgspec
from msgspec import Meta

from equipoise.contracts.colocation.bands import Band
from equipoise.contracts.load.correction import RESOURCES, known, load_of
from equipoise.contracts.load.daily_profile import SLOTS
from equipoise.contracts.messages.reclaimed import ReclaimedNode
from equipoise.contracts.messages.utilization import NodeUtilization, WindowUsage, WorkloadUtilization
from equipoise.contracts.messages.values.pressure import Pressure
from equipoise.contracts.messages.values.resources import Resources, cpu_and_memory

LOAD = "equipoise.dev/load"
"""The annotation of nodes: load as shares of the base."""

USAGE = "equipoise.dev/usage"
"""The annotation of workloads: cores and bytes per replica."""

RECLAIMED = "equipoise.dev/reclaimed"
"""The annotation of nodes about reclaimed resources: what can be reclaimed for each band, and for how long. It is
optional."""

LIMIT = 16_384
"""The maximum number of characters of a value that is read. Values of Equipoise have about a thousand."""

Timestamp = Annotated[datetime, Meta(tz=True)]
"""RFC 3339, to the second."""

STATISTICS: tuple[Literal["mean", "p95", "max", "deviation"], ...] = ("mean", "p95", "max", "deviation")


class Statistics(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The statistics of one window, which ends at `sampled_at`."""

    sampled_at: Timestamp
    mean: Resources
    p95: Resources | None = None
    max: Resources | None = None
    deviation: Resources | None = None


class NodeLoad(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The value of `equipoise.dev/load`. All statistics are shares (0..1) of the base."""

    sampled_at: Timestamp
    base: Resources
    """The cores and bytes of which load is a share."""

    memory: Literal["workingSet", "anonymous"]
    """Which memory counts as used."""

    windows: dict[str, Statistics]
    pressure: Pressure | None = None
    """The share of time (0..1) in which processes waited, per resource; absent where it is unknown."""


class WorkloadUsage(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """The value of `equipoise.dev/usage`. All statistics are cores and bytes per replica."""

    sampled_at: Timestamp
    replicas: int
    windows: dict[str, Statistics]
    profile: dict[str, list[float | None]] = {}
    """The usage in the 24 hourly slots of a day in UTC, by resource."""


class BandAmounts(msgspec.Struct, frozen=True, kw_only=True, rename="camel", omit_defaults=True):
    """Cores and bytes of one band; an unknown amount is absent."""

    cpu: float | None = None
    memory: float | None = None
    hours: float = 0.0
    """The hours for which the amounts are expected to last; 0 for amounts that are idle now."""


class NodeReclaimed(msgspec.Struct, frozen=True, kw_only=True, rename="camel"):
    """The value of `equipoise.dev/reclaimed`."""

    evaluated_at: Timestamp
    capacity: Resources
    """Cores and bytes of the node."""

    bands: dict[Band, BandAmounts]

    @property
    def sampled_at(self) -> datetime:
        """The time of the evaluation, under the name that the other annotation values use."""
        return self.evaluated_at


AnnotationValue = NodeLoad | WorkloadUsage | NodeReclaimed

T = TypeVar("T", NodeLoad, WorkloadUsage, NodeReclaimed)


def node_load(utilization: NodeUtilization) -> NodeLoad | None:
    """The load of a node, rounded to hundredths of a percent; None if no window has a known value."""

    def share(usage: Resources) -> Resources:
        load = load_of(usage, utilization.base)
        cpu, memory = (None if value is None else round(value, 4) for value in (load.cpu, load.memory))
        further = {name: round(value, 4) for name, value in (load.further or {}).items()}
        return Resources(cpu=cpu, memory=memory, further=further or None)

    windows = _windows(utilization.windows, share)
    if not windows:
        return None
    return NodeLoad(
        sampled_at=_timestamp(utilization.sampled_at),
        base=_significant(utilization.base, 12),
        memory=utilization.memory_kind,
        windows=windows,
        pressure=_pressure(utilization),
    )


def _pressure(utilization: NodeUtilization) -> Pressure | None:
    """The pressure with three digits; None if it is unknown."""
    measured = utilization.pressure
    if measured is None or measured.waiting == Pressure():
        return None
    shares = msgspec.structs.asdict(measured.waiting)
    return Pressure(**{name: None if share is None else round(share, 3) for name, share in shares.items()})


def workload_usage(utilization: WorkloadUtilization) -> WorkloadUsage | None:
    """The usage of a workload, with four significant digits; None if no window has a known value."""
    windows = _windows(utilization.windows, _significant)
    if not windows:
        return None
    profile = {
        resource: [_digits(known(value)) for value in slots]
        for resource, slots in utilization.profile.items()
        if len(slots) == SLOTS and any(known(value) is not None for value in slots)
    }
    return WorkloadUsage(
        sampled_at=_timestamp(utilization.sampled_at), replicas=utilization.replicas, windows=windows, profile=profile
    )


def node_reclaimed(message: ReclaimedNode) -> NodeReclaimed | None:
    """The reclaimed amounts of a node, with four significant digits; None if no amount or no capacity is known."""
    capacity = cpu_and_memory({name: known(terms.capacity) or None for name, terms in message.terms.items()})
    bands: dict[Band, BandAmounts] = {}
    for name, band in message.bands.items():
        cpu, memory = known(band.reclaimed.cpu), known(band.reclaimed.memory)
        if cpu is not None or memory is not None:
            bands[name] = BandAmounts(cpu=_digits(cpu), memory=_digits(memory), hours=band.hours)
    if not bands or capacity == Resources():
        return None
    return NodeReclaimed(
        evaluated_at=_timestamp(message.evaluated_at), capacity=_significant(capacity, 12), bands=bands
    )


def as_annotations(value: AnnotationValue) -> dict[str, str]:
    """The annotation with this value: its key, and compact JSON."""
    return {key_of(value): msgspec.json.encode(value).decode()}


def key_of(value: AnnotationValue) -> str:
    """The key of the annotation with values of this type."""
    match value:
        case NodeLoad():
            return LOAD
        case WorkloadUsage():
            return USAGE
        case NodeReclaimed():
            return RECLAIMED


def read_node_load(annotations: Mapping[str, str]) -> tuple[NodeLoad | None, str]:
    """The annotation of a node, or None and the reason why it is absent or invalid. Never raises an error."""
    return _read(annotations, LOAD, NodeLoad)


def read_workload_usage(annotations: Mapping[str, str]) -> tuple[WorkloadUsage | None, str]:
    """The annotation of a workload, or None and the reason why it is absent or invalid. Never raises an error."""
    usage, why = _read(annotations, USAGE, WorkloadUsage)
    if usage is None:
        return None, why
    for resource, slots in usage.profile.items():
        if len(slots) != SLOTS:
            return None, f"{USAGE}: the profile of {resource} has {len(slots)} slots, not {SLOTS}"
        if any(slot is not None and known(slot) is None for slot in slots):
            return None, f"{USAGE}: the profile of {resource} has an invalid amount"
    return usage, ""


def read_node_reclaimed(annotations: Mapping[str, str]) -> tuple[NodeReclaimed | None, str]:
    """The annotation of a node, or None and the reason why it is absent or invalid. Never raises an error."""
    return _read(annotations, RECLAIMED, NodeReclaimed)


def read_annotation(annotations: Mapping[str, str], key: str) -> tuple[AnnotationValue | None, str]:
    """The annotation with this key (`LOAD`, `USAGE` or `RECLAIMED`), or None and the reason. Never raises an error."""
    if key == LOAD:
        return read_node_load(annotations)
    return read_workload_usage(annotations) if key == USAGE else read_node_reclaimed(annotations)


def means(value: AnnotationValue) -> dict[str, float]:
    """The values by which changes are detected: every known mean by `<window> <resource>`, or the reclaimed share of a
    node by `<band> <resource>`."""
    if isinstance(value, NodeReclaimed):
        return {
            f"{name} {resource}": amount / whole
            for name, band in value.bands.items()
            for resource in RESOURCES
            if (amount := getattr(band, resource)) is not None and (whole := getattr(value.capacity, resource))
        }
    return {
        f"{window} {resource}": mean
        for window, statistics in value.windows.items()
        for resource, mean in (
            ("cpu", statistics.mean.cpu),
            ("memory", statistics.mean.memory),
            *(statistics.mean.further or {}).items(),
        )
        if mean is not None
    }


def _read(annotations: Mapping[str, str], key: str, kind: type[T]) -> tuple[T | None, str]:
    text = annotations.get(key)
    if text is None:
        return None, f"{key} is absent"
    if len(text) > LIMIT:
        return None, f"{key} has {len(text)} characters, more than {LIMIT}"
    try:
        value = msgspec.json.decode(text, type=kind)
    except (msgspec.MsgspecError, ValueError, RecursionError) as error:
        return None, f"{key} cannot be parsed: {error}"
    if any(amount is not None and known(amount) is None for amount in _amounts(value)):
        return None, f"{key} has an invalid amount"
    return value, ""


def _amounts(value: AnnotationValue) -> Iterable[float | None]:
    if isinstance(value, NodeReclaimed):
        yield from (value.capacity.cpu, value.capacity.memory)
        for band in value.bands.values():
            yield from (band.cpu, band.memory, band.hours)
        return
    for statistics in value.windows.values():
        for name in STATISTICS:
            amount: Resources | None = getattr(statistics, name)
            if amount is not None:
                yield from (amount.cpu, amount.memory, *(amount.further or {}).values())
    if isinstance(value, NodeLoad):
        yield from (value.base.cpu, value.base.memory, *(value.base.further or {}).values())


def _windows(windows: Mapping[str, WindowUsage], convert: Callable[[Resources], Resources]) -> dict[str, Statistics]:
    """The windows with a known mean."""
    statistics_by_window = {}
    for name, usage in windows.items():
        amounts = {statistic: convert(getattr(usage, statistic)) for statistic in STATISTICS}
        known_amounts = {statistic: amount for statistic, amount in amounts.items() if amount != Resources()}
        if "mean" in known_amounts:
            statistics_by_window[name] = Statistics(sampled_at=_timestamp(usage.sampled_at), **known_amounts)
    return statistics_by_window


def _timestamp(seconds: float) -> datetime:
    return datetime.fromtimestamp(math.floor(seconds), UTC)


def _significant(amount: Resources, digits: int = 4) -> Resources:
    rounded = ((name, _digits(known(value), digits)) for name, value in (amount.further or {}).items())
    return Resources(
        cpu=_digits(known(amount.cpu), digits),
        memory=_digits(known(amount.memory), digits),
        further={name: value for name, value in rounded if value is not None} or None,
    )


def _digits(value: float | None, digits: int = 4) -> float | None:
    """The value, rounded to significant digits. Large values are whole numbers, which are shorter in JSON."""
    if value is None:
        return None
    rounded = float(f"{value:.{digits}g}")
    return int(rounded) if rounded >= 1_000 else rounded
