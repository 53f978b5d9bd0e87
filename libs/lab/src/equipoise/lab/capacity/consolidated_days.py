"""What consolidation by the forecast would have caused: each day of a trace is judged by itself, out of sample.

At the start of each day the descheduler's own function decides which nodes could go, by what was learned from the days
before. All of them go at once, and the day takes place on the others. The rules of Cluster Autoscaler, which judges by
requests, are compared on the same days.
"""

from collections.abc import Iterator, Mapping, Sequence

import msgspec

from equipoise.contracts.configuration.moves import surge_mode
from equipoise.contracts.configuration.settings import Namespaces
from equipoise.contracts.eviction.candidate import Rules
from equipoise.contracts.numeric import Array, np
from equipoise.descheduler.decisions.consolidation.plan import ConsolidationPlan
from equipoise.descheduler.decisions.evaluation.pipeline import consolidation_now
from equipoise.descheduler.decisions.evaluation.snapshot import EvaluationSettings, Snapshot
from equipoise.descheduler.state.cluster_builder import ClusterBuilder
from equipoise.lab.capacity.autoscaler_rules import scaled_down
from equipoise.lab.capacity.measured_cluster import DAY, HOUR, HOURS, learned_profiles, leveled, snapshot_of
from equipoise.lab.model.cluster_usage import MIB
from equipoise.lab.model.period_means import period_means
from equipoise.lab.model.trace import Trace
from equipoise.lab.replay_plan import Settings

FIRST_DAY = 3
"""The first day that is judged (the first one of the trace is 0): errors of profiles are known after two days."""

HOT = 0.8
"""The load (0..1) above which an hour of a node counts."""

MARGINS = (0.0, 5.0, 10.0, 15.0, 20.0)
"""Values of `descheduler.consolidation.margin` (points) that are compared with the configured one."""


class ConsolidatedDay(msgspec.Struct, frozen=True, kw_only=True):
    """One day with one margin. Hours are hours of nodes that remain, with a CPU load above HOT."""

    margin: float | None
    """None: by the rules of Cluster Autoscaler, which have no forecast."""

    day: int
    removed: int
    """Nodes that could go."""

    moves: int
    remaining: int
    hours_above: int
    hours_not_forecast: int
    """The hours of `hours_above` that the forecast did not show."""

    hours_caused: int
    """The hours of `hours_not_forecast` in which the node would have been below HOT without consolidation."""

    hours_before: int
    """The hours above HOT of all nodes without consolidation."""


class ConsolidatedDays(msgspec.Struct, frozen=True, kw_only=True):
    """All judged days with one margin."""

    margin: float | None
    """None: by the rules of Cluster Autoscaler, which have no forecast."""

    configured: bool
    nodes: int
    removed: float
    """Nodes that could go, as the mean of all days."""

    node_hours: int
    """The hours of the nodes that remain."""

    caused: float
    """The share (0..1) of `node_hours` above HOT that consolidation caused and the forecast did not show."""

    above: float
    """The share (0..1) of `node_hours` above HOT."""

    before: float
    """The share (0..1) of the hours of all nodes above HOT without consolidation."""

    days: tuple[ConsolidatedDay, ...]


