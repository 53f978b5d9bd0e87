"""Rounds of queries about pressure, and the messages with it."""

import msgspec
from collector.collectors import NO_PROFILE, World, a_world, collecting
from prometheus_client import CollectorRegistry

from equipoise.collector.settings import CollectorSettings
from equipoise.collector.shell.metrics import CollectorMetrics
from equipoise.contracts.messages.values.pressure import NodePressure, Pressure

SETTINGS = CollectorSettings(leader_election=False, profile=NO_PROFILE)
MEASURED = {"cpu": 0.3, "memory": 0.0, "io": 0.05, "throttled": 0.2}


def collector_metrics() -> tuple[CollectorMetrics, CollectorRegistry]:
    registry = CollectorRegistry()
    return CollectorMetrics(registry), registry


async def node_pressure(world: World, settings: CollectorSettings = SETTINGS) -> NodePressure | None:
    """The pressure of the node `a` after the first round."""
    async with world.bus, collecting(world, settings):
        await world.advance(1)
        return world.nodes()["a"].pressure


async def test_messages_have_the_pressure_of_nodes_and_pods() -> None:
    world = a_world()
    world.source.pressures = MEASURED
    pressure = await node_pressure(world)

    assert pressure is not None
    assert Pressure(cpu=0.3, memory=0.0, io=0.05) == pressure.waiting
    assert {"uid-db-0"} == pressure.pods.keys()
    assert (0.3, 0.2) == (pressure.pods["uid-db-0"].cpu, pressure.pods["uid-db-0"].throttled)


async def test_metrics_have_the_pressure_of_the_node_that_waits_most() -> None:
    metrics, registry = collector_metrics()
    metrics.on_pressure([Pressure(cpu=0.2, io=0.1), Pressure(cpu=0.6)])

    def highest(resource: str) -> float | None:
        return registry.get_sample_value("equipoise_collector_highest_pressure", {"resource": resource})

    assert (0.6, None, 0.1) == (highest("cpu"), highest("memory"), highest("io"))
    assert 2 == registry.get_sample_value("equipoise_collector_nodes_with_pressure")

    metrics.on_pressure([])
    assert highest("cpu") is None


async def test_a_source_without_pressure_changes_no_message() -> None:
    assert await node_pressure(a_world()) is None


async def test_pressure_is_not_queried_when_it_is_switched_off() -> None:
    world = a_world()
    world.source.pressures = MEASURED

    assert await node_pressure(world, msgspec.structs.replace(SETTINGS, pressure=False)) is None


async def test_a_wrong_unit_is_a_named_problem_and_the_usage_is_known_nevertheless() -> None:
    world = a_world()
    world.source.pressures = MEASURED
    world.source.node_pressures["a"] = {"cpu": 300_000.0}
    async with world.bus, collecting(world, SETTINGS):
        await world.advance(1)

        wrong, right = world.nodes()["a"], world.nodes()["b"]
        assert "1 of 2 nodes (a)" in world.health.problems["pressure"]
        assert wrong.pressure is not None
        assert right.pressure is not None
        assert (Pressure(), 0.3) == (wrong.pressure.waiting, right.pressure.waiting.cpu)
        assert {"5m", "15m", "1h", "1d"} == wrong.windows.keys()


async def test_a_failed_query_keeps_the_pressure_of_the_round_before() -> None:
    world = a_world()
    world.source.pressures = MEASURED
    async with world.bus, collecting(world, SETTINGS):
        await world.advance(1)
        world.source.pressure_fails = "too many samples"
        await world.advance(30)

        assert world.nodes()["a"].pressure is not None
        assert "pressure of nodes: too many samples" == world.health.problems["pressure"]

        await world.advance(170)
        assert world.nodes()["a"].pressure is None

        world.source.pressure_fails = ""
        await world.advance(30)
        assert "pressure" not in world.health.problems
