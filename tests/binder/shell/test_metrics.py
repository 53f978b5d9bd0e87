"""The metrics of the ledger and of outcomes."""

from binder.campaigns import a_campaign
from binder.ledgers import a_ledger, an_entry
from binder.replica_sets import a_move
from binder.worlds import GENEROUS, OWN, World
from builders import NOW
from msgspec.structs import replace
from prometheus_client import CollectorRegistry

from equipoise.binder.decisions.limits import EvictionsPerWorkload
from equipoise.binder.shell.ledger_store import NAME, pause, resume
from equipoise.binder.shell.metrics import BinderMetrics
from equipoise.contracts.messages.eviction import Outcome
from equipoise.runtime.kubernetes.client import CONFIG_MAPS


def ledger_state(world: World) -> str:
    """The one state that is 1; "" if none is."""
    [state] = [
        sample.labels["state"]
        for family in world.metrics.collect()
        for sample in family.samples
        if sample.name == "equipoise_binder_ledger" and sample.value == 1
    ] or [""]
    return state


def value(world: World, name: str, **labels: str) -> float | None:
    return world.metrics.get_sample_value(f"equipoise_binder_{name}", labels)


async def test_the_state_of_the_ledger_is_exported(world: World) -> None:
    """A ledger that cannot be read is not a closed one."""
    binder = world.binder()
    states = [ledger_state(world)]
    await world.start(binder)
    states.append(ledger_state(world))
    await pause(world.kube, OWN, "deploying")
    await world.clock.advance(11)
    states.append(ledger_state(world))
    await resume(world.kube, OWN, world.clock)
    await world.clock.advance(11)
    states.append(ledger_state(world))
    world.kube.fail_next("get", status=403, resource="configmaps", times=None)
    await world.clock.advance(11)
    states.append(ledger_state(world))

    assert states == ["", "allowed", "paused", "allowed", "unreadable"]
    assert value(world, "limit_used", limit="evictionsPerWorkload") is None


def test_the_state_of_the_last_campaign_and_its_moves_are_exported() -> None:
    """While the ledger cannot be read they are unknown, and not 0."""
    registry = CollectorRegistry()
    metrics = BinderMetrics(GENEROUS, registry)

    def exported() -> tuple[list[str], float | None, float | None]:
        samples = [sample for family in registry.collect() for sample in family.samples]
        states = [s.labels["state"] for s in samples if s.name == "equipoise_binder_campaign" and s.value == 1]
        counts = (
            registry.get_sample_value("equipoise_binder_campaign_moves", {"count": count})
            for count in ("used", "budget")
        )
        return (states, *counts)

    found = []
    running = a_campaign(used=3, budget=8)
    stopped = running.ending("stopped: 3 replacements are not ready after 10m", NOW)
    for campaign in (None, running, replace(running, paused=True), running.ending("aborted", NOW), stopped):
        metrics.on_ledger(a_ledger(campaign=campaign), NOW)
        found.append(exported())
    metrics.on_ledger(None, NOW)

    assert found[0] == ([], 0, 0)
    assert [states for states, *_ in found[1:]] == [["running"], ["paused"], ["ended"], ["stopped"]]
    assert {counts for _, *counts in found[1:] for counts in [tuple(counts)]} == {(3, 8)}
    assert exported() == ([], None, None)


def test_detached_pods_are_exported_with_the_age_of_the_oldest() -> None:
    """Those that are late apart. While the ledger cannot be read they are unknown, and not 0."""
    registry = CollectorRegistry()
    metrics = BinderMetrics(GENEROUS, registry)
    moves = [a_move(), a_move(pod="web-2"), a_move(pod="db-1", ready_by=NOW + 40)]
    entries = [
        an_entry(intent_id=move.intent.id, reserved_at=NOW - 100 * number, settled_at=None, outcome=None)
        for number, move in enumerate(moves)
    ]

    def exported() -> dict[str, tuple[float | None, float | None]]:
        name = "equipoise_binder_detached_pods"
        return {
            late: (
                registry.get_sample_value(name, {"late": late}),
                registry.get_sample_value(f"{name}_oldest_seconds", {"late": late}),
            )
            for late in ("false", "true")
        }

    metrics.on_ledger(a_ledger(), NOW)
    assert exported() == {"false": (0, 0), "true": (0, 0)}
    metrics.on_ledger(a_ledger(*entries, surge_moves=tuple(moves)), NOW + 50)
    assert exported() == {"false": (2, 150), "true": (1, 250)}
    metrics.on_ledger(None, NOW + 60)
    assert exported() == {"false": (None, None), "true": (None, None)}


async def test_a_missing_ledger_is_closed(world: World) -> None:
    await world.start(world.binder())
    world.kube.remove(CONFIG_MAPS, NAME, OWN)
    await world.clock.advance(11)

    assert ledger_state(world) == "closed"


async def test_what_limits_count_and_reject_is_exported(world: World) -> None:
    """Of the workload with the most evictions. A limit that rejected nothing is 0, not missing."""
    limits = replace(GENEROUS, evictions_per_workload=EvictionsPerWorkload(max=1))
    await world.start(world.binder(limits=limits))
    assert value(world, "outcomes_total", outcome=Outcome.EVICTED.value) == 0
    await world.propose("web-1", "web-2", "db-1")
    await world.clock.advance(11)

    assert value(world, "outcomes_total", outcome=Outcome.EVICTED.value) == 2
    assert value(world, "limit_rejections_total", limit="evictionsPerWorkload") == 1
    assert value(world, "limit_rejections_total", limit="unusualRate") == 0
    assert value(world, "limit_used", limit="evictionsPerWorkload") == 1
    assert value(world, "limit_used", limit="evictionsPerCluster") == 2
