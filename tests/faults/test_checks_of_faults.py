"""The additional checks of faults detect their violations, and nothing in a valid history."""

from faults.catalog.api_server import proposed_pods_exist
from faults.catalog.deschedulers import cooldowns_hold, one_publisher
from faults.catalog.reclaimers import pods_are_accepted
from faults.catalog.restarts import stopped_in_time
from faults.history import Finding, History, RefusedPod, Stop
from faults.test_invariants import change, post, published

REAL = "low_node_load"


def test_a_pod_that_was_deleted_long_ago_must_not_be_proposed() -> None:
    deleted = (change("web-1", 80, "deleted"),)
    assert proposed_pods_exist(History(pods=deleted, intents=(published("web-1", 91, strategy=REAL),)))
    assert proposed_pods_exist(History(posts=(post("web-1", 80),), intents=(published("web-1", 91, strategy=REAL),)))
    assert not proposed_pods_exist(History(pods=deleted, intents=(published("web-1", 89, strategy=REAL),)))
    assert not proposed_pods_exist(History(pods=deleted, intents=(published("web-1", 91),)))


def test_an_earlier_leader_must_not_propose() -> None:
    newer = published("web-1", 100, strategy=REAL, transitions=2)
    assert one_publisher(History(intents=(newer, published("web-2", 102, strategy=REAL, transitions=1))))
    assert not one_publisher(History(intents=(newer, published("web-2", 100.5, strategy=REAL, transitions=1))))
    assert not one_publisher(History(intents=(newer, published("web-2", 102, transitions=1))))


def test_evictions_of_a_workload_must_be_as_far_apart_as_its_cooldown() -> None:
    intents = tuple(published(pod, 100, strategy=REAL) for pod in ("web-1", "web-2", "db-1"))
    assert cooldowns_hold(History(intents=intents, posts=(post("web-1", 101), post("web-2", 103))))
    assert not cooldowns_hold(History(intents=intents, posts=(post("web-1", 101), post("web-2", 105.5))))
    assert not cooldowns_hold(History(intents=intents, posts=(post("web-1", 101), post("db-1", 102))))


def test_a_process_must_end_in_order_and_in_time() -> None:
    assert stopped_in_time(History(stops=(Stop(program="binder-0", seconds=25.5, code=0),)))
    assert stopped_in_time(History(stops=(Stop(program="binder-0", seconds=1.0, code=1),)))
    assert not stopped_in_time(History(stops=(Stop(program="binder-0", seconds=24.0, code=0),)))


def test_a_pod_that_is_refused_and_a_removed_name_are_reported() -> None:
    refused = RefusedPod(at=101, pod="web-1", code=422)
    assert pods_are_accepted(History(refused_pods=(refused,)))
    assert pods_are_accepted(History(findings=(Finding(at=101, what="a name was removed"),)))
    assert not pods_are_accepted(History(since=102, refused_pods=(refused,)))
