"""What the agent writes and whom it evicts."""

from typing import Any

import msgspec
import pytest
from agent.agents import GIB, batch_pod, names, uid

from equipoise.agent.decisions.band_pods import band_pod, within_node
from equipoise.agent.decisions.cpu_sets import choose_cpus, format_cpus, parse_cpus
from equipoise.agent.decisions.evictions import (
    CpuEviction,
    MemoryEviction,
    cpu_victims,
    memory_to_release,
    memory_victims,
    requested_cores,
)
from equipoise.agent.decisions.pod_values import pod_values, weight_of
from equipoise.agent.decisions.pressure import PodPressure, highest_pressure, stalled_seconds, throttled_seconds
from equipoise.agent.decisions.suppression import CpuLimit, CpuSuppression, CpuUsage, next_cpu_count, next_limit
from equipoise.contracts.kubernetes.objects.pod import Pod

# Values of a pod


def test_the_values_of_a_pod_follow_its_amounts() -> None:
    """Quota from the limit, shares from the request, memory in whole pages."""
    values = pod_values(batch_pod(1, cpu_limit=1.5, cpu_request=0.25, memory_limit=10_000.0))

    assert (values.quota, values.shares, values.memory_high) == (150_000, 256, 8_192)


def test_no_limit_is_no_quota() -> None:
    """Not the least one, which would stop the pod."""
    values = pod_values(batch_pod(1, cpu_limit=None, memory_limit=None))

    assert (values.quota, values.memory_high) == (None, None)


def test_a_tiny_limit_is_the_shortest_quota_of_the_kernel() -> None:
    """0.001 cores would be 100 µs, which the kernel refuses."""
    assert pod_values(batch_pod(1, cpu_limit=0.001)).quota == 1_000


@pytest.mark.parametrize(("shares", "weight"), [(2, 1), (1_024, 39), (262_144, 10_000)])
def test_weights_of_v2_are_those_of_the_kubelet(shares: int, weight: int) -> None:
    """The same formula."""
    assert weight_of(shares) == weight


# Pods of a band


def a_pod(resources: dict[str, Any], **changes: Any) -> Pod:
    document: dict[str, Any] = {
        "metadata": {
            "name": "job",
            "namespace": "jobs",
            "uid": uid(1),
            "ownerReferences": [{"kind": "Job", "name": "job", "controller": True}],
        },
        "spec": {"priority": 5_500, "containers": [{"name": "main", "resources": resources}]},
        "status": {"phase": "Running", "qosClass": "BestEffort"},
    }
    for section, values in changes.items():
        document[section] |= values
    return msgspec.convert(document, Pod)


AMOUNTS = {
    "requests": {"kubernetes.io/batch-cpu": "1500", "kubernetes.io/batch-memory": "1Gi"},
    "limits": {"kubernetes.io/batch-cpu": "2k", "kubernetes.io/batch-memory": "2Gi"},
}


def test_a_batch_pod_is_known_by_its_amounts() -> None:
    """Milli-cores are cores here."""
    found = band_pod(a_pod(AMOUNTS))

    assert found is not None
    assert (found.band, found.cpu_request, found.cpu_limit, found.memory_limit) == ("batch", 1.5, 2.0, 2 * GIB)
    assert found.evictable


def test_a_best_effort_pod_is_of_no_band_for_that_alone() -> None:
    """Many system pods request nothing; nobody offered to have them limited or evicted."""
    assert band_pod(a_pod({}, spec={"priority": 0})) is None


@pytest.mark.parametrize(
    "changes",
    [
        {"metadata": {"ownerReferences": [{"kind": "DaemonSet", "name": "x", "controller": True}]}},
        {"metadata": {"ownerReferences": []}},
    ],
    ids=["DaemonSet", "bare"],
)
def test_pods_that_nobody_creates_elsewhere_are_not_evicted(changes: dict[str, Any]) -> None:
    """They would be lost, or come back to this node."""
    found = band_pod(a_pod(AMOUNTS, **changes))

    assert found is not None
    assert not found.evictable


NODE_OWNER = {"apiVersion": "v1", "kind": "Node", "name": "alpha", "uid": uid(8), "controller": True}


@pytest.mark.parametrize("mirror", ["0" * 32, uid(2), "../" + uid(2), "mirror", ""])
@pytest.mark.parametrize("owners", [[], [NODE_OWNER]], ids=["bare", "owned by the node"])
def test_a_pod_that_calls_itself_static_belongs_to_no_band(mirror: str, owners: list[dict[str, Any]]) -> None:
    """Its annotation, its owner and its hash can be written by anyone who may create a pod, and the kubelet runs no
    pod of the API server that has the annotation. So nothing is written, counted or evicted for it.
    """
    annotations = {"kubernetes.io/config.mirror": mirror, "kubernetes.io/config.source": "file"}

    assert band_pod(a_pod(AMOUNTS, metadata={"annotations": annotations, "ownerReferences": owners})) is None
    assert band_pod(a_pod({}, metadata={"annotations": annotations, "ownerReferences": owners})) is None


