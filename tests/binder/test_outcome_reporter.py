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
