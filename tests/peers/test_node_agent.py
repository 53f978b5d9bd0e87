"""Koordinator's node agent: how much CPU best-effort pods may use, and how their quota follows."""

from peers.cases import Case, peer_cases

from equipoise.agent.decisions.cpu_sets import choose_cpus
from equipoise.agent.decisions.evictions import MemoryEviction, memory_to_release
from equipoise.agent.decisions.suppression import LEAST_CHANGE, MIN_QUOTA, STEP, cpu_allowance, next_quota


@peer_cases("node_agent.cpu_suppress")
def test_cpu_suppress(case: Case) -> None:
    """What is left below the threshold."""
    inputs = case.inputs
    pods = inputs["pods"]
    allowed = cpu_allowance(
        capacity=inputs["node_cpu_m"] / 1_000,
        threshold=inputs["threshold_percent"],
        minimum=inputs["min_percent"] or 0.0,
        node=inputs["node_used_m"] / 1_000,
        high_priority=sum(pod["used_m"] for pod in pods if not pod["best_effort"]) / 1_000,
        best_effort=sum(pod["used_m"] for pod in pods if pod["best_effort"]) / 1_000,
        reserved=inputs["reserved_m"] / 1_000,
    )

    case.check(be_allowed_m=allowed * 1_000)


@peer_cases("node_agent.cfs_quota")
def test_cfs_quota(case: Case) -> None:
    """It grows by steps, shrinks at once, and small changes are not written."""
    inputs = case.inputs
    assert inputs["min_quota_us"] == MIN_QUOTA
    assert inputs["step_up_percent_of_node"] == STEP
    assert inputs["ignore_change_below_percent_of_node"] == LEAST_CHANGE
    quota = next_quota(
        inputs["target_m"] / 1_000,
        inputs["previous_quota_us"],
        inputs["node_cpu_m"] / 1_000,
        period=inputs["period_us"],
    )

    case.check(new_quota_us=quota, unchanged=quota is None)


@peer_cases("node_agent.memory_release")
def test_memory_release(case: Case) -> None:
    """Down to the lower percentage."""
    inputs = case.inputs
    threshold, lower = inputs["threshold_percent"], inputs["lower_percent"]
    rules = MemoryEviction(threshold=threshold, release=threshold - lower)

    case.check(release_b=memory_to_release(rules, inputs["used_b"], inputs["capacity_b"]))


@peer_cases("node_agent.cpuset")
def test_cpus_of_best_effort_pods(case: Case) -> None:
    """Whole cores."""
    cores = [frozenset(core) for core in case.inputs["cores"]]
    every = frozenset[int]().union(*cores)

    case.check(cpus=sorted(choose_cpus(every, cores, case.inputs["cpus"])))