def judged_days(trace: Trace) -> range:
    """The days that are judged. Empty for a short trace."""
    return range(FIRST_DAY, int(trace.steps * trace.seconds_per_step // DAY))


def consolidated_days(trace: Trace, settings: Settings) -> Iterator[ConsolidatedDay]:
    """Each judged day with each margin, and by the rules of Cluster Autoscaler."""
    curves = [period_means(usage, trace.seconds_per_step, HOUR) for usage in (trace.cpu_milli / 1e3, trace.memory_mib)]
    hours = np.stack([curves[0], curves[1] * MIB], axis=2)
    rows = {node.name: index for index, node in enumerate(trace.nodes)}
    order = [rows[name] for name in sorted(rows)]
    for day in judged_days(trace):
        profiles = learned_profiles(hours, day, trace.starts_at)
        learned = np.array([_day(profile.by_resource()) for profile in profiles])
        placed = leveled(trace, learned)
        snapshot = snapshot_of(trace, placed, profiles, day=day, load=settings.load)
        today = hours[:, day * HOURS : (day + 1) * HOURS, 0]
        for margin in margins(settings):
            plan = _plan(settings, margin, snapshot)
            gone = [rows[emptied.node.name] for emptied in plan.nodes]
            moves = {int(pod.uid): rows[to.name] for emptied in plan.nodes for pod, to in emptied.moves}
            yield _judged(trace, placed, gone, moves, learned[:, :, 0], today, day=day, margin=margin)
        removed = scaled_down(ClusterBuilder(snapshot, _evaluation(settings)).cluster())
        moves = {int(pod.uid): order[target] for _, evicted in removed for pod, target in evicted}
        yield _judged(trace, placed, [order[index] for index, _ in removed], moves, None, today, day=day, margin=None)


def margins(settings: Settings) -> Sequence[float]:
    """The margins that are compared, the configured one among them."""
    return sorted({*MARGINS, settings.descheduler.consolidation.margin})


def by_margin(trace: Trace, settings: Settings, judged: Sequence[ConsolidatedDay]) -> tuple[ConsolidatedDays, ...]:
    """The answer, from all judged days; empty without any."""
    configured = settings.descheduler.consolidation.margin
    of_margins = {margin: tuple(day for day in judged if day.margin == margin) for margin in (*margins(settings), None)}
    return tuple(
        _sum(days, margin, len(trace.nodes), configured=margin == configured)
        for margin, days in of_margins.items()
        if days
    )


def _sum(days: tuple[ConsolidatedDay, ...], margin: float | None, nodes: int, *, configured: bool) -> ConsolidatedDays:
    node_hours = sum(HOURS * day.remaining for day in days)
    return ConsolidatedDays(
        margin=margin,
        configured=configured,
        nodes=nodes,
        removed=round(sum(day.removed for day in days) / len(days), 2),
        node_hours=node_hours,
        caused=round(sum(day.hours_caused for day in days) / node_hours, 6),
        above=round(sum(day.hours_above for day in days) / node_hours, 6),
        before=round(sum(day.hours_before for day in days) / (HOURS * nodes * len(days)), 6),
        days=days,
    )


def _day(profile: dict[str, list[float | None]]) -> Array:
    """24 × (cores, bytes). All hours of the days before were measured."""
    return np.array([profile["cpu"], profile["memory"]], dtype=np.float64).T


def _evaluation(settings: Settings) -> EvaluationSettings:
    rules = Rules(
        protection=settings.protection, namespaces=Namespaces(), own_namespace="equipoise-system",
        level=settings.level, surge=surge_mode(settings.level, settings.surge.mode),
    )  # fmt: skip
    return settings.descheduler.evaluation(settings.load, settings.thresholds, rules)


def _plan(settings: Settings, margin: float, snapshot: Snapshot) -> ConsolidationPlan:
    evaluation = _evaluation(settings)
    consolidation = msgspec.structs.replace(evaluation.consolidation, margin=margin)
    return consolidation_now(snapshot, msgspec.structs.replace(evaluation, consolidation=consolidation)).plan


def _judged(
    trace: Trace,
    placed: Sequence[int],
    gone: Sequence[int],
    moves: Mapping[int, int],
    learned: Array | None,
    today: Array,
    *,
    day: int,
    margin: float | None,
) -> ConsolidatedDay:
    """`gone`: the indexes of nodes; `moves`: the new node of pods, both by index. `learned`, `today`: workloads × 24,
    cores of a pod, as forecast (None: there is no forecast, so it shows no hour) and as they were."""
    after = [moves.get(pod, node) for pod, node in enumerate(placed)]
    remain = np.ones(len(trace.nodes), dtype=np.bool_)
    remain[list(gone)] = False
    used, unchanged = _loads(trace, after, today), _loads(trace, placed, today)
    forecast = np.zeros_like(used) if learned is None else _loads(trace, after, learned)
    above = used[remain] > HOT
    not_forecast = above & (forecast[remain] <= HOT)
    return ConsolidatedDay(
        margin=margin,
        day=day,
        removed=len(gone),
        moves=len(moves),
        remaining=int(remain.sum()),
        hours_above=int(above.sum()),
        hours_not_forecast=int(not_forecast.sum()),
        hours_caused=int((not_forecast & (unchanged[remain] <= HOT)).sum()),
        hours_before=int((unchanged > HOT).sum()),
    )


def _loads(trace: Trace, placed: Sequence[int], cores: Array) -> Array:
    """Nodes × 24: the CPU load (0..1) if each pod is on its node in `placed`."""
    used = np.zeros((len(trace.nodes), HOURS))
    np.add.at(used, np.array(placed), cores[[pod.workload for pod in trace.pods]])
    loads: Array = used / np.array([[node.cpu_milli / 1_000.0] for node in trace.nodes])
    return loads
