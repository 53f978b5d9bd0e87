"""Reads from the bus on which nodes pods wait now, and which are only busy."""

from contextlib import aclosing

from equipoise.cli.bus.messages import retained_messages
from equipoise.cli.cluster_now.waiting import LoadAndPressure, NodesThatWait, nodes_that_wait
from equipoise.cli.effective.reading import read_effective
from equipoise.cli.effective.running import Settings, running_configurations
from equipoise.cli.effective.settings import known_settings
from equipoise.contracts.bus import subjects
from equipoise.contracts.configuration.settings import LoadSettings, Thresholds
from equipoise.contracts.load.correction import is_fresh, load_of
from equipoise.contracts.load.pressure import fresh_pressure
from equipoise.contracts.messages.utilization import NodeUtilization
from equipoise.contracts.messages.values.resources import Resources
from equipoise.descheduler.settings import DeschedulerSettings
from equipoise.runtime.configuration import ConfigurationError, Nats
from equipoise.runtime.process.clock import Clock


async def read_waiting(server: Nats, clock: Clock) -> NodesThatWait | None:
    """The nodes by their latest messages, compared with the thresholds of the descheduler that runs.

    None if no descheduler has published its configuration, or another version that cannot be read. Raises BusError.
    """
    running = running_configurations(await read_effective(server, clock), "descheduler", clock.now())
    if not running:
        return None
    try:
        load, thresholds, required = _settings(running[0].settings)
    except ConfigurationError:
        return None
    latest: dict[str, NodeUtilization] = {}
    since = clock.now() - load.freshness.score
    pattern = subjects.node_utilization("*")
    async with aclosing(retained_messages(server, pattern, since=since, clock=clock)) as messages:
        async for _, message in messages:
            if isinstance(message, NodeUtilization):
                latest[message.node] = message
    now = clock.now()
    nodes = [
        LoadAndPressure(name, _fresh_load(message, load, now), fresh_pressure(message, load.freshness, now))
        for name, message in sorted(latest.items())
    ]
    return nodes_that_wait(nodes, thresholds, required=required)


def _settings(settings: Settings) -> tuple[LoadSettings, Thresholds, bool]:
    load = known_settings(settings.get("load", {}), LoadSettings, "load")
    thresholds = known_settings(settings.get("thresholds", {}), Thresholds, "thresholds")
    own = known_settings(settings.get("descheduler", {}), DeschedulerSettings, "descheduler")
    return load, thresholds, own.require_pressure


def _fresh_load(message: NodeUtilization, load: LoadSettings, now: float) -> Resources:
    """The load in the shortest window; unknown if it is as old as the load of a node from which nothing is moved."""
    window = message.windows.get(load.shortest.name)
    if window is None or not is_fresh(window.sampled_at, now, load.freshness.eviction):
        return Resources()
    return load_of(window.mean, message.base)
