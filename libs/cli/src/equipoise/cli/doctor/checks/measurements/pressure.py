"""Checks whether the pressure of nodes is measured, and whether it can be true."""

from collections.abc import Mapping

from equipoise.cli.doctor.checks.measurements.nodes import selected
from equipoise.cli.doctor.environment import Environment, Finding
from equipoise.cli.terminal import count, listed
from equipoise.collector.decisions.node_names import node_names, texts_of
from equipoise.collector.decisions.pressure.pressure_readings import PressureReading, unknown_pressure
from equipoise.collector.decisions.query import SourceError
from equipoise.collector.shell.intervals import find_intervals
from equipoise.collector.shell.measurement import criteria_of, node_target
from equipoise.collector.shell.pressure_measurement import PressureMeasurement
from equipoise.collector.sources import PressureSource
from equipoise.collector.state.pressure import PressureStore
from equipoise.contracts.messages.values.pressure import Pressure
from equipoise.runtime.configuration import ConfigurationError
from equipoise.runtime.kubernetes.client import KubeError

MANY = 3
"""The number of nodes of which it is unlikely that no process has waited in one window."""

FIX = (
    "check the counters in Prometheus: node_pressure_cpu_waiting_seconds_total, "
    "container_pressure_cpu_waiting_seconds_total"
)


async def pressure(environment: Environment) -> list[Finding]:
    settings, load = environment.settings.collector, environment.settings.shared.load
    wanted = environment.settings.shared.thresholds.pressure
    if not settings.pressure:
        return [Finding("ok", "pressure", "not measured: collector.pressure is false")]
    try:
        matching, others = selected(await environment.nodes(), settings)
        async with environment.open_source() as source:
            if not isinstance(source, PressureSource):
                return [Finding("ok", "pressure", f"not measured: {settings.source} has none")]
            at = await source.time()
            names = node_names({node.metadata.name: texts_of(node) for node in (*matching, *others)})
            intervals = await find_intervals(source, load.shortest.length, at, names)
            store = PressureStore(load.freshness.score)
            measurement = PressureMeasurement(source=source, enabled=True, store=store, load=load)
            targets = {node.metadata.name: node_target(node, at) for node in matching}
            criteria = criteria_of(load, load.shortest, at, intervals, names)
            await measurement.measure_nodes(targets, {name: name for name in targets}, criteria)
    except (KubeError, ConfigurationError, SourceError) as error:
        return [Finding("unknown", "pressure", f"not checked: {error}")]
    if measurement.warning and not measurement.store.readings:
        return [Finding("unknown", "pressure", f"not checked: {measurement.warning}")]
    needed = any(getattr(wanted, name) is not None for name in wanted.__struct_fields__)
    return pressure_findings(measurement.store.readings, len(targets), needed=needed)


def pressure_findings(readings: Mapping[str, PressureReading], nodes: int, *, needed: bool) -> list[Finding]:
    """What these readings of `nodes` nodes show. `needed`: whether `thresholds.pressure` has a threshold."""
    if problem := unknown_pressure(readings):
        fix = f"{FIX}; the kernel needs no psi=0, and counters are in seconds"
        return [Finding("warning", "pressure", problem, fix)]
    known = {node: reading.waiting for node, reading in readings.items() if reading.waiting != Pressure()}
    if not known:
        message = "not measured: neither node-exporter nor cAdvisor (Kubernetes 1.34 and later) has it in Prometheus"
        if needed:
            return [Finding("warning", "pressure", f"{message}; thresholds.pressure has no effect", FIX)]
        return [Finding("ok", "pressure", message)]
    if len(known) >= MANY and all(_is_zero(waiting) for waiting in known.values()):
        message = f"exactly 0 in all resources on all {len(known)} nodes, which is hardly true"
        return [Finding("warning", "pressure", message, FIX)]
    missing = nodes - len(known)
    rest = f"; not measured on {count(missing, 'node')}" if missing else ""
    waiting = [node for node, item in sorted(known.items()) if (item.cpu or 0.0) > 0.5 or (item.io or 0.0) > 0.5]
    most = f"; processes wait more than half of the time on {listed(waiting, MANY)}" if waiting else ""
    return [Finding("ok", "pressure", f"measured on {count(len(known), 'node')}{rest}{most}")]


def _is_zero(waiting: Pressure) -> bool:
    return not any((waiting.cpu, waiting.memory, waiting.io))
