"""Which placements are published again."""

from equipoise.collector.state.publish_tracker import INITIAL_BACKOFF, PublishTracker
from equipoise.contracts.messages.placement import NodePlacement


def a_placement(node: str = "one", *, cordoned: bool = False) -> NodePlacement:
    return NodePlacement(node=node, uid=node, cordoned=cordoned, epoch=1, sequence=1)


def test_a_published_placement_does_not_differ() -> None:
    """Until it changes, or after a reset."""
    tracker = PublishTracker(300.0)
    assert tracker.differs("one", a_placement())
    tracker.on_published({"one": a_placement()})
    assert not tracker.differs("one", a_placement())
    assert tracker.differs("one", a_placement(cordoned=True))
    tracker.reset()
    assert tracker.differs("one", a_placement())


def test_failed_placements_are_retried_with_exponential_backoff() -> None:
    """Up to the maximum, and until the bus keeps them."""
    tracker, now, pauses = PublishTracker(10.0), 0.0, []
    for _ in range(6):
        tracker.on_failed(["one"], now)
        due = next(seconds for seconds in range(1, 400) if tracker.due(now + seconds))
        pauses.append(due)
        now += due
    assert pauses == [INITIAL_BACKOFF, 2, 4, 8, 10, 10]
    tracker.on_published({"one": a_placement()})
    assert tracker.due(1e9) == []
    tracker.on_failed(["one"], now)
    assert tracker.due(now + INITIAL_BACKOFF) == ["one"]


def test_each_node_has_its_own_backoff() -> None:
    """A node that always fails does not delay the others."""
    tracker = PublishTracker(300.0)
    for now in (0.0, 1.0, 3.0, 7.0):
        tracker.on_failed(["large"], now)
    tracker.on_failed(["small"], 7.0)
    assert tracker.due(8.0) == ["small"]
    assert tracker.differs("large", a_placement("large"))


def test_canceled_retries_are_not_due() -> None:
    """Another replica publishes the node, or nothing has changed."""
    tracker = PublishTracker(300.0)
    tracker.on_failed(["one", "two"], 0.0)
    tracker.cancel_retries(["one"])
    assert tracker.due(1.0) == ["two"]