@pytest.mark.parametrize(
    "annotations",
    [
        {"kubernetes.io/config.source": "file"},
        {"kubernetes.io/config.hash": uid(2)},
        {"kubernetes.io/config.seen": "2026-01-01T00:00:00Z"},
        {"equipoise.dev/uid": uid(2)},
    ],
    ids=lambda found: next(iter(found)),
)
def test_no_annotation_names_the_group_of_a_pod(annotations: dict[str, str]) -> None:
    """Only the uid does, which the API server gives."""
    found = band_pod(a_pod(AMOUNTS, metadata={"annotations": annotations}))

    assert found is not None
    assert found.uid == uid(1)


@pytest.mark.parametrize("amount", ["-5", "a lot", ""])
def test_an_amount_that_cannot_be_read_limits_nothing(amount: str) -> None:
    """The API server refuses it, and the pod keeps what the kubelet set."""
    found = band_pod(a_pod({"limits": {"kubernetes.io/batch-cpu": amount}}))

    assert found is None or found.cpu_limit is None


# All best-effort pods together

FULL = CpuUsage(capacity=10, node=10, pods=9, best_effort=6, pressure=1)


def changed(**values: Any) -> CpuUsage:
    found: CpuUsage = msgspec.structs.replace(FULL, **values)
    return found


def test_a_full_node_alone_is_no_reason_for_a_limit() -> None:
    """The weights of the kubelet give batch pods only what is left."""
    assert next_limit(CpuSuppression(), FULL, CpuLimit()) == CpuLimit()


def test_pressure_halves_best_effort_pods() -> None:
    """At once, and again while it lasts, down to the minimum."""
    limit = next_limit(CpuSuppression(), changed(pressure=20), CpuLimit())
    least = next_limit(CpuSuppression(), changed(pressure=20, best_effort=0.6), limit)

    assert (limit.cores, limit.reason, least.cores) == (3.0, "pressure", 0.5)


@pytest.mark.parametrize("values", [{"node": 5}, {"best_effort": 0.0}, {"pressure": None}])
def test_pressure_for_which_batch_pods_are_no_cause_limits_nothing(values: dict[str, Any]) -> None:
    """CPU time is left, there is no batch work, or nothing is known."""
    assert next_limit(CpuSuppression(), changed(**{"pressure": 20.0, **values}), CpuLimit()) == CpuLimit()


def test_a_limit_stays_until_the_pressure_is_halved_and_then_grows_by_steps() -> None:
    """Otherwise it would swing about the threshold."""
    before = CpuLimit(cores=3.0, reason="pressure")
    stays = next_limit(CpuSuppression(), changed(pressure=7, best_effort=3), before)
    grows = next_limit(CpuSuppression(), changed(pressure=4, best_effort=3), before)
    lifted = next_limit(CpuSuppression(), changed(pressure=4, best_effort=9), CpuLimit(cores=9.0, reason="pressure"))

    assert (stays.cores, grows.cores, lifted.cores) == (3.0, 4.0, None)


def test_a_limit_that_nobody_needs_is_removed_after_some_rounds() -> None:
    """While best-effort pods use less than 80 % of it."""
    limit, rounds = CpuLimit(cores=1.0, reason="pressure"), 0
    while limit.cores is not None:
        limit, rounds = next_limit(CpuSuppression(), changed(best_effort=0.1, node=3), limit), rounds + 1

    assert rounds == 9


def test_above_the_threshold_best_effort_pods_get_what_is_left_below_it() -> None:
    """65 % of 10 cores, minus 3 of other pods and 1 outside of pods."""
    limit = next_limit(CpuSuppression(cpu_threshold=65), FULL, CpuLimit())

    assert limit == CpuLimit(cores=2.5, reason="threshold")


def test_what_is_reserved_for_the_system_counts_as_used() -> None:
    """Programs outside of pods use less than their reservation only for now."""
    rules = CpuSuppression(cpu_threshold=65)

    limit = next_limit(msgspec.structs.replace(rules, reserved_cpu=FULL.node - FULL.pods + 1.0), FULL, CpuLimit())

    assert limit == CpuLimit(cores=1.5, reason="threshold")


