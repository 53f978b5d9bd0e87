"""The trace and the figures of a demo with a campaign."""

from collections.abc import Sequence
from datetime import UTC, datetime

import numpy as np
import pytest

from equipoise.cli.demo.example import example_trace
from equipoise.cli.demo.options import DemoOptions, demo_trace
from equipoise.cli.demo.rebalance.figures import Event, after_first_third, course, until_half
from equipoise.cli.demo.rebalance.trace import NEW_NODES, with_constant_usage, with_new_nodes
from equipoise.testbed.audit import Binding, LoggedEviction, PodWrite

SINCE = 100.0
USAGE = {"shop/web": 2.0}
CORES = {"a": 10.0, "b": 10.0}
WEB = "web-5d4b-"


def at(seconds: float) -> datetime:
    return datetime.fromtimestamp(seconds, UTC)


def bound(pod: str, node: str, seconds: float) -> Binding:
    return Binding(namespace="shop", pod=WEB + pod, node=node, time=at(seconds))


def evicted(pod: str, seconds: float, *, code: int = 201, dry_run: bool = False) -> LoggedEviction:
    return LoggedEviction(
        namespace="shop", pod=WEB + pod, user="binder", time=at(seconds), code=code, dry_run=dry_run, uid=None, id=""
    )


START: Sequence[Event] = [bound(str(number), "a", 10.0 + number) for number in range(4)]
"""Four pods with two cores on one of two nodes: 80 points."""


def test_new_nodes_are_like_the_others_and_have_no_pod() -> None:
    trace = example_trace()
    with_new = with_new_nodes(trace)
    new = with_new.nodes[len(trace.nodes) :]

    assert len(new) == NEW_NODES == len({node.name for node in with_new.nodes}) - len(trace.nodes)
    assert {node.cpu_milli for node in new} == {node.cpu_milli for node in trace.nodes}
    assert {pod.node for pod in with_new.pods} == {""}


def test_only_moves_change_the_load_of_the_demo() -> None:
    trace = example_trace()
    constant = with_constant_usage(trace)

    assert np.allclose(constant.cpu_milli, trace.cpu_milli.mean(axis=1, keepdims=True))
    assert constant.cpu_milli.shape == trace.cpu_milli.shape
    found = demo_trace(DemoOptions(rebalance=True, surge=True))
    assert np.ptp(found.cpu_milli, axis=1).max() == pytest.approx(0.0)


def test_the_spread_follows_the_pods() -> None:
    """The second pod is on both nodes until it is evicted, as in a move without a gap."""
    events = [*START, evicted("0", 110.0), bound("n0", "b", 111.0), bound("n1", "b", 120.0), evicted("1", 125.0)]

    assert course(events, SINCE, USAGE, CORES) == pytest.approx((80.0, 60.0, 0.0))


def test_what_happened_before_the_campaign_is_its_start() -> None:
    events = [*START, bound("4", "b", 50.0), evicted("0", 60.0)]

    assert course(events, SINCE, USAGE, CORES) == pytest.approx((40.0,))


def test_a_pod_that_a_rollout_deletes_has_left() -> None:
    deleted = PodWrite(namespace="shop", pod=f"{WEB}0", verb="delete", subresource="", user="", time=at(130.0))
    finished = PodWrite(namespace="shop", pod=f"{WEB}0", verb="patch", subresource="status", user="", time=at(131.0))

    assert course([*START, deleted, finished], SINCE, USAGE, CORES) == pytest.approx((80.0, 60.0))


@pytest.mark.parametrize(("code", "dry_run"), [(429, False), (201, True)])
def test_an_eviction_that_was_not_carried_out_moves_nothing(code: int, dry_run: bool) -> None:
    events = [*START, evicted("0", 110.0, code=code, dry_run=dry_run)]

    assert course(events, SINCE, USAGE, CORES) == pytest.approx((80.0,))


def test_pods_that_are_no_workload_of_the_trace_count_as_idle() -> None:
    events = [*START, Binding(namespace="kube-system", pod="dns-1", node="b", time=at(20.0))]

    assert course(events, SINCE, USAGE, CORES) == pytest.approx((80.0,))


def test_the_spread_is_halved_after_the_first_move_that_reaches_half() -> None:
    assert until_half((80.0, 60.0, 40.0, 50.0, 10.0)) == 2
    assert until_half((80.0, 60.0)) is None


def test_the_first_third_is_rounded_up() -> None:
    assert after_first_third((80.0, 60.0, 40.0, 30.0, 20.0)) == 40.0
    assert after_first_third((80.0,)) is None
