"""Events on pods and workloads."""

from binder.worlds import World


async def test_two_budgets_are_a_warning_on_the_workload(world: World) -> None:
    """Only its owner can remove one."""
    world.block("one")
    world.block("two")
    assert await world.outcome_of("web-1") == "rejected_policy"
    (event,) = world.kube.events
    assert (event.type, event.regarding.kind, event.regarding.name) == ("Warning", "Deployment", "web")
    assert "more than one PodDisruptionBudget" in event.note


async def test_an_event_that_is_not_written_changes_nothing(world: World) -> None:
    """The intent is settled, and not delivered again."""
    await world.start(world.binder())
    world.kube.refuse("create", resource="events", status=401)
    await world.propose("web-1")
    await world.clock.advance(30)
    assert [outcome.outcome for outcome in world.outcomes] == ["evicted"]
    assert len([call for call in world.kube.calls if (call.verb, call.resource) == ("create", "events")]) == 2
    assert world.kube.events == []