@pytest.mark.parametrize(
    ("cores", "before", "found"), [(1, 8, 2), (2.1, 8, 3), (8, 2, 3), (20, 10, 10)], ids=["least", "up", "step", "all"]
)
def test_sets_of_cpus_shrink_at_once_and_grow_by_a_tenth(cores: float, before: int, found: int) -> None:
    """At least two CPUs, at most all."""
    assert next_cpu_count(cores, before, 10) == found


def test_whole_cores_are_chosen_from_the_last_one_down() -> None:
    """Siblings 0/4, 1/5, 2/6, 3/7: no core is shared with latency-sensitive pods."""
    siblings = [frozenset({core, core + 4}) for core in range(4)]

    assert choose_cpus(range(8), siblings, 4) == {2, 3, 6, 7}
    assert choose_cpus(range(8), siblings, 3) < choose_cpus(range(8), siblings, 4)


@pytest.mark.parametrize(("text", "cpus"), [("0-2,5", {0, 1, 2, 5}), ("", set()), ("7", {7}), ("0,2,4", {0, 2, 4})])
def test_sets_of_cpus_are_read_and_written_as_the_kernel_does(text: str, cpus: set[int]) -> None:
    """Both ways."""
    assert parse_cpus(text) == cpus
    assert format_cpus(cpus) == text


# Pressure


def test_pods_that_their_own_quota_stops_do_not_count() -> None:
    """The kernel counts them as waiting; fewer batch pods would not help."""
    pods = [PodPressure(90.0, throttled=True), PodPressure(4.0, throttled=False)]

    assert highest_pressure(pods) == 4.0
    assert highest_pressure([]) is None


def test_counters_are_read_in_the_formats_of_both_versions() -> None:
    """Seconds. A file without the line is unknown, a group without a quota was never throttled."""
    assert stalled_seconds("some avg10=0.00 avg60=0.00 avg300=0.00 total=2500000\nfull total=1") == 2.5
    assert stalled_seconds("") is None
    assert throttled_seconds("usage_usec 5\nthrottled_usec 1500000") == 1.5
    assert throttled_seconds("nr_throttled 3\nthrottled_time 1500000000") == 1.5


# Evictions

PODS = {
    pod.uid: pod
    for pod in (
        batch_pod(1, priority=5_500),
        batch_pod(2, priority=5_000),
        batch_pod(3, priority=5_000),
        batch_pod(4, priority=4_000, evictable=False),
    )
}
USED = {uid(1): 8 * GIB, uid(2): 2 * GIB, uid(3): 4 * GIB, uid(4): 4 * GIB}


def test_a_pod_counts_with_no_more_than_the_node_has() -> None:
    """The request of a pod of which the status of the node had too much must not evict the pods of others."""
    pods = {pod.uid: pod for pod in (batch_pod(1), batch_pod(2, cpu_request=1e6), batch_pod(3, cpu_request=None))}

    assert requested_cores(within_node(pods, 4.0)) == 5.0


@pytest.mark.parametrize(
    ("used", "evicted"),
    [(89, []), (90, ["batch-3", "batch-2"]), (91, ["batch-3", "batch-2"]), (92, ["batch-3", "batch-2", "batch-1"])],
)
def test_memory_is_released_to_the_lower_threshold_and_no_further(used: float, evicted: list[str]) -> None:
    """Of 100 GiB: lowest priority first, then the highest usage."""
    victims = memory_victims(MemoryEviction(), used * GIB, 100 * GIB, PODS, USED)

    assert names(victims) == evicted


def test_the_amount_to_release_is_in_bytes() -> None:
    """Koordinator multiplies it by 1000 in one of its paths, so that one pod seems to release too much."""
    assert memory_to_release(MemoryEviction(), 95 * GIB, 100 * GIB) == pytest.approx(10 * GIB)


def test_what_terminating_pods_use_counts_as_released() -> None:
    """Their memory is used until they have ended; every round until then would evict more."""
    pods = PODS | {uid(1): batch_pod(1, terminating=True)}

    assert memory_victims(MemoryEviction(), 91 * GIB, 100 * GIB, pods, USED) == []


CPU = CpuEviction(satisfaction_lower=50, satisfaction_upper=80)


@pytest.mark.parametrize(
    ("limit", "used", "evicted"),
    [(None, 4, []), (2.1, 2.1, []), (2.0, 1.7, []), (2.0, 2.0, ["batch-3", "batch-2"]), (2.9, 2.9, [])],
)
def test_cpu_is_released_only_if_pods_need_what_they_do_not_get(
    limit: float | None, used: float, evicted: list[str]
) -> None:
    """4 cores are requested: at or below 2 that are used up, pods of 1.2 cores are evicted."""
    usage = {uid(2): 0.3, uid(3): 0.6}

    assert names(cpu_victims(CPU, limit, used, PODS, usage)) == evicted
