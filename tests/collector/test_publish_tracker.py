"""What is told of nodes, and what is said again."""

from equipoise.collector.decisions.publish_tracker import INITIAL_BACKOFF, PublishTracker
from equipoise.contracts.messages.placement import NodePlacement


def a_placement(node: str = "one", *, cordoned: bool = False) -> NodePlacement:
    return NodePlacement(node=node, uid=node, cordoned=cordoned, epoch=1, sequence=1)


def test_what_was_kept_is_no_news() -> None:
    """Until it changes, or nothing counts as told any more."""
    announced = PublishTracker(300.0)
    assert announced.differs("one", a_placement())
    announced.on_published({"one": a_placement()})
    assert not announced.differs("one", a_placement())
    assert announced.differs("one", a_placement(cordoned=True))
    announced.reset()
    assert announced.differs("one", a_placement())


def test_what_may_be_lost_is_said_again_less_and_less_often() -> None:
    """For as long as the bus does not keep it, and up to the longest pause."""
    announced, now, pauses = PublishTracker(10.0), 0.0, []
    for _ in range(6):
        announced.on_failed(["one"], now)
        due = next(seconds for seconds in range(1, 400) if announced.due(now + seconds))
        pauses.append(due)
        now += due
    assert pauses == [INITIAL_BACKOFF, 2, 4, 8, 10, 10]
    announced.on_published({"one": a_placement()})
    assert announced.due(1e9) == []
    announced.on_failed(["one"], now)
    assert announced.due(now + INITIAL_BACKOFF) == ["one"]


def test_each_node_waits_by_itself() -> None:
    """One that is never taken makes no other wait as long."""
    announced = PublishTracker(300.0)
    for now in (0.0, 1.0, 3.0, 7.0):
        announced.on_failed(["large"], now)
    announced.on_failed(["small"], 7.0)
    assert announced.due(8.0) == ["small"]
    assert announced.differs("large", a_placement("large"))


def test_what_is_not_ours_any_more_is_not_said_again() -> None:
    """Another replica tells of it, or there is nothing new to say."""
    announced = PublishTracker(300.0)
    announced.on_failed(["one", "two"], 0.0)
    announced.cancel_retries(["one"])
    assert announced.due(1.0) == ["two"]
